"""Expand random bit generators into arithmetic.

    rng-bit-generator(u64[2] s), algorithm=rng_three_fry, u32[n]
      =>  x0, x1 = low and high words of s[1] + iota(n / 2);
          20 rounds of add, rotate, exclusive or, keyed by s[0]
          tuple(s with s[1] + n / 2, words x0 and x1 interleaved)

    rng-bit-generator(u64[2] s), algorithm=rng_philox (rng_default too), u32[n]
      =>  words of Philox over the counter s[1] + 2^64 s[0] + iota(n / 4), keyed by s[0];
          for u64[3] the counter is s[1] + 2^64 s[2]

Each becomes a call; up to eight calls of one algorithm and shape share a computation. Only results
with 32 or 64 bits per element are expanded; others stay for the backend.
Source: xla/hlo/transforms/expanders/rng_bit_generator_expander.h; Salmon et al., Parallel random
numbers: as easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

import math
from collections import Counter

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, PrimitiveType, TupleShape
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.expanders import philox

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WIDTHS = (32, 64)
_MOST_CALLS = 8
"""The number of calls that share a computation.

Inlining may grow a module by this factor at any size (see expansion).
"""
_STATES = {"rng_three_fry": ((2,),), "rng_philox": ((2,), (3,)), "rng_default": ((2,), (3,))}
P = PrimitiveType
Pair = tuple[HloInstruction, HloInstruction]


class RngBitGeneratorExpander(HloPass):
    """Expands rng-bit-generator of ThreeFry (state u64[2]) and Philox (u64[2] or u64[3]).

    Philox is the default algorithm.
    """

    name = "rng-bit-generator-expander"
    triggers = frozenset((O.RNG_BIT_GENERATOR,))

    def apply(self, module: HloModule) -> None:
        made: dict[tuple[object, ...], HloComputation] = {}
        calls: Counter[tuple[object, ...]] = Counter()
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.RNG_BIT_GENERATOR and isinstance(i.shape, TupleShape) and _is_expanded(i, i.shape):
                    signature = (i.get("algorithm"), i.operands[0].shape, i.shape)
                    if calls[signature] % _MOST_CALLS == 0:
                        made[signature] = _computation(i, i.shape.shapes[1].as_array())
                    calls[signature] += 1
                    c.replace(i, c.add(O.CALL, i.operands, i.shape, like=i, to_apply=made[signature]))


def _is_expanded(i: HloInstruction, shape: TupleShape) -> bool:
    state, bits = i.operands[0].array_shape, shape.shapes[1].as_array()
    if state.element_type is not P.U64 or state.dimensions not in _STATES.get(str(i.get("algorithm")), ()):
        return False
    return bits.element_type.bits in _WIDTHS and not bits.element_type.is_complex and bits.element_count > 0


def _computation(i: HloInstruction, shape: ArrayShape) -> HloComputation:
    c = i.parent.module.add_computation("rng")
    state = c.add(O.PARAMETER, (), i.operands[0].shape, name="state", parameter_number=0)
    b = Builder(state)
    words = [b.reshape(b.slice(state, (n,), (n + 1,)), ()) for n in range(state.array_shape.dimensions[0])]
    bits, after = (_threefry_bits if i.get("algorithm") == "rng_three_fry" else _philox_bits)(b, words, shape)
    new_state = b.add(O.CONCATENATE, [b.reshape(w, (1,)) for w in after], dimensions=(0,))
    if bits.shape.element_type is not shape.element_type:
        bits = b.add(O.BITCAST_CONVERT, (bits,), bits.array_shape.with_type(shape.element_type))
    c.set_root(b.tuple((new_state, bits)))
    return c


def _threefry_bits(
    b: Builder, state: list[HloInstruction], shape: ArrayShape
) -> tuple[HloInstruction, list[HloInstruction]]:
    key, counter = state
    bits, used = _wide(b, key, counter, shape) if shape.element_type.bits == 64 else _narrow(b, key, counter, shape)
    return bits, [key, b.binary(O.ADD, counter, b.scalar(used, P.U64))]


def _philox_bits(
    b: Builder, state: list[HloInstruction], shape: ArrayShape
) -> tuple[HloInstruction, list[HloInstruction]]:
    """Random bits and the new state.

    A state of two words has no room for the upper half of the counter; the key is used for it.
    """
    key, low, *rest = state
    bits, after = philox.philox_bits(b, key, philox.PhiloxCounter(low, rest[0] if rest else key), shape)
    return bits, [key, after.low, *([after.high] if rest else [])]


def _narrow(b: Builder, key: HloInstruction, counter: HloInstruction, shape: ArrayShape) -> tuple[HloInstruction, int]:
    """Random u32 of a shape, and the number of counters used.

    Both words of each counter are used, interleaved along one dimension.
    """
    dims = shape.dimensions
    if not dims:
        words = _threefry(b, _words(b, b.reshape(counter, (1,))), _words(b, key))
        return b.reshape(words[0], ()), 1
    d = _split_dimension(dims)
    half = (*dims[:d], -(-dims[d] // 2), *dims[d + 1 :])
    words = _threefry(b, _words(b, _counters(b, counter, half)), _words(b, key))
    apart = [b.reshape(w, (*half[: d + 1], 1, *half[d + 1 :])) for w in words]
    both = b.reshape(b.add(O.CONCATENATE, apart, dimensions=(d + 1,)), (*dims[:d], 2 * half[d], *dims[d + 1 :]))
    whole = both if 2 * half[d] == dims[d] else b.slice(both, [0] * len(dims), dims)
    return whole, math.prod(half)


def _wide(b: Builder, key: HloInstruction, counter: HloInstruction, shape: ArrayShape) -> tuple[HloInstruction, int]:
    """Random u64 of a shape, one counter each."""
    dims = shape.dimensions
    words = _threefry(b, _words(b, _counters(b, counter, dims)), _words(b, key))
    low, high = (b.convert(w, P.U64) for w in words)
    return b.binary(O.OR, low, b.binary(O.SHIFT_LEFT, high, b.full(32, high.array_shape))), math.prod(dims)


def _split_dimension(dims: tuple[int, ...]) -> int:
    """The first even dimension, or else the first of the largest."""
    even = [d for d, n in enumerate(dims) if n % 2 == 0]
    return even[0] if even else dims.index(max(dims))


def _counters(b: Builder, counter: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    """The counter plus the row-major index."""
    flat = array(P.U64, (math.prod(dims),))
    index = b.add(O.IOTA, (), flat, iota_dimension=0)
    return b.reshape(b.binary(O.ADD, index, b.broadcast(counter, (), flat)), dims)


def _words(b: Builder, x: HloInstruction) -> Pair:
    """The low and the high word of u64."""
    high = b.binary(O.SHIFT_RIGHT_LOGICAL, x, b.full(32, x.array_shape))
    return b.convert(x, P.U32), b.convert(high, P.U32)


def _threefry(b: Builder, x: Pair, key: Pair) -> Pair:
    shape = x[0].array_shape
    parity = b.binary(O.XOR, b.binary(O.XOR, key[0], key[1]), b.scalar(_PARITY, P.U32))
    schedule = [b.broadcast(k, (), shape) for k in (*key, parity)]
    x0, x1 = b.binary(O.ADD, x[0], schedule[0]), b.binary(O.ADD, x[1], schedule[1])
    for block in range(5):
        for turn in _ROTATIONS[block % 2]:
            x0 = b.binary(O.ADD, x0, x1)
            x1 = b.binary(O.XOR, x0, _rotated(b, x1, turn))
        x0 = b.binary(O.ADD, x0, schedule[(block + 1) % 3])
        x1 = b.binary(O.ADD, b.binary(O.ADD, x1, schedule[(block + 2) % 3]), b.full(block + 1, shape))
    return x0, x1


def _rotated(b: Builder, x: HloInstruction, by: int) -> HloInstruction:
    left = b.binary(O.SHIFT_LEFT, x, b.full(by, x.array_shape))
    return b.binary(O.OR, left, b.binary(O.SHIFT_RIGHT_LOGICAL, x, b.full(32 - by, x.array_shape)))
