"""Expand Cholesky factorizations into a loop over columns.

    cholesky(f32[n,n] a), lower=true
      =>  for k in 0 .. n-1:
            c = a[:, k] - l l[k, :]^H;   l[:, k] = c / sqrt(c[k]) from row k on, 0 above

XLA works on blocks of columns; this is its step for one block, over the whole matrix. A matrix that
is not positive definite gives NaN throughout.
Source: xla/hlo/transforms/expanders/cholesky_expander.h; Golub and Van Loan, Matrix Computations,
4.2.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo import regions
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.loops.counted_loop import counted_loop
from xlanb.transforms.verdict import REAL


class CholeskyExpander(HloPass):
    """Expands every cholesky of real matrices."""

    name = "cholesky_expander"
    keeps = REAL
    ulps = 4.0

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.CHOLESKY and i.shape.element_type.is_floating and i.array_shape.element_count:
                    c.replace(i, _expanded(i, cache))


def _expanded(i: HloInstruction, cache: regions.Cache) -> HloInstruction:
    b, a = Builder(i), i.operands[0]
    swap = [*range(a.array_shape.rank - 2), a.array_shape.rank - 1, a.array_shape.rank - 2]
    is_lower = bool(i.get("lower"))
    matrix = a if is_lower else b.transpose(a, swap)
    start = b.full(0, matrix.array_shape.with_default_layout())
    n = matrix.array_shape.dimensions[-1]

    def column(inner: Builder, k: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        return [state[0], _with_column(inner, k, state[0], state[1])]

    _, factor = counted_loop(b, n, [matrix, start], column)
    either = regions.binary_region(i.parent.module, cache, O.OR, PrimitiveType.PRED)
    rank = factor.array_shape.rank
    is_bad = b.add(
        O.REDUCE,
        (b.compare(factor, "NE", factor), b.scalar(0, PrimitiveType.PRED)),
        dimensions=(rank - 2, rank - 1),
        to_apply=either,
    )
    batch = tuple(range(rank - 2))
    factor = b.select(b.broadcast(is_bad, batch, factor.array_shape), b.full(float("nan"), factor.array_shape), factor)
    return b.add(O.RESHAPE, (factor if is_lower else b.transpose(factor, swap),), i.shape)


def _with_column(b: Builder, k: HloInstruction, a: HloInstruction, factor: HloInstruction) -> HloInstruction:
    """The factor with its column k computed from the columns before it."""
    s = a.array_shape
    rank, n, outer = s.rank, s.dimensions[-1], s.dimensions[:-2]
    zero = b.scalar(0, PrimitiveType.S32)
    origin = [zero] * (rank - 2)
    narrow = array(s.element_type, (*outer, n, 1))
    known = _taken(b, a, (*origin, zero, k), narrow)
    row = _taken(b, factor, (*origin, k, zero), array(s.element_type, (*outer, 1, n)))
    batch = tuple(range(rank - 2))
    product = b.add(
        O.DOT,
        (factor, row),
        narrow,
        lhs_batch_dims=batch or None,
        lhs_contracting_dims=(rank - 1,),
        rhs_batch_dims=batch or None,
        rhs_contracting_dims=(rank - 1,),
    )
    rest = b.binary(O.SUBTRACT, known, product)
    pivot = _taken(b, rest, (*origin, k, zero), array(s.element_type, (*outer, 1, 1)))
    scale = b.broadcast(b.reshape(b.unary(O.RSQRT, pivot), outer), batch, narrow)
    rows = b.add(O.IOTA, (), narrow.with_type(PrimitiveType.S32), iota_dimension=rank - 2)
    is_below = b.compare(rows, "GE", b.broadcast(k, (), rows.array_shape))
    column = b.select(is_below, b.binary(O.MULTIPLY, rest, scale), b.full(0, narrow))
    return b.add(O.DYNAMIC_UPDATE_SLICE, (factor, column, *origin, zero, k), factor.shape)


def _taken(b: Builder, x: HloInstruction, starts: tuple[HloInstruction, ...], shape: ArrayShape) -> HloInstruction:
    return b.add(O.DYNAMIC_SLICE, (x, *starts), shape, dynamic_slice_sizes=shape.dimensions)
