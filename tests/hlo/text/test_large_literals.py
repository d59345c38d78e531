"""Large literals with only plain elements are read at once, others element by element.

Both give the same values and errors.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.hlo.text import literal_text

DIMENSIONS = ((40,), (8, 5), (2, 4, 5), (2, 1, 4, 5), (64, 1))


def module(shape: str, text: str) -> str:
    return f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({text}) }}"


def nested(array, write) -> str:
    if not isinstance(array, np.ndarray):
        return write(array)
    return "{ " + ", ".join(nested(x, write) for x in array) + " }"


def read(shape: str, text: str):
    try:
        array = xlanb.hlo.parse(module(shape, text)).entry_computation.root.literal.array
    except XlanbError as error:
        return str(error)
    return array.dtype, array.shape, array.tobytes()


@pytest.fixture
def one_by_one(monkeypatch):
    """The result of reading a literal element by element."""

    def reading(shape: str, text: str):
        with monkeypatch.context() as patch:
            patch.setattr(literal_text, "_MANY", 1 << 62)
            return read(shape, text)

    return reading


def variants(text: str) -> list[str]:
    """The text, and variants with other blanks, commas, braces and numbers near the start."""
    first = text.replace("{", "{ ", 1)
    changed = [text.replace(", ", to, 2) for to in (",", " ", ",\n\t", ",, ", ", , ")]
    changed += [text.replace("{ ", "{ " + put, 1) for put in ("--", "5.0, ", "1 2, ", "-", "x", "{", "...")]
    return [text, first, *changed, text[:-1], text + "}", "{...}", text.replace("}", "", 1)]


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=str)
@pytest.mark.parametrize("kind", ["pred", "s4", "u4", "s8", "u8", "s32", "u32", "s64", "u64"])
def test_integers(kind, dimensions, one_by_one):
    rng = np.random.default_rng(0)
    bits = 1 if kind == "pred" else int(kind[1:])
    low, high = (0, 2 ** min(bits, 62)) if kind[0] in "up" else (-(2 ** (bits - 1)), 2 ** min(bits - 1, 62))
    shape = f"{kind}[{','.join(map(str, dimensions))}]"
    values = rng.integers(low, high, dimensions)
    outside = values.astype(object)
    outside.flat[7] = 2**bits
    texts = [*variants(nested(values, str)), nested(values % 2, str), nested(outside, str), nested(-outside, str)]
    texts.append(nested(values > 0, lambda v: str(bool(v)).lower()))
    results = [read(shape, text) for text in texts]
    assert results == [one_by_one(shape, text) for text in texts]
    assert isinstance(results[0], tuple)


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=str)
@pytest.mark.parametrize("kind", ["f64", "f32", "bf16", "f16", "f8e4m3fn", "f8e8m0fnu"])
def test_floats(kind, dimensions, one_by_one):
    rng = np.random.default_rng(1)
    shape = f"{kind}[{','.join(map(str, dimensions))}]"
    values = np.abs(rng.standard_normal(dimensions)) + 0.1
    odd = ("nan", "-inf", "1e999", "1e40", "-0", "-0.0", "1.5.2", "1e", ".5", "4.", "true", "1e+2", "nan(0x3)", "5f")
    texts = variants(nested(values, lambda v: f"{v:.9g}"))
    texts += [nested(values, lambda v, o=o: o if v > 1 else f"{v:.3e}") for o in odd]
    results = [read(shape, text) for text in texts]
    assert results == [one_by_one(shape, text) for text in texts]
    assert isinstance(results[0], tuple)


def test_a_short_text_of_a_huge_array_takes_no_memory():
    with pytest.raises(XlanbError, match="expects 1000000000000 elements"):
        xlanb.hlo.parse(module("f32[1000000000000]", "{ 1, 2 }"))


def test_elements_of_tuples_and_what_follows(one_by_one):
    row = nested(np.arange(40), str)
    text = f"HloModule m\nENTRY e {{ a = s32[40] constant({row})\n b = pred[40] constant({nested(np.ones(40, int), str)})\n ROOT t = (s32[40], pred[40]) tuple(a, b) }}"
    a, b = xlanb.evaluate(xlanb.hlo.parse(text))
    assert a.tolist() == list(range(40))
    assert b.all()
