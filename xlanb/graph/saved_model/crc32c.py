"""CRC-32C (Castagnoli), the checksum of TensorFlow's checkpoints and records, in NumPy.

The remainder is linear: that of A followed by B is that of A, shifted by the length of B, xor that
of B. So the words of a chunk are reduced in pairs, each level with a table of how its shift changes
each byte of a remainder.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint32]]
_POLYNOMIAL: Final = 0x82F63B78  # reflected
_WORD: Final = 4
_CHUNK: Final = 16  # words, as a power of two: 256 KiB stay in the cache
_MASK_DELTA: Final = 0xA282EAD8


def crc32c(data: bytes | memoryview, before: int = 0) -> int:
    """Return the checksum of `data`, or continue from checksum `before` (crc32c::Extend)."""
    view = memoryview(data).cast("B")
    body = len(view) - len(view) % _WORD
    state = before ^ 0xFFFFFFFF
    words = np.frombuffer(view[:body], "<u4")
    for start in range(0, len(words), 1 << _CHUNK):
        state = _advanced(state, words[start : start + (1 << _CHUNK)])
    table = _bytes()
    for byte in view[body:]:
        state = int(table[(state ^ byte) & 255]) ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def masked(checksum: int) -> int:
    """Return the stored form of a checksum: rotated, plus a constant.

    So a checksum of checksums is not a fixed point (TensorFlow, LevelDB).
    """
    return (((checksum >> 15) | (checksum << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def _advanced(state: int, words: Words) -> int:
    """Return the remainder after a chunk, padded at its front by zeros, which change no
    remainder.
    """
    values = words.copy()
    values[0] ^= np.uint32(state)
    for level in range(len(values).bit_length()):
        if len(values) == 1:
            break
        if len(values) % 2:
            values = np.concatenate([np.zeros(1, np.uint32), values])
        values = _shift_by_zeros(values[0::2], level) ^ values[1::2]
    return int(_shift_by_zeros(values, 0)[0])


def _shift_by_zeros(values: Words, level: int) -> Words:
    """Shift remainders by 2**level words of zeros."""
    low, high = _tables(level)
    moved: Words = low.take(values & 0xFFFF) ^ high.take(values >> 16)  # twice as fast as indexing
    return moved


@cache
def _tables(level: int) -> tuple[Words, Words]:
    """Return the effect of shifting by 2**level words on the lower and upper half of a
    remainder.
    """
    halves = np.arange(1 << 16, dtype=np.uint32)
    if level:
        low, high = _tables(level - 1)
        return _shift_by_zeros(low, level - 1), _shift_by_zeros(high, level - 1)
    return _over_word(halves), _over_word(halves << np.uint32(16))


def _over_word(values: Words) -> Words:
    table = _bytes()
    for _ in range(_WORD):
        values = table[values & 255] ^ (values >> 8)
    return values


@cache
def _bytes() -> Words:
    """Return the effect of shifting by one byte on the lowest byte of a remainder."""
    values: Words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = (values >> np.uint32(1)) ^ ((values & np.uint32(1)) * np.uint32(_POLYNOMIAL))
    return values
