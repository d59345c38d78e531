"""Vectors of elements in text IR: for kernels that say themselves which lanes there are.

A vector of elements of type t is `<n x register(t)>` (see types.py); memory is read and written at the alignment of one element. Only the types of `is_simple` stand in
vectors here: their form in memory and in registers is the same, or one conversion away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import Index, IrArray, same_order, unflatten
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.loops import each_vector, vectorize
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.types import memory, part, register, store
from xlanb.cpu.codegen.vector_plan import Plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape, PrimitiveType

T = PrimitiveType


def is_simple(t: PrimitiveType) -> bool:
    """Whether vectors of the type can be loaded and stored here."""
    return t in (T.F32, T.F64) or (t.is_integral and t.bits >= 8 and t is not T.PRED)


def lanes(f: Function, *types: PrimitiveType) -> int:
    """How many elements of the widest of some types a vector register holds."""
    return f.target.vector_bits // max(t.bits for t in types)


def kind(t: PrimitiveType, n: int) -> str:
    """LLVM's type of a vector in a register."""
    return f"<{n} x {register(t)}>"


def splat(f: Function, element: str, n: int, value: str) -> str:
    """A vector with the same value in each lane."""
    first = f.let(f"insertelement <{n} x {element}> poison, {element} {value}, i64 0")
    return f.let(f"shufflevector <{n} x {element}> {first}, <{n} x {element}> poison, <{n} x i32> zeroinitializer")


def numbers(t: PrimitiveType, values: Sequence[int]) -> str:
    """A constant vector of integers."""
    return "<" + ", ".join(f"{register(t)} {v}" for v in values) + ">"


def mask(values: Sequence[int]) -> str:
    """The constant of a shufflevector; below zero: any lane."""
    return f"<{len(values)} x i32> <" + ", ".join("i32 poison" if v < 0 else f"i32 {v}" for v in values) + ">"


def shuffle(f: Function, type_: str, a: str, b: str, which: Sequence[int]) -> str:
    """Lanes of two vectors of one type."""
    return f.let(f"shufflevector {type_} {a}, {type_} {b}, {mask(which)}")


def load(f: Function, t: PrimitiveType, pointer: str, offset: Ix, n: int) -> str:
    """n elements from element `offset` on."""
    at = pointer if offset == 0 else f.let(f"getelementptr inbounds {memory(t)}, ptr {pointer}, i64 {offset}")
    return f.let(f"load <{n} x {memory(t)}>, ptr {at}, align {t.byte_size}")


def write(f: Function, t: PrimitiveType, pointer: str, offset: Ix, n: int, value: str) -> None:
    """Set n elements from element `offset` on."""
    at = pointer if offset == 0 else f.let(f"getelementptr inbounds {memory(t)}, ptr {pointer}, i64 {offset}")
    f.do(f"store <{n} x {memory(t)}> {value}, ptr {at}, align {t.byte_size}")


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
        inner, outer = 1, 1
        for size in sizes[:at]:
            inner *= size
        for size in sizes[at + 1 :]:
            outer *= size
        return Split(shape, axis, outer, sizes[at], inner)

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
    bound = e.bindings.get(operand)
    source = bound[()] if bound is not None else None
    return source if isinstance(source, IrArray) and same_order(source.shape, shape) else None


def fill(e: Elemental, operand: HloInstruction, split: Split, at: tuple[Ix, Ix, Ix], count: int, pointer: str) -> bool:
    """Write `count` consecutive elements of an operand, from element (line, place along it, column) on, to memory in their memory form; whether in vectors.

    They lie along the split's dimension where lines are one element wide, side by side otherwise.
    """
    f, t, shape = e.f, array_of(operand).element_type, split.shape
    o, r, c = at
    one = ArrayShape(
        shape.element_type,
        tuple(1 if d == split.axis else n for d, n in enumerate(shape.dimensions)),
        layout=shape.layout,
    )

    def put(q: Ix) -> None:
        if split.inner == 1:
            multi = list(unflatten(f, o, one))
            multi[split.axis] = f.add(r, q)
        else:
            multi = list(unflatten(f, f.add(f.mul(o, split.inner), f.add(c, q)), one))
            multi[split.axis] = r
        store(f, t, pointer, q, e.element(operand, Index(shape, multi)))

    return along(e, count, (t,), put)


def along(
    e: Elemental,
    count: int,
    types: Sequence[PrimitiveType],
    body: Callable[[Ix], None],
    nanoseconds: float = 0.0,
    *,
    hard: bool = False,
) -> bool:
    """`body(q)` for q = 0, ..., count - 1, in vectors where that can be (else False); with `nanoseconds`, the time of one round, threads may share the loop.

    `hard`: the body is so much code, or so little of all the work, that one register's width at a time is enough.
    """
    bits = [8 if t is T.PRED else 32 if t.is_floating and t.bits < 32 else max(8, part(t).bits) for t in types]
    widths = Plan(widest=max(bits), narrowest=min(bits), hard=hard).width(e.f.target.vector_bits, count)

    def write(cuts: Sequence[int]) -> None:
        for low, high in pairwise(cuts):
            each_vector(e, low, high, widths, body, nanoseconds)

    if count > 1 and e.f.target.explicit_vectors and vectorize(e, count, write):
        return True
    with parallel(e, count, nanoseconds=nanoseconds) as q:
        body(q)
    return count <= 2
