"""Shape-independent routines that reduce arrays in memory (see shared_reductions).

They reduce along rows or across them; threads share the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.codegen import arithmetic
from xlanb.codegen.elements import array
from xlanb.codegen.folds import AnyOrder
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.nest import ENDLESS, Folding, Nest, Vectors, vectors
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, shared, word
from xlanb.codegen.types import PTR
from xlanb.codegen.values import Number, Value
from xlanb.cpu.emitters.matmul.grid import PART, call_part
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_UNROLL = 4
"""Vectors of partial results per row."""
_TOGETHER = 4
"""Rows that are added to a row of results at once.

Each row is a stream for the prefetcher, and streams a multiple of a page apart conflict in the
cache.
"""
OF_ONE = frozenset({Op.ABS, Op.NEGATE, Op.EXPONENTIAL})
OF_TWO = frozenset({Op.ADD, Op.SUBTRACT, Op.MULTIPLY})
"""What a routine applies to each element before it reduces: squares, products, magnitudes, exp."""


@dataclass(frozen=True)
class Fold:
    """A reduction operation on elements of a type, in vectors of `width`.

    `of` is an operation applied to one or two elements first; None for the elements themselves.
    """

    op: Op
    of: Op | None
    type: PrimitiveType
    width: int

    @property
    def text(self) -> str:
        """The operation as part of a routine's name."""
        return f"{self.op}.{self.of}.{self.type}.{self.width}".lower()

    def value(self, f: Function, elements: Sequence[Value]) -> Value:
        """The value to reduce, from elements or vectors of the arrays."""
        if self.of is None:
            return elements[0]
        if self.of in OF_ONE:
            return arithmetic.unary(f, self.of, self.type, elements[0])
        return arithmetic.binary(f, self.of, self.type, elements[0], elements[-1])


def _write_rows(
    f: Function, fold: Fold, a: Value, b: Value | None, rows: Ix, length: Ix, initial: Value, c: Value
) -> None:
    """c[r] = initial op a[r, 0] op ... op a[r, length - 1]; `fold.of` is applied first.

    With two arrays, it is applied to the elements of a and b.
    """
    combiner = AnyOrder(f, fold.op, fold.type)
    arrays = [array(fold.type, v) for v in (a, b) if v is not None]
    nest = Nest((ENDLESS,), 1, Vectors(fold.width, _UNROLL))
    with f.loop(rows) as row:

        def element(at: list[Ix]) -> list[Value]:
            place = f.add(f.mul(row, length), at[0])
            return [fold.value(f, [v[place] for v in arrays])]

        total = Folding(f, nest, combiner, element, cuts=(0, length)).result()
        array(fold.type, c)[row] = combiner.step([initial], total)[0]


def _write_columns(
    f: Function, fold: Fold, a: Value, rows: Ix, stride: Ix, columns: Ix, initial: Value, c: Value
) -> None:
    """c[n] = initial op a[0, n] op ... op a[rows - 1, n], rows `stride` elements apart.

    Stores the initial value, then adds several rows at a time, then the remaining ones.
    """
    result, combiner = array(fold.type, c), AnyOrder(f, fold.op, fold.type)

    def fill(column: Ix) -> None:
        result[column] = initial

    vectors(f, 0, columns, fold.width, fill)
    for count, together in ((f.div(rows, _TOGETHER), _TOGETHER), (f.rem(rows, _TOGETHER), 1)):
        with f.carried(count, [a], guarded=True) as loop:
            source = array(fold.type, loop.values[0])
            taken = [source.by(f.mul(stride, k)) for k in range(together)]

            def add(column: Ix, taken: Sequence[Pointer] = taken) -> None:
                made = [[row[column]] for row in taken]
                while len(made) > 1:  # in pairs, to shorten the dependency chain
                    made = [combiner.step(x, y) for x, y in zip(made[::2], made[1::2], strict=True)]
                (result[column],) = combiner.step([result[column]], made[0])

            vectors(f, 0, columns, fold.width, add)
            loop.next = [source.address(f.mul(stride, together))]
        a = loop.values[0]


