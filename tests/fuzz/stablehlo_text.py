"""Mutated StableHLO text: rejected with an XlanbError, or converted to HLO that holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from tests.fuzz.hlo_check import check_module
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import NUMBERS, change_text, change_token
from xlanb.frontends.stablehlo import from_stablehlo
from xlanb.hlo import HloModule

_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
_LONGEST = 20_000
_SEEDS = Path(__file__).with_name("seeds.mlir")
_TOKEN = re.compile(r'"[^"\n]*"|[%@#!^]?[\w.$]+|->|::|\S')
_NUMBER = re.compile(r"(?<![\w.%#])-?\d+")
_TYPES = (
    "tensor<f32>", "tensor<4x4xf64>", "tensor<?x4xf32>", "tensor<0xi1>", "tensor<2xcomplex<f64>>", "tensor<4xi4>",
    "tensor<4x4xui8>", "tuple<tensor<i32>>",
    "!stablehlo.token", "tensor<9223372036854775807xf32>", "tensor<4x!quant.uniform<i8:f32, 1.0>>",
    "tensor<?xf32, #stablehlo.bounds<4>>", "i32", "() -> ()",
)  # fmt: skip
_BRACKETS = ("{", "}", "(", ")", "[", "]", "<", ">", '"', "dense<", "tensor<", "({", "})", "loc(", "#", "tuple<")
_VALUE = re.compile(r"= (?:\[[^\]\n]*\]|[\w.#<\"-][^\s,)}>]*)")
_VALUES = (
    "[]", "[0, 0]", "-1", "99999999999999999999", "true", '"x"', "unit", "dense<[1, 2]> : tensor<3xi64>",
    'dense<"0x00"> : tensor<4xf32>', "dense<> : tensor<0xf32>",
    "dense<[[1], [2, 3]]> : tensor<2x2xi32>", "array<i64: 1, -2>", "array<i1: true, 2>", "[[0, 1], [1]]", "@nothing",
    "#stablehlo<precision HIGH>", "1.0e400", "0xZZ", "%arg0",
    "{a = {b = {}}}", "tensor<f32>", "#stablehlo.channel_handle<handle = -1, type = 9>", "dense<nan> : tensor<2xi8>",
    "9223372036854775808 : i64",
)  # fmt: skip
_TYPE = re.compile(r"tensor<[^<>\n]*>")
_ELEMENTS = (
    "i1",
    "i2",
    "ui4",
    "i8",
    "ui8",
    "i16",
    "i32",
    "ui32",
    "i64",
    "ui64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "f8E4M3FN",
    "f8E5M2",
    "f8E8M0FNU",
    "f4E2M1FN",
    "complex<f32>",
    "complex<f64>",
    "index",
)
_SSA = re.compile(r"%[\w.$]+(?:#\d+)?")
_OP = re.compile(r"\b(?:stablehlo|chlo|func|mhlo)\.[a-z_0-9]+")
_BRACED = re.compile(r"(?:\[[^\[\]\n]*\]|\{[^{}\n]*\}|\([^()\n]*\)|<[^<>\n]*>)")


@cache
def seeds() -> tuple[str, ...]:
    """The seed file, and the programs in XLANB_FUZZ_SEEDS.

    The latter are .mlir files with one or several programs, or folders of them.
    """
    texts = [_SEEDS.read_text()]
    for given in filter(None, os.environ.get("XLANB_FUZZ_SEEDS", "").split(os.pathsep)):
        path = Path(given)
        for file in sorted(path.rglob("*.mlir")) if path.is_dir() else [path] if path.suffix == ".mlir" else []:
            whole = file.read_text(encoding="utf-8", errors="replace")
            texts += [t for t in _SEPARATOR.split(whole) if "stablehlo." in t and len(t) < _LONGEST]
    return tuple(dict.fromkeys(texts))


def mutants(rng: np.random.Generator) -> Iterator[str]:
    """Mutations of the seed file's programs, with one to four changes."""
    while True:
        found = seeds()
        text = found[0] if len(found) == 1 or rng.random() < 0.2 else found[int(rng.integers(1, len(found)))]
        for _ in range(int(rng.integers(1, 5))):
            text = _CHANGES[int(rng.integers(len(_CHANGES)))](text, rng)
        yield text


def _nesting(text: str, rng: np.random.Generator) -> str:
    """A bracket or quotation mark added, once or very often."""
    at, piece = int(rng.integers(len(text) + 1)), _BRACKETS[int(rng.integers(len(_BRACKETS)))]
    times = 1 if rng.random() < 0.8 else int(10 ** rng.uniform(1, 4))
    return text[:at] + piece * times + text[at:]


def _attribute(text: str, rng: np.random.Generator) -> str:
    """Replace the text after an equals sign by a value of another kind."""
    found = list(_VALUE.finditer(text))
    if not found:
        return text
    at = found[int(rng.integers(len(found)))]
    return text[: at.start()] + "= " + _VALUES[int(rng.integers(len(_VALUES)))] + text[at.end() :]


