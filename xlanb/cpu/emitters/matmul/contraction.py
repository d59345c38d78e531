"""A contraction, with axes as strides.

    c[batch, row, column] = sum over depth of a[batch, row, depth] * b[batch, column, depth]

Both dots, with any dimension order and layout, and convolutions over padded inputs have this form.
A convolution's window gives two depth axes that share the input's row and column strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod

from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType


@dataclass(frozen=True, slots=True)
class ContractionAxis:
    """One dimension: its size, and its element strides in a, b and the result (0: not present)."""

    size: int
    a: int = 0
    b: int = 0
    c: int = 0

    def follows(self, outer: ContractionAxis) -> bool:
        """Whether `outer` and this axis are contiguous in every array and can form one axis."""
        return all(o == self.size * i for o, i in ((outer.a, self.a), (outer.b, self.b), (outer.c, self.c)))

    def swapped(self) -> ContractionAxis:
        """The axis with a and b exchanged."""
        return ContractionAxis(self.size, self.b, self.a, self.c)


@dataclass(frozen=True, slots=True)
class Contraction:
    """Axes by kind, outermost first.

    `a_type` and `b_type` are the operands' types in memory, `type` is the accumulation type,
    `c_type` the type that is stored.
    """

    batch: tuple[ContractionAxis, ...]
    rows: tuple[ContractionAxis, ...]
    columns: tuple[ContractionAxis, ...]
    depth: tuple[ContractionAxis, ...]
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType
    is_swapped: bool = False
    """Whether a and b (and rows and columns) are swapped."""
    is_complex: bool = False
    """Whether elements are pairs of `type`; strides then count parts.

    The sizes of the last columns (or of depth, if vectors run along it) count parts too.
    """

    def normalized(self) -> Contraction:
        """Drop axes of size one, join neighbours; make the result's fastest axis the last column.

        Swaps the operands if the fastest axis is a row.
        """
        made = replace(
            self,
            batch=merged(self.batch, lambda x: (x.c, x.a, x.b)),
            rows=merged(self.rows, lambda x: (x.c, x.a, x.b)),
            columns=merged(self.columns, lambda x: (x.c, x.a, x.b)),
            depth=merged(self.depth, lambda x: (x.a + x.b, x.a, x.b)),
        )
        if made.rows and made.rows[-1].c == 1 and not (made.columns and made.columns[-1].c == 1):
            return made.swapped()
        return made

    def swapped(self) -> Contraction:
        """The contraction with operands, rows and columns swapped."""
        batch, rows, columns, depth = (
            tuple(x.swapped() for x in axes) for axes in (self.batch, self.columns, self.rows, self.depth)
        )
        return replace(
            self,
            batch=batch,
            rows=rows,
            columns=columns,
            depth=depth,
            a_type=self.b_type,
            b_type=self.a_type,
            is_swapped=not self.is_swapped,
        )

    @property
    def row_count(self) -> int:
        """Rows of the result, per batch element."""
        return count(self.rows)

    @property
    def column_count(self) -> int:
        """Columns of the result, per batch element."""
        return count(self.columns)

    @property
    def depth_count(self) -> int:
        """Products per sum."""
        return count(self.depth)

    @property
    def products(self) -> int:
        """Products in all sums."""
        return self.batch_count * self.row_count * self.column_count * self.depth_count

    @property
    def batch_count(self) -> int:
        """The number of matrix products."""
        return count(self.batch)


def count(axes: Iterable[ContractionAxis]) -> int:
    """The product of the axes' sizes."""
    return prod(x.size for x in axes)


def merged(
    axes: Iterable[ContractionAxis], key: Callable[[ContractionAxis], tuple[int, ...]]
) -> tuple[ContractionAxis, ...]:
    """Axes of more than one element by descending stride; contiguous ones are joined."""
    out: list[ContractionAxis] = []
    for x in sorted((x for x in axes if x.size != 1), key=key, reverse=True):
        if out and x.follows(out[-1]):
            out[-1] = ContractionAxis(out[-1].size * x.size, x.a, x.b, x.c)
        else:
            out.append(x)
    return tuple(out)
