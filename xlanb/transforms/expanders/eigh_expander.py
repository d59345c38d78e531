"""Expand symmetric eigendecompositions into Jacobi's method.

    custom-call(f32[n,n] a), custom_call_target="Eigh", backend_config="1,1,100,1e-6"
      =>  while(off-diagonal norm > tolerance * norm):
            n - 1 times:  rotate the pairs (k, k + n/2) so that a[k, k + n/2] = 0;
                          exchange the partners

The backend config says whether to read the lower triangle, whether to sort, the maximum number of
sweeps and the tolerance. The matrix is stored as four quarters; the pairs are the diagonal of the
upper right one. After n - 1 exchanges every index has met every other and is back in its place. A
matrix of odd size is padded by a row and column of zeros. Complex matrices are not expanded.
Source: xla/hlo/transforms/expanders/eigh_expander.h; Brent and Luk, The solution of singular-value
and symmetric eigenvalue problems on multiprocessor arrays, 1985; Golub and Van Loan, Matrix
Computations, 8.4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.errors import PassError
from xlanb.hlo import regions
from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, TupleShape
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.loops.counted_loop import counted_loop
from xlanb.transforms.verdict import REAL

_INDEX = PrimitiveType.S32
_FLOATS = frozenset((PrimitiveType.F32, PrimitiveType.F64))
# times the rounding error of the diagonal: smaller off-diagonal values are not rotated away
_TINY = 0.1
Quarters = list[HloInstruction]


class EighExpander(HloPass):
    """Expands the custom call Eigh over f32 and f64.

    Raises PassError if its options or operand are not as described above.
    """

    name = "eigh_expander"
    keeps = REAL
    ulps = 16.0

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.CUSTOM_CALL and i.attributes["custom_call_target"] == "Eigh":
                    options = _options(i)
                    a = i.operands[0].array_shape
                    if a.element_type in _FLOATS and a.element_count:
                        c.replace(i, _Expansion(i, options, cache).result())


@dataclass(frozen=True)
class _Options:
    lower: bool
    sort: bool
    rounds: int
    tolerance: float


def _options(i: HloInstruction) -> _Options:
    parts = i.backend_config.strip().strip('"').split(",")
    shape = i.operands[0].shape if i.operands else None
    try:
        lower, sort, rounds, tolerance = parts
        options = _Options(bool(int(lower)), bool(int(sort)), int(rounds), float(tolerance))
    except ValueError:
        raise PassError(f'Eigh expects backend_config="lower,sort,rounds,tolerance": {i}') from None
    if not isinstance(shape, ArrayShape) or shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
        raise PassError(f"Eigh expects a square matrix: {i}")
    return options


class _Expansion:
    def __init__(self, i: HloInstruction, options: _Options, cache: regions.Cache) -> None:
        self.i, self.options, self.cache, self.b = i, options, cache, Builder(i)
        shape = i.operands[0].array_shape
        self.kind, self.batch, self.n = shape.element_type, shape.dimensions[:-2], shape.dimensions[-1]
        self.even = self.n + self.n % 2

    def result(self) -> HloInstruction:
        b, n = self.b, self.n
        quarters = _quarters(b, self._padded(self._symmetric()))
        one, zero = (b.full(v, quarters[0].array_shape) for v in (1, 0))
        identity = b.select(_is_diagonal(b, one.array_shape), one, zero)
        state = self._sweeps([*quarters, identity, zero, zero, identity])
        values = b.add(O.CONCATENATE, [self._diagonal(b, state[k]) for k in (0, 3)], dimensions=(len(self.batch),))
        rank = len(self.batch) + 2
        rows = [b.add(O.CONCATENATE, state[k : k + 2], dimensions=(rank - 1,)) for k in (4, 6)]
        transposed = b.add(O.CONCATENATE, rows, dimensions=(rank - 2,))
        vectors = b.transpose(transposed, [*range(rank - 2), rank - 1, rank - 2])
        if self.even != n:
            values = b.slice(values, [0] * (rank - 1), (*self.batch, n))
            vectors = b.slice(vectors, [0] * rank, (*self.batch, n, n))
        if self.options.sort:
            values, vectors = self._sorted(values, vectors)
        shapes = self.i.shape.shapes if isinstance(self.i.shape, TupleShape) else ()
        return b.add(
            O.TUPLE, [b.add(O.RESHAPE, (x,), s) for x, s in zip((vectors, values), shapes, strict=True)], self.i.shape
        )

    def _symmetric(self) -> HloInstruction:
        """The triangle that is read, mirrored to both sides."""
        b, a = self.b, self.i.operands[0]
        rank = a.array_shape.rank
        mirrored = b.transpose(a, [*range(rank - 2), rank - 1, rank - 2])
        rows, columns = (b.add(O.IOTA, (), a.array_shape.with_type(_INDEX), iota_dimension=rank - d) for d in (2, 1))
        return b.select(b.compare(rows, "GE" if self.options.lower else "LE", columns), a, mirrored)

    def _padded(self, a: HloInstruction) -> HloInstruction:
        if self.even == self.n:
            return a
        edges = (*[PaddingDimension()] * len(self.batch), *[PaddingDimension(0, 1)] * 2)
        shape = array(self.kind, (*self.batch, self.even, self.even))
        return self.b.add(O.PAD, (a, self.b.scalar(0, self.kind)), shape, padding=edges)

    def _sweeps(self, start: Quarters) -> Quarters:
        """Sweep until the off-diagonal norm is small or the maximum number of sweeps is reached."""
        b, module = self.b, self.i.parent.module
        state = tuple_of((array(_INDEX), *(s.shape for s in start)))
        condition, body = (module.add_computation(f"eigh_sweeps_{end}") for end in ("condition", "body"))
        p = condition.add(O.PARAMETER, (), state, parameter_number=0)
        c = Builder(p)
        counter, *quarters = (c.element(p, n) for n in range(len(state.shapes)))
        goes_on = c.compare(counter, "LT", c.scalar(self.options.rounds, _INDEX))
        condition.set_root(c.binary(O.AND, goes_on, self._is_rough(c, quarters[:4])))
        p = body.add(O.PARAMETER, (), state, parameter_number=0)
        r = Builder(p)
        counter, *quarters = (r.element(p, n) for n in range(len(state.shapes)))
        after = counted_loop(r, self.even - 1, quarters, lambda inner, _, q: self._rotation(inner, q))
        body.set_root(r.tuple((r.binary(O.ADD, counter, r.scalar(1, _INDEX)), *after)))
        begin = b.add(O.TUPLE, (b.scalar(0, _INDEX), *start), state)
        loop = b.add(O.WHILE, (begin,), state, condition=condition, body=body)
        return [b.element(loop, 1 + n) for n in range(len(start))]

    def _is_rough(self, b: Builder, quarters: Quarters) -> HloInstruction:
        """Whether the off-diagonal norm of some matrix exceeds the tolerance."""
        zero = b.full(0, quarters[0].array_shape)
        is_diagonal = _is_diagonal(b, zero.array_shape)
        off = [b.select(is_diagonal, zero, q) if k in (0, 3) else q for k, q in enumerate(quarters)]
        rest, whole = self._norm(b, off), self._norm(b, quarters)
        allowed = b.binary(O.MULTIPLY, whole, b.full(self.options.tolerance**2, whole.array_shape))
        rough = b.compare(allowed, "LT", rest)
        either = regions.binary_region(b.computation.module, self.cache, O.OR, PrimitiveType.PRED)
        every = tuple(range(rough.array_shape.rank))
        no = b.scalar(0, PrimitiveType.PRED)
        return b.add(O.REDUCE, (rough, no), dimensions=every, to_apply=either) if every else rough

    def _norm(self, b: Builder, quarters: Quarters) -> HloInstruction:
        """The sum of squares of each matrix."""
        total = b.binary(O.MULTIPLY, quarters[0], quarters[0])
        for q in quarters[1:]:
            total = b.binary(O.ADD, total, b.binary(O.MULTIPLY, q, q))
        return self._sum(b, total, 2)

    def _sum(self, b: Builder, x: HloInstruction, last: int) -> HloInstruction:
        plus = regions.binary_region(b.computation.module, self.cache, O.ADD, self.kind)
        rank = x.array_shape.rank
        return b.add(O.REDUCE, (x, b.scalar(0, self.kind)), dimensions=tuple(range(rank - last, rank)), to_apply=plus)

    def _diagonal(self, b: Builder, x: HloInstruction) -> HloInstruction:
        return self._sum(b, b.select(_is_diagonal(b, x.array_shape), x, b.full(0, x.array_shape)), 1)

    def _rotation(self, b: Builder, state: Quarters) -> Quarters:
        """Rotate all pairs at once, then exchange partners."""
        tl, tr, bl, br, *vectors = state
        cosine, sine, first, second = _schur(b, *(self._diagonal(b, q) for q in (tl, tr, br)))
        shape, rank = tl.array_shape, tl.array_shape.rank
        by_rows, by_columns = (
            [b.broadcast(x, (*range(rank - 2), d), shape) for x in (cosine, sine)] for d in (rank - 2, rank - 1)
        )
        tl, bl = _rotated(b, by_rows, tl, bl)
        tr, br = _rotated(b, by_rows, tr, br)
        tl, tr = _rotated(b, by_columns, tl, tr)
        bl, br = _rotated(b, by_columns, bl, br)
        on = _is_diagonal(b, shape)
        zero = b.full(0, shape)
        line = tuple(range(rank - 1))
        tl, br = (b.select(on, b.broadcast(w, line, shape), q) for w, q in ((first, tl), (second, br)))
        tr, bl = (b.select(on, zero, q) for q in (tr, bl))
        vtl, vbl = _rotated(b, by_rows, vectors[0], vectors[2])
        vtr, vbr = _rotated(b, by_rows, vectors[1], vectors[3])
        tl, tr = _exchanged(b, tl, tr, rank - 1)
        bl, br = _exchanged(b, bl, br, rank - 1)
        tl, bl = _exchanged(b, tl, bl, rank - 2)
        tr, br = _exchanged(b, tr, br, rank - 2)
        vtl, vbl = _exchanged(b, vtl, vbl, rank - 2)
        vtr, vbr = _exchanged(b, vtr, vbr, rank - 2)
        return [tl, tr, bl, br, vtl, vtr, vbl, vbr]

    def _sorted(self, values: HloInstruction, vectors: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
        """Eigenvalues in ascending order, and the columns of the vectors in the same order."""
        b, shape = self.b, vectors.array_shape
        rank = shape.rank
        keys = b.broadcast(values, (*range(rank - 2), rank - 1), shape)
        less = regions.comparator(b.computation.module, self.cache, "LT", (self.kind, self.kind))
        done = b.add(O.SORT, (keys, vectors), tuple_of((shape, shape)), dimensions=(rank - 1,), to_apply=less)
        first = b.slice(b.element(done, 0), [0] * rank, (*self.batch, 1, self.n))
        return b.reshape(first, (*self.batch, self.n)), b.element(done, 1)


def _quarters(b: Builder, a: HloInstruction) -> Quarters:
    *batch, n, _ = a.array_shape.dimensions
    edges = ((0, n // 2), (n // 2, n))
    zeros = [0] * len(batch)
    return [b.slice(a, (*zeros, r[0], c[0]), (*batch, r[1], c[1])) for r in edges for c in edges]


def _is_diagonal(b: Builder, shape: ArrayShape) -> HloInstruction:
    index = shape.with_type(_INDEX)
    rows, columns = (b.add(O.IOTA, (), index, iota_dimension=shape.rank - d) for d in (2, 1))
    return b.compare(rows, "EQ", columns)


def _schur(b: Builder, w_tl: HloInstruction, w_tr: HloInstruction, w_br: HloInstruction) -> Quarters:
    """Cosine and sine of the rotations that diagonalize each [[w_tl, w_tr], [w_tr, w_br]].

    Also returns the resulting diagonals.
    """
    shape = w_tl.array_shape
    one, zero, two = (b.full(v, shape) for v in (1, 0, 2))
    tau = b.binary(O.DIVIDE, b.binary(O.SUBTRACT, w_br, w_tl), b.binary(O.MULTIPLY, two, w_tr))
    root = b.unary(O.SQRT, b.binary(O.ADD, one, b.binary(O.MULTIPLY, tau, tau)))
    is_right = b.compare(tau, "GE", zero)
    longer = b.select(is_right, b.binary(O.ADD, tau, root), b.binary(O.SUBTRACT, tau, root))
    smallest = b.binary(O.MINIMUM, b.unary(O.ABS, w_tl), b.unary(O.ABS, w_br))
    epsilon = b.full(_TINY * float(np.finfo(shape.element_type.dtype).eps), shape)
    is_tiny = b.compare(b.unary(O.ABS, w_tr), "LE", b.binary(O.MULTIPLY, epsilon, smallest))
    tangent = b.select(is_tiny, zero, b.binary(O.DIVIDE, one, longer))
    cosine = b.unary(O.RSQRT, b.binary(O.ADD, one, b.binary(O.MULTIPLY, tangent, tangent)))
    shift = b.binary(O.MULTIPLY, tangent, w_tr)
    return [
        cosine,
        b.binary(O.MULTIPLY, tangent, cosine),
        b.binary(O.SUBTRACT, w_tl, shift),
        b.binary(O.ADD, w_br, shift),
    ]


def _rotated(
    b: Builder, angle: Quarters, x: HloInstruction, y: HloInstruction
) -> tuple[HloInstruction, HloInstruction]:
    """The rotation (c x - s y, s x + c y)."""
    c, s = angle
    product: Callable[[HloInstruction, HloInstruction], HloInstruction] = lambda p, q: b.binary(O.MULTIPLY, p, q)  # noqa: E731
    return b.binary(O.SUBTRACT, product(c, x), product(s, y)), b.binary(O.ADD, product(s, x), product(c, y))


def _exchanged(b: Builder, x: HloInstruction, y: HloInstruction, d: int) -> tuple[HloInstruction, HloInstruction]:
    """Shift all partners but the first by one: (x0 y0 x1 .. x-2), (y1 .. y-1 x-1)."""
    n = x.array_shape.dimensions[d]
    if n == 1:
        return x, y

    def cut(z: HloInstruction, start: int, limit: int) -> HloInstruction:
        starts, limits = [0] * z.array_shape.rank, list(z.array_shape.dimensions)
        starts[d], limits[d] = start, limit
        return b.slice(z, starts, limits)

    upper = [cut(x, 0, 1), cut(y, 0, 1), *([cut(x, 1, n - 1)] if n > 2 else [])]
    lower = [cut(y, 1, n), cut(x, n - 1, n)]
    return (b.add(O.CONCATENATE, upper, dimensions=(d,)), b.add(O.CONCATENATE, lower, dimensions=(d,)))
