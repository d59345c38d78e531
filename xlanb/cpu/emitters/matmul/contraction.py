"""A contraction: `c[batch, row, column] = sum over depth of a[batch, row, depth] * b[batch, column, depth]`, with axes as strides.

A dot's dimensions, in any order and any layout, and a convolution over a padded input are both of this kind: the window of a convolution is two axes of depth
along which the input moves as it does along its rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod

from xlanb.shape import PrimitiveType


@dataclass(frozen=True, slots=True)
class ContractionAxis:
    """One dimension: its size, and the elements from one index to the next in a, b and the result; 0 where an array does not have it."""

    size: int
    a: int = 0
    b: int = 0
    c: int = 0

    def follows(self, outer: ContractionAxis) -> bool:
        """Whether a step of `outer` is as far as all of this axis, in every array: the two are then one axis."""
        return all(o == self.size * i for o, i in ((outer.a, self.a), (outer.b, self.b), (outer.c, self.c)))

    def swapped(self) -> ContractionAxis:
        """The axis with a and b exchanged."""
        return ContractionAxis(self.size, self.b, self.a, self.c)


@dataclass(frozen=True, slots=True)
class Contraction:
    """Axes by kind, outermost first. `a_type` and `b_type` are the operands' types in memory, `type` is what is summed in, `c_type` what is stored."""

    batch: tuple[ContractionAxis, ...]
    rows: tuple[ContractionAxis, ...]
    columns: tuple[ContractionAxis, ...]
    depth: tuple[ContractionAxis, ...]
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType
    is_swapped: bool = False
    """Whether a and b (and rows and columns) have changed places."""
    is_complex: bool = False
    """Whether elements are pairs of `type`: strides count their parts, and so do the last columns, or depth where it is the axis of the vectors."""

    def normalized(self) -> Contraction:
        """Without axes of one element, neighbours joined, and the result's fastest axis, where it is a row or a column, the last of the columns."""
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
        """The same with the operands exchanged, rows for columns."""
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
        """Rows of the result, of one batch."""
        return count(self.rows)

    @property
    def column_count(self) -> int:
        """Columns of the result, of one batch."""
        return count(self.columns)

    @property
    def depth_count(self) -> int:
        """Products in a sum."""
        return count(self.depth)

    @property
    def products(self) -> int:
        """Products in all sums together."""
        return self.batch_count * self.row_count * self.column_count * self.depth_count

    @property
    def batch_count(self) -> int:
        """How many products of matrices there are."""
        return count(self.batch)


def count(axes: Iterable[ContractionAxis]) -> int:
    """Elements over axes."""
    return prod(x.size for x in axes)


def merged(
    axes: Iterable[ContractionAxis], key: Callable[[ContractionAxis], tuple[int, ...]]
) -> tuple[ContractionAxis, ...]:
    """Axes of more than one element in falling order of their strides, those that follow one another in memory as one."""
    out: list[ContractionAxis] = []
    for x in sorted((x for x in axes if x.size != 1), key=key, reverse=True):
        if out and x.follows(out[-1]):
            out[-1] = ContractionAxis(out[-1].size * x.size, x.a, x.b, x.c)
        else:
            out.append(x)
    return tuple(out)
