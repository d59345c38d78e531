"""Philox 4x32-10 in HLO (PhiloxRandomBits in xla/hlo/builder/lib/prng.h).

A counter of 128 bits, incremented for every four words, goes through ten rounds of two
multiplications, keyed by 64 bits.
Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.builder import Builder

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_BUMPS = (0x9E3779B9, 0xBB67AE85)
P = PrimitiveType
Words = list[HloInstruction]


@dataclass(frozen=True)
class PhiloxCounter:
    """The counter, as two u64 scalars."""

    low: HloInstruction
    high: HloInstruction

    def advanced(self, b: Builder, by: int) -> PhiloxCounter:
        """The counter after `by` steps."""
        low = b.binary(O.ADD, self.low, b.scalar(by, P.U64))
        carry = b.compare(low, "LT", self.low)
        return PhiloxCounter(low, b.select(carry, b.binary(O.ADD, self.high, b.scalar(1, P.U64)), self.high))


def philox_bits(
    b: Builder, key: HloInstruction, counter: PhiloxCounter, shape: ArrayShape
) -> tuple[HloInstruction, PhiloxCounter]:
    """Random u32 or u64 in the dimensions of `shape`, and the counter after them.

    The width is that of the shape's element type. `key` is a u64 scalar.
    """
    wide = shape.element_type.bits == 64
    count = shape.element_count
    steps = -(-count // (2 if wide else 4))
    words = _rounds(b, _counters(b, counter, steps), _halves(b, key))
    if wide:
        words = [_joined(b, words[k], words[k + 1]) for k in (0, 2)]
    columns = [b.reshape(w, (steps, 1)) for w in words]
    flat = b.reshape(b.add(O.CONCATENATE, columns, dimensions=(1,)), (steps * len(words),))
    kept = flat if steps * len(words) == count else b.slice(flat, (0,), (count,))
    return b.reshape(kept, shape.dimensions), counter.advanced(b, steps)


def _counters(b: Builder, counter: PhiloxCounter, steps: int) -> Words:
    """The four words of each counter."""
    line = array(P.U64, (steps,))
    start = b.broadcast(counter.low, (), line)
    low = b.binary(O.ADD, start, b.add(O.IOTA, (), line, iota_dimension=0))
    high = b.broadcast(counter.high, (), line)
    next_high = b.broadcast(b.binary(O.ADD, counter.high, b.scalar(1, P.U64)), (), line)
    return [*_halves(b, low), *_halves(b, b.select(b.compare(low, "LT", start), next_high, high))]


def _halves(b: Builder, x: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    high = b.binary(O.SHIFT_RIGHT_LOGICAL, x, b.full(32, x.array_shape))
    return b.convert(x, P.U32), b.convert(high, P.U32)


def _joined(b: Builder, low: HloInstruction, high: HloInstruction) -> HloInstruction:
    wide = b.convert(high, P.U64)
    return b.binary(O.OR, b.convert(low, P.U64), b.binary(O.SHIFT_LEFT, wide, b.full(32, wide.array_shape)))


def _rounds(b: Builder, x: Words, key: tuple[HloInstruction, HloInstruction]) -> Words:
    keys = list(key)
    shape = x[0].array_shape
    for n in range(_ROUNDS):
        (low0, high0), (low1, high1) = (_product(b, x[k], m) for k, m in zip((0, 2), _MULTIPLIERS, strict=True))
        k0, k1 = (b.broadcast(k, (), shape) for k in keys)
        x = [
            b.binary(O.XOR, b.binary(O.XOR, high1, x[1]), k0),
            low1,
            b.binary(O.XOR, b.binary(O.XOR, high0, x[3]), k1),
            low0,
        ]
        if n < _ROUNDS - 1:
            keys = [b.binary(O.ADD, k, b.scalar(bump, P.U32)) for k, bump in zip(keys, _BUMPS, strict=True)]
    return x


def _product(b: Builder, x: HloInstruction, multiplier: int) -> tuple[HloInstruction, HloInstruction]:
    """The low and the high word of a product."""
    wide = b.convert(x, P.U64)
    return _halves(b, b.binary(O.MULTIPLY, wide, b.full(multiplier, wide.array_shape)))
