"""Arrays seen along one dimension, and what is computed put into memory for those who read vectors of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.codegen.elemental import Elemental, array_of
from xlanb.codegen.elements import part, store
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, IrArray, same_order, unflatten
from xlanb.codegen.nest import Nest, Vectors
from xlanb.codegen.parallel import parallel
from xlanb.codegen.values import Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape, PrimitiveType

T = PrimitiveType


def is_plain(t: PrimitiveType) -> bool:
    """Whether elements have one form in memory and in registers: f32, f64, and integers of whole bytes."""
    return t in (T.F32, T.F64) or (t.is_integral and t.bits >= 8 and t is not T.PRED)


def lanes_of(f: Function, *types: PrimitiveType) -> int:
    """How many elements of the widest of some types a vector register holds."""
    return f.target.vector_bits // max(t.bits for t in types)


@dataclass(frozen=True)
class Split:
    """An array seen along one dimension: `outer` lines apart, `n` along it, `inner` elements that lie side by side; in the order of memory."""

    shape: ArrayShape
    axis: int
    outer: int
    n: int
    inner: int

    @staticmethod
    def of(shape: ArrayShape, axis: int) -> Split:
        """The view of an array along a dimension."""
        at = shape.minor_to_major.index(axis)
        sizes = [shape.dimensions[d] for d in shape.minor_to_major]
        return Split(shape, axis, math.prod(sizes[at + 1 :]), sizes[at], math.prod(sizes[:at]))

    def flat(self, f: Function, o: Ix, r: Ix, c: Ix) -> Ix:
        """The offset of element r of a line."""
        return f.add(f.add(f.mul(o, self.n * self.inner), f.mul(r, self.inner)), c)

    def keeps(self, result: ArrayShape) -> bool:
        """Whether an array of the other dimensions lies in the same order."""
        kept = [d for d in range(self.shape.rank) if d != self.axis]
        mine = [kept.index(d) for d in self.shape.minor_to_major if d != self.axis and self.shape.dimensions[d] != 1]
        return mine == [d for d in result.minor_to_major if result.dimensions[d] != 1]


def array_in_order(e: Elemental, operand: HloInstruction, shape: ArrayShape) -> IrArray | None:
    """The array in memory that holds an operand with its elements in the order of `shape`, if there is one."""
    source = e.bindings.get(operand, {}).get(())
    return source if isinstance(source, IrArray) and same_order(source.shape, shape) else None


def fill(e: Elemental, operand: HloInstruction, split: Split, at: tuple[Ix, Ix, Ix], count: int, tile: Value) -> bool:
    """Write `count` consecutive elements of an operand, from element (line, place along it, column) on, to memory; whether in vectors.

    They lie along the split's dimension where lines are one element wide, side by side otherwise.
    """
    f, t, shape = e.f, array_of(operand).element_type, split.shape
    o, r, c = at
    dimensions = tuple(1 if d == split.axis else n for d, n in enumerate(shape.dimensions))
    one = ArrayShape(shape.element_type, dimensions, layout=shape.layout)

    def put(q: Ix) -> None:
        if split.inner == 1:
            multi = list(unflatten(f, o, one))
            multi[split.axis] = f.add(r, q)
        else:
            multi = list(unflatten(f, f.add(f.mul(o, split.inner), f.add(c, q)), one))
            multi[split.axis] = r
        store(t, tile, q, e.element(operand, Index(shape, multi)))

    return along(f, count, (t,), put)


def along(
    f: Function,
    count: int,
    types: Sequence[PrimitiveType],
    body: Callable[[Ix], None],
    nanoseconds: float = 0.0,
    registers: int = 4,
) -> bool:
    """`body(q)` for q = 0, ..., count - 1, in vectors where that can be (else False); with `nanoseconds`, the time of one round, threads may share the loop.

    A body that is much code, or little of all the work, needs vectors of one register.
    """
    bits = [8 if t is T.PRED else 32 if t.is_floating and t.bits < 32 else max(8, part(t).bits) for t in types]
    widest = max(bits)
    lanes = f.target.vector_bits // (widest if widest <= 32 or min(bits) == 64 else 32)
    nest = Nest((count,), 1, Vectors(lanes, registers), nanoseconds)
    if count > 1 and f.target.explicit_vectors and nest.each(f, lambda at: body(at[0])):
        return True
    with parallel(f, count, nanoseconds=nanoseconds) as q:
        body(q)
    return count <= 2
