"""Find the tiles of scores that a mask excludes, by interval arithmetic at compile time.

A causal mask `select(iota_q >= iota_k, s, -1e30)` is all true, all false or mixed in each tile.
Where it is all false, the tile's logits are -1e30 whatever the scores are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from xlanb.analysis.attention import Attention
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType

Numbers = NDArray[np.float64]
_DEEPEST = 64
_LOW = -1e3
"""Logits up to this value can be skipped: others in the row usually dominate them."""


_ROUNDING = 2.0**-22
"""Larger than the relative rounding error of a sum or product of f32."""


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value in each tile; never NaN."""

    low: Numbers
    high: Numbers

    @property
    def is_finite(self) -> bool:
        """Whether all bounds are finite, so that arithmetic on them gives no NaN."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())


@dataclass(frozen=True)
class Reach:
    """The key tiles that must be computed for each block of queries: `first` to `last`, inclusive.

    `most` is an upper bound of the logits of all other tiles.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    most: float

    def share(self, tiles: int) -> float:
        """The fraction of all tiles that must be computed."""
        return sum(b - a + 1 for a, b in zip(self.first, self.last, strict=True)) / (tiles * len(self.first))


def reach_of(a: Attention, queries: Sequence[tuple[int, int]], keys: Sequence[tuple[int, int]]) -> Reach | None:
    """The tiles of blocks of queries and keys (first, last; inclusive) that a mask keeps.

    None if the mask excludes no tile.
    """
    x = _Bounding(a, queries, keys).of(a.logits, 0)
    if x is None:
        return None
    shape = (len(queries), len(keys))
    high = np.broadcast_to(x.high, shape)
    needed = high > _LOW
    if needed.all():
        return None
    first, last = needed.argmax(1), len(keys) - 1 - needed[:, ::-1].argmax(1)
    none = ~needed.any(1)
    first, last = np.where(none, 0, first), np.where(none, 0, last)
    at = np.arange(len(keys))
    outside = (at < first[:, None]) | (at > last[:, None])
    if not outside.any():
        return None
    return Reach(tuple(first.tolist()), tuple(last.tolist()), float(high[outside].max()))


class _Bounding:
    """Computes bounds of instructions from bounds of the indices, by dimension."""

    def __init__(self, a: Attention, queries: Sequence[tuple[int, int]], keys: Sequence[tuple[int, int]]) -> None:
        q, k = np.array(queries, np.float64), np.array(keys, np.float64)
        known = {a.rows: Bounds(q[:, :1], q[:, 1:]), a.keys: Bounds(k[None, :, 0], k[None, :, 1])}
        self.root, self.dims = (
            a.logits,
            [known.get(g[0]) if len(g) == 1 else None for g in a.logits_dims],
        )

    def of(self, i: HloInstruction, depth: int, dims: Sequence[Bounds | None] | None = None) -> Bounds | None:
        """The bounds of an instruction; None if unknown or if it may be NaN."""
        dims = self.dims if dims is None else dims
        shape = i.shape
        if depth > _DEEPEST or not isinstance(shape, ArrayShape) or shape.element_type.is_complex:
            return None
        if i.opcode is Op.CONSTANT:
            return _of_constant(i)
        if i.opcode is Op.IOTA:
            at = dims[i.get("iota_dimension")]
            return at if at is not None else _between(0, max(shape.dimensions[i.get("iota_dimension")] - 1, 0))
        moved = _operand_bounds(i, dims)
        if moved is not None:
            return self.of(i.operands[0], depth + 1, moved)
        if i.opcode is Op.SELECT:
            return self._select(i, depth, dims)
        rule = _RULES.get(i.opcode)
        if i.opcode is Op.COMPARE:
            rule = _COMPARED.get(str(i.get("direction")))
        if rule is None or not _is_followed(i):
            return None
        made = rule(*(self.of(o, depth + 1, dims) for o in i.operands))
        return _in_type(shape.element_type, made) if made is not None and i.opcode in _ROUNDED else made

    def _select(self, i: HloInstruction, depth: int, dims: Sequence[Bounds | None]) -> Bounds | None:
        p, then, otherwise = (self.of(o, depth + 1, dims) for o in i.operands)
        if p is None:
            return None
        # If the predicate is known, the other side does not matter.
        if then is None and otherwise is None:
            return None
        anything = _between(-np.inf, np.inf)
        a, b = then or anything, otherwise or anything
        low = np.where(p.low > 0, a.low, np.where(p.high < 1, b.low, np.minimum(a.low, b.low)))
        high = np.where(p.low > 0, a.high, np.where(p.high < 1, b.high, np.maximum(a.high, b.high)))
        return Bounds(low, high)


def _between(low: float, high: float) -> Bounds:
    return Bounds(np.full((1, 1), low), np.full((1, 1), high))


def _of_constant(i: HloInstruction) -> Bounds | None:
    if i.array_shape.element_count != 1:
        return None
    number = float(i.literal.array.reshape(-1)[0])
    return None if np.isnan(number) else _between(number, number)


