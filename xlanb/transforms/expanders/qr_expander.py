"""Expand QR factorizations into Householder reflections, column by column.

    custom-call(f32[m,n] a), custom_call_target="Qr"
      =>  for k in 0 .. min(m,n)-1:
            v, tau, beta = reflection of a[k:, k];   a -= tau v (v^T a) right of column k;
            a[:, k] = above, beta, v below
    custom-call(f32[m,n] a, f32[k] taus),
        custom_call_target="ProductOfElementaryHouseholderReflectors"
      =>  q = identity;  for k backwards:  q -= tau v (v^T q)

The result is packed as LAPACK's geqrf packs it. XLA works on blocks of 128 columns; this is its
step for one block, over the whole matrix. Complex matrices are not expanded.
Source: xla/hlo/transforms/expanders/qr_expander.h; Golub and Van Loan, Matrix Computations, 5.1,
5.2.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.errors import PassError
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

_INDEX = PrimitiveType.S32
_FLOATS = frozenset((PrimitiveType.F32, PrimitiveType.F64))


class QrExpander(HloPass):
    """Expands Qr and ProductOfElementaryHouseholderReflectors over f32 and f64.

    Raises PassError if their operands or results are not such matrices.
    """

    name = "qr_expander"
    keeps = REAL
    ulps = 16.0

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in nonfusion_computations(module):
            for i in c.post_order():
                expand = (
                    _EXPANSIONS.get(str(i.attributes.get("custom_call_target"))) if i.opcode is O.CUSTOM_CALL else None
                )
                if expand is not None and _matrix(i).element_type in _FLOATS and _matrix(i).element_count:
                    c.replace(i, expand(i, cache))


def _matrix(i: HloInstruction) -> ArrayShape:
    if not i.operands or not i.operands[0].shape.is_array or i.operands[0].array_shape.rank < 2:
        raise PassError(f"{i.attributes['custom_call_target']} takes a matrix: {i}")
    return i.operands[0].array_shape


def _factorized(i: HloInstruction, cache: regions.Cache) -> HloInstruction:
    b, a = Builder(i), i.operands[0]
    *batch, m, n = a.array_shape.dimensions
    taus = b.full(0, array(a.array_shape.element_type, (*batch, min(m, n))))

    def column(inner: Builder, k: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        return _reflect(inner, k, state[0], state[1], cache)

    packed, taus = counted_loop(b, min(m, n), [b.add(O.RESHAPE, (a,), _plain(a)), taus], column)
    return b.add(O.TUPLE, (packed, taus), i.shape)


def _product(i: HloInstruction, cache: regions.Cache) -> HloInstruction:
    b, (a, taus) = Builder(i), i.operands
    shape = _plain(a)
    rows, columns = (b.add(O.IOTA, (), shape.with_type(_INDEX), iota_dimension=shape.rank - d) for d in (2, 1))
    start = b.convert(b.compare(rows, "EQ", columns), shape.element_type)
    count = taus.array_shape.dimensions[-1]

    def reflect(inner: Builder, k: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        q, packed, scales = state
        at = inner.binary(O.SUBTRACT, inner.scalar(count - 1, _INDEX), k)
        index = _line_index(inner, packed)
        below = _below(inner, _column(inner, packed, at), index, at)
        v = inner.select(_compare(inner, index, "EQ", at), inner.full(1, below.array_shape), below)
        return [_applied(inner, q, v, _element(inner, scales, at), q), packed, scales]

    q = counted_loop(b, count, [start, b.add(O.RESHAPE, (a,), shape), taus], reflect)[0]
    return b.add(O.RESHAPE, (q,), i.shape)


_EXPANSIONS = {"Qr": _factorized, "ProductOfElementaryHouseholderReflectors": _product}


def _reflect(
    b: Builder, k: HloInstruction, a: HloInstruction, taus: HloInstruction, cache: regions.Cache
) -> list[HloInstruction]:
    """Apply the reflection that clears column k below the diagonal.

    Returns the matrix and the scales, including that of the reflection.
    """
    x = _column(b, a, k)
    index = _line_index(b, a)
    below = _below(b, x, index, k)
    v, tau, beta = _reflection(b, below, index, _element(b, x, k), k, cache)
    shape = a.array_shape
    columns = b.add(O.IOTA, (), shape.with_type(_INDEX), iota_dimension=shape.rank - 1)
    right = b.select(_compare(b, columns, "GT", k), a, b.full(0, shape))
    updated = _applied(b, a, v, tau, right)
    is_diagonal, is_above = (_compare(b, index, direction, k) for direction in ("EQ", "LT"))
    kept = b.select(is_above, x, b.select(is_diagonal, _per_matrix(b, beta, x.array_shape), v))
    line = tuple(range(shape.rank - 1))
    packed = b.select(_compare(b, columns, "EQ", k), b.broadcast(kept, line, shape), updated)
    places = b.add(O.IOTA, (), taus.array_shape.with_type(_INDEX), iota_dimension=taus.array_shape.rank - 1)
    return [packed, b.select(_compare(b, places, "EQ", k), _per_matrix(b, tau, taus.array_shape), taus)]


def _reflection(
    b: Builder,
    below: HloInstruction,
    index: HloInstruction,
    alpha: HloInstruction,
    k: HloInstruction,
    cache: regions.Cache,
) -> tuple[HloInstruction, HloInstruction, HloInstruction]:
    """v (1 at k, 0 above), tau and beta with (1 - tau v v^T) x = beta e_k.

    tau is 0 if everything below is 0.
    """
    kind = alpha.array_shape.element_type
    plus = regions.binary_region(b.computation.module, cache, O.ADD, kind)
    rank = below.array_shape.rank
    squares = b.binary(O.MULTIPLY, below, below)
    sigma = b.add(O.REDUCE, (squares, b.scalar(0, kind)), dimensions=(rank - 1,), to_apply=plus)
    zero, one = (b.full(v, sigma.array_shape) for v in (0, 1))
    is_zero = b.compare(sigma, "EQ", zero)
    norm = _hypotenuse(b, alpha, b.unary(O.SQRT, sigma))
    mirrored = b.select(b.compare(alpha, "LT", zero), norm, b.unary(O.NEGATE, norm))
    beta = b.select(is_zero, alpha, mirrored)
    tau = b.select(is_zero, zero, b.binary(O.DIVIDE, b.binary(O.SUBTRACT, beta, alpha), beta))
    divisor = b.select(is_zero, one, b.binary(O.SUBTRACT, alpha, beta))
    scaled = b.binary(O.DIVIDE, below, _per_matrix(b, divisor, below.array_shape))
    v = b.select(_compare(b, index, "EQ", k), b.full(1, below.array_shape), scaled)
    return v, tau, beta


def _hypotenuse(b: Builder, x: HloInstruction, y: HloInstruction) -> HloInstruction:
    """sqrt(x^2 + y^2) without intermediate overflow."""
    x, y = b.unary(O.ABS, x), b.unary(O.ABS, y)
    largest = b.binary(O.MAXIMUM, x, y)
    parts = [b.binary(O.DIVIDE, v, largest) for v in (x, y)]
    total = b.binary(O.ADD, *(b.binary(O.MULTIPLY, p, p) for p in parts))
    zero = b.full(0, x.array_shape)
    return b.select(b.compare(largest, "EQ", zero), zero, b.binary(O.MULTIPLY, largest, b.unary(O.SQRT, total)))


def _applied(
    b: Builder, a: HloInstruction, v: HloInstruction, tau: HloInstruction, on: HloInstruction
) -> HloInstruction:
    """a - tau v (v^T on)."""
    shape = a.array_shape
    batch, last = tuple(range(shape.rank - 2)), shape.rank - 2
    row = b.add(
        O.DOT,
        (v, on),
        lhs_batch_dims=batch or None,
        lhs_contracting_dims=(last,),
        rhs_batch_dims=batch or None,
        rhs_contracting_dims=(last,),
    )
    wide = b.broadcast(v, tuple(range(shape.rank - 1)), shape)
    product = b.binary(O.MULTIPLY, wide, b.broadcast(row, (*batch, shape.rank - 1), shape))
    return b.binary(O.SUBTRACT, a, b.binary(O.MULTIPLY, _per_matrix(b, tau, shape), product))


def _plain(a: HloInstruction) -> ArrayShape:
    return array(a.array_shape.element_type, a.array_shape.dimensions)


def _column(b: Builder, a: HloInstruction, k: HloInstruction) -> HloInstruction:
    *outer, _ = a.array_shape.dimensions
    starts = [b.scalar(0, _INDEX)] * len(outer)
    return b.reshape(b.add(O.DYNAMIC_SLICE, (a, *starts, k), dynamic_slice_sizes=(*outer, 1)), outer)


def _element(b: Builder, x: HloInstruction, k: HloInstruction) -> HloInstruction:
    """Element k of each vector."""
    return _column(b, x, k)


def _line_index(b: Builder, a: HloInstruction) -> HloInstruction:
    """The row number of each element of a column."""
    *outer, _ = a.array_shape.dimensions
    return b.add(O.IOTA, (), array(_INDEX, outer), iota_dimension=len(outer) - 1)


def _compare(b: Builder, index: HloInstruction, direction: str, k: HloInstruction) -> HloInstruction:
    return b.compare(index, direction, b.broadcast(k, (), index.array_shape))


def _below(b: Builder, x: HloInstruction, index: HloInstruction, k: HloInstruction) -> HloInstruction:
    return b.select(_compare(b, index, "GT", k), x, b.full(0, x.array_shape))


def _per_matrix(b: Builder, x: HloInstruction, shape: ArrayShape) -> HloInstruction:
    """One number per matrix of a batch, broadcast over the matrix."""
    return b.broadcast(x, tuple(range(x.array_shape.rank)), shape)
