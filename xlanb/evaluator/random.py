"""Random bits: rng-bit-generator with the same bits as XLA's expansions.

Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.bits import bitcast_convert
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, describe, narrow, primitive_type, widen
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape, TupleShape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

_MASK_32 = np.uint64(0xFFFFFFFF)
_MASK_64 = (1 << 64) - 1
_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PHILOX_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def _halves(x: Array) -> tuple[Array, Array]:
    """u64 as its low and high u32."""
    return (x & _MASK_32).astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def _joined(low: Array, high: Array) -> Array:
    """u64 from its low and high u32."""
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def threefry_2x32(counter: tuple[Array, Array], key: tuple[int, int]) -> tuple[Array, Array]:
    """ThreeFry with two words of 32 bits and 20 rounds."""
    schedule = [np.uint32(k) for k in (*key, 0x1BD11BDA ^ key[0] ^ key[1])]
    x0, x1 = counter[0] + schedule[0], counter[1] + schedule[1]
    for block in range(5):
        for r in _THREEFRY_ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r)))
        x0 = x0 + schedule[(block + 1) % 3]
        x1 = x1 + schedule[(block + 2) % 3] + np.uint32(block + 1)
    return x0, x1


def philox_4x32(counter: tuple[Array, ...], key: tuple[int, int]) -> tuple[Array, Array, Array, Array]:
    """Philox with four words of 32 bits and 10 rounds."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        low0, high0 = _halves(x0.astype(np.uint64) * _PHILOX_MULTIPLIERS[0])
        low1, high1 = _halves(x2.astype(np.uint64) * _PHILOX_MULTIPLIERS[1])
        x0, x1, x2, x3 = high1 ^ x1 ^ np.uint32(k0), low1, high0 ^ x3 ^ np.uint32(k1), low0
        k0, k1 = (k0 + _PHILOX_KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + _PHILOX_KEY_STEPS[1]) & 0xFFFFFFFF
    return x0, x1, x2, x3


def _key_words(key: int) -> tuple[int, int]:
    return key & 0xFFFFFFFF, key >> 32


def _threefry_counters(state: int, dimensions: tuple[int, ...]) -> tuple[Array, Array]:
    """A counter for every element of a shape: the state plus the row-major index."""
    index = np.arange(math.prod(dimensions), dtype=np.uint64).reshape(dimensions)
    return _halves(index + np.uint64(state))


def _split_dimension(dimensions: tuple[int, ...]) -> int:
    """The first even dimension, else the largest; the two words of a counter fill its halves."""
    even = next((d for d, n in enumerate(dimensions) if n % 2 == 0), None)
    return even if even is not None else max(range(len(dimensions)), key=lambda d: (dimensions[d], -d))


