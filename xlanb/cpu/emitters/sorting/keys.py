"""Sort keys: comparisons of keys, each computed from one side, become orders of unsigned numbers.

lt(key(a), key(b))                                           one key; gt: the same, descending
or(lt(k(a), k(b)), and(eq(k(a), k(b)), rest(a, b)))          a key, and others to break ties
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.codegen.arithmetic import ordered_bits
from xlanb.codegen.elemental import Binding, Elemental, array_of
from xlanb.codegen.elements import Element, real, to_bits
from xlanb.codegen.function import Function
from xlanb.codegen.indexing import Index
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType
_FORWARDING = frozenset((Op.BITCAST_CONVERT, Op.BITCAST, Op.RESHAPE, Op.COPY))
_DOWN = {"LT": False, "LE": False, "GT": True, "GE": True}


@dataclass(frozen=True)
class Key:
    """An expression over one side's elements, sorted ascending or descending (`down`).

    With `total_order`, floats are ordered by their bits.
    """

    expression: HloInstruction
    down: bool
    total_order: bool

    @property
    def element_type(self) -> PrimitiveType:
        """The type of the key."""
        return array_of(self.expression).element_type

    @property
    def bits(self) -> int:
        """Bits of the key as an unsigned number."""
        return self.element_type.bits


def sort_keys(target: HloComputation) -> tuple[Key, ...] | None:
    """The keys that a comparison compares, most significant first; None for other comparisons."""
    keys: list[Key] = []
    at: HloInstruction | None = target.root
    while at is not None:
        split = _key_and_rest(at)
        if split is None:
            return None
        key, at = split
        keys.append(key)
    return tuple(keys)


def _key_and_rest(i: HloInstruction) -> tuple[Key, HloInstruction | None] | None:
    if i.opcode is Op.COMPARE:
        key = _key(i)
        return (key, None) if key is not None else None
    if i.opcode is not Op.OR:
        return None
    for less, tie in (i.operands, reversed(i.operands)):
        key = _key(less)
        if key is None or tie.opcode is not Op.AND:
            continue
        for equal, rest in (tie.operands, reversed(tie.operands)):
            if equal.opcode is Op.COMPARE and equal.get("direction") == "EQ" and _same_sides(equal, less):
                return key, rest
    return None


def _key(i: HloInstruction) -> Key | None:
    if i.opcode is not Op.COMPARE or i.get("direction") not in _DOWN:
        return None
    down = _DOWN[i.get("direction")]
    a, b = i.operands
    t = array_of(a).element_type
    if t.is_complex or t.bits > 64:
        return None
    total = i.get("type") == "TOTALORDER" or not t.is_floating
    if _mirrored(a, b, 0):
        return Key(a, down, total)
    return Key(b, not down, total) if _mirrored(b, a, 0) else None


def _mirrored(a: HloInstruction, b: HloInstruction, side: int) -> bool:
    """Whether a depends on one side (0: left) exactly as b depends on the other side."""
    if a.opcode is not b.opcode or a.shape != b.shape or array_of(a).dimensions:
        return False
    if a.opcode is Op.PARAMETER:
        return a.parameter_number % 2 == side and b.parameter_number == a.parameter_number + 1 - 2 * side
    if a.opcode is Op.CONSTANT:
        return a is b or (a.literal == b.literal and not a.literal.is_elided)
    plain = a.opcode.is_elementwise or a.opcode in _FORWARDING
    if not plain or a.called_computations or a.attributes != b.attributes:
        return False
    return all(_mirrored(x, y, side) for x, y in zip(a.operands, b.operands, strict=True))


def _same_sides(equal: HloInstruction, less: HloInstruction) -> bool:
    """Whether an EQ compares the same keys as the order."""
    a, b = equal.operands
    c, d = less.operands
    return (a is c and b is d) or (a is d and b is c)


def unsigned(f: Function, key: Key, value: Value) -> Value:
    """The key's value as an i<bits> whose unsigned order is the order of the sort.

    Without a total order, both zeros are equal, and NaN, which compares false with everything, is
    last.
    """
    t = key.element_type
    if key.total_order:
        return unsigned_bits(t, to_bits(f, t, value), down=key.down)
    number = value.equals(0.0).select(0.0, value)
    return value.is_nan().select(-1, unsigned_bits(t, to_bits(f, t, number), down=key.down))


def unsigned_bits(t: PrimitiveType, bits: Value, *, down: bool) -> Value:
    """The same for a number's bits; floats are ordered by their bits."""
    made = ordered_bits(t, bits) if t.is_floating else bits
    if (t.is_floating or t.is_signed) and t is not T.F8E8M0FNU:
        made ^= 1 << (t.bits - 1)
    return ~made if down else made


def packed(e: Elemental, keys: Sequence[Key], target: HloComputation, values: Sequence[Element]) -> Value:
    """All keys of an element as one i64, the most significant key highest; 64 bits at most.

    `values` are the element's values per operand.
    """
    f = e.f
    sides: dict[HloInstruction, Binding] = {
        p: {(): _always(values[p.parameter_number // 2])} for p in target.parameters
    }
    inner = Elemental(f, sides, e.constants, floor=len(f.regions))
    total: Value | None = None
    for key in keys:
        made = unsigned(f, key, real(inner.element(key.expression, Index(array_of(key.expression), ())))).zext(I64)
        total = made if total is None else (total << key.bits) | made
    if total is None:
        raise AssertionError("the order has no keys")
    return total


def _always(value: Element) -> Callable[[Index], Element]:
    return lambda _: value
