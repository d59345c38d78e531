"""Ours and the real XLA side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from xlanb.errors import XlanbError
from xlanb.explorer.diff import diff_traces
from xlanb.explorer.explore import trace
from xlanb.peers.compare import PeerComparison, compare, leave_out, ulp_distance

pytestmark = pytest.mark.peer

PROGRAM = """HloModule m

ENTRY e {
  x = f32[64]{0} parameter(0)
  t = f32[64]{0} tanh(x)
  s = f32[64]{0} multiply(t, t)
  ROOT r = f32[64]{0} add(s, x)
}
"""
TRACE = trace(PROGRAM)
X = np.linspace(-2, 2, 64, dtype=np.float32)


def test_results_times_and_passes_are_compared() -> None:
    pytest.importorskip("jax")
    found = compare(PROGRAM, X, runs=5)
    assert found.ulp[0] < 16
    assert found.their_call > 0 < found.our_call
    assert found.call_ratio == found.their_seconds / found.our_seconds
    assert found.diff.final.counts["removed"] == 0
    assert "ulp" in str(found)
    assert [t.name for t in found.traces] == ["m", "XLA:CPU: m"]


def test_the_time_of_a_call_is_no_part_of_the_ratio() -> None:
    made = PeerComparison(TRACE, TRACE, diff_traces(TRACE, TRACE), (0.0,), 3e-6, 90e-6, 1e-6, 50e-6)
    assert made.run_ratio == pytest.approx(20)
    assert made.call_ratio == pytest.approx(30)
    assert "ratio without call overhead 20.00" in str(made)


def test_there_is_no_ratio_if_a_call_takes_as_long_as_an_empty_one() -> None:
    made = PeerComparison(TRACE, TRACE, diff_traces(TRACE, TRACE), (0.0,), 1.1e-6, 90e-6, 1e-6, 50e-6)
    assert math.isnan(made.run_ratio)
    assert "too short compared with the call overhead" in str(made)


def test_passes_are_left_out_of_the_real_compiler() -> None:
    pytest.importorskip("jax")
    found = leave_out(PROGRAM, X, tolerance=1e-3)
    assert "fusion" in set(found.table["without"])
    assert found.guilty == []
    assert "is accurate to" in str(found)
    strict = leave_out(PROGRAM, X, tolerance=-1.0, passes=["fusion"])
    assert "is off by" in str(strict)


def test_without_arguments_there_is_nothing_to_compare() -> None:
    with pytest.raises(XlanbError, match="give the arguments"):
        compare(PROGRAM)


def test_distances_count_units_in_the_last_place() -> None:
    one = np.array([1.0, 2.0], np.float32)
    assert ulp_distance(one, one) == 0
    assert ulp_distance(np.nextafter(one, np.float32(9)), one) == pytest.approx(1.0)
    assert ulp_distance(np.array([np.nan], np.float32), np.array([1.0], np.float32)) == np.inf
    assert ulp_distance(np.array([3]), np.array([5])) == 2