def _write_scaled(f: Function, fold: Fold, c: Value, count: Ix, scale: Value) -> None:
    """c[n] = c[n] op scale."""
    result, combiner = array(fold.type, c), AnyOrder(f, fold.op, fold.type)

    def step(at: Ix) -> None:
        (result[at],) = combiner.step([result[at]], [scale])

    vectors(f, 0, count, fold.width, step)


reduce_rows = shared("rows")(_write_rows)
reduce_columns = shared("columns")(_write_columns)
scale = shared("scaled")(_write_scaled)


@dataclass(frozen=True, slots=True)
class RowsPart:
    """The routine that reduces rows low..high of one or two `arrays` to elements of the result.

    Its table: elements per row, the initial value.
    """

    fold: Fold
    arrays: int

    def call(
        self, f: Function, length: int, initial: Number, places: Sequence[Value], rows: int, nanoseconds: float
    ) -> None:
        """Reduce `rows` rows of the arrays at `places`, the last of which is the result.

        A row takes about `nanoseconds`; threads share the rows if that pays.
        """
        name = routine(f.module, self, f"rows.part.{self.arrays}.{self.fold.text}", self._emit, PART)
        call_part(f, name, [length, _word(self.fold.type, initial)], places, rows, nanoseconds)

    def _emit(self, f: Function) -> None:
        p, places, low, high = _arguments(f, self.arrays + 1)
        length = word(p, 0)
        *arrays, result = (array(self.fold.type, place) for place in places)
        moved = [a.address(low * length) for a in arrays]
        initial, b = _element(self.fold.type, p, 1), moved[1] if self.arrays > 1 else None
        _write_rows(f, self.fold, moved[0], b, high - low, length, initial, result.address(low))


@dataclass(frozen=True, slots=True)
class BandsPart:
    """The routine that reduces bands low..high of rows to a row of results each.

    Its table: the total rows, bands, the row stride, columns, the stride between rows of results
    (all in elements), the initial value.
    """

    fold: Fold

    def call(
        self,
        f: Function,
        words: tuple[int, int, int, int, int],
        initial: Number,
        places: tuple[Value, Value],
        nanoseconds: float,
    ) -> None:
        """Reduce the rows at the first place to one row of results per band at the second.

        A band takes about `nanoseconds`; threads share the bands if that pays.
        """
        name = routine(f.module, self, f"columns.part.{self.fold.text}", self._emit, PART)
        call_part(f, name, [*words, _word(self.fold.type, initial)], places, words[1], nanoseconds)

    def _emit(self, f: Function) -> None:
        p, places, low, high = _arguments(f, 2)
        source, result = (array(self.fold.type, place) for place in places)
        rows, bands, stride, columns, area = (word(p, k) for k in range(5))
        initial = _element(self.fold.type, p, 5)
        with f.loop(high, low) as band:
            at = f.value(band)
            first, last = (at * rows).udiv(bands), ((at + 1) * rows).udiv(bands)
            begin, goal = source.address(first * stride), result.address(at * area)
            _write_columns(f, self.fold, begin, last - first, stride, columns, initial, goal)


def _arguments(f: Function, count: int) -> tuple[Value, list[Value], Value, Value]:
    """The arguments of a shared routine: its table, its places, and the range low, high."""
    context, low, high, _ = map(f.argument, PART)
    p, *places = (Pointer(context, PTR)[k] for k in range(count + 1))
    return p, places, low, high


def _element(t: PrimitiveType, p: Value, at: int) -> Value:
    """Word `at` of a table as an element."""
    return array(t, displaced(p, 8 * at))[0]


def _word(t: PrimitiveType, number: Number) -> int:
    """A word with the bits of an element."""
    return int.from_bytes(np.array(number, t.dtype).tobytes(), "little")
