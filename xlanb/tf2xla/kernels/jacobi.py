"""Singular values and eigenvalues by one-sided Jacobi rotations of disjoint column pairs in
parallel.

Hestenes' method (1958) in the tournament order of Brent and Luk (1985): the columns are in two
rows, and each step rotates every column of the upper row with the one below until they are
orthogonal. Then all but the first advance by one position. After 2h - 1 steps all pairs have met
and every column is back in its place.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.activations import conjugate
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.kernels.householder import identity, multiply, qr
from xlanb.tf2xla.kernels.linalg import adjoint, square, triangle
from xlanb.tf2xla.kernels.loops import repeat
from xlanb.tf2xla.registry import register


def _columns(ctx: OpContext, x: HloInstruction, start: int, limit: int) -> HloInstruction:
    dims = x.array_shape.dimensions
    return ctx.b.slice(x, [0] * (len(dims) - 1) + [start], [*dims[:-1], limit])


def _orthogonalized(ctx: OpContext, x: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """(x v, v) with v unitary and the columns of x v orthogonal, x [..., m, n]."""
    *head, m, n = x.array_shape.dimensions
    batch, even = tuple(head), n + n % 2
    if n < 2:
        return x, identity(ctx, x.array_shape.element_type, batch, n)
    x = ctx.b.pad(x, scalar(ctx, x, 0), [*((0, 0, 0) for _ in range(len(batch) + 1)), (0, even - n, 0)])
    v = identity(ctx, x.array_shape.element_type, batch, even)
    # x above v: what rotates the columns of one rotates those of the other
    both = ctx.b.concatenate([x, v], len(batch))
    half = even // 2
    sweeps = 6 + ceil(log2(even)) + (4 if x.array_shape.element_type.bits >= 64 else 0)
    state = [_columns(ctx, both, 0, half), _columns(ctx, both, half, even)]
    state = repeat(ctx, sweeps * (even - 1), state, lambda c, _, s: _step(c, s, m), "jacobi")
    both = ctx.b.concatenate(state, len(batch) + 1)
    zeros = [0] * len(batch)
    return ctx.b.slice(both, [*zeros, 0, 0], [*batch, m, n]), ctx.b.slice(both, [*zeros, m, 0], [*batch, m + n, n])


def _step(ctx: OpContext, state: list[HloInstruction], m: int) -> list[HloInstruction]:
    """Rotate each pair, then move everyone but the first of the upper row on by one seat."""
    upper, lower = _rotated(ctx, state[0], state[1], m)
    half = upper.array_shape.dimensions[-1]
    if half == 1:
        return [upper, lower]
    last = upper.array_shape.rank - 1
    above = [
        _columns(ctx, upper, 0, 1),
        _columns(ctx, lower, 0, 1),
        *([_columns(ctx, upper, 1, half - 1)] if half > 2 else []),
    ]
    below = [_columns(ctx, lower, 1, half), _columns(ctx, upper, half - 1, half)]
    return [ctx.b.concatenate(above, last), ctx.b.concatenate(below, last)]


def _inner(ctx: OpContext, x: HloInstruction, y: HloInstruction) -> HloInstruction:
    """Inner products of columns, a row of them."""
    *batch, _, width = x.array_shape.dimensions
    total = ctx.b.reduce(ctx.b.multiply(conjugate(ctx, x), y), scalar(ctx, x, 0), [len(batch)], HloOpcode.ADD)
    return ctx.b.reshape(total, [*batch, 1, width])


def _real(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.real(x) if x.array_shape.element_type.is_complex else x


def _like(ctx: OpContext, real: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    return ctx.b.convert(real, kind)


def _rotated(
    ctx: OpContext, upper: HloInstruction, lower: HloInstruction, m: int
) -> tuple[HloInstruction, HloInstruction]:
    """Each pair (p, q) rotated, q's phase first, so that the first m rows become orthogonal."""
    b = ctx.b
    kind, dims = upper.array_shape.element_type, upper.array_shape.dimensions
    rest = len(dims) - 2
    p, q = (b.slice(x, [0] * len(dims), [*dims[:rest], m, dims[-1]]) for x in (upper, lower))
    a, c, cross = _real(ctx, _inner(ctx, p, p)), _real(ctx, _inner(ctx, q, q)), _inner(ctx, p, q)
    size = b.abs(cross)
    one = filled(ctx, size, 1)
    epsilon = scalar(ctx, size, float(np.finfo(size.array_shape.dtype).eps))
    small = b.compare(size, b.multiply(b.multiply(b.sqrt(a), b.sqrt(c)), epsilon), "LE")
    safe = b.select(small, one, size)
    zeta = b.divide(b.subtract(c, a), b.multiply(safe, scalar(ctx, safe, 2)))
    away = b.select(b.compare(zeta, filled(ctx, zeta, 0), "GE"), one, b.negate(one))
    tangent = b.divide(away, b.add(b.abs(zeta), b.sqrt(b.add(b.multiply(zeta, zeta), one))))
    tangent = b.select(small, filled(ctx, tangent, 0), tangent)
    cosine = b.rsqrt(b.add(b.multiply(tangent, tangent), one))
    sine = b.multiply(cosine, tangent)
    if kind.is_complex:
        phase = b.select(small, filled(ctx, cross, 1), b.divide(conjugate(ctx, cross), _like(ctx, safe, kind)))
    else:
        phase = b.select(small, one, b.divide(cross, safe))
    cs, sn, ph = (broadcast_to(b, _like(ctx, x, kind), dims) for x in (cosine, sine, phase))
    turned = b.multiply(lower, ph)
    return (
        b.subtract(b.multiply(cs, upper), b.multiply(sn, turned)),
        b.add(b.multiply(sn, upper), b.multiply(cs, turned)),
    )


