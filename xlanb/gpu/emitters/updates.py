"""Kernels that write into an existing array: dynamic-update-slice in place, and scatter.

Each thread of a scatter takes one update element. Updates that may collide are combined by atomic
instructions, or by compare-and-swap of any computation of two values. Where that is impossible
(several operands, complex numbers), one thread applies the updates in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from xlanb.codegen.elemental import Leaf, array_of
from xlanb.codegen.elements import Element, from_memory, memory, parts, real, to_memory
from xlanb.codegen.folds import simple_reducer
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, flatten_at, unflatten
from xlanb.codegen.memory import Pointer
from xlanb.codegen.movement import starts
from xlanb.codegen.scatter import Scatter
from xlanb.codegen.types import I1, Type, integer
from xlanb.codegen.values import Value
from xlanb.gpu.emitters.kernel import GpuKernelFunction, Lowering
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType
_THREADS = 128
_ATOMICS = {Op.ADD: "add", Op.AND: "and", Op.OR: "or", Op.XOR: "xor"}
"""Atomic integer instructions by opcode; minimum and maximum depend on the sign."""


def put_in_place(lowering: Lowering, operand: HloInstruction, leaf: Leaf) -> None:
    """Copy an operand of the root to the result at a leaf.

    Does nothing if the result already shares the operand's memory.
    """
    source = lowering.operand_place(operand)
    target = lowering.program.place(lowering.instruction, leaf)
    shape = array_of(lowering.instruction, leaf)
    if source is not None and array_of(operand) == shape:
        lowering.copy(target, source)
        return
    with lowering.kernel(-(-shape.element_count // _THREADS), _THREADS, "operand") as k:

        def put(q: Ix) -> None:
            index = Index(shape, flat=q)
            k.output(leaf).store(index, k.e.element(operand, index))

        k.each(shape.element_count, put)


# -- dynamic-update-slice --------------------------------------------------------------------------


def updates_in_place(i: HloInstruction, root: HloInstruction) -> bool:
    """Whether it is (a fusion of) a dynamic-update-slice that alone reads its operand."""
    if root.opcode is not Op.DYNAMIC_UPDATE_SLICE:
        return False
    operand = root.operands[0]
    if i is root:
        return True
    return operand.opcode is Op.PARAMETER and operand.user_count == 1 and root.operands.count(operand) == 1


def emit_update(lowering: Lowering) -> bool:
    """Write only the update's elements; return False if the result does not share the operand."""
    root, i = lowering.root, lowering.instruction
    if lowering.operand_place(root.operands[0]) != lowering.program.place(i):
        return False
    source, piece = (array_of(o) for o in root.operands[:2])
    if not piece.element_count:
        return True
    room = [n - m for n, m in zip(source.dimensions, piece.dimensions, strict=True)]
    with lowering.kernel(-(-piece.element_count // _THREADS), _THREADS) as k:

        def put(q: Ix) -> None:
            multi = unflatten(k.f, q, piece)
            begin = starts(k.e, root.operands[2:], room)
            value = k.e.element(root.operands[1], Index(piece, multi, q))
            place = [k.f.add(b, v) for b, v in zip(begin, multi, strict=True)]
            k.output().store(Index(array_of(i), place), value)

        k.each(piece.element_count, put)
    return True


# -- scatter ---------------------------------------------------------------------------------------


def emit_scatter(lowering: Lowering) -> None:
    """Copy the operands to the results, unless they share memory; then combine the updates."""
    made = _ScatterKernel(lowering.root)
    for operand, leaf in zip(made.operands, made.leaves, strict=True):
        if array_of(operand).element_count:
            put_in_place(lowering, operand, leaf)
    count = made.update.element_count
    if not count or not made.source.element_count:
        return
    if made.is_serial:
        with lowering.kernel(1, 32) as k, k.below(k.thread, 1, 32), k.f.loop(count) as q:
            made.element(k, q)
        return
    with lowering.kernel(-(-count // _THREADS), _THREADS) as k:
        k.each(count, lambda q: made.element(k, q))


class _ScatterKernel(Scatter):
    """A scatter in which each thread takes one update element, or one thread takes all."""

    @cached_property
    def is_unique(self) -> bool:
        """Whether no two updates collide."""
        return bool(self.instruction.get("unique_indices"))

    @cached_property
    def is_assignment(self) -> bool:
        """Whether an update replaces the old value regardless of it."""
        target = self.instruction.to_apply
        return len(self.operands) == 1 and target.root is target.parameters[1]

    @property
    def is_serial(self) -> bool:
        """Whether one thread must apply the updates in order."""
        if self.is_unique or self.is_assignment:
            return False
        if len(self.operands) > 1:
            return True
        return self.types[0].is_complex and simple_reducer(self.instruction.to_apply) is not Op.ADD

    def element(self, k: GpuKernelFunction, q: Ix) -> None:
        """Combine update element `q`, in memory order, if its whole window fits."""
        f = k.f
        multi = unflatten(f, q, self.update)
        where, inside = self.begin(k.e, [multi[d] for d in self.scatter_dims])
        shift = {d: multi[w] for d, w in self.update_dim.items()}
        with f.when(inside) if inside.number is None else f.aside():
            if inside.number == 0:
                return
            place = [f.add(where.get(d, 0), shift.get(d, 0)) for d in range(self.source.rank)]
            new = [k.e.element(u, Index(array_of(u), multi)) for u in self.updates]
            places = [
                (k.output(leaf), Index(array_of(o), place)) for leaf, o in zip(self.leaves, self.operands, strict=True)
            ]
            self._combine(k, places, new)

    def _combine(self, k: GpuKernelFunction, places: Sequence[tuple[IrArray, Index]], new: Sequence[Element]) -> None:
        target = self.instruction.to_apply
        if self.is_assignment:
            places[0][0].store(places[0][1], new[0])
            return
        if self.is_unique or self.is_serial:
            old = [array.load(index) for array, index in places]
            for (array, index), value in zip(places, k.e.apply(target, [*old, *new]), strict=True):
                array.store(index, value)
            return
        array, index = places[0]
        combine_atomically(k, array, index, new[0], self)


def combine_atomically(
    k: GpuKernelFunction, array: IrArray, index: Index, value: Element, scatter: _ScatterKernel
) -> None:
    """Combine a value into an element that other threads update too."""
    f, t = k.f, array.shape.element_type
    target = scatter.instruction.to_apply
    op = simple_reducer(target)
    at = flatten_at(f, index, array.shape)
    if t.is_complex:
        pointer = Pointer(array.pointer, memory(t))
        for n, part in enumerate(parts(value)):
            _modify(k, "fadd", pointer.address(f.add(f.mul(at, 2), n)), part)
        return
    address = Pointer(array.pointer, memory(t)).address(at)
    name = _instruction(op, t)
    if name is not None:
        _modify(k, name, address, to_memory(f, t, real(value)))
        return
    _compare_and_swap(k, address, memory(t), lambda old: _combined(k, scatter, t, old, value))


def _instruction(op: Op | None, t: PrimitiveType) -> str | None:
    """Return the atomic instruction for an operation on an element type, or None."""
    if t in (T.F32, T.F64):
        return "fadd" if op is Op.ADD else None
    if t.is_integral and t.bits in (32, 64):
        if op in (Op.MAXIMUM, Op.MINIMUM):
            return ("" if t.is_signed else "u") + ("max" if op is Op.MAXIMUM else "min")
        return _ATOMICS.get(op) if op is not None else None
    return None


def _modify(k: GpuKernelFunction, name: str, address: Value, value: Value) -> None:
    k.f.let(value.type, f'atomicrmw {name} {address!r}, {value!r} syncscope("device") monotonic')


def _combined(k: GpuKernelFunction, scatter: _ScatterKernel, t: PrimitiveType, old: Value, value: Element) -> Value:
    made = k.e.apply(scatter.instruction.to_apply, [from_memory(k.f, t, old), value])[0]
    return to_memory(k.f, t, real(made))


def _compare_and_swap(k: GpuKernelFunction, address: Value, type_: Type, combined: object) -> None:
    """Retry until the value is unchanged between reading it and writing the combined value."""
    f, bits = k.f, integer(type_.bits)
    first = f.let(bits, f'load atomic {bits.text}, {address!r} syncscope("device") monotonic, align {bits.bytes}')
    with f.rounds([first]) as loop:
        (old,) = loop.values
        made = combined(old.bits_as(type_)).bits_as(bits)  # type: ignore[operator]
        name, kind = f.fresh("pair"), f"{{ {bits.text}, i1 }}"
        f.write(f'{name} = cmpxchg {address!r}, {old!r}, {made!r} syncscope("device") monotonic monotonic')
        loop.next = [f.let(bits, f"extractvalue {kind} {name}, 0")]
        loop.again = ~f.let(I1, f"extractvalue {kind} {name}, 1")


__all__ = ["emit_scatter", "emit_update", "updates_in_place"]
