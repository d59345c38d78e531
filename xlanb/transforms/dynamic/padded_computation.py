"""Rewrite a computation with arrays of dynamic size (see dynamic_padder)."""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import array, has_dynamic, tuple_of
from xlanb.transforms.builder import Builder
from xlanb.transforms.dynamic.dynamic_padding import SIZE, PaddedValue, Value, apply, static

_BETWEEN = frozenset(("SliceToDynamic", "PadToStatic"))


class ComputationPadder:
    """The rewrite of one computation: the padded form of each instruction that has one."""

    def __init__(self, computation: HloComputation) -> None:
        self.computation = computation
        self.values: dict[HloInstruction, Value] = {}

    def run(self) -> None:
        c, old = self.computation, []
        for i in c.post_order():
            if not (has_dynamic(i.shape) or any(o in self.values for o in i.operands)):
                continue
            old.append(i)
            before = set(c.instructions) if i.control_predecessors or i.control_successors else set()
            value = self.values[i] = self._padded(i)
            self._keep_order(i, [x for x in c if x not in before] if before else [])
            if isinstance(value, PaddedValue) and not has_dynamic(i.shape):
                c.replace_uses(i, value.array)
        if c.root in self.values:
            c.set_root(self._dynamic(Builder(c.root), self.values[c.root], c.root.shape))
        for i in reversed(old):
            if i.is_dead and i.opcode is not O.PARAMETER:
                c.remove(i)

    def _keep_order(self, i: HloInstruction, made: list[HloInstruction]) -> None:
        for x in made:
            for p in i.control_predecessors:
                self.computation.add_control_dependency(p, x)
            for s in i.control_successors:
                self.computation.add_control_dependency(x, s)
        if made:
            self.computation.drop_control_dependencies(i)

    def _padded(self, i: HloInstruction) -> Value:
        b = Builder(i)
        if i.opcode is O.TUPLE:
            return [self._value(o) for o in i.operands]
        if i.opcode is O.GET_TUPLE_ELEMENT:
            parts = self._value(i.operands[0])
            return parts[i.tuple_index] if isinstance(parts, list) else PaddedValue(i)
        if i.opcode is O.PARAMETER or (i.opcode is O.CUSTOM_CALL and i.attributes["custom_call_target"] in _BETWEEN):
            return self._static(b, i)
        operands = [self._value(o) for o in i.operands]
        arrays = [o for o in operands if isinstance(o, PaddedValue)]
        made = apply(b, i, arrays) if len(arrays) == len(operands) else None
        return self._together(b, i, operands) if made is None else _sized(b, made, i.shape)

    def _value(self, i: HloInstruction) -> Value:
        if i in self.values:
            return self.values[i]
        if isinstance(i.shape, TupleShape):
            b = Builder(i)
            return self._static(b, i)
        return PaddedValue(i)

    def _together(self, b: Builder, i: HloInstruction, operands: list[Value]) -> Value:
        """The instruction over contiguous dynamic arrays, with its result padded."""
        given = [self._dynamic(b, v, o.shape) for v, o in zip(operands, i.operands, strict=True)]
        return self._static(b, self.computation.clone_instruction(i, given))

    def _static(self, b: Builder, i: HloInstruction) -> Value:
        """The padded form of a value that has its declared, dynamic shape."""
        if isinstance(i.shape, TupleShape):
            return [self._static(b, b.element(i, n)) for n in range(len(i.shape.shapes))]
        if not isinstance(i.shape, ArrayShape) or not i.shape.is_dynamic:
            return PaddedValue(i)
        if i.opcode is O.CUSTOM_CALL and i.attributes["custom_call_target"] == "SliceToDynamic":
            full, *sizes = i.operands
            if full.shape == static(i.shape):
                return PaddedValue(full, {d: n for d, n in enumerate(sizes) if i.shape.is_dynamic_dimension(d)})
        shape = tuple_of((static(i.shape), *[array(SIZE)] * i.shape.rank))
        made = b.add(O.CUSTOM_CALL, (i,), shape, custom_call_target="PadToStatic")
        sizes_of = {d: b.element(made, 1 + d) for d in range(i.shape.rank) if i.shape.is_dynamic_dimension(d)}
        return PaddedValue(b.element(made, 0), sizes_of)

    def _dynamic(self, b: Builder, value: Value, shape: Shape) -> HloInstruction:
        """A value in its declared, dynamic shape."""
        if isinstance(value, list):
            shapes = shape.shapes if isinstance(shape, TupleShape) else ()
            return b.add(O.TUPLE, [self._dynamic(b, v, s) for v, s in zip(value, shapes, strict=True)], shape)
        if not isinstance(shape, ArrayShape) or not shape.is_dynamic:
            return value.array
        sizes = [value.sizes.get(d) or b.scalar(n, SIZE) for d, n in enumerate(shape.dimensions)]
        return b.add(O.CUSTOM_CALL, (value.array, *sizes), shape, custom_call_target="SliceToDynamic")


def _sized(b: Builder, value: Value, shape: Shape) -> Value:
    """The value with only the sizes of dimensions that are dynamic in the shape."""
    if isinstance(value, list):
        shapes = shape.shapes if isinstance(shape, TupleShape) else ()
        return [_sized(b, v, s) for v, s in zip(value, shapes, strict=True)]
    if not isinstance(shape, ArrayShape):
        return value
    return PaddedValue(value.array, {d: n for d, n in value.sizes.items() if shape.is_dynamic_dimension(d)})
