"""Philox 4x32-10 in HLO, and numbers from its words, bit for bit as TensorFlow's CPU kernels.

After tsl/lib/random/{philox_random,random_distributions}.h; the generator is that of Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar_of

_U32, _U64 = PrimitiveType.U32, PrimitiveType.U64
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_SMALLEST_UNIFORM = 1.0e-7  # what Box and Muller's logarithm is kept above

_FORMATS = {  # of a float type: the unsigned type of its bits, mantissa bits, exponent of 1
    PrimitiveType.F16: (PrimitiveType.U16, 10, 15),
    PrimitiveType.BF16: (PrimitiveType.U16, 7, 127),
    PrimitiveType.F32: (PrimitiveType.U32, 23, 127),
    PrimitiveType.F64: (PrimitiveType.U64, 52, 1023),
}


@dataclass(frozen=True)
class Generator:
    """A key and the 128 bits of a counter: u64 scalars."""

    key: HloInstruction
    low: HloInstruction
    high: HloInstruction


def _halves(ctx: OpContext, x: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """u64 as its low and its high u32."""
    high = ctx.b.shift_right_logical(x, filled(ctx, x, 32))
    return ctx.b.convert(x, _U32), ctx.b.convert(high, _U32)


def joined(ctx: OpContext, low: HloInstruction, high: HloInstruction) -> HloInstruction:
    """u64 of its low and its high u32."""
    wide = ctx.b.convert(high, _U64)
    return ctx.b.or_(ctx.b.convert(low, _U64), ctx.b.shift_left(wide, filled(ctx, wide, 32)))


def rounds(ctx: OpContext, words: list[HloInstruction], key: list[HloInstruction]) -> list[HloInstruction]:
    """Four u32 mixed under a key of two u32, all of one shape, ten times over."""
    b = ctx.b
    x0, x1, x2, x3 = words
    k0, k1 = key
    for turn in range(10):
        if turn:
            k0, k1 = (b.add(k, filled(ctx, k, step)) for k, step in zip((k0, k1), _KEY_STEPS, strict=True))
        products = []
        for x, multiplier in zip((x0, x2), _MULTIPLIERS, strict=True):
            wide = b.convert(x, _U64)
            products.append(_halves(ctx, b.multiply(wide, filled(ctx, wide, multiplier))))
        (low0, high0), (low1, high1) = products
        x0, x1, x2, x3 = b.xor(b.xor(high1, x1), k0), low1, b.xor(b.xor(high0, x3), k1), low0
    return [x0, x1, x2, x3]


def seeded(ctx: OpContext, seed: HloInstruction) -> Generator:
    """Make the generator of a seed of two integers.

    TensorFlow encrypts the seed with a fixed key, so that similar seeds give unrelated generators.
    """
    b = ctx.b
    if seed.array_shape.dimensions != (2,):
        ctx.fail(f"expected a seed of two integers, not {seed.shape}")
    kind = seed.array_shape.element_type
    wide = seed if kind is _U64 else b.bitcast_convert(b.convert(seed, PrimitiveType.S64), _U64)
    words = [half for i in range(2) for half in _halves(ctx, _element(ctx, wide, i))]
    mixed = rounds(ctx, words, [scalar_of(ctx, _U32, k) for k in (0x3EC8F720, 0x02461E29)])
    return Generator(joined(ctx, mixed[0], mixed[1]), scalar_of(ctx, _U64, 0), joined(ctx, mixed[2], mixed[3]))


def _element(ctx: OpContext, x: HloInstruction, i: int) -> HloInstruction:
    return ctx.b.reshape(ctx.b.slice(x, [i], [i + 1]), [])


def given(ctx: OpContext, key: HloInstruction, counter: HloInstruction) -> Generator:
    """The generator of u64 [1] and u64 [2] tensors."""
    if key.array_shape.dimensions != (1,) or counter.array_shape.dimensions != (2,):
        ctx.fail(f"key {key.shape} and counter {counter.shape} must have 1 and 2 elements")
    return Generator(_element(ctx, key, 0), _element(ctx, counter, 0), _element(ctx, counter, 1))


def blocks(ctx: OpContext, g: Generator, offsets: HloInstruction) -> HloInstruction:
    """The words of the blocks at u64 offsets [n] from the counter, u32 [n, 4]."""
    b = ctx.b
    dims = offsets.array_shape.dimensions
    start = broadcast_to(b, g.low, dims)
    low = b.add(start, offsets)
    carry = b.convert(b.compare(low, start, "LT"), _U64)
    high = b.add(broadcast_to(b, g.high, dims), carry)
    words = rounds(
        ctx, [*_halves(ctx, low), *_halves(ctx, high)], [broadcast_to(b, k, dims) for k in _halves(ctx, g.key)]
    )
    return b.concatenate([b.reshape(w, [*dims, 1]) for w in words], len(dims))


def words_32(ctx: OpContext, g: Generator, count: int) -> HloInstruction:
    """The first `count` words, u32."""
    n = -(-count // 4)
    return ctx.b.slice(ctx.b.reshape(blocks(ctx, g, ctx.b.iota(array(_U64, [n]), 0)), [4 * n]), [0], [count])


def words_64(ctx: OpContext, g: Generator, count: int) -> HloInstruction:
    """Pairs of words, the first one low, u64."""
    return _paired(ctx, ctx.b.reshape(words_32(ctx, g, 2 * count), [count, 2]))


def _paired(ctx: OpContext, words: HloInstruction) -> HloInstruction:
    """u32 [..., 2] as u64 [...]."""
    dims = words.array_shape.dimensions
    zeros = [0] * (len(dims) - 1)
    low, high = (ctx.b.reshape(ctx.b.slice(words, [*zeros, i], [*dims[:-1], i + 1]), dims[:-1]) for i in range(2))
    return joined(ctx, low, high)


def unit_interval(ctx: OpContext, words: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    """Convert words to [0, 1): their low bits are the mantissa of a number in [1, 2), minus 1.

    For a u64 the low word gives the upper bits, as TensorFlow uses its first word.
    """
    b = ctx.b
    bits_kind, mantissa, bias = _FORMATS[kind]
    if kind is PrimitiveType.F64:
        upper = b.shift_left(b.and_(words, filled(ctx, words, (1 << 20) - 1)), filled(ctx, words, 32))
        words = b.or_(upper, b.shift_right_logical(words, filled(ctx, words, 32)))
    else:
        words = b.convert(b.and_(words, filled(ctx, words, (1 << mantissa) - 1)), bits_kind)
    number = b.bitcast_convert(b.or_(words, filled(ctx, words, bias << mantissa)), kind)
    return b.subtract(number, filled(ctx, number, 1))


def uniform(ctx: OpContext, g: Generator, dims: tuple[int, ...], kind: PrimitiveType) -> HloInstruction:
    """Numbers in [0, 1)."""
    count = math.prod(dims)
    words = words_64(ctx, g, count) if kind is PrimitiveType.F64 else words_32(ctx, g, count)
    return ctx.b.reshape(unit_interval(ctx, words, kind), dims)


def full_range(ctx: OpContext, g: Generator, dims: tuple[int, ...], kind: PrimitiveType) -> HloInstruction:
    """Integers of all values."""
    count = math.prod(dims)
    words = words_64(ctx, g, count) if kind.bits == 64 else words_32(ctx, g, count)
    words = words if kind in (_U32, _U64) else ctx.b.bitcast_convert(words, kind)
    return ctx.b.reshape(words, dims)


def normal_pairs(ctx: OpContext, words: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    """Box-Muller normal numbers [..., 2]: from u32 [..., 2] in f32, or u64 [..., 2] in f64, by
    `kind`.
    """
    b = ctx.b
    dims = words.array_shape.dimensions
    zeros = [0] * (len(dims) - 1)
    both = unit_interval(ctx, words, kind)
    first, second = (b.slice(both, [*zeros, i], [*dims[:-1], i + 1]) for i in range(2))
    # TensorFlow multiplies by 2 pi in double precision
    fine = b.convert(second, PrimitiveType.F64)
    angle = b.convert(b.multiply(fine, filled(ctx, fine, 2 * math.pi)), kind)
    kept = b.maximum(first, filled(ctx, first, _SMALLEST_UNIFORM))
    radius = b.sqrt(b.multiply(b.log(kept), filled(ctx, first, -2)))
    return b.concatenate([b.multiply(b.sin(angle), radius), b.multiply(b.cos(angle), radius)], len(dims) - 1)


def normal(ctx: OpContext, g: Generator, dims: tuple[int, ...], kind: PrimitiveType) -> HloInstruction:
    """Normally distributed numbers."""
    count = math.prod(dims)
    pairs = -(-count // 2)
    wide = PrimitiveType.F64 if kind is PrimitiveType.F64 else PrimitiveType.F32
    words = words_64(ctx, g, 2 * pairs) if wide is PrimitiveType.F64 else words_32(ctx, g, 2 * pairs)
    numbers = normal_pairs(ctx, ctx.b.reshape(words, [pairs, 2]), wide)
    flat = ctx.b.slice(ctx.b.reshape(numbers, [2 * pairs]), [0], [count])
    return ctx.b.convert(ctx.b.reshape(flat, dims), kind)


_CANDIDATES = 24  # fewer than four of them are within two deviations with probability 1e-25


def truncated_normal(ctx: OpContext, g: Generator, dims: tuple[int, ...], kind: PrimitiveType) -> HloInstruction:
    """Normal numbers within two deviations: each group takes the first ones of its 256 words per
    number.
    """
    b = ctx.b
    wide = PrimitiveType.F64 if kind is PrimitiveType.F64 else PrimitiveType.F32
    group = 2 if wide is PrimitiveType.F64 else 4
    count = math.prod(dims)
    groups, stride, drawn = -(-count // group), group * 256 // 4, _CANDIDATES * (wide.bits // 32) // 4
    index = array(_U64, [groups, drawn])
    group_index = b.iota(index, 0)
    offsets = b.add(b.multiply(group_index, filled(ctx, group_index, stride)), b.iota(index, 1))
    words = blocks(ctx, g, offsets)
    if wide is PrimitiveType.F64:
        words = _paired(ctx, b.reshape(words, [groups, _CANDIDATES, 2]))
    numbers = b.reshape(normal_pairs(ctx, b.reshape(words, [groups, _CANDIDATES // 2, 2]), wide), [groups, _CANDIDATES])
    size = b.abs(numbers)
    near = b.compare(size, filled(ctx, size, 2), "LT")
    # how many before a candidate were taken: a product with a strictly triangular matrix
    before = b.constant(np.triu(np.ones((_CANDIDATES, _CANDIDATES), np.float32), 1))
    rank = b.dot(b.convert(near, PrimitiveType.F32), before)
    wanted = b.broadcast_in_dim(rank, [groups, group, _CANDIDATES], [0, 2])
    place = b.convert(b.iota(array(PrimitiveType.S32, [groups, group, _CANDIDATES]), 1), PrimitiveType.F32)
    taken = b.and_(b.compare(wanted, place, "EQ"), b.broadcast_in_dim(near, [groups, group, _CANDIDATES], [0, 2]))
    spread = b.broadcast_in_dim(numbers, [groups, group, _CANDIDATES], [0, 2])
    chosen = b.reduce(b.select(taken, spread, filled(ctx, spread, 0)), scalar_of(ctx, wide, 0), [2], HloOpcode.ADD)
    return b.convert(b.reshape(b.slice(b.reshape(chosen, [groups * group]), [0], [count]), dims), kind)
