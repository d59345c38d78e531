"""Sessions with an emulated GPU: clusters are compiled for it and give the CPU's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import XlanbError
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.tracing import observing

JIT = {"tf_xla_auto_jit": 2, "tf_xla_cpu_global_jit": True, "tf_xla_min_cluster_size": 1}
FEEDS = (np.arange(4, dtype=np.float32), 2 * np.arange(4, dtype=np.float32) + 1)


def fitted(device: str = "", **flags: Any) -> tuple[list[float], list[Trace]]:
    """The losses of three steps of fitting a line, and the compilations."""
    recorder = Recorder()
    with tf.Graph().as_default(), xlanb.flags(**flags), tf.device(device or None):
        w, b = (tf.get_variable(n, initializer=v) for n, v in (("w", 0.5), ("b", 0.0)))
        x, y = (tf.placeholder(tf.float32, [None], name=n) for n in "xy")
        loss = tf.reduce_mean(tf.square(w * x + b - y))
        train = tf.train.GradientDescentOptimizer(0.025).minimize(loss)
        with observing(recorder), tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [float(session.run([loss, train], dict(zip((x, y), FEEDS, strict=True)))[0]) for _ in range(3)]
    return losses, recorder.traces


def kinds(traces: list[Trace]) -> set[str]:
    return {stage.kind for trace in traces for stage in trace}


def test_a_program_without_devices_runs_on_the_gpu() -> None:
    wanted, before = fitted(**JIT)
    losses, traces = fitted(**JIT, xlanb_gpu="a100")
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    assert {"ptx", "gpu_program"} <= kinds(traces)
    assert "assembly" not in kinds(traces)
    assert "ptx" not in kinds(before)
    step = next(t for t in traces if any(s.kind == "ptx" and s.after.text for s in t))
    order = [s.kind for s in step]
    assert order.index("tf_graph") < order.index("build_xla_ops") < order.index("tf2xla") < order.index("ptx")
    assert "execution" in order
    passes = {p for s in step for p in s.pipeline}
    assert {"optimization", "simplification", "layout_assignment", "fusion"} <= passes
    assert ".target sm_80" in step["ptx"].after.text


def test_xla_gpu_compiles_without_being_asked() -> None:
    losses, traces = fitted("/device:XLA_GPU:0", xlanb_gpu="h100")
    np.testing.assert_allclose(losses, fitted()[0], rtol=1e-6)
    assert "ptx" in kinds(traces)


def test_a_jit_scope_compiles_for_the_gpu() -> None:
    recorder = Recorder()
    with tf.Graph().as_default(), xlanb.flags(xlanb_gpu="a100"):
        x = tf.placeholder(tf.float32, [8])
        with tf.contrib.compiler.jit.experimental_jit_scope():
            y = tf.tanh(x * 2.0) + 1.0
        with observing(recorder), tf.Session() as session:
            found = session.run(y, {x: np.linspace(-1, 1, 8, dtype=np.float32)})
    np.testing.assert_allclose(found, np.tanh(2 * np.linspace(-1, 1, 8)) + 1, rtol=1e-5)
    assert "ptx" in kinds(recorder.traces)


def test_a_node_on_the_cpu_stays_there() -> None:
    _, traces = fitted("/device:CPU:0", **JIT, xlanb_gpu="a100")
    assert "ptx" not in kinds(traces)
    assert "assembly" in kinds(traces)


def test_without_a_gpu_its_nodes_run_on_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    losses, traces = fitted("/device:XLA_GPU:0")
    assert "No device XLA_GPU:0" in caplog.text
    assert "ptx" not in kinds(traces)
    assert losses == fitted()[0]


def test_a_gpu_that_is_not_known_is_an_error() -> None:
    with pytest.raises(XlanbError, match="a1000"):
        fitted("/device:XLA_GPU:0", xlanb_gpu="a1000")


def test_a_traced_run_tells_of_the_rest() -> None:
    with tf.Graph().as_default(), xlanb.flags(**JIT, xlanb_gpu="a100"):
        x = tf.placeholder(tf.float32, [8])
        y = tf.tanh(x * 2.0)
        told = tf.RunMetadata()
        with tf.Session() as session:
            session.run(y, {x: np.ones(8, np.float32)}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), told)
    assert told.step_stats.dev_stats
