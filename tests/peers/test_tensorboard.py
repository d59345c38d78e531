"""Event files of tf.summary, read by TensorBoard; histograms against TensorFlow's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlanb import tf

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder: Path) -> Any:
    found = event_accumulator.EventAccumulator(str(folder), size_guidance={"images": 0, "audio": 0})
    return found.Reload()


def test_tensorboard_opens_what_is_written(tmp_path: Path) -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.Session(graph) as session:
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        y = tf.matmul(x, tf.ones([3, 2]), name="y")
        tf.summary.scalar("loss", tf.reduce_mean(y))
        tf.summary.histogram("weights", y)
        tf.summary.image("pic", tf.reshape(x, [1, 4, 3, 1]))
        tf.summary.audio("sound", x, 8000.0, max_outputs=1)
        tf.summary.text("note", tf.constant("hello"))
        merged = tf.summary.merge_all()
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with tf.summary.FileWriter(tmp_path, graph) as writer:
            for k in range(3):
                given = {x: np.full((4, 3), k, np.float32)}
                writer.add_summary(session.run(merged, given, options, metadata), k)
            writer.add_run_metadata(metadata, "last", 2)
    found = read(tmp_path)
    assert [(s.step, s.value) for s in found.Scalars("loss")] == [(0, 0), (1, 3), (2, 6)]
    assert found.Histograms("weights")[-1].histogram_value.num == 8
    assert found.Images("pic/image")[0].width == 3
    assert found.Audio("sound/audio")[0].length_frames == 3
    assert found.Tensors("note")[0].tensor_proto.string_val == [b"hello"]
    assert {"x", "y"} <= {n.name for n in found.Graph().node}
    assert found.RunMetadata("last").step_stats.dev_stats[0].device.endswith("CPU:0")


def test_a_histogram_is_that_of_tensorflow() -> None:
    from tensorflow import constant, raw_ops
    from tensorflow.core.framework.summary_pb2 import Summary  # type: ignore[import-untyped]

    values = np.random.default_rng(0).normal(size=1000) * np.logspace(-14, 21, 1000)
    values[::50] = 0
    with tf.Graph().as_default(), tf.Session() as session:
        ours = Summary.FromString(session.run(tf.summary.histogram("h", tf.constant(values))))
    raw = raw_ops.HistogramSummary(tag="h", values=constant(values))
    theirs = Summary.FromString(raw.numpy())
    assert list(ours.value[0].histo.bucket) == list(theirs.value[0].histo.bucket)
    assert np.allclose(ours.value[0].histo.bucket_limit, theirs.value[0].histo.bucket_limit, 1e-12)
    for field in ("min", "max", "num", "sum", "sum_squares"):
        assert getattr(ours.value[0].histo, field) == pytest.approx(getattr(theirs.value[0].histo, field))
