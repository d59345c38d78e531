"""Matrices brought to scratch and back, between LAPACK's columns side by side and padded ones (see `values`); their magnitude; numbers in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.linalg.custom_call import Call
from xlanb.cpu.codegen.linalg.householder import power_scale
from xlanb.cpu.codegen.linalg.values import LARGEST, LINE, Code, Place, Value, stride
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType


@dataclass(frozen=True)
class Room:
    """Scratch for matrices of so many rows and columns, one after the other, each from a cache line on."""

    type: PrimitiveType
    sizes: tuple[tuple[int, int], ...]

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(self._each())

    def addresses(self, call: Call) -> list[str]:
        """Where each of them lies."""
        made, at = [], 0
        for size in self._each():
            made.append(behind(call, call.scratch, at) if at else call.scratch)
            at += size
        return made

    def _each(self) -> list[int]:
        return [
            -(-stride(rows, self.type) * columns * self.type.byte_size // LINE) * LINE for rows, columns in self.sizes
        ]


def step(call: Call, name: str, write: Callable[[Code], None], parameters: Sequence[str], *arguments: Ix) -> None:
    """Call a routine that all programs share; `write` writes its body."""
    call.routine(name, lambda f: write(Code(f, call.type)), parameters, *arguments)


def has_results(i: HloInstruction, *sizes: tuple[int, ...] | None, whole: int = -1) -> bool:
    """Whether the results of a custom-call for each matrix have these dimensions (None: any). A number, LAPACK's info, and result `whole` are integers, as nothing else is."""
    t, shapes = array_of(i.operands[0]).element_type, [array_of(i, leaf) for leaf, _ in i.shape.leaves()]
    return all(
        (size is None or shape.dimensions[shape.rank - len(size) :] == size)
        and shape.element_type is (PrimitiveType.S32 if size == () or k == whole else t)
        for k, (shape, size) in enumerate(zip(shapes, sizes, strict=True))
    )


def is_small(i: HloInstruction) -> bool:
    """Whether matrices stay near the caches, by the shorter side of the first operand."""
    shape = array_of(i.operands[0])
    return min(shape.dimensions[-2:]) * shape.element_type.byte_size <= LARGEST


def is_read(i: HloInstruction, k: int) -> bool:
    """Whether anything takes result k."""
    return i.is_root or any(u.opcode is not Op.GET_TUPLE_ELEMENT or u.tuple_index == k for u in i.users)


def behind(call: Call, pointer: str, count: int) -> str:
    """The address so many bytes further."""
    return call.f.let(f"getelementptr i8, ptr {pointer}, i64 {count}")


def bring(c: Code, source: Place, rows: Value, columns: Value, target: Place, stride: Value) -> None:
    """Columns to scratch, padded with zeros."""
    end = c.up(rows)
    with c.count(0, columns) as loop:
        a, b = source.by(loop.index * rows), target.by(loop.index * stride)
        with c.count(0, end, step=c.width) as r:
            b.write(r.index, a.vector(r.index, c.lanes_to(r.index, rows)))


MOVE = ("ptr noalias %source", "ptr noalias %target", "i64 %rows", "i64 %columns", "i64 %stride")


def write_bring(c: Code) -> None:
    """The routine that brings columns to scratch."""
    bring(c, c.place("source"), c.given("rows"), c.given("columns"), c.place("target"), c.given("stride"))


def write_take(c: Code) -> None:
    """The routine that takes columns out of scratch."""
    take(c, c.place("source"), c.given("stride"), c.place("target"), c.given("rows"), c.given("columns"))


def bring_transposed(c: Code, source: Place, rows: Value, columns: Value, target: Place, stride: Value) -> None:
    """Rows of a matrix to columns of scratch, padded with zeros."""
    zero, padded = c.constant(c.vector, 0), c.up(columns)
    with c.count(0, rows) as loop:
        b = target.by(loop.index * stride)
        b.write(padded - c.width, zero)
        with c.count(0, columns) as j:
            b[j.index] = source.by(j.index * rows)[loop.index]


