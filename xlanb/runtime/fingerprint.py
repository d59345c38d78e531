"""Fingerprint64 of bytes: FarmHash's farmhashna::Hash64 (Pike, 2014).

TensorFlow hashes strings with it.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _word(s: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(s[at : at + size], "little")


def _rotated(x: int, by: int) -> int:
    return ((x >> by) | (x << (64 - by))) & _MASK


def _mixed(x: int) -> int:
    return x ^ (x >> 47)


def _pair(u: int, v: int, multiplier: int) -> int:
    a = _mixed((u ^ v) * multiplier & _MASK)
    b = _mixed((v ^ a) * multiplier & _MASK)
    return b * multiplier & _MASK


def _up_to_16(s: bytes) -> int:
    n = len(s)
    multiplier = _K2 + 2 * n
    if n >= 8:
        a, b = _word(s, 0) + _K2, _word(s, n - 8)
        c = _rotated(b, 37) * multiplier + a
        d = (_rotated(a & _MASK, 25) + b) * multiplier
        return _pair(c & _MASK, d & _MASK, multiplier)
    if n >= 4:
        return _pair(n + (_word(s, 0, 4) << 3) & _MASK, _word(s, n - 4, 4), multiplier)
    if n:
        y = s[0] + (s[n >> 1] << 8)
        z = n + (s[n - 1] << 2)
        return _mixed((y * _K2 ^ z * _K0) & _MASK) * _K2 & _MASK
    return _K2


def _up_to_32(s: bytes) -> int:
    n = len(s)
    multiplier = _K2 + 2 * n
    a, b = _word(s, 0) * _K1 & _MASK, _word(s, 8)
    c, d = _word(s, n - 8) * multiplier & _MASK, _word(s, n - 16) * _K2 & _MASK
    u = _rotated(a + b & _MASK, 43) + _rotated(c, 30) + d
    v = a + _rotated(b + _K2 & _MASK, 18) + c
    return _pair(u & _MASK, v & _MASK, multiplier)


def _up_to_64(s: bytes) -> int:
    n = len(s)
    multiplier = _K2 + 2 * n
    a, b = _word(s, 0) * _K2 & _MASK, _word(s, 8)
    c, d = _word(s, n - 8) * multiplier & _MASK, _word(s, n - 16) * _K2 & _MASK
    y = _rotated(a + b & _MASK, 43) + _rotated(c, 30) + d & _MASK
    z = _pair(y, a + _rotated(b + _K2 & _MASK, 18) + c & _MASK, multiplier)
    e, f = _word(s, 16) * multiplier & _MASK, _word(s, 24)
    g = (y + _word(s, n - 32)) * multiplier & _MASK
    h = (z + _word(s, n - 24)) * multiplier & _MASK
    u = _rotated(e + f & _MASK, 43) + _rotated(g, 30) + h
    v = e + _rotated(f + a & _MASK, 18) + g
    return _pair(u & _MASK, v & _MASK, multiplier)


def _seeded(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Mix 32 bytes into two numbers."""
    w, x, y, z = (_word(s, at + 8 * i) for i in range(4))
    a = a + w & _MASK
    b = _rotated(b + a + z & _MASK, 21)
    c = a
    a = a + x + y & _MASK
    b = b + _rotated(a, 44) & _MASK
    return a + z & _MASK, b + c & _MASK


def _long(s: bytes) -> int:
    n, seed = len(s), 81
    x, y = seed, seed * _K1 + 113 & _MASK
    z = _mixed(y * _K2 + 113 & _MASK) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = x * _K2 + _word(s, 0) & _MASK
    end = (n - 1) // 64 * 64
    at = 0
    while at < end:
        x = _rotated(x + y + v[0] + _word(s, at + 8) & _MASK, 37) * _K1 & _MASK
        y = _rotated(y + v[1] + _word(s, at + 48) & _MASK, 42) * _K1 & _MASK
        x ^= w[1]
        y = y + v[0] + _word(s, at + 40) & _MASK
        z = _rotated(z + w[0] & _MASK, 33) * _K1 & _MASK
        v = _seeded(s, at, v[1] * _K1 & _MASK, x + w[0] & _MASK)
        w = _seeded(s, at + 32, z + w[1] & _MASK, y + _word(s, at + 16) & _MASK)
        z, x = x, z
        at += 64
    multiplier = _K1 + ((z & 0xFF) << 1)
    at = n - 64
    w = (w[0] + ((n - 1) & 63) & _MASK, w[1])
    v = (v[0] + w[0] & _MASK, v[1])
    w = (w[0] + v[0] & _MASK, w[1])
    x = _rotated(x + y + v[0] + _word(s, at + 8) & _MASK, 37) * multiplier & _MASK
    y = _rotated(y + v[1] + _word(s, at + 48) & _MASK, 42) * multiplier & _MASK
    x ^= w[1] * 9 & _MASK
    y = y + v[0] * 9 + _word(s, at + 40) & _MASK
    z = _rotated(z + w[0] & _MASK, 33) * multiplier & _MASK
    v = _seeded(s, at, v[1] * multiplier & _MASK, x + w[0] & _MASK)
    w = _seeded(s, at + 32, z + w[1] & _MASK, y + _word(s, at + 16) & _MASK)
    z, x = x, z
    first = _pair(v[0], w[0], multiplier) + _mixed(y) * _K0 + z & _MASK
    return _pair(first, _pair(v[1], w[1], multiplier) + x & _MASK, multiplier)


def fingerprint64(s: bytes) -> int:
    """The 64-bit hash of a string."""
    n = len(s)
    if n <= 16:
        return _up_to_16(s)
    if n <= 32:
        return _up_to_32(s)
    return _up_to_64(s) if n <= 64 else _long(s)
