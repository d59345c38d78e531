"""Mutations of bytes, text and JSON values that all kinds of input share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    255,
    256,
    2**15,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
)
"""Limits of integer types."""
TEXTS = (
    "",
    " ",
    "a b",
    '"',
    "'",
    "\\",
    "\n",
    "\x00",
    "\u2028",
    "é",
    "\U0001f600",
    "../..",
    "<script>alert(1)</script>",
    "%s%n",
    "a" * 5000,
    "\udc80",
)
"""Names and words that text formats, pages and paths may mishandle."""


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes: a bit, a byte, a number, a piece deleted, duplicated or moved."""
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data) + 1))
        size = int(rng.integers(1, 1 + min(64, max(len(data) - at, 1))))
        piece = data[at : at + size]
        how = int(rng.integers(0, 7))
        if how == 0 and piece:
            data = data[:at] + bytes([piece[0] ^ (1 << int(rng.integers(0, 8)))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + bytes([int(rng.integers(0, 256))]) + data[at + 1 :]
        elif how == 2:
            number = NUMBERS[int(rng.integers(0, len(NUMBERS)))] & (2**64 - 1)
            data = data[:at] + number.to_bytes(8, "little")[: int(rng.integers(1, 9))] + data[at + size :]
        elif how == 3:
            data = data[:at] + data[at + size :]
        elif how == 4:
            data = data[:at] + piece * int(rng.integers(2, 9)) + data[at + size :]
        elif how == 5:
            to = int(rng.integers(0, len(data) + 1))
            data = data[:to] + piece + data[to:]
        else:
            data = data[:at]
    return data


def change_text(text: str, rng: np.random.Generator) -> str:
    """One to four changes: a line or piece deleted, copied or moved; a number or word replaced."""
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(text) + 1))
        size = int(rng.integers(1, 40))
        how = int(rng.integers(0, 5))
        if how == 0:
            text = text[:at] + text[at + size :]
        elif how == 1:
            text = text[:at] + text[at : at + size] + text[at:]
        elif how == 2:
            text = text[:at] + str(NUMBERS[int(rng.integers(0, len(NUMBERS)))]) + text[at + 1 :]
        elif how == 3:
            text = text[:at] + TEXTS[int(rng.integers(0, len(TEXTS)))] + text[at:]
        else:
            text = text[:at]
    return text


def change_token(text: str, token: re.Pattern[str], words: Sequence[str], rng: np.random.Generator) -> str:
    """Delete, duplicate, exchange, repeat elsewhere, or replace a token by one of `words`."""
    found = list(token.finditer(text))
    if len(found) < 2:
        return text
    a, b = sorted(int(v) for v in rng.integers(0, len(found), 2))
    how = int(rng.integers(0, 6))
    if how == 5:
        b = min(a + 1, len(found) - 1)  # neighbours
    first, second = found[a], found[b]
    if how <= 3:
        put = ("", f"{first[0]} {first[0]}", words[int(rng.integers(0, len(words)))], f"{second[0]} {first[0]}")[how]
        return text[: first.start()] + put + text[first.end() :]
    if a == b:
        return text
    return text[: first.start()] + second[0] + text[first.end() : second.start()] + first[0] + text[second.end() :]


def other_value(rng: np.random.Generator) -> Any:
    """A JSON value of any kind."""
    values: tuple[Any, ...] = (*NUMBERS, *TEXTS, None, True, False, 0.5, [], {}, [[]], {"": 0}, [0] * 300)
    return values[int(rng.integers(0, len(values)))]


def change_json(value: Any, rng: np.random.Generator) -> Any:
    """The value with one part replaced, deleted, or duplicated."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[int(rng.integers(0, len(keys)))]
        made = value.copy()
        how = rng.random()
        if how < 0.7:
            made[key] = change_json(value[key], rng)
        elif how < 0.85:
            del made[key]
        elif isinstance(made, list):
            made.append(value[key])
        else:
            made[TEXTS[int(rng.integers(0, len(TEXTS)))]] = value[key]
        return made
    return change_text(value, rng) if isinstance(value, str) and rng.random() < 0.5 else other_value(rng)