def take(
    c: Code, source: Place, stride: Value, target: Place, rows: Value, columns: Value, order: Place | None = None
) -> None:
    """Columns out of scratch, those that `order` names where it is given."""
    end = c.up(rows)
    with c.count(0, columns) as loop:
        j = order[loop.index] if order else loop.index
        a, b = source.by(j * stride), target.by(loop.index * rows)
        with c.count(0, end, step=c.width) as r:
            b.write(r.index, a.vector(r.index), c.lanes_to(r.index, rows))


def take_transposed(
    c: Code, source: Place, stride: Value, target: Place, rows: Value, columns: Value, order: Place | None = None
) -> None:
    """Columns out of scratch, those that `order` names where it is given, as the rows of a matrix of so many rows and columns."""
    with c.count(0, columns) as loop:
        b = target.by(loop.index * rows)
        with c.count(0, rows) as r:
            j = order[r.index] if order else r.index
            b[r.index] = source.by(j * stride)[loop.index]


def mirror(c: Code, a: Place, stride: Value, n: Value, upper: Value) -> None:
    """Make a matrix in scratch symmetric, of one of its triangles: the upper one where the i1 holds."""
    with c.count(0, n) as loop:
        j = loop.index
        with c.count(j + 1, n) as inner:
            below, above = j * stride + inner.index, inner.index * stride + j
            source, target = upper.pick(above, below), upper.pick(below, above)
            a[target] = a[source]


def magnitude(c: Code, a: Place, stride: Value, end: Value, columns: Value) -> tuple[Value, Value]:
    """(the largest magnitude of a matrix in scratch, i1: whether all of it is finite)."""
    zero = c.constant(c.vector, 0)
    with c.count(0, columns, [zero, zero]) as loop:
        column = a.by(loop.index * stride)
        with c.count(0, end, loop.values, step=c.width) as r:
            x = column.vector(r.index)
            r.next = [r.values[0].largest(abs(x)), r.values[1] + x * 0.0]
        loop.next = r.values
    return loop.values[0].peak(), loop.values[1].total().same(0.0)


def normalize(c: Code, a: Place, stride: Value, end: Value, columns: Value) -> tuple[Value, Value]:
    """(what results are to be multiplied with, whether all of the matrix is finite): a matrix of very large or very small numbers is scaled by a power of two."""
    largest, finite = magnitude(c, a, stride, end, columns)
    scale, back = power_scale(c, largest)
    with c.when(scale.differs(1.0)), c.count(0, columns) as loop:
        column = a.by(loop.index * stride)
        with c.count(0, end, step=c.width) as r:
            column.write(r.index, column.vector(r.index) * scale.everywhere())
    return back, finite


def identity(c: Code, a: Place, stride: Value, end: Value, columns: Value) -> None:
    """Columns of the identity in scratch."""
    zero = c.constant(c.vector, 0)
    with c.count(0, columns) as loop:
        column = a.by(loop.index * stride)
        with c.count(0, end, step=c.width) as r:
            column.write(r.index, zero)
        column[loop.index] = 1.0


def ascending(c: Code, d: Place, n: Value, order: Place) -> None:
    """order[k] := which of n numbers at d (padded by this with infinities) is the k-th from below; of equal ones the first comes first.

    Each number's place is the count of those before it. Where some are not numbers, what is in `order` is below n nevertheless.
    """
    end, inf = c.up(n), c.constant(c.vector, float("inf"))
    with c.count(c.down(n), end, step=c.width) as loop:
        d.write(loop.index, c.lanes_to(loop.index, n).pick(d.vector(loop.index), inf))
    with c.count(0, n) as loop:
        order[loop.index] = loop.index
    with c.count(0, n) as loop:
        i = loop.index
        own = d[i].everywhere()
        with c.count(0, end, [c.constant(c.vector, 0)], step=c.width) as each:
            x = d.vector(each.index)
            before = (x < own) | (x.same(own) & c.lanes_to(each.index, i))
            each.next = [each.values[0] + before.pick(c.constant(c.vector, 1), 0.0)]
        count = each.values[0].total()
        order[c.let("i64", f"fptoui {c.number} {count.name} to i64")] = i


def fail(c: Code, target: Place, count: Value) -> None:
    """Numbers that are none, all over an array."""
    with c.count(0, count) as loop:
        target[loop.index] = c.real(float("nan"))
