"""Long products in parts, so that signals are seen between them."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator import dot


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.complex64])
def test_parts_give_what_the_whole_gives(monkeypatch, kind):
    rng = np.random.default_rng(7)
    for limit in (1, 100, 999, 5000):
        monkeypatch.setattr(dot, "_PART", limit)
        monkeypatch.setattr(dot, "_SLOWER", 1)
        for shape in ((1, 7, 9, 5), (6, 3, 4, 2), (3, 50, 1, 1)):
            batch, m, k, n = shape
            a = rng.integers(-9, 9, (batch, m, k)).astype(kind)
            b = rng.integers(-9, 9, (batch, k, n)).astype(kind)
            np.testing.assert_array_equal(dot._product(a, b), np.matmul(a, b))
