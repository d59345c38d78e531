"""Ours and the real XLA side by side."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import XlanbError
from xlanb.peers.beside import beside, leave_out, ulp_distance

pytestmark = pytest.mark.peer

PROGRAM = """HloModule m

ENTRY e {
  x = f32[64]{0} parameter(0)
  t = f32[64]{0} tanh(x)
  s = f32[64]{0} multiply(t, t)
  ROOT r = f32[64]{0} add(s, x)
}
"""
X = np.linspace(-2, 2, 64, dtype=np.float32)


def test_results_times_and_passes_are_compared() -> None:
    pytest.importorskip("jax")
    found = beside(PROGRAM, X, runs=5)
    assert found.ulp[0] < 16
    assert found.run_ratio > 0
    assert found.diff.final.counts["removed"] == 0
    assert "ulp" in str(found)
    assert [t.name for t in found.traces] == ["m", "XLA:CPU: m"]


def test_passes_are_left_out_of_the_real_compiler() -> None:
    pytest.importorskip("jax")
    found = leave_out(PROGRAM, X, tolerance=1e-3)
    assert "fusion" in set(found.table["without"])
    assert found.guilty == []
    assert "is right" in str(found)
    strict = leave_out(PROGRAM, X, tolerance=-1.0, passes=["fusion"])
    assert "is off by" in str(strict)


def test_without_arguments_there_is_nothing_to_compare() -> None:
    with pytest.raises(XlanbError, match="give the arguments"):
        beside(PROGRAM)


def test_distances_count_units_in_the_last_place() -> None:
    one = np.array([1.0, 2.0], np.float32)
    assert ulp_distance(one, one) == 0
    assert ulp_distance(np.nextafter(one, np.float32(9)), one) == pytest.approx(1.0)
    assert ulp_distance(np.array([np.nan], np.float32), np.array([1.0], np.float32)) == np.inf
    assert ulp_distance(np.array([3]), np.array([5])) == 2
