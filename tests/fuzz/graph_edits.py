"""Edits of GraphDef text (.pbtxt): tokens, blocks, valid spellings and invalid ones."""

from __future__ import annotations

import re

import numpy as np

from tests.fuzz.mutate import NUMBERS, TEXTS, change_token
from xlanb.graph.ops.table import op_names

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|-?[\d.][\w.+-]*|\S')
_BLOCK = re.compile(r"(?m)^( *)([A-Za-z_]\w*) \{\n(?:\1 .*\n|\n)*\1\}(?:\n|$)")
_FIELD = re.compile(r"(?m)^( *)([A-Za-z_]\w*): (.*)$")
_WORDS = (
    "{", "}", "<", ">", "[", "]", ":", ",", ";", "#", "'", '"', "node {", "attr {", "key:", "value {", "library {",
    "function {", "[type.googleapis.com/x] {", "true", "True", "t", "0x7f", "0777",
    "08", "1e400", "-nan", "-inf", "1.5f", "inff", "1u", "--1", "- 1", "DT_FLOAT_REF", "DT_INVALID", "dim {",
    "size: -1", "unknown_rank: true", "[1, 2]", "[]", '"a" "b"', r'"\400"', r'"\xzz"',
    r'"\u00e9"', r'"\U00110000"', "versions {", "producer: 0", "min_consumer: 9999", "bad_consumers: 27",
    "tensor_content:", "half_val: 70000", "bool_val: 2", "int_val: 2147483648",
)  # fmt: skip


def edited(text: str, other: str, rng: np.random.Generator) -> str:
    """The text with one to three edits; `other` is a text to take blocks from."""
    for _ in range(int(rng.integers(1, 4))):
        how = int(rng.integers(0, len(_EDITS) + 1))
        text = _EDITS[how](text, rng) if how < len(_EDITS) else _splice(text, other, rng)
    return text


def _one(found: list[re.Match[str]], rng: np.random.Generator) -> re.Match[str]:
    return found[int(rng.integers(0, len(found)))]


def _splice(text: str, other: str, rng: np.random.Generator) -> str:
    """Put a block of another text at the end, before a block, or in place of one."""
    here, there = list(_BLOCK.finditer(text)), list(_BLOCK.finditer(other))
    if not here or not there:
        return text
    block, at = _one(there, rng), _one(here, rng)
    alike = [m for m in _inner(other) if m[2] == at[2]]
    piece = _one(alike, rng)[0] if alike and rng.random() < 0.5 else block[0]
    if rng.random() < 0.3:
        return f"{text}\n{piece}"
    return text[: at.start()] + piece + "\n" + text[at.end() if rng.random() < 0.5 else at.start() :]


def _inner(text: str) -> list[re.Match[str]]:
    """The blocks of all levels."""
    found = []
    left = [(text, 0)]
    while left:
        inside, depth = left.pop()
        for m in _BLOCK.finditer(inside):
            found.append(m)
            body = m[0].partition("\n")[2].rpartition("}")[0]
            if depth < 6:
                left.append((body, depth + 1))
    return found


def _token(text: str, rng: np.random.Generator) -> str:
    words = _WORDS if rng.random() < 0.7 else [str(n) for n in NUMBERS]
    return change_token(text, _TOKEN, words, rng)


def _block(text: str, rng: np.random.Generator) -> str:
    """Delete, duplicate or exchange a block of any level."""
    pieces = [m[0] for m in _inner(text)]
    if not pieces:
        return text
    first, second = (pieces[int(v)] for v in rng.integers(0, len(pieces), 2))
    how = int(rng.integers(0, 3))
    if how == 0:
        return text.replace(first, "", 1)
    if how == 1:
        return text.replace(first, first + first, 1)
    return text if first in second or second in first else text.replace(first, second, 1)


def _fields(text: str, rng: np.random.Generator) -> str:
    """Delete or duplicate a field, exchange its value with another's, or rename it."""
    found = list(_FIELD.finditer(text))
    if not found:
        return text
    a, b = sorted((_one(found, rng), _one(found, rng)), key=lambda m: m.start())
    how = int(rng.integers(0, 4))
    if how == 0:
        return text[: a.start()] + text[a.end() :]
    if how == 1:
        return text[: a.end()] + "\n" + a[0] + text[a.end() :]
    if how == 2 or a is b:
        return text[: a.start(2)] + b[2] + text[a.end(2) :]
    return text[: a.start(3)] + b[3] + text[a.end(3) : b.start(3)] + a[3] + text[b.end(3) :]


def _spelling(text: str, rng: np.random.Generator) -> str:
    """Rewrite a text to an equivalent spelling.

    Single quotes, angle brackets, hexadecimal numbers, split strings, separators, comments.
    """
    found = list(_FIELD.finditer(text))
    if not found:
        return text
    m = _one(found, rng)
    value, how = m[3], int(rng.integers(0, 5))
    if how == 0 and value.startswith('"'):
        value = "'" + value[1:-1].replace("'", r"\'") + "'"
    elif how == 1 and value.isdigit():
        value = hex(int(value)) if rng.random() < 0.5 else f"0{int(value):o}"
    elif how == 2 and value.startswith('"'):
        at = 1 + int(rng.integers(0, max(len(value) - 2, 1)))
        value = value[:at] + '" "' + value[at:]
    elif how == 3:
        value += ("  # a comment", ",", ";", " ;;")[int(rng.integers(0, 4))]
    else:
        return text.replace("{", "<").replace("}", ">") if rng.random() < 0.5 else text.replace(" {", ": {")
    return text[: m.start(3)] + value + text[m.end(3) :]


def _string(text: str, rng: np.random.Generator) -> str:
    """Replace a string by an op name, another string or an odd one, or add an escape."""
    found = list(re.finditer(r'"(?:[^"\\\n]|\\.)*"', text))
    if not found:
        return text
    m = _one(found, rng)
    odd = TEXTS[int(rng.integers(0, len(TEXTS)))].replace("\\", "\\\\").replace('"', '\\"')
    names = op_names()
    made = (
        _one(found, rng)[0],
        f'"{odd}"',
        f'"{names[int(rng.integers(0, len(names)))]}"',
        m[0][:-1] + '\\351\\0\\n"',
        '"' + "x/" * 3000 + '"',
    )
    new = made[int(rng.integers(0, len(made)))]
    return text.replace(m[0], new) if rng.random() < 0.4 else text[: m.start()] + new + text[m.end() :]


def _nesting(text: str, rng: np.random.Generator) -> str:
    """Open brackets once more or very often, or truncate the text."""
    at = int(rng.integers(0, len(text) + 1))
    if rng.random() < 0.4:
        return text[:at]
    pieces = (
        "{",
        "}",
        "node {",
        "attr { value {",
        "value { list {",
        "library { function {",
        "[",
        "<",
        '"',
        "shape { dim {",
    )
    times = 1 if rng.random() < 0.7 else int(10 ** rng.uniform(1, 4))
    return text[:at] + pieces[int(rng.integers(0, len(pieces)))] * times + text[at:]


_EDITS = (_token, _token, _token, _block, _block, _fields, _fields, _spelling, _string, _nesting)
