"""Reductions: of dimensions, of windows, element by element or along rows and columns as memory has them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.cpu.codegen import arithmetic, complex_math
from xlanb.cpu.codegen.elemental import Elemental, array_of, elemental
from xlanb.cpu.codegen.indexing import Index
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.row_reduce import SHORT, RowReduce
from xlanb.cpu.codegen.types import Value, pair, real
from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType
_SIMPLE = frozenset({Op.ADD, Op.MULTIPLY, Op.MAXIMUM, Op.MINIMUM, Op.AND, Op.OR, Op.XOR})


def simple_reducer(target: HloComputation) -> Op | None:
    """The opcode of a reducer that is one operation on its two parameters, and may therefore be done in any order."""
    root = target.root
    if root.opcode not in _SIMPLE or len(target.parameters) != 2 or set(root.operands) != set(target.parameters):
        return None
    if root.opcode in (Op.MAXIMUM, Op.MINIMUM) and root.array_shape.element_type.is_complex:
        return None  # there is no order of them: the operation itself is refused
    return root.opcode


class Reducer:
    """A reducing computation over values of some types, and one step of it.

    The sum and product of floats may be taken in any order (`reassoc`), as XLA does. A narrow float is rounded after every step, as XLA does too:
    a long sum in bf16 stands still once it is large (programs that mind sum in f32).
    """

    def __init__(self, e: Elemental, target: HloComputation, types: Sequence[PrimitiveType]) -> None:
        self.e = e
        self.target = target
        self.op = simple_reducer(target) if len(types) == 1 else None
        self.types = list(types)

    def step(self, accumulators: list[Value], values: list[Value]) -> list[Value]:
        """The next accumulators."""
        f = self.e.f
        if self.op is None:
            return self.e.apply(self.target, [*accumulators, *values])
        t = self.types[0]
        mark = f.at(self.target.root.name)
        if t.is_complex:
            made: Value = complex_math.binary(f, self.op, t, pair(accumulators[0]), pair(values[0]))
        else:
            flags = "reassoc" if t.is_floating and self.op in (Op.ADD, Op.MULTIPLY) else ""
            made = arithmetic.binary(f, self.op, t, real(accumulators[0]), real(values[0]), flags)
        f.restore(mark)
        return [made]


@elemental(Op.REDUCE)
def _reduce(e: Elemental, i: HloInstruction, x: Index) -> Value | tuple[Value, ...]:
    count = len(i.operands) // 2
    inputs, initial = i.operands[:count], i.operands[count:]
    source = array_of(inputs[0])
    reducer = Reducer(e, i.to_apply, [array_of(o).element_type for o in initial])
    order = [d for d in reversed(source.minor_to_major) if d in i.dimensions]
    kept = iter(x.multi(e.f))
    base: list[Ix] = [0 if d in i.dimensions else next(kept) for d in range(source.rank)]
    start = [e.scalar(o) for o in initial]
    if not e.f.width and not i.shape.is_tuple:
        along = RowReduce(e, i.operands[0], i.dimensions, base, reducer)
        if along.pays:
            return along.reduce(start[0])
    if e.f.ready and not e.f.width:
        e.f.ready = math.prod(source.dimensions[d] for d in i.dimensions) <= SHORT

    def body(indices: list[Ix], accumulators: list[Value]) -> list[Value]:
        where = list(base)
        for d, v in zip(order, indices, strict=True):
            where[d] = v
        at = Index(source, where)
        return reducer.step(accumulators, [e.element(o, at) for o in inputs])

    folded = e.fold([source.dimensions[d] for d in order], reducer.types, start, body)
    return tuple(folded) if i.shape.is_tuple else folded[0]


@elemental(Op.REDUCE_WINDOW)
def _reduce_window(e: Elemental, i: HloInstruction, x: Index) -> Value | tuple[Value, ...]:
    """A window's elements in row-major order; those in the padding and in the holes of a dilated base are left out."""
    count = len(i.operands) // 2
    inputs, initial = i.operands[:count], i.operands[count:]
    source = array_of(inputs[0])
    f = e.f
    reducer = Reducer(e, i.to_apply, [array_of(o).element_type for o in initial])
    window = i.window.dimensions
    multi = x.multi(f)

    def body(indices: list[Ix], accumulators: list[Value]) -> list[Value]:
        inside, where = window_position(e, window, multi, indices, source.dimensions)
        return e.branches(
            reducer.types,
            inside,
            lambda: reducer.step(accumulators, [e.element(o, Index(source, where)) for o in inputs]),
            lambda: accumulators,
        )

    folded = e.fold([w.size for w in window], reducer.types, [e.scalar(o) for o in initial], body)
    return tuple(folded) if i.shape.is_tuple else folded[0]


def window_position(
    e: Elemental, window: Sequence[WindowDimension], output: Sequence[Ix], offset: Sequence[Ix], sizes: Sequence[int]
) -> tuple[str, list[Ix]]:
    """(i1: is it an element of the base, its index) for a position `offset` in the window of an output index."""
    f = e.f
    inside = "true"
    where: list[Ix] = []
    for w, o, k, n in zip(window, output, offset, sizes, strict=True):
        if w.reversal:
            k = f.sub(w.size - 1, k)
        reach = f.add(f.mul(o, w.stride), f.mul(k, w.window_dilation))
        at = f.sub(reach, w.padding_low)
        if w.padding_low > 0 or w.padding_high > 0 or w.padding_low < 0 or w.padding_high < 0 or w.base_dilation > 1:
            inside = f.both(inside, f.within(at, 0, (n - 1) * w.base_dilation + 1))
        if w.base_dilation > 1:
            left = f.rem(at, w.base_dilation)
            hit = ("true" if left == 0 else "false") if isinstance(left, int) else f.let(f"icmp eq i64 {left}, 0")
            inside = f.both(inside, hit)
            at = f.div(at, w.base_dilation)
        where.append(at)
    return inside, where
