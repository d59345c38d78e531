"""Data sets in TensorFlow functions: a session runs them on the host, and compiles the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf as own
from xlanb.errors import GraphError, UnknownOpError

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.peer
OUTSIDE = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32))
SHUFFLED = tf.data.Dataset.range(6).map(lambda v: v * v).shuffle(3, seed=1).batch(2).cache().prefetch(1)
ITERATOR = iter(tf.data.Dataset.range(5))


def _loop(x: Any) -> Any:
    total = tf.constant(0.0)
    for v in tf.data.Dataset.range(5):
        total += tf.cast(v, tf.float32) * x
    return total


def _batched(x: Any) -> Any:
    rows = tf.reshape(tf.range(12.0), [6, 2])
    total = tf.zeros([2])
    for v in tf.data.Dataset.from_tensor_slices(rows).map(lambda t: t * x).batch(3):
        total += tf.reduce_sum(v, 0)
    return total


def _reduced(x: Any) -> Any:
    kept = tf.data.Dataset.range(8).filter(lambda v: v % 2 == 0).shuffle(4, seed=3).repeat(2).take(8).prefetch(2)
    return kept.reduce(np.int64(0), lambda s, v: s + v) + tf.cast(x, tf.int64)


def _iterated(x: Any) -> Any:
    it = iter(tf.data.Dataset.range(5))
    return next(it) + next(it) * 2 + tf.cast(x, tf.int64)


def _windowed(x: Any) -> Any:
    windows = tf.data.Dataset.range(7).window(3, drop_remainder=True).flat_map(lambda d: d.batch(3))
    return windows.reduce(np.int64(0), lambda s, v: s + tf.reduce_sum(v)) + tf.cast(x, tf.int64)


def _zipped(x: Any) -> Any:
    z = tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(3, 6))).enumerate()
    return z.reduce(np.int64(0), lambda s, v: s + v[0] * v[1][0] * v[1][1]) + tf.cast(x, tf.int64)


def _broken(x: Any) -> Any:
    total = tf.constant(0.0)
    for v in tf.data.Dataset.range(5):
        if v > 2:
            break
        total += tf.cast(v, tf.float32) * x
    return total


def _captured(x: Any) -> Any:
    total = tf.constant(0.0)
    for v in OUTSIDE.take_while(lambda a: a < 4.0):
        total += v * x
    return total


def _shuffled_outside(x: Any) -> Any:
    total = tf.constant(0, tf.int64)
    for v in SHUFFLED:
        total += tf.reduce_sum(v)
    return total + tf.cast(x, tf.int64)


def _from_outside(x: Any) -> Any:
    return next(ITERATOR) + tf.cast(x, tf.int64)


@pytest.mark.parametrize(
    "function",
    [_loop, _batched, _reduced, _iterated, _windowed, _zipped, _broken, _captured, _shuffled_outside],
)
def test_a_session_runs_data_sets(function: Callable[..., Any]) -> None:
    x = np.float32(2)
    traced = tf.function(function)
    graph = own.Graph.from_tensorflow(traced, x)
    with own.Session(graph) as session:
        (got,) = session.run(list(graph.outputs), {graph.inputs[0]: x})
    np.testing.assert_allclose(got, traced(x).numpy(), rtol=1e-6)


def test_compiled_code_has_no_data_sets() -> None:
    with pytest.raises(UnknownOpError, match=r"'RangeDataset'; it runs on the host .*A session runs it"):
        xlanb.jit(tf.function(_loop))(np.float32(2))


def test_an_iterator_from_outside_is_refused() -> None:
    with pytest.raises(GraphError, match="iterators and the like are not supported; create them in the function"):
        own.Graph.from_tensorflow(tf.function(_from_outside), np.float32(2))
