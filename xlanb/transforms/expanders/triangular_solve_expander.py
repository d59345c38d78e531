"""Expand triangular solves into a loop over rows.

    triangular-solve(f32[n,n] a, f32[n,m] y), left_side=true, lower=true
      =>  for k in 0 .. n-1:  x[k, :] = (y[k, :] - a[k, :] x) / a[k, k]

Rows of x that are not known yet are 0. Upper triangles go from the last row to the first. x a = y
is solved as a^T x^T = y^T. XLA inverts blocks of the diagonal first; this is its step for one
block.
Source: xla/service/triangular_solve_expander.h; Golub and Van Loan, Matrix Computations, 3.1.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.loops.counted_loop import counted_loop
from xlanb.transforms.verdict import REAL


class TriangularSolveExpander(HloPass):
    """Expands every triangular-solve of real matrices."""

    name = "triangular_solve_expander"
    keeps = REAL
    ulps = 4.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.TRIANGULAR_SOLVE and i.shape.element_type.is_floating and i.array_shape.element_count:
                    c.replace(i, _expanded(i))


def _expanded(i: HloInstruction) -> HloInstruction:
    b, (a, y) = Builder(i), i.operands
    rank = y.array_shape.rank
    swap = [*range(rank - 2), rank - 1, rank - 2]
    is_left, is_lower = bool(i.get("left_side")), bool(i.get("lower"))
    is_transposed = (i.get("transpose_a") in ("TRANSPOSE", "ADJOINT")) != (not is_left)
    matrix = b.transpose(_triangle(b, i, a, is_lower), swap) if is_transposed else _triangle(b, i, a, is_lower)
    right = y if is_left else b.transpose(y, swap)
    goes_down = is_lower != is_transposed
    n = a.array_shape.dimensions[-1]

    def row(inner: Builder, k: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        at = k if goes_down else inner.binary(O.SUBTRACT, inner.scalar(n - 1, PrimitiveType.S32), k)
        return [state[0], state[1], _with_row(inner, at, state[0], state[1], state[2])]

    start = b.full(0, right.array_shape.with_default_layout())
    solved = counted_loop(b, n, [matrix, right, start], row)[2]
    return b.add(O.RESHAPE, (solved if is_left else b.transpose(solved, swap),), i.shape)


def _triangle(b: Builder, i: HloInstruction, a: HloInstruction, is_lower: bool) -> HloInstruction:
    """The triangle that is read, with zeros in the other; ones on a unit diagonal."""
    s = a.array_shape
    kind = s.with_type(PrimitiveType.S32)
    rows, columns = (b.add(O.IOTA, (), kind, iota_dimension=s.rank - k) for k in (2, 1))
    kept = b.select(b.compare(rows, "GE" if is_lower else "LE", columns), a, b.full(0, s))
    return b.select(b.compare(rows, "EQ", columns), b.full(1, s), kept) if i.get("unit_diagonal") else kept


def _with_row(b: Builder, k: HloInstruction, a: HloInstruction, y: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x with its row k computed from the rows that are known."""
    s = y.array_shape
    rank, m, n, outer = s.rank, s.dimensions[-1], a.array_shape.dimensions[-1], s.dimensions[:-2]
    zero = b.scalar(0, PrimitiveType.S32)
    origin, batch = [zero] * (rank - 2), tuple(range(rank - 2))
    wide = array(s.element_type, (*outer, 1, m))

    def taken(source: HloInstruction, starts: tuple[HloInstruction, ...], sizes: tuple[int, ...]) -> HloInstruction:
        return b.add(
            O.DYNAMIC_SLICE,
            (source, *origin, *starts),
            array(s.element_type, (*outer, *sizes)),
            dynamic_slice_sizes=(*outer, *sizes),
        )

    product = b.add(
        O.DOT,
        (taken(a, (k, zero), (1, n)), x),
        wide,
        lhs_batch_dims=batch or None,
        lhs_contracting_dims=(rank - 1,),
        rhs_batch_dims=batch or None,
        rhs_contracting_dims=(rank - 2,),
    )
    rest = b.binary(O.SUBTRACT, taken(y, (k, zero), (1, m)), product)
    pivot = b.broadcast(b.reshape(taken(a, (k, k), (1, 1)), outer), batch, wide)
    return b.add(O.DYNAMIC_UPDATE_SLICE, (x, b.binary(O.DIVIDE, rest, pivot), *origin, k, zero), x.shape)
