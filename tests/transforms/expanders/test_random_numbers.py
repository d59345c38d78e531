"""Random numbers as HLO: known answers, distributions, and what is drawn again."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.hlo import HloOpcode, parse
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms import PASSES
from xlanb.transforms.builder import Builder
from xlanb.transforms.expanders.philox import PhiloxCounter, philox_bits

U64 = PrimitiveType.U64
ONES = 2**64 - 1


@pytest.mark.parametrize(
    ("key", "low", "high", "words"),
    [
        (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (ONES, ONES, ONES, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_known_answers_of_philox(key, low, high, words):
    module = parse("HloModule m\nENTRY main {\n  ROOT x = f32[] parameter(0)\n}")
    b = Builder(module.entry_computation.root)
    values = [b.scalar(v, U64) for v in (key, low, high)]
    bits, after = philox_bits(b, values[0], PhiloxCounter(*values[1:]), array(PrimitiveType.U32, (4,)))
    module.entry_computation.set_root(b.tuple((bits, after.low, after.high)))
    got, new_low, new_high = evaluate(module, np.float32(0))
    assert tuple(got.tolist()) == words
    total = (low + (high << 64) + 1) % 2**128
    assert int(new_low) + (int(new_high) << 64) == total


def drawn(text: str, *arguments):
    module = parse(text)
    PASSES["rng-expander"]().run(module)
    module.verify()
    assert all(i.opcode is not HloOpcode.RNG for i in module.instructions())
    return evaluate(module, *arguments)


def test_uniform_and_normal_numbers_have_their_moments():
    text = """HloModule m
ENTRY main {
  a = f32[] constant(-2)
  b = f32[] constant(4)
  u = f32[4000] rng(a, b), distribution=rng_uniform
  n = f32[4001] rng(a, b), distribution=rng_normal
  c = f64[] constant(0)
  d = f64[] constant(1)
  v = f64[2000] rng(c, d), distribution=rng_uniform
  ROOT t = (f32[4000], f32[4001], f64[2000]) tuple(u, n, v)
}"""
    u, n, v = drawn(text)
    assert u.min() >= -2
    assert u.max() < 4
    np.testing.assert_allclose([u.mean(), u.var()], [1, 3], atol=0.15)
    np.testing.assert_allclose([n.mean(), n.std()], [-2, 4], atol=0.25)
    np.testing.assert_allclose([v.mean(), v.var()], [0.5, 1 / 12], atol=0.03)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("s32", -3, 4), ("u32", 0, 7), ("s64", -(2**62), 2**62), ("s32", -(2**31), 2**31 - 1)]
)
def test_integers_are_within_bounds(kind, low, high):
    text = f"HloModule m\nENTRY main {{\n  a = {kind}[] constant({low})\n  b = {kind}[] constant({high})\n  ROOT u = {kind}[500] rng(a, b), distribution=rng_uniform\n}}"
    u = drawn(text)
    assert u.min() >= low
    assert u.max() < high
    assert len(np.unique(u)) == min(high - low, len(np.unique(u)))
    if high - low < 10:
        assert set(u.tolist()) == set(range(low, high))


def test_two_draws_of_one_shape_share_their_computation_and_differ():
    text = """HloModule m
ENTRY main {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  u = f32[8] rng(a, b), distribution=rng_uniform
  v = f32[8] rng(a, b), distribution=rng_uniform
  ROOT t = (f32[8], f32[8]) tuple(u, v)
}"""
    module = parse(text)
    PASSES["rng-expander"]().run(module)
    assert len(module.computations) == 2
    u, v = evaluate(module, np.float32(0), np.float32(1))
    assert not np.array_equal(u, v)


def test_other_types_stay():
    text = "HloModule m\nENTRY main {\n  a = s8[] parameter(0)\n  ROOT u = s8[4] rng(a, a), distribution=rng_uniform\n}"
    assert not PASSES["rng-expander"]().run(parse(text)).changed
