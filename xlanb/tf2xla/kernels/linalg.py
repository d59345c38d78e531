"""Factorizations and solutions of linear systems.

Source: tf2xla/kernels/{cholesky_op,matrix_triangular_solve_op,matrix_inverse_op,qr_op}.cc.
"""

from __future__ import annotations

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_dimensions, broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.activations import conjugate
from xlanb.tf2xla.kernels.constants import filled
from xlanb.tf2xla.kernels.householder import multiply, qr
from xlanb.tf2xla.registry import register


def square(ctx: OpContext, index: int = 0) -> HloInstruction:
    """An input that must hold square matrices."""
    x = ctx.input(index)
    dims = x.array_shape.dimensions
    if len(dims) < 2 or dims[-1] != dims[-2]:
        ctx.fail(f"expected square matrices, not {x.shape}")
    return x


def triangle(ctx: OpContext, x: HloInstruction, *, lower: bool) -> HloInstruction:
    """Matrices with zeros above (below) the diagonal."""
    rank = x.array_shape.rank
    index = array(PrimitiveType.S32, x.array_shape.dimensions)
    rows, columns = (ctx.b.iota(index, d) for d in (rank - 2, rank - 1))
    return ctx.b.select(ctx.b.compare(rows, columns, "GE" if lower else "LE"), x, filled(ctx, x, 0))


def adjoint(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """The conjugate transpose of matrices."""
    rank = x.array_shape.rank
    return ctx.b.transpose(conjugate(ctx, x), [*range(rank - 2), rank - 1, rank - 2])


@register("Cholesky")
def _cholesky(ctx: OpContext) -> HloInstruction:
    factor = ctx.b.instruction(HloOpcode.CHOLESKY, (square(ctx),), lower=True)
    return triangle(ctx, factor, lower=True)


def solve_triangular(
    ctx: OpContext, a: HloInstruction, rhs: HloInstruction, *, lower: bool, transposed: str = "NO_TRANSPOSE"
) -> HloInstruction:
    """x with a x = rhs; transposed: ADJOINT for the conjugate transpose of a."""
    return ctx.b.instruction(
        HloOpcode.TRIANGULAR_SOLVE, (a, rhs), left_side=True, lower=lower, unit_diagonal=False, transpose_a=transposed
    )


@register("MatrixTriangularSolve")
def _triangular_solve(ctx: OpContext) -> HloInstruction:
    a, rhs = square(ctx), ctx.input(1)
    batch = broadcast_dimensions(a.array_shape.dimensions[:-2], rhs.array_shape.dimensions[:-2])
    a, rhs = (broadcast_to(ctx.b, x, [*batch, *x.array_shape.dimensions[-2:]]) for x in (a, rhs))
    if a.array_shape.dimensions[-1] != rhs.array_shape.dimensions[-2]:
        ctx.fail(f"matrices {a.shape} and right-hand sides {rhs.shape} do not match")
    kind = "ADJOINT" if ctx.attr("adjoint", False) else "NO_TRANSPOSE"
    return solve_triangular(ctx, a, rhs, lower=bool(ctx.attr("lower", True)), transposed=kind)


@register("Qr")
def _qr(ctx: OpContext) -> list[HloInstruction]:
    x = ctx.input(0)
    if x.array_shape.rank < 2:
        ctx.fail(f"expected matrices, not {x.shape}")
    return list(qr(ctx, x, full=bool(ctx.attr("full_matrices", False))))


def _solve(ctx: OpContext, a: HloInstruction, rhs: HloInstruction) -> HloInstruction:
    """x with a x = rhs, by a = q r: r x = q* rhs."""
    q, r = qr(ctx, a, full=False)
    return solve_triangular(ctx, r, multiply(ctx, adjoint(ctx, q), rhs), lower=False)


@register("MatrixSolve")
def _matrix_solve(ctx: OpContext) -> HloInstruction:
    a, rhs = square(ctx), ctx.input(1)
    if rhs.array_shape.dimensions[:-1] != a.array_shape.dimensions[:-1]:
        ctx.fail(f"matrices {a.shape} and right-hand sides {rhs.shape} do not match")
    return _solve(ctx, adjoint(ctx, a) if ctx.attr("adjoint", False) else a, rhs)


@register("MatrixInverse")
def _matrix_inverse(ctx: OpContext) -> HloInstruction:
    a = square(ctx)
    q, r = qr(ctx, adjoint(ctx, a) if ctx.attr("adjoint", False) else a, full=False)
    return solve_triangular(ctx, r, adjoint(ctx, q), lower=False)
