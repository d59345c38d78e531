"""Small protocol buffers that expand.

Nesting, lengths beyond the file, millions of repeated fields, groups, endless varints.
"""

from __future__ import annotations

import numpy as np

from xlanb.protos import as_varint

_DEEPEST, _MOST = 20_000, 200_000


def _field(number: int, wire: int, body: bytes = b"") -> bytes:
    return as_varint(number << 3 | wire) + (as_varint(len(body)) + body if wire == 2 else body)


def bomb(rng: np.random.Generator) -> bytes:
    """The bytes of one bomb, with random fields of small numbers."""
    made: bytes = _BOMBS[int(rng.integers(len(_BOMBS)))](rng)
    return made


def _number(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 12))


def _nested(rng: np.random.Generator) -> bytes:
    """Nested messages: of one field, or of two alternating ones, like trees of shapes."""
    numbers = [_number(rng) for _ in range(int(rng.integers(1, 4)))]
    body = b""
    for k in range(int(10 ** rng.uniform(1, np.log10(2_000)))):
        body = _field(numbers[k % len(numbers)], 2, body)
    return body


def _groups(rng: np.random.Generator) -> bytes:
    """Groups that are opened, and closed or not."""
    count, number = int(10 ** rng.uniform(1, np.log10(_DEEPEST))), _number(rng)
    end = _field(number, 4) * count if rng.random() < 0.5 else b""
    return _field(number, 3) * count + end


def _beyond(rng: np.random.Generator) -> bytes:
    """A length far beyond the end."""
    length = int(2 ** rng.uniform(4, 63))
    return as_varint(_number(rng) << 3 | 2) + as_varint(length) + bytes(rng.integers(0, 256, 40, np.uint8))


def _endless(rng: np.random.Generator) -> bytes:
    """A varint with more bytes than a number has."""
    return as_varint(_number(rng) << 3) + b"\xff" * int(rng.integers(9, 2_000)) + b"\x01"


def _repeated(rng: np.random.Generator) -> bytes:
    """One small field repeated: empty messages, short texts, numbers."""
    count, number = int(10 ** rng.uniform(3, np.log10(_MOST))), _number(rng)
    wire = int(rng.choice([0, 2, 2, 2]))
    body = b"\x01" if wire == 0 else b"" if rng.random() < 0.5 else _field(1, 2, b"a")
    return _field(number, wire, body) * count


def _packed(rng: np.random.Generator) -> bytes:
    """Many numbers in one field, alone or in a message."""
    numbers = bytes(rng.integers(0, 128, int(10 ** rng.uniform(3, np.log10(_MOST))), np.uint8))
    body = _field(_number(rng), 2, numbers)
    for _ in range(int(rng.integers(0, 4))):
        body = _field(_number(rng), 2, body)
    return body


def _odd_tags(rng: np.random.Generator) -> bytes:
    """Field 0, fields of the largest numbers, nonexistent wire types."""
    tags = [0, 6, 7, (1 << 29) - 1 << 3, (1 << 29) << 3 | 2, (1 << 32) - 1]
    return as_varint(tags[int(rng.integers(len(tags)))]) + bytes(rng.integers(0, 256, 12, np.uint8))


_BOMBS = (_nested, _groups, _beyond, _endless, _repeated, _packed, _odd_tags)