def _token(text: str, rng: np.random.Generator) -> str:
    return change_token(text, _TOKEN, _words(), rng)


@cache
def _words() -> tuple[str, ...]:
    """The distinct tokens of all seeds."""
    return tuple(sorted({t for text in seeds() for t in _TOKEN.findall(text)}))


def _operand(text: str, rng: np.random.Generator) -> str:
    """Replace a value by another: of the same name elsewhere, or any."""
    found = list(_SSA.finditer(text))
    if len(found) < 2:
        return text
    a, b = (found[int(rng.integers(len(found)))] for _ in range(2))
    return text[: a.start()] + b[0] + text[a.end() :]


def _dimension(text: str, rng: np.random.Generator) -> str:
    """Change, add or delete a dimension of a type, once or everywhere."""
    found = list(_TYPE.finditer(text))
    if not found:
        return text
    at = found[int(rng.integers(len(found)))]
    *dims, last = at[0].removeprefix("tensor<").removesuffix(">").split("x")
    k, size = (
        int(rng.integers(len(dims) + 1)),
        ("0", "1", "2", "?", "3", "4", "7", "-1", "2147483648")[int(rng.integers(9))],
    )
    how = int(rng.integers(4))
    if how == 0:
        dims.insert(k, size)
    elif how == 1 and dims:
        del dims[min(k, len(dims) - 1)]
    elif how == 2 and dims:
        dims[min(k, len(dims) - 1)] = size
    else:
        last = _ELEMENTS[int(rng.integers(len(_ELEMENTS)))]
    new = f"tensor<{'x'.join([*dims, last])}>"
    return text.replace(at[0], new) if rng.random() < 0.6 else text[: at.start()] + new + text[at.end() :]


def _operation(text: str, rng: np.random.Generator) -> str:
    """Replace an operation's name by that of another in any program."""
    found = list(_OP.finditer(text))
    if not found:
        return text
    at = found[int(rng.integers(len(found)))]
    names = _op_names()
    return text[: at.start()] + names[int(rng.integers(len(names)))] + text[at.end() :]


@cache
def _op_names() -> tuple[str, ...]:
    return tuple(sorted({t for text in seeds() for t in _OP.findall(text)}))


def _exchange(text: str, rng: np.random.Generator) -> str:
    """Exchange two attributes, types or bracketed regions."""
    pattern = (_VALUE, _TYPE, _BRACED)[int(rng.integers(3))]
    found = list(pattern.finditer(text))
    if len(found) < 2:
        return text
    a, b = sorted((found[int(rng.integers(len(found)))] for _ in range(2)), key=lambda m: m.start())
    if a is b:
        return text
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def _splice(text: str, rng: np.random.Generator) -> str:
    """Insert lines of another program."""
    other = seeds()[int(rng.integers(len(seeds())))].split("\n")
    lines = text.split("\n")
    start, at = int(rng.integers(len(other))), int(rng.integers(len(lines) + 1))
    lines[at:at] = other[start : start + int(rng.integers(1, 6))]
    return "\n".join(lines)


def _line(text: str, rng: np.random.Generator) -> str:
    """Delete, duplicate or move a line."""
    lines = text.split("\n")
    at, other = (int(rng.integers(len(lines))) for _ in range(2))
    how = int(rng.integers(3))
    piece = lines[at] if how else lines.pop(at)
    if how:
        lines.insert(other if how == 2 else at, piece)
    return "\n".join(lines)


def _number(text: str, rng: np.random.Generator) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    at = found[int(rng.integers(len(found)))]
    return text[: at.start()] + str(NUMBERS[int(rng.integers(len(NUMBERS)))]) + text[at.end() :]


def _type(text: str, rng: np.random.Generator) -> str:
    """Replace a type by another, once or everywhere."""
    found = list(_TYPE.finditer(text))
    if not found:
        return text
    at = found[int(rng.integers(len(found)))]
    new = _TYPES[int(rng.integers(len(_TYPES)))]
    return text.replace(at[0], new) if rng.integers(4) == 0 else text[: at.start()] + new + text[at.end() :]


_CHANGES = (
    change_text, _token, _token, _token, _line, _number, _number, _type, _nesting, _attribute, _operand, _operand,
    _dimension, _dimension, _dimension, _operation, _operation, _exchange, _exchange,
    _splice,
)  # fmt: skip


def check(item: Item, rng: np.random.Generator) -> str | None:
    """The find for a text; None if it is rejected with a location, or its HLO holds."""
    return check_module(lambda: _read(item), rng)


def quick(item: Item, rng: np.random.Generator) -> str | None:
    """Like `check`, without running accepted texts."""
    return check_module(lambda: _read(item), None)


def _read(item: Item) -> HloModule:
    text = item if isinstance(item, str) else item.decode("utf-8", "surrogateescape")
    return _ordered(from_stablehlo(text))


def _ordered(module: HloModule) -> HloModule:
    """The module with instructions and computations in the order of protos: operands first."""
    return HloModule.from_proto(module.to_proto())
