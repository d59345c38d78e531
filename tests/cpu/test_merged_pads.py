"""Pads whose short last axis is merged with the one before it."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.hlo.opcode import HloOpcode as Op


def _text(size, padding, result, *, before="", layout=""):
    return f"""HloModule m
ENTRY e {{
  p = f32[{size}]{layout} parameter(0)
  v = f32[] constant(7)
  {before}
  ROOT r = f32[{result}]{layout} pad({"x" if before else "p"}, v), padding={padding}
}}
"""


@pytest.mark.parametrize(
    ("size", "padding", "result", "rank"),
    [
        ("2,9,8,3", "0_0x3_3x3_2x0_0", "2,15,13,3", 3),
        ("2,9,8,2,3", "1_0x0_0x4_1x0_0x0_0", "3,9,13,2,3", 3),
        ("9,8,3", "0_0x-2_3x0_0", "9,9,3", 2),
        ("9,8,3", "2_1_1x1_0x0_0", "20,9,3", 2),
        ("9,8,3", "0_0x1_1_1x0_0", "9,17,3", 3),  # between pixels
        ("9,8,3", "1_1x0_0x1_0", "11,8,4", 3),
        ("9,8,40", "0_0x1_1x0_0", "9,10,40", 3),  # long enough
        ("9,8,1", "0_0x1_1x0_0", "9,10,1", 3),
        ("9,3", "0_0x0_0", "9,3", 2),
    ],
)
def test_channels_are_padded_with_their_pixels(backend, size, padding, result, rank):
    text = _text(size, padding, result)
    exe = backend(text)
    x = np.random.default_rng(0).random([int(n) for n in size.split(",")], np.float32)
    np.testing.assert_array_equal(exe(x), evaluate(parse(text), x))
    (pad,) = (i for i in exe.hlo_module.entry_computation if i.opcode is Op.PAD)
    assert pad.array_shape.rank == rank


def test_other_layouts_stay(backend):
    text = _text("9,8,3", "0_0x1_1x0_0", "9,10,3", layout="{0,1,2}")
    exe = backend(text)
    x = np.random.default_rng(0).random((9, 8, 3), np.float32)
    np.testing.assert_array_equal(exe(np.asfortranarray(x)), evaluate(parse(text), x))
    assert Op.BITCAST not in exe.hlo_module.opcodes


def test_what_is_computed_in_the_same_loop_stays():
    text = _text("9,8,3", "0_0x1_1x0_0", "9,10,3", before="x = f32[9,8,3] negate(p)")
    exe = xlanb.compile(text)
    x = np.random.default_rng(0).random((9, 8, 3), np.float32)
    np.testing.assert_array_equal(exe(x), evaluate(parse(text), x))
    assert all(i.array_shape.rank == 3 for c in exe.hlo_module.computations for i in c if i.opcode is Op.PAD)