def _operand_bounds(i: HloInstruction, dims: Sequence[Bounds | None]) -> list[Bounds | None] | None:
    """The bounds of the operand's indices, for an instruction that only moves elements."""
    if i.opcode is Op.BROADCAST:
        return [dims[d] for d in i.dimensions]
    if i.opcode is Op.TRANSPOSE:
        return [dims[i.dimensions.index(d)] for d in range(len(dims))]
    if i.opcode is Op.COPY:
        return list(dims)
    if i.opcode not in (Op.BITCAST, Op.RESHAPE):
        return None
    source, to = i.operands[0].array_shape, i.array_shape
    if source.element_type is not to.element_type:
        return None
    wide = [d for d, size in enumerate(to.dimensions) if size != 1]
    same = [size for size in source.dimensions if size != 1] == [to.dimensions[d] for d in wide]
    if i.opcode is Op.BITCAST:
        orders = [[d for d in s.minor_to_major if s.dimensions[d] != 1] for s in (source, to)]
        same = same and all(order == sorted(order, reverse=True) for order in orders)
    rest = iter(wide)
    return [dims[next(rest)] if same and size != 1 else None for size in source.dimensions]


def _is_followed(i: HloInstruction) -> bool:
    """Whether interval arithmetic is exact enough for an instruction's types.

    Narrow types round or wrap too soon, and conversion from float to integer truncates.
    """
    to = i.array_shape.element_type
    given = [o.array_shape.element_type for o in i.operands]
    if i.opcode is Op.CONVERT and (to is PrimitiveType.PRED or (to.is_integral and given[0].is_floating)):
        return False
    return all(t is PrimitiveType.PRED or t.bits >= 32 for t in (to, *given))


def _in_type(t: PrimitiveType, x: Bounds) -> Bounds | None:
    """Widen the bounds of an arithmetic result by rounding; None if an unsigned value may wrap."""
    if t.is_floating:
        return Bounds(x.low - abs(x.low) * _ROUNDING, x.high + abs(x.high) * _ROUNDING)
    return x if t.is_signed or x.low.min() >= 0 else None


def _sum(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return _checked(a, b, lambda x, y: Bounds(x.low + y.low, x.high + y.high))


def _difference(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return _checked(a, b, lambda x, y: Bounds(x.low - y.high, x.high - y.low))


def _multiple(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    def corners(x: Bounds, y: Bounds) -> Bounds:
        found = [x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high]
        return Bounds(
            np.minimum.reduce(np.broadcast_arrays(*found)),
            np.maximum.reduce(np.broadcast_arrays(*found)),
        )

    return _checked(a, b, corners)


def _checked(a: Bounds | None, b: Bounds | None, rule: Callable[[Bounds, Bounds], Bounds]) -> Bounds | None:
    """Apply a rule to finite bounds; None if the result does not fit an i32."""
    if a is None or b is None or not (a.is_finite and b.is_finite):
        return None
    made = rule(a, b)
    return made if max(abs(made.low).max(), abs(made.high).max()) < 1 << 31 else None


def _all(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    unknown = _between(0, 1)
    a, b = a or unknown, b or unknown
    return Bounds(np.minimum(a.low, b.low), np.minimum(a.high, b.high))


def _any(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    unknown = _between(0, 1)
    a, b = a or unknown, b or unknown
    return Bounds(np.maximum(a.low, b.low), np.maximum(a.high, b.high))


def _not(a: Bounds | None) -> Bounds | None:
    return Bounds(1 - a.high, 1 - a.low) if a is not None else None


def _negative(a: Bounds | None) -> Bounds | None:
    return Bounds(-a.high, -a.low) if a is not None else None


def _same(a: Bounds | None) -> Bounds | None:
    return a


def _truth(always: NDArray[np.bool_], never: NDArray[np.bool_]) -> Bounds:
    return Bounds(np.asarray(always, np.float64), np.asarray(~never, np.float64))


def _less(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return _truth(a.high < b.low, a.low >= b.high) if a is not None and b is not None else None


def _at_most(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return _truth(a.high <= b.low, a.low > b.high) if a is not None and b is not None else None


def _equal(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    if a is None or b is None:
        return None
    one = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return _truth(one, (a.high < b.low) | (b.high < a.low))


def _differs(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return _not(_equal(a, b))


_RULES: dict[Op, Callable[..., Bounds | None]] = {
    Op.ADD: _sum,
    Op.SUBTRACT: _difference,
    Op.MULTIPLY: _multiple,
    Op.NEGATE: _negative,
    Op.CONVERT: _same,
    Op.AND: _all,
    Op.OR: _any,
    Op.NOT: _not,
    Op.MINIMUM: lambda a, b: None if a is None or b is None else _all(a, b),
    Op.MAXIMUM: lambda a, b: None if a is None or b is None else _any(a, b),
}
_ROUNDED = frozenset((Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.NEGATE, Op.CONVERT))
_COMPARED: dict[str, Callable[..., Bounds | None]] = {
    "LT": _less,
    "LE": _at_most,
    "GT": lambda a, b: _less(b, a),
    "GE": lambda a, b: _at_most(b, a),
    "EQ": _equal,
    "NE": _differs,
}
