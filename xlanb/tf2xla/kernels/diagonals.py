"""Diagonals and bands of matrices
(tf2xla/kernels/{matrix_diag_ops,matrix_band_part_op,diag_op}.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar, scalar_of
from xlanb.tf2xla.registry import register


@dataclass(frozen=True)
class _Diagonals:
    """Diagonals `low` to `high` of a matrix, 0 the main one, positive above it.

    Shorter ones are aligned within rows of the longest's length.
    """

    low: int
    high: int
    rows: int
    columns: int
    align: str

    @property
    def numbers(self) -> range:
        """The diagonals in the order of their rows: from the highest down."""
        return range(self.high, self.low - 1, -1)

    @property
    def width(self) -> int:
        """The length of the longest."""
        return min(self.rows + min(self.high, 0), self.columns - max(self.low, 0))

    def length(self, d: int) -> int:
        """Elements of diagonal d."""
        return max(min(self.rows + min(d, 0), self.columns - max(d, 0)), 0)

    def offset(self, d: int) -> int:
        """Return where diagonal d begins within its row, by the alignment of those above and below.

        The main diagonal is left aligned if either of them is.
        """
        above, below = (side == "LEFT" for side in self.align.split("_"))
        is_left = (d >= 0 and above) or (d <= 0 and below)
        return 0 if is_left else self.width - self.length(d)


def _diagonals(ctx: OpContext, numbers: Sequence[int], rows: int, columns: int, default: str) -> _Diagonals:
    low, high = (numbers[0], numbers[-1]) if numbers else (0, 0)
    if low > high or len(numbers) > 2 or (rows and columns and not (-rows < low < columns and -rows < high < columns)):
        ctx.fail(f"diagonals {low} to {high} are outside of a matrix of {rows} x {columns}")
    return _Diagonals(low, high, rows, columns, str(ctx.attr("align", default)))


def _matrix(ctx: OpContext, x: HloInstruction) -> tuple[tuple[int, ...], int, int]:
    dims = x.array_shape.dimensions
    if len(dims) < 2:
        ctx.fail(f"expected a matrix, not {x.shape}")
    return dims[:-2], dims[-2], dims[-1]


@register("MatrixDiagPart")
def _diag_part_v1(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    _, rows, columns = _matrix(ctx, x)
    return _diag_part(ctx, x, _Diagonals(0, 0, rows, columns, "LEFT_LEFT"), scalar(ctx, x, 0))


@register("MatrixDiagPartV2", "MatrixDiagPartV3", constants=(1,))
def _diag_part_v3(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    _, rows, columns = _matrix(ctx, x)
    default = "LEFT_LEFT" if ctx.op.type == "MatrixDiagPartV2" else "RIGHT_LEFT"
    return _diag_part(ctx, x, _diagonals(ctx, ctx.ints(1), rows, columns, default), ctx.input(2))


def _diag_part(ctx: OpContext, x: HloInstruction, d: _Diagonals, padding: HloInstruction) -> HloInstruction:
    """Take each diagonal by a strided slice: in row-major order its stride is columns + 1."""
    batch = x.array_shape.dimensions[:-2]
    zeros = [0] * len(batch)
    flat = ctx.b.reshape(x, [*batch, d.rows * d.columns])
    parts = []
    for k in d.numbers:
        length, start = d.length(k), max(k, 0) + max(-k, 0) * d.columns
        limit = start + (length - 1) * (d.columns + 1) + 1 if length else start
        part = ctx.b.slice(flat, [*zeros, start], [*batch, limit], [*(1 for _ in batch), d.columns + 1])
        before = d.offset(k)
        around = [*((0, 0, 0) for _ in batch), (before, d.width - length - before, 0)]
        part = ctx.b.pad(part, padding, around) if length != d.width else part
        parts.append(ctx.b.reshape(part, [*batch, 1, d.width]))
    if len(parts) == 1:
        return ctx.b.reshape(parts[0], [*batch, d.width])
    return ctx.b.concatenate(parts, len(batch))


def _set_diagonals(ctx: OpContext, base: HloInstruction, diagonals: HloInstruction, d: _Diagonals) -> HloInstruction:
    """Replace diagonals of `base`: broadcast each along rows or columns, select where column - row
    is k.
    """
    batch = base.array_shape.dimensions[:-2]
    n, dims = len(batch), base.array_shape.dimensions
    b = ctx.b
    index = array(PrimitiveType.S32, dims)
    distance = b.subtract(b.iota(index, n + 1), b.iota(index, n))
    rows = b.reshape(diagonals, [*batch, len(d.numbers), d.width])
    zero = scalar(ctx, base, 0)
    for position, k in enumerate(d.numbers):
        before, length = d.offset(k), d.length(k)
        size, axis = (d.rows, n) if k >= 0 else (d.columns, n + 1)
        row = b.slice(rows, [*([0] * n), position, before], [*batch, position + 1, before + length])
        row = b.pad(b.reshape(row, [*batch, length]), zero, [*((0, 0, 0) for _ in batch), (0, size - length, 0)])
        laid = b.broadcast_in_dim(row, dims, [*range(n), axis])
        base = b.select(b.compare(distance, scalar_of(ctx, PrimitiveType.S32, k), "EQ"), laid, base)
    return base


@register("MatrixDiag")
def _matrix_diag(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    if x.array_shape.rank < 1:
        ctx.fail("the diagonal must not be a scalar")
    *batch, size = x.array_shape.dimensions
    base = broadcast_to(ctx.b, scalar(ctx, x, 0), [*batch, size, size])
    return _set_diagonals(ctx, base, x, _Diagonals(0, 0, size, size, "LEFT_LEFT"))


@register("MatrixDiagV2", "MatrixDiagV3", constants=(1, 2, 3), ranks="1+")
def _matrix_diag_v3(ctx: OpContext) -> HloInstruction:
    """num_rows and num_cols of -1 are as small as the diagonals allow."""
    x, numbers = ctx.input(0), ctx.ints(1)
    rows, columns = int(ctx.number(2)), int(ctx.number(3))
    if not numbers:
        ctx.fail("k is empty")
    low, high = numbers[0], numbers[-1]
    batch = x.array_shape.dimensions[: -1 if low == high else -2]
    width = x.array_shape.dimensions[-1]
    least = width - min(high, 0), width + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least)
    elif rows == -1:
        rows = least[0]
    elif columns == -1:
        columns = least[1]
    d = _diagonals(ctx, numbers, rows, columns, "LEFT_LEFT" if ctx.op.type == "MatrixDiagV2" else "RIGHT_LEFT")
    if d.width != width or prod(batch) * len(d.numbers) * width != x.array_shape.element_count:
        ctx.fail(f"diagonals {x.shape} do not match a matrix of {rows} x {columns} with diagonals {low} to {high}")
    return _set_diagonals(ctx, broadcast_to(ctx.b, ctx.b.reshape(ctx.input(4), []), [*batch, rows, columns]), x, d)


@register("MatrixSetDiag")
def _matrix_set_diag(ctx: OpContext) -> HloInstruction:
    return _set_diag(ctx, [0])


@register("MatrixSetDiagV2", "MatrixSetDiagV3", constants=(2,))
def _matrix_set_diag_v3(ctx: OpContext) -> HloInstruction:
    return _set_diag(ctx, ctx.ints(2))


def _set_diag(ctx: OpContext, numbers: list[int]) -> HloInstruction:
    x, diagonals = ctx.input(0), ctx.input(1)
    batch, rows, columns = _matrix(ctx, x)
    d = _diagonals(ctx, numbers, rows, columns, "RIGHT_LEFT" if ctx.op.type == "MatrixSetDiagV3" else "LEFT_LEFT")
    wanted = (*batch, *((len(d.numbers),) if len(d.numbers) > 1 else ()), d.width)
    if diagonals.array_shape.dimensions != wanted:
        ctx.fail(f"diagonals {diagonals.shape} must have dimensions {list(wanted)}")
    return _set_diagonals(ctx, x, diagonals, d)


@register("MatrixBandPart")
def _band_part(ctx: OpContext) -> HloInstruction:
    """Keep elements at most num_lower below and num_upper above the diagonal; if negative, all."""
    x, lower, upper = ctx.inputs
    _matrix(ctx, x)
    b = ctx.b
    rank = x.array_shape.rank
    index = array(lower.array_shape.element_type, x.array_shape.dimensions)
    below = b.subtract(b.iota(index, rank - 2), b.iota(index, rank - 1))
    kept = []
    for bound, distance in ((lower, below), (upper, b.negate(below))):
        all_kept = b.compare(bound, scalar(ctx, bound, 0), "LT")
        near = b.compare(distance, broadcast_to(b, b.reshape(bound, []), index.dimensions), "LE")
        kept.append(b.or_(near, broadcast_to(b, b.reshape(all_kept, []), index.dimensions)))
    return b.select(b.and_(*kept), x, filled(ctx, x, 0))


@register("Diag")
def _diag(ctx: OpContext) -> HloInstruction:
    """A tensor of twice the rank with the elements on its diagonal."""
    x = ctx.input(0)
    dims = x.array_shape.dimensions
    size = prod(dims)
    base = broadcast_to(ctx.b, scalar(ctx, x, 0), [size, size])
    made = _set_diagonals(ctx, base, ctx.b.reshape(x, [size]), _Diagonals(0, 0, size, size, "LEFT_LEFT"))
    return ctx.b.reshape(made, [*dims, *dims])


@register("DiagPart")
def _tensor_diag_part(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    dims = x.array_shape.dimensions
    half = len(dims) // 2
    if not dims or len(dims) % 2 or dims[:half] != dims[half:]:
        ctx.fail(f"expected two equal halves of dimensions, not {x.shape}")
    size = prod(dims[:half])
    part = _diag_part(ctx, ctx.b.reshape(x, [size, size]), _Diagonals(0, 0, size, size, "LEFT_LEFT"), scalar(ctx, x, 0))
    return ctx.b.reshape(part, dims[:half])
