"""TensorFlow's own Timeline opens our StepStats, and ours opens TensorFlow's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.runtime.config import RunMetadata, RunOptions
from xlanb.runtime.timeline import Timeline

theirs = pytest.importorskip("tensorflow.python.client.timeline")
tensorflow = pytest.importorskip("tensorflow")


def test_theirs_opens_ours() -> None:
    program = line_fit()
    metadata = RunMetadata()
    with xlanb.flags("--tf_xla_auto_jit=2"), tf.Session(program.graph) as session:
        session.run(program.init)
        session.run(program.train, program.feeds, RunOptions(trace_level=RunOptions.FULL_TRACE), metadata)
    text = theirs.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True)
    names = {e["args"].get("name") for e in json.loads(text)["traceEvents"] if e["ph"] == "X"}
    assert {"weights", "cluster_0/XlaLaunch", "cluster_0"} <= names


def test_ours_opens_theirs() -> None:
    tf1 = tensorflow.compat.v1
    metadata = tf1.RunMetadata()
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf1.float32, [None, 4], name="x")
        y = tf1.reduce_sum(tf1.tanh(tf1.matmul(x, tf1.ones([4, 3]), name="product")), name="sum")
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        session.run(y, {x: np.ones((5, 4), np.float32)}, options=options, run_metadata=metadata)
    ours = Timeline(metadata.step_stats)
    slices = [
        e for e in json.loads(ours.generate_chrome_trace_format(show_memory=True))["traceEvents"] if e["ph"] == "X"
    ]
    assert any(e["args"]["op"] == "MatMul" for e in slices) or any("MatMul" in e["name"] for e in slices)
    expected = theirs.Timeline(metadata.step_stats).analyze_step_stats().allocator_maximums
    found = ours.analyze_step_stats().allocator_maximums
    assert {k: v.num_bytes for k, v in found.items()} == {k: v.num_bytes for k, v in expected.items()}
