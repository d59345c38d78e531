"""Dots and convolutions as matrix products: operand and result elements by row, column and depth.

A convolution's rows are its result positions, its columns the output features, and its depth the
window positions times input features. Feature groups are separate products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from xlanb.codegen.contractions import DotLoops
from xlanb.codegen.convolution import Convolution
from xlanb.codegen.elemental import array_of
from xlanb.codegen.folds import window_position
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import split
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass


class Matrices(Protocol):
    """A `batch` of products of `rows` x `depth` and `depth` x `columns` matrices."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(batch, rows, columns, depth)."""

    def is_along_depth(self, *, is_left: bool) -> bool:
        """Whether consecutive elements of an operand's memory are consecutive in depth."""

    def is_by_column(self) -> bool:
        """Whether consecutive elements of the result's memory belong to consecutive rows."""

    def run(self, *, is_left: bool) -> int:
        """Return the length of runs of positions whose elements are all present or all padding.

        The run is along the depth, or across it (see is_along_depth).
        """

    def operand(self, f: Function, batch: Ix, place: Ix, depth: Ix, *, is_left: bool) -> tuple[Value, list[Ix]]:
        """Return an operand element's index, and an i1 whether it exists.

        A missing element counts as zero.
        """

    def result(self, f: Function, batch: Ix, row: Ix, column: Ix) -> list[Ix]:
        """Return the index of a result element."""


def matrices_of(i: HloInstruction) -> Matrices | None:
    """Return a dot or convolution as matrices, or None if it is not such a product."""
    if i.opcode is Op.DOT:
        return DotMatrices.of(i)
    if i.opcode is not Op.CONVOLUTION or len(i.operands) != 2:
        return None
    c = Convolution.of(i)
    return ConvolutionMatrices(c) if c.batch_groups == 1 else None


def _split(f: Function, index: Ix, sizes: Sequence[int]) -> list[Ix]:
    return split(f, index, sizes) if sizes else []


@dataclass(frozen=True)
class DotMatrices:
    """A dot: batch dimensions, each side's free dimensions, and contracting ones."""

    instruction: HloInstruction
    dims: DotLoops
    batch: tuple[int, ...]
    row: tuple[int, ...]
    column: tuple[int, ...]
    inner: tuple[int, ...]

    @staticmethod
    def of(i: HloInstruction) -> DotMatrices:
        """Return the matrices of a dot instruction."""
        d = DotLoops.of(i)
        a, b = (array_of(o).dimensions for o in i.operands[:2])
        sizes = (
            [a[p] for p in d.lhs_batch],
            [a[p] for p in d.lhs_free],
            [b[p] for p in d.rhs_free],
            [a[p] for p in d.lhs_contracting],
        )
        return DotMatrices(i, d, *(tuple(s) for s in sizes))

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return math.prod(self.batch), math.prod(self.row), math.prod(self.column), math.prod(self.inner)

    def is_along_depth(self, *, is_left: bool) -> bool:
        shape = array_of(self.instruction.operands[0 if is_left else 1])
        contracting = self.dims.lhs_contracting if is_left else self.dims.rhs_contracting
        return bool(shape.minor_to_major) and shape.minor_to_major[0] in contracting

    def is_by_column(self) -> bool:
        shape = array_of(self.instruction)
        if not shape.rank or not self.column:
            return False
        first = len(self.batch)
        return first <= shape.minor_to_major[0] < first + len(self.row)

    def run(self, *, is_left: bool) -> int:
        sizes = self.inner if self.is_along_depth(is_left=is_left) else self.row if is_left else self.column
        return sizes[-1] if sizes else 1

    def operand(self, f: Function, batch: Ix, place: Ix, depth: Ix, *, is_left: bool) -> tuple[Value, list[Ix]]:
        d = self.dims
        groups = (
            (d.lhs_batch, d.lhs_free, d.lhs_contracting) if is_left else (d.rhs_batch, d.rhs_free, d.rhs_contracting)
        )
        sizes = (self.batch, self.row if is_left else self.column, self.inner)
        multi: list[Ix] = [0] * sum(map(len, groups))
        for dims, index, extents in zip(groups, (batch, place, depth), sizes, strict=True):
            for p, v in zip(dims, _split(f, index, extents), strict=True):
                multi[p] = v
        return f.const(I1, True), multi

    def result(self, f: Function, batch: Ix, row: Ix, column: Ix) -> list[Ix]:
        parts = ((batch, self.batch), (row, self.row), (column, self.column))
        return [v for index, sizes in parts for v in _split(f, index, sizes)]


@dataclass(frozen=True)
class ConvolutionMatrices:
    """A convolution with a batch group count of 1."""

    c: Convolution

    @cached_property
    def _outputs(self) -> int:
        """Output features of a group."""
        return self.c.kernel.dimensions[self.c.numbers.kernel_output_feature] // self.c.feature_groups

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        n, shape = self.c.numbers, self.c.result.dimensions
        return shape[n.output_batch], *(shape[d] for d in n.output_spatial)

    @cached_property
    def _inner(self) -> tuple[int, ...]:
        return *(w.size for w in self.c.window), self.c.features

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.c.feature_groups, math.prod(self._rows), self._outputs, math.prod(self._inner)

    def is_along_depth(self, *, is_left: bool) -> bool:
        n = self.c.numbers
        if is_left:
            return self.c.source.minor_to_major[0] == n.input_feature
        return self.c.kernel.minor_to_major[0] != n.kernel_output_feature

    def is_by_column(self) -> bool:
        return self.c.result.minor_to_major[0] != self.c.numbers.output_feature

    def run(self, *, is_left: bool) -> int:
        if self.is_along_depth(is_left=is_left):
            return self.c.features
        return 1 if is_left else self._outputs  # each result position has its own padding

    def operand(self, f: Function, batch: Ix, place: Ix, depth: Ix, *, is_left: bool) -> tuple[Value, list[Ix]]:
        n, c = self.c.numbers, self.c
        *offset, feature = split(f, depth, self._inner)
        if not is_left:
            kernel: list[Ix] = [0] * c.kernel.rank
            kernel[n.kernel_input_feature] = feature
            kernel[n.kernel_output_feature] = f.add(f.mul(batch, self._outputs), place)
            for d, v, w in zip(n.kernel_spatial, offset, c.window, strict=True):
                kernel[d] = f.sub(w.size - 1, v) if w.reversal else v
            return f.const(I1, True), kernel
        image, *output = split(f, place, self._rows)
        plain = [replace(w, reversal=False) for w in c.window]
        sizes = [c.source.dimensions[d] for d in n.input_spatial]
        inside, where = window_position(f, plain, output, offset, sizes)
        source: list[Ix] = [0] * c.source.rank
        source[n.input_batch] = image
        source[n.input_feature] = f.add(f.mul(batch, c.features), feature)
        for d, v in zip(n.input_spatial, where, strict=True):
            source[d] = v
        return inside, source

    def result(self, f: Function, batch: Ix, row: Ix, column: Ix) -> list[Ix]:
        n = self.c.numbers
        image, *output = split(f, row, self._rows)
        multi: list[Ix] = [0] * self.c.result.rank
        multi[n.output_batch] = image
        multi[n.output_feature] = f.add(f.mul(batch, self._outputs), column)
        for d, v in zip(n.output_spatial, output, strict=True):
            multi[d] = v
        return multi
