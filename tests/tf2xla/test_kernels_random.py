"""Stateless random numbers: known answers of TensorFlow's CPU kernels, distributions;
optimizers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.graph import dtypes

SEED = np.array([1, 2], np.int64)


def test_bounds_and_moments(run_op: Any) -> None:
    shape = np.array([4000])
    u = run_op("StatelessRandomUniform", shape, SEED, outputs=[np.float32], dtype=dtypes.float32)
    n = run_op("StatelessRandomNormal", shape, SEED, outputs=[np.float64], dtype=dtypes.float64)
    t = run_op("StatelessTruncatedNormal", shape, SEED, outputs=[np.float32], dtype=dtypes.float32)
    assert u.min() >= 0
    assert u.max() < 1
    np.testing.assert_allclose([u.mean(), u.std(), n.mean(), n.std()], [0.5, 12**-0.5, 0, 1], atol=0.05)
    assert np.abs(t).max() < 2
    assert len(np.unique(t)) > 3990
    np.testing.assert_allclose([t.mean(), t.std()], [0, 0.88], atol=0.05)


def test_integers_stay_between_their_bounds(run_op: Any) -> None:
    got = run_op(
        "StatelessRandomUniformInt",
        np.array([999]),
        SEED,
        np.int32(-3),
        np.int32(4),
        outputs=[np.int32],
        dtype=dtypes.int32,
    )
    assert set(got.tolist()) == set(range(-3, 4))


def test_a_counter_carries_into_its_upper_half(run_op: Any) -> None:
    key = np.array([5], np.uint64)

    def words(low: int, high: int, count: int) -> Any:
        counter = np.array([low, high], np.uint64)
        return run_op(
            "StatelessRandomUniformFullIntV2",
            np.array([count]),
            key,
            counter,
            np.int32(1),
            outputs=[np.uint32],
            dtype=dtypes.uint32,
        )

    np.testing.assert_array_equal(words(2**64 - 1, 0, 8)[4:], words(0, 1, 4))


# by TensorFlow 2.21 on a CPU
KNOWN = {
    "StatelessRandomUniform": [0.8440604209, 0.1920453310, 0.9962232112, 0.1603873968, 0.2719901800],
    "StatelessRandomNormal": [0.5441101193, 0.2073803097, 0.0735643208, 0.0464345514, -1.301589846],
    "StatelessTruncatedNormal": [0.5441101193, 0.2073803097, 0.0735643208, 0.0464345514, 0.1682059168],
}


@pytest.mark.parametrize("name", ["StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"])
def test_known_answers(run_op: Any, name: str) -> None:
    got = run_op(name, np.array([5]), SEED, outputs=[np.float32], dtype=dtypes.float32)
    np.testing.assert_allclose(got, np.array(KNOWN[name], np.float32), rtol=1e-6)


VAR, SLOT, GRAD = np.array([1.0, -2]), np.array([0.5, 0.25]), np.array([0.1, -0.4])
RATE = np.float64(0.1)


def test_momentum_and_nesterov(run_op: Any) -> None:
    momentum = np.float64(0.9)
    for nesterov in (False, True):
        var, slot = run_op("ResourceApplyMomentum", RATE, GRAD, momentum, variables=[VAR, SLOT], use_nesterov=nesterov)
        new = SLOT * 0.9 + GRAD
        np.testing.assert_allclose(slot, new)
        np.testing.assert_allclose(var, VAR - 0.1 * (GRAD + 0.9 * new if nesterov else new))


def test_rms_prop_and_adagrad(run_op: Any) -> None:
    rho, momentum, epsilon = np.float64(0.8), np.float64(0.9), np.float64(1e-3)
    var, ms, mom = run_op("ResourceApplyRMSProp", RATE, rho, momentum, epsilon, GRAD, variables=[VAR, SLOT, SLOT])
    np.testing.assert_allclose(ms, 0.8 * SLOT + 0.2 * GRAD**2)
    np.testing.assert_allclose(mom, 0.9 * SLOT + 0.1 * GRAD / np.sqrt(ms + 1e-3))
    np.testing.assert_allclose(var, VAR - mom)
    var, accum = run_op("ResourceApplyAdagrad", RATE, GRAD, variables=[VAR, SLOT])
    np.testing.assert_allclose(accum, SLOT + GRAD**2)
    np.testing.assert_allclose(var, VAR - 0.1 * GRAD / np.sqrt(accum))


def test_ftrl_sets_small_weights_to_zero(run_op: Any) -> None:
    l1, l2, power = np.float64(10), np.float64(0.1), np.float64(-0.5)
    var, accum, _ = run_op("ResourceApplyFtrl", GRAD, RATE, l1, l2, power, variables=[VAR * 0, SLOT, VAR * 0])
    np.testing.assert_array_equal(var, [0, 0])
    np.testing.assert_allclose(accum, SLOT + GRAD**2)