def threefry_bits_32(key: int, state: int, dimensions: tuple[int, ...]) -> tuple[Array, int]:
    """Random u32 of a shape, and the new state."""
    if not dimensions:
        words = threefry_2x32(_threefry_counters(state, (1,)), _key_words(key))
        return words[0].reshape(()), (state + 1) & _MASK_64
    d = _split_dimension(dimensions)
    half = (*dimensions[:d], -(-dimensions[d] // 2), *dimensions[d + 1 :])
    words = threefry_2x32(_threefry_counters(state, half), _key_words(key))
    both = np.stack(words, axis=d + 1).reshape(*dimensions[:d], 2 * half[d], *dimensions[d + 1 :])
    return both[(slice(None),) * d + (slice(dimensions[d]),)], (state + math.prod(half)) & _MASK_64


def threefry_bits_64(key: int, state: int, dimensions: tuple[int, ...]) -> tuple[Array, int]:
    """Random u64 of a shape, and the new state."""
    words = threefry_2x32(_threefry_counters(state, dimensions), _key_words(key))
    return _joined(*words), (state + math.prod(dimensions)) & _MASK_64


def philox_bits(key: int, state: int, count: int) -> tuple[Array, int]:
    """At least `count` random u32, four per counter, and the new 128-bit state."""
    blocks = -(-count // 4)
    low = np.arange(blocks, dtype=np.uint64) + np.uint64(state & _MASK_64)
    high = np.full(blocks, state >> 64, np.uint64) + (low < np.uint64(state & _MASK_64))
    words = philox_4x32((*_halves(low), *_halves(high)), _key_words(key))
    return np.stack(words, axis=1).reshape(-1), (state + blocks) % (1 << 128)


def _philox_array(key: int, state: int, dimensions: tuple[int, ...], bits: int) -> tuple[Array, int]:
    count = math.prod(dimensions)
    words, after = philox_bits(key, state, count * (2 if bits == 64 else 1))
    if bits == 64:
        words = _joined(words[0::2], words[1::2])
    return words[:count].reshape(dimensions), after


def _threefry_array(key: int, state: int, dimensions: tuple[int, ...], bits: int) -> tuple[Array, int]:
    return threefry_bits_64(key, state, dimensions) if bits == 64 else threefry_bits_32(key, state, dimensions)


def _as_type(words: Array, shape: ArrayShape) -> Array:
    """Random words as elements of a type: a narrow one uses the low bits."""
    bits = shape.element_type.bits
    if bits < 8:
        return narrow(words.astype(np.uint8), np.dtype(shape.dtype))
    return bitcast_convert(words.astype(np.dtype(f"u{bits // 8}")), shape.dtype, shape.dimensions)


@rule("rng-bit-generator")
def _rng_bit_generator(ev: Evaluator, i: HloInstruction, state: Array) -> Any:
    shapes = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
    shape = shapes[-1].as_array()
    if shape.element_type.is_complex:
        raise EvaluationError(f"random bits are generated for integers and floats, not for {shape.element_type}")
    if state.nbytes % 8 or primitive_type(state).bits < 8:
        raise EvaluationError(f"{describe(state)} is not a whole number of 64-bit words; expected two or three")
    words = [int(w) for w in np.ascontiguousarray(state).reshape(-1).view(np.uint64)]
    if len(words) not in (2, 3):
        raise EvaluationError(f"the state has {len(words)} 64-bit words; expected two or three")
    key = words[0]
    if i.attributes["algorithm"] == "rng_three_fry":
        value, after = _threefry_array(key, words[1], shape.dimensions, shape.element_type.bits)
        rest = [after, *words[2:]]
    else:
        # If the state has two words, the key is also the upper half of the counter; only the lower
        # half is kept.
        counter = (words[2] << 64) | words[1] if len(words) == 3 else (key << 64) | words[1]
        value, wide = _philox_array(key, counter, shape.dimensions, shape.element_type.bits)
        rest = [wide & _MASK_64, wide >> 64][: len(words) - 1]
    new_state = np.array([key, *rest], np.uint64).view(state.dtype).reshape(state.shape)
    result = _as_type(value, shape)
    return (new_state, result) if isinstance(i.shape, TupleShape) else result


def _hidden_state(ev: Evaluator) -> int:
    if ev.seed is None:
        raise EvaluationError("the value depends on hidden state")
    return ev.rng_state


@rule("rng-get-and-update-state")
def _rng_get_and_update_state(ev: Evaluator, i: HloInstruction) -> Array:
    state = _hidden_state(ev)
    ev.rng_state = (state + i.attributes["delta"]) % (1 << 128)
    return np.array([state & _MASK_64, state >> 64], np.uint64)


@rule("rng")
def _rng(ev: Evaluator, i: HloInstruction, a: Array, b: Array) -> Array:
    """Random numbers of the required distribution.

    The generator is implementation-defined; here it is Philox keyed by the evaluator's seed.
    """
    shape = i.array_shape
    generator = np.random.Generator(np.random.Philox(key=ev.seed, counter=_hidden_state(ev)))
    ev.rng_state = (ev.rng_state + shape.element_count) % (1 << 128)
    low, high = widen(a), widen(b)
    if i.attributes["distribution"] == "rng_normal":
        return narrow(low + high * generator.standard_normal(shape.dimensions), shape.dtype)
    if shape.element_type.is_integral or shape.dtype == np.bool_:
        top = max(int(high), int(low) + 1)
        holder = np.uint64 if shape.dtype == np.uint64 else np.int64
        return (
            generator.integers(int(low), top, shape.dimensions, dtype=holder).astype(widen(a).dtype).astype(shape.dtype)
        )
    values = narrow(low + (high - low) * generator.random(shape.dimensions), shape.dtype)
    return np.where(
        widen(values) >= high, narrow(low, shape.dtype), values
    )  # rounding may reach the upper bound, which is excluded
