"""Columns of matrices in scratch memory, with loops and masks over vectors of rows.

A column in scratch begins at a cache line and is padded with zeros to whole vectors, so that
loops over rows have no remainder. The code contains no sizes: a process compiles it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from xlanb.codegen import costs
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import integer
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.routine import LINE, Fit, Routine, RoutineCall, RoutineWay, element_type, number, size_of
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

Rows = tuple[Ix, Ix]
"""The first row, and the end of the rows; both are multiples of a vector."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in scratch memory; columns are `stride` numbers apart."""

    first: Pointer
    rows: Value
    columns: Value
    stride: Value

    def __getitem__(self, column: Value) -> Pointer:
        return self.first.by(column * self.stride)


@dataclass(frozen=True)
class Room:
    """Scratch memory for matrices of these sizes, consecutive and each aligned to a cache line."""

    type: PrimitiveType
    sizes: tuple[tuple[int, int], ...]

    @property
    def bytes(self) -> int:
        """Bytes of all matrices."""
        return sum(map(self._bytes, self.sizes))

    def matrices(self, call: RoutineCall) -> list[Matrix]:
        """Return all matrices."""
        made, at, f = [], 0, call.f
        for rows, columns in self.sizes:
            first = Pointer(call.room(at), number(self.type))
            made.append(Matrix(first, f.value(rows), f.value(columns), f.value(self._stride(rows))))
            at += self._bytes((rows, columns))
        return made

    def _stride(self, rows: int) -> int:
        """An odd number of cache lines, to avoid cache conflicts between columns."""
        lines = -(-max(rows, 1) * self.type.byte_size // LINE)
        return (lines | 1) * LINE // self.type.byte_size

    def _bytes(self, size: tuple[int, int]) -> int:
        return self._stride(size[0]) * size[1] * self.type.byte_size


@dataclass
class ColumnSteps:
    """A loop being emitted: its counter, its carried values, and their next values."""

    index: Value
    values: list[Value]
    next: Sequence[Value] = field(default_factory=list)


class Columns:
    """Emits code on columns of numbers of a type; products may be fused into sums (fma)."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        f.fast = "contract"
        self.f = f
        self.kind = number(t)
        self.width = f.target.vector_bits // self.kind.bits
        self.is_single = self.kind.bits == 32
        self.zeros = f.zero(self.kind.times(self.width))
        self.epsilon = 2.0**-24 if self.is_single else 2.0**-53
        self.tiny = 2.0**-126 if self.is_single else 2.0**-1022

    # -- values ------------------------------------------------------------------------------------

    def real(self, value: float) -> Value:
        """A constant number."""
        return self.f.const(self.kind, value)

    def load(self, p: Pointer, row: Ix = 0) -> Value:
        """Load a vector of a column."""
        return p.load(row, self.width)

    def repeated(self, x: Value) -> Value:
        """A vector with a number in each lane."""
        return x.repeated(self.width)

    def total(self, vector: Value) -> Value:
        """The sum of a vector's elements, in any order."""
        return self.f.reduce("fadd", vector, "reassoc")

    def larger(self, a: Value, b: Value) -> Value:
        """The larger of two numbers; if one is NaN, the other."""
        return self.f.intrinsic("maxnum", a, b)

    def first_lanes(self, row: Value, end: Value) -> Mask:
        """A mask of the lanes before row `end`, for the vector that starts at `row`."""
        return Mask(self.width, None, self._lanes() < self._lane(end - row))

    def lanes_from(self, row: Value, first: Value) -> Value:
        """The lanes at or after row `first`, for the vector that starts at `row`."""
        return self._lanes() >= self._lane(first - row)

    def _lanes(self) -> Value:
        return self.f.constants(integer(self.kind.bits), range(self.width))

    def _lane(self, x: Value) -> Value:
        return self.repeated(x.trunc(integer(self.kind.bits)))

    def down(self, x: Value) -> Value:
        """Round x down to a multiple of the vector's lanes."""
        return x & -self.width

    def up(self, x: Value) -> Value:
        """Round x up to a multiple of the vector's lanes."""
        return (x + (self.width - 1)) & -self.width

    # -- loops -------------------------------------------------------------------------------------

    @contextmanager
    def count(self, low: Ix, high: Ix, state: Sequence[Value] = (), *, step: int = 1) -> Iterator[ColumnSteps]:
        """Loop over low, low + step, ... below high, carrying values; it may execute zero times.

        After the loop, `values` holds the results.
        """
        first, last = self.f.value(low), self.f.value(high)
        with self.f.rounds((first, *state), first < last) as loop:
            inner = ColumnSteps(loop.values[0], loop.values[1:])
            yield inner
            after = loop.values[0] + step
            loop.next, loop.again = [after, *inner.next], after < last
        inner.values = loop.values[1:]

    def fill(self, target: Pointer, rows: Rows, value: Callable[[Value], Value]) -> None:
        """Set rows of a column to `value(row)`, a vector at a time."""
        with self.count(*rows, step=self.width) as row:
            target.store(row.index, value(row.index))

    def fold(
        self, rows: Rows, value: Callable[[Value], Value], combine: Callable[[Value, Value], Value], start: Value
    ) -> Value:
        """Combine `value(row)` over all rows into one vector, a vector at a time."""
        with self.count(*rows, [start], step=self.width) as row:
            row.next = [combine(row.values[0], value(row.index))]
        return row.values[0]

    def sum(self, rows: Rows, value: Callable[[Value], Value]) -> Value:
        """The sum of `value(row)` over all rows, in any order."""
        return self.total(self.fold(rows, value, lambda a, b: a + b, self.zeros))


def columns_way(
    fit: Fit,
    emit: Callable[[RoutineCall], None],
    nanoseconds: Callable[[HloInstruction, Routine], float],
    room: Callable[[HloInstruction, Routine], Room],
    in_place: tuple[int, ...] = (0,),
) -> RoutineWay:
    """The strategy that computes a routine on the columns of a small real matrix."""

    def fits(i: HloInstruction) -> Routine | None:
        few = min(size_of(i)) <= costs.COMMON.small_matrix_rows
        return fit(i) if few and not element_type(i).is_complex else None

    return RoutineWay("columns as vectors", fits, emit, nanoseconds, lambda i, r: room(i, r).bytes, in_place)


def step(call: RoutineCall, write: Callable[..., None], *given: object) -> None:
    """Call a function that all programs share; `write(c, *given)` emits its body (Call.step)."""
    call.step(write.__name__, lambda f, t, *own: write(Columns(f, t), *own), *given)
