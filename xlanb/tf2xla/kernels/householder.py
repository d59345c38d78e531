"""QR by Householder reflections in a loop over columns, with LAPACK's signs.

Golub and Van Loan, Matrix Computations, 5.2.
"""

from __future__ import annotations

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.activations import conjugate
from xlanb.tf2xla.kernels.constants import filled, scalar, scalar_of
from xlanb.tf2xla.kernels.loops import repeat


def multiply(ctx: OpContext, x: HloInstruction, y: HloInstruction) -> HloInstruction:
    """Multiply matrices with equal batch dimensions."""
    n = x.array_shape.rank - 2
    return ctx.b.dot_general(
        x, y, lhs_batch_dims=range(n), rhs_batch_dims=range(n), lhs_contracting_dims=[n + 1], rhs_contracting_dims=[n]
    )


def identity(ctx: OpContext, kind: PrimitiveType, batch: tuple[int, ...], size: int) -> HloInstruction:
    """Unit matrices."""
    ctx.check_constant([size, size])
    return broadcast_to(ctx.b, ctx.b.constant(np.eye(size).astype(kind.dtype)), [*batch, size, size])


def qr(ctx: OpContext, x: HloInstruction, *, full: bool) -> tuple[HloInstruction, HloInstruction]:
    """Factor x = q r: q orthogonal [..., m, p], r upper triangular [..., p, n].

    p is m if `full`, else min(m, n).
    """
    *head, m, n = x.array_shape.dimensions
    batch, least = tuple(head), min(m, n)
    kind = x.array_shape.element_type
    # 16-bit floats are factored in f32
    wide = PrimitiveType.F32 if kind.is_floating and kind.bits < 32 else kind
    q, r = repeat(ctx, least, [identity(ctx, wide, batch, m), ctx.b.convert(x, wide)], _reflect, "qr")
    p = m if full else least
    zeros = [0] * len(batch)
    q = ctx.b.slice(q, [*zeros, 0, 0], [*batch, m, p])
    r = ctx.b.slice(r, [*zeros, 0, 0], [*batch, p, n])
    index = array(PrimitiveType.S32, r.array_shape.dimensions)
    upper = ctx.b.compare(ctx.b.iota(index, len(batch)), ctx.b.iota(index, len(batch) + 1), "LE")
    return ctx.b.convert(q, kind), ctx.b.convert(ctx.b.select(upper, r, filled(ctx, r, 0)), kind)


def _reflect(ctx: OpContext, k: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
    """Apply the reflection h = 1 - tau v v* that zeros column k below row k: r := h r, q := q
    h*.
    """
    q, r = state
    b = ctx.b
    *batch, m, _ = r.array_shape.dimensions
    origin = [scalar_of(ctx, PrimitiveType.S32, 0)] * len(batch)
    column = b.dynamic_slice(r, [*origin, scalar_of(ctx, PrimitiveType.S32, 0), k], [*batch, m, 1])
    alpha = b.dynamic_slice(r, [*origin, k, k], [*batch, 1, 1])
    rows = b.iota(array(PrimitiveType.S32, column.array_shape.dimensions), len(batch))
    here = broadcast_to(b, k, column.array_shape.dimensions)
    below = b.select(b.compare(rows, here, "GT"), column, filled(ctx, column, 0))
    tail = _squares(ctx, below)
    tau, divisor = _coefficients(ctx, alpha, tail)
    spread = broadcast_to(b, divisor, column.array_shape.dimensions)
    v = b.select(b.compare(rows, here, "EQ"), filled(ctx, column, 1), b.divide(below, spread))
    adjoint = b.transpose(conjugate(ctx, v), [*range(len(batch)), len(batch) + 1, len(batch)])
    r_change = multiply(ctx, b.multiply(v, broadcast_to(b, tau, v.array_shape.dimensions)), multiply(ctx, adjoint, r))
    back = conjugate(ctx, tau)
    q_change = multiply(
        ctx, b.multiply(multiply(ctx, q, v), broadcast_to(b, back, (*q.array_shape.dimensions[:-1], 1))), adjoint
    )
    return [b.subtract(q, q_change), b.subtract(r, r_change)]


def _squares(ctx: OpContext, column: HloInstruction) -> HloInstruction:
    """The sum of |x|^2 over the last but one dimension, which stays with size 1; real."""
    b = ctx.b
    *batch, _, width = column.array_shape.dimensions
    size = b.abs(column)
    total = b.reduce(b.multiply(size, size), scalar(ctx, size, 0), [len(batch)], HloOpcode.ADD)
    return b.reshape(total, [*batch, 1, width])


def _coefficients(ctx: OpContext, alpha: HloInstruction, tail: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """Return tau, and alpha - beta, beta the column's new diagonal element.

    If the tail is zero (and alpha real) there is no reflection: tau is 0.
    """
    b = ctx.b
    kind = alpha.array_shape.element_type
    real = b.real(alpha) if kind.is_complex else alpha
    size = b.abs(alpha)
    norm = b.sqrt(b.add(b.multiply(size, size), tail))
    zero = filled(ctx, real, 0)
    beta = b.select(b.compare(real, zero, "GE"), b.negate(norm), norm)
    done = b.compare(tail, zero, "EQ")
    if kind.is_complex:
        done = b.and_(done, b.compare(b.imag(alpha), zero, "EQ"))
        beta_wide = b.complex(beta, zero)
    else:
        beta_wide = beta
    one = filled(ctx, alpha, 1)
    tau = conjugate(ctx, b.divide(b.subtract(beta_wide, alpha), b.select(done, one, beta_wide)))
    divisor = b.select(done, one, b.subtract(alpha, beta_wide))
    return b.select(done, filled(ctx, alpha, 0), tau), divisor
