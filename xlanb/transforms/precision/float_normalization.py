"""Compute narrow types in wider ones: one pass per type without arithmetic on XLA:CPU.

    ROOT c = bf16[8] add(a, b)
      =>  ROOT convert(bf16, f32[8] add(convert(f32, a), convert(f32, b)))

Instructions that only pass values on (tuples, calls, loops, converts, parameters, constants) keep
the narrow type. Computations that a rewritten instruction calls get wide parameters and a wide
result, and round in between as before.
Source: xla/hlo/transforms/simplifiers/float_normalization.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xlanb.analysis.mixed_precision import UNTOUCHED, WIDER
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType, Shape, TupleShape
from xlanb.shape.literal import Literal
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.simplifiers.tuple_simplifier import TupleSimplifier

P = PrimitiveType

_KEEP_COMPUTATIONS = frozenset({O.ALL_REDUCE, O.REDUCE_SCATTER})


@dataclass(frozen=True)
class FloatSupport:
    """Which instructions a target computes directly in a narrow type; by default none.

    Source: xla/service/float_support.h.
    """

    def narrow(self, i: HloInstruction, low: PrimitiveType) -> bool:
        """Whether `i` may have operands and results of type `low`."""
        return False

    def mixed(self, i: HloInstruction) -> bool:
        """Whether `i` may mix narrow and wide types."""
        return False


NO_SUPPORT: Final = FloatSupport()


def normalize(module: HloModule, low: PrimitiveType, high: PrimitiveType, support: FloatSupport = NO_SUPPORT) -> None:
    """Compute in `high` what a module computes in `low`, except what a target supports."""
    skipped = {d for i in module.instructions() if i.opcode in _KEEP_COMPUTATIONS for d in i.called_computations}
    version = module.version
    for c in module.post_order():
        if c in skipped:
            continue
        for i in c.post_order():
            if i.opcode in UNTOUCHED or i.has_side_effect or not _speaks_of(i, low):
                continue
            if not support.narrow(i, low) or (_speaks_of(i, high) and not support.mixed(i)):
                widened(i, low, high)
    if module.version != version:
        TupleSimplifier().apply(module)
        HloDce().apply(module)


def widened(i: HloInstruction, low: PrimitiveType, high: PrimitiveType, *, throughout: bool = False) -> HloInstruction:
    """Replace `i` by an instruction that computes in `high` instead of `low`, between converts.

    Other types are unchanged. Computations that it calls compute in `high` too if `throughout`.
    """
    return _Widening(i, low, high, throughout).run()


def _speaks_of(i: HloInstruction, low: PrimitiveType) -> bool:
    called = (s for d in i.called_computations for s in (d.root.shape, *(p.shape for p in d.parameters)))
    return any(_has(s, low) for s in (i.shape, *(o.shape for o in i.operands), *called))


def _has(shape: Shape, kind: PrimitiveType) -> bool:
    return (
        any(_has(s, kind) for s in shape.shapes)
        if isinstance(shape, TupleShape)
        else shape.is_array and shape.as_array().element_type is kind
    )


class _Widening:
    """The widening of one instruction: the instruction, the two types, and the converts."""

    def __init__(self, i: HloInstruction, low: PrimitiveType, high: PrimitiveType, throughout: bool) -> None:
        self.i, self.low, self.high, self.throughout = i, low, high, throughout

    def run(self) -> HloInstruction:
        i, c = self.i, self.i.parent
        wide = c.clone_instruction(i, [self._raised(c, o) for o in i.operands], self._raised_shape(i.shape))
        if i.opcode not in _KEEP_COMPUTATIONS:
            for key, value in i.attributes.items():
                if isinstance(value, HloComputation) and any(
                    _has(s.shape, self.low) for s in (value.root, *value.parameters)
                ):
                    c.update(wide, attributes={key: self._raised_computation(value)})
        for p in i.control_predecessors:
            c.add_control_dependency(p, wide)
        for s in i.control_successors:
            c.add_control_dependency(wide, s)
        c.drop_control_dependencies(i)
        self._skip_widening(i, wide)
        c.replace(i, self._lowered(c, wide, i.shape))
        return wide

    def _skip_widening(self, narrow: HloInstruction, wide: HloInstruction) -> None:
        """Make converts of `narrow` back to the wide type use `wide`, which skips the rounding."""
        for u in narrow.users:
            if u.opcode is O.CONVERT and u.shape == wide.shape:
                narrow.parent.replace(u, wide)

    def _raised_shape(self, shape: Shape) -> Shape:
        if isinstance(shape, TupleShape):
            return tuple_of(self._raised_shape(s) for s in shape.shapes)
        if not shape.is_array or shape.as_array().element_type is not self.low:
            return shape
        return shape.as_array().with_type(self.high)

    def _raised(self, c: HloComputation, x: HloInstruction) -> HloInstruction:
        """x converted to the wide type."""
        return self._converted(c, x, self._raised_shape(x.shape))

    def _lowered(self, c: HloComputation, x: HloInstruction, shape: Shape) -> HloInstruction:
        """x converted to the types of `shape`."""
        return self._converted(c, x, shape)

    def _converted(self, c: HloComputation, x: HloInstruction, shape: Shape) -> HloInstruction:
        if x.shape == shape:
            return x
        if isinstance(shape, TupleShape):
            elements = [c.add(O.GET_TUPLE_ELEMENT, (x,), like=x, index=n) for n in range(len(shape.shapes))]
            return c.add(
                O.TUPLE, [self._converted(c, e, s) for e, s in zip(elements, shape.shapes, strict=True)], shape, like=x
            )
        return c.add(O.CONVERT, (x,), shape, like=x)

    def _raised_computation(self, source: HloComputation) -> HloComputation:
        """A clone with parameters and result of the wide type."""
        clone = source.module.clone_computation(source, f"{source.name}.clone")
        if self.throughout:
            return self._raised_throughout(clone)
        if _has(clone.root.shape, self.low):
            clone.set_root(self._raised(clone, clone.root))
        for p in clone.parameters:
            if _has(p.shape, self.low):
                shape = p.shape
                clone.update(p, shape=self._raised_shape(shape))
                users = [u for u in p.users if u.opcode is not O.CONVERT or u.shape != p.shape]
                self._skip_widening(p, p)
                narrow = self._lowered(clone, p, shape) if users else p
                for u in users:
                    clone.set_operands(u, [narrow if o is p else o for o in u.operands])
        return clone

    def _raised_throughout(self, clone: HloComputation) -> HloComputation:
        for i in clone:
            if _has(i.shape, self.low):
                is_constant = i.opcode is O.CONSTANT
                literal = Literal.of(i.literal.array.astype(self.high.dtype)) if is_constant else None
                clone.update(i, shape=self._raised_shape(i.shape), attributes={"literal": literal} if literal else None)
        return clone


def _pass_for(low: PrimitiveType, high: PrimitiveType) -> type[HloPass]:
    @dataclass(frozen=True)
    class FloatNormalization(HloPass):
        name = f"float-normalization-{low}"
        support: FloatSupport = NO_SUPPORT

        def apply(self, module: HloModule) -> None:
            normalize(module, low, high, self.support)

    FloatNormalization.__doc__ = (
        f"Computes {low} in {high}, except for the ops that the target's `support` computes in {low}."
    )
    return FloatNormalization


# XLA:CPU leaves f16 to LLVM; a backend without it computes it in f32.
PASSES_BY_TYPE: dict[PrimitiveType, Callable[..., HloPass]] = {
    low: _pass_for(low, high) for low, high in {**WIDER, P.F16: P.F32}.items()
}