def _sorted(
    ctx: OpContext, keys: HloInstruction, direction: str, matrices: list[HloInstruction]
) -> list[HloInstruction]:
    """Keys [..., n] in order, and the columns of matrices in the same order."""
    dims = keys.array_shape.dimensions
    last = len(dims) - 1
    both = ctx.b.sort([keys, ctx.b.iota(array(PrimitiveType.S32, dims), last)], last, direction, stable=True)
    order = ctx.b.get_tuple_element(both, 1)
    return [ctx.b.get_tuple_element(both, 0), *(gather_slices(ctx, x, order, last + 1, last) for x in matrices)]


def svd(ctx: OpContext, x: HloInstruction, *, full: bool) -> tuple[HloInstruction, HloInstruction, HloInstruction]:
    """(s, u, v) with x = u diag(s) v*, s downwards; u and v are square if `full`."""
    *head, m, n = x.array_shape.dimensions
    if m < n:
        s, v, u = svd(ctx, adjoint(ctx, x), full=full)
        return s, u, v
    batch = tuple(head)
    rotated, v = _orthogonalized(ctx, x)
    norms = ctx.b.sqrt(_real(ctx, ctx.b.reshape(_inner(ctx, rotated, rotated), [*batch, n])))
    s, rotated, v = _sorted(ctx, norms, "GT", [rotated, v])
    # q of its qr is u but for phases, and gives columns where s is 0, or beyond n, too
    q, r = qr(ctx, rotated, full=full)
    diagonal = ctx.b.reduce(
        ctx.b.multiply(
            ctx.b.slice(r, [0] * (len(batch) + 2), [*batch, n, n]), identity(ctx, r.array_shape.element_type, batch, n)
        ),
        scalar(ctx, r, 0),
        [len(batch)],
        HloOpcode.ADD,
    )
    size = ctx.b.abs(diagonal)
    nothing = ctx.b.compare(size, filled(ctx, size, 0), "EQ")
    divisor = ctx.b.convert(ctx.b.select(nothing, filled(ctx, size, 1), size), diagonal.array_shape.element_type)
    phase = ctx.b.select(nothing, filled(ctx, diagonal, 1), ctx.b.divide(diagonal, divisor))
    width = q.array_shape.dimensions[-1]
    if width > n:
        phase = ctx.b.pad(phase, scalar(ctx, phase, 1), [*((0, 0, 0) for _ in batch), (0, width - n, 0)])
    u = ctx.b.multiply(q, ctx.b.broadcast_in_dim(phase, q.array_shape.dimensions, [*range(len(batch)), len(batch) + 1]))
    return s, u, v


def _wide(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    kind = x.array_shape.element_type
    if not kind.is_floating and not kind.is_complex:
        ctx.fail(f"cannot decompose {x.shape}: expected floating-point or complex elements")
    return ctx.b.convert(x, PrimitiveType.F32) if kind.is_floating and kind.bits < 32 else x


@register("Svd")
def _svd(ctx: OpContext) -> list[HloInstruction]:
    x = ctx.input(0)
    if x.array_shape.rank < 2:
        ctx.fail(f"expected matrices, not {x.shape}")
    kind = x.array_shape.element_type
    s, u, v = svd(ctx, _wide(ctx, x), full=bool(ctx.attr("full_matrices", False)))
    nothing = ctx.b.constant(np.zeros([0], kind.dtype))
    outs = [s, u, v] if ctx.attr("compute_uv", True) else [s, nothing, nothing]
    return [ctx.b.convert(o, kind) for o in outs]


@register("SelfAdjointEigV2", "XlaSelfAdjointEig", ranks="2+")
def _self_adjoint_eig(ctx: OpContext) -> list[HloInstruction]:
    """Return ascending eigenvalues and the eigenvectors of the matrix given by its lower triangle.

    a + |a| 1 (the Frobenius norm) has no negative eigenvalue, so that its singular vectors are
    eigenvectors of a; the eigenvalues are v* a v.
    """
    a = _wide(ctx, square(ctx))
    b = ctx.b
    kind = ctx.shape(0).element_type
    *head, n, _ = a.array_shape.dimensions
    batch = tuple(head)
    one = identity(ctx, a.array_shape.element_type, batch, n)
    if ctx.attr("lower", True):
        low = triangle(ctx, a, lower=True)
        both = b.add(low, adjoint(ctx, low))
        a = b.subtract(both, b.multiply(b.multiply(both, one), scalar(ctx, both, 0.5)))
    size = b.abs(a)
    norm = b.sqrt(b.reduce(b.multiply(size, size), scalar(ctx, size, 0), [len(batch), len(batch) + 1], HloOpcode.ADD))
    shift = b.broadcast_in_dim(b.convert(norm, a.array_shape.element_type), a.array_shape.dimensions, range(len(batch)))
    _, v = _orthogonalized(ctx, b.add(a, b.multiply(shift, one)))
    values = b.reshape(_real(ctx, _inner(ctx, v, multiply(ctx, a, v))), [*batch, n])
    values, v = _sorted(ctx, values, "LT", [v])
    nothing = b.constant(np.zeros([0], kind.dtype))
    return [b.convert(values, kind), b.convert(v, kind) if ctx.attr("compute_v", True) else nothing]


@register("XlaSvd", ranks="2+")
def _xla_svd(ctx: OpContext) -> list[HloInstruction]:
    """Singular values, and square matrices of singular vectors."""
    kind = ctx.shape(0).element_type
    return [ctx.b.convert(o, kind) for o in svd(ctx, _wide(ctx, ctx.input(0)), full=True)]
