"""Long products, convolutions and windows run in parts.

So signals are handled in between, and memory stays small.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import xlanb
from xlanb.evaluator import convolution, dot


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.complex64])
def test_parts_give_what_the_whole_gives(monkeypatch, kind):
    rng = np.random.default_rng(7)
    for limit in (1, 100, 999, 5000):
        monkeypatch.setattr(dot, "_PART", limit)
        monkeypatch.setattr(dot, "_SLOWER", 1)
        monkeypatch.setattr(dot, "_COPIED", limit)
        for shape in ((1, 7, 9, 5), (6, 3, 4, 2), (3, 50, 1, 1)):
            batch, m, k, n = shape
            a = rng.integers(-9, 9, (batch, m, k)).astype(kind)
            b = rng.integers(-9, 9, (batch, k, n)).astype(kind)
            np.testing.assert_array_equal(dot._product(a, b), np.matmul(a, b))


def test_broadcast_operands_are_laid_out_a_part_at_a_time(monkeypatch):
    monkeypatch.setattr(dot, "_PART", 1 << 14)
    monkeypatch.setattr(dot, "_COPIED", 1 << 10)
    a = np.broadcast_to(np.float64(3), (2, 5, 100_000))
    b = np.broadcast_to(np.arange(4.0), (2, 100_000, 4))
    tracemalloc.start()
    try:
        got = dot._product(a, b)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(got, np.broadcast_to(300_000 * np.arange(4.0), (2, 5, 4)))
    assert peak < 100_000


@pytest.mark.parametrize("limit", [1, 500, 3000, 1 << 20])
def test_parts_of_a_convolution_give_what_the_whole_gives(monkeypatch, limit):
    text = (
        "HloModule m\nENTRY e {\n x = s32[3,7,6,4] parameter(0)\n k = s32[3,2,2,6] parameter(1)\n"
        " ROOT r = s32[3,4,6,6] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x1_0}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=2\n}\n"
    )
    rng = np.random.default_rng(0)
    x, k = (rng.integers(-9, 9, s, np.int32) for s in ((3, 7, 6, 4), (3, 2, 2, 6)))
    expected = xlanb.evaluate(text, x, k)
    made = []
    whole = convolution.matmul

    def counted(patches, *rest):
        made.append(patches.nbytes)
        return whole(patches, *rest)

    monkeypatch.setattr(convolution, "_PATCH_BYTES", limit)
    monkeypatch.setattr(convolution, "matmul", counted)
    np.testing.assert_array_equal(xlanb.evaluate(text, x, k), expected)
    row = 2 * 6 * 12 * 4  # groups, positions of a row, elements of a patch, bytes
    assert max(made) <= max(limit, row)


@pytest.mark.parametrize("body", ["add(a, b)", "subtract(b, a)"])
def test_a_long_window_takes_no_table_of_all_places_and_offsets(body):
    n = 2000
    text = (
        f"HloModule m\nf {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] {body} }}\n"
        f"ENTRY e {{\n p = f32[{2 * n}] parameter(0)\n z = f32[] constant(0)\n"
        f" ROOT r = f32[{n + 1}] reduce-window(p, z), window={{size={n}}}, to_apply=f\n}}\n"
    )
    x = np.ones(2 * n, np.float32)
    tracemalloc.start()
    try:
        got = xlanb.evaluate(text, x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (got == (n if body.startswith("add") else 0)).all()
    assert peak < n * n * 8
