"""tf.summary and its event files, read back by hand; tests/peers reads them with TensorBoard."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import ArgumentError, GraphError
from xlanb.graph.saved_model.crc32c import crc32c, masked
from xlanb.runtime.events import messages


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def events(folder: Path) -> list[Any]:
    """The events of the one file in a folder; every checksum is checked."""
    (path,) = folder.glob("events.out.tfevents.*")
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        length, checksum = struct.unpack_from("<QI", data, at)
        assert checksum == masked(crc32c(data[at : at + 8]))
        body = data[at + 12 : at + 12 + length]
        (checksum,) = struct.unpack_from("<I", data, at + 12 + length)
        assert checksum == masked(crc32c(body))
        found.append(messages().Event.FromString(body))
        at += 16 + length
    return found


def summary(tensor: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return messages().Summary.FromString(session.run(tensor, feeds))


def test_a_writer_keeps_the_graph_and_the_numbers_of_each_step(tmp_path: Path, graph: Any) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.summary.scalar("twice", x * 2, family="train")
    merged = tf.summary.merge_all()
    with tf.Session() as session, tf.summary.FileWriter(tmp_path / "log", graph) as writer:
        for step in range(3):
            writer.add_summary(session.run(merged, {x: step}), step)
    version, first, *rest = events(tmp_path / "log")
    assert version.file_version == "brain.Event:2"
    assert {op.name for op in tf.Graph.from_graphdef(first.graph_def)} >= {"x", "twice"}
    assert [(e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in rest] == [
        (0, "train/twice", 0), (1, "train/twice", 2), (2, "train/twice", 4),
    ]  # fmt: skip


def test_a_histogram_has_tensorflows_buckets() -> None:
    made = summary(tf.summary.histogram("h", tf.constant([-1.0, 0.0, 1.0, 1.0, 1e30])))
    histo = made.value[0].histo
    assert (histo.min, histo.num) == (-1, 5)
    assert sum(histo.bucket) == 5
    limits, counts = list(histo.bucket_limit), list(histo.bucket)
    assert limits == sorted(limits)
    at = limits.index(min(v for v in limits if v > 1))
    assert counts[at] == 2
    assert limits[at] == pytest.approx(1.0089710279437536)
    assert counts[-1] == 1
    assert limits[-1] == np.finfo(np.float64).max
    assert all(a or b for a, b in pairwise(counts)), "runs of zeros are one"


def test_an_image_is_a_png_with_the_right_pixels() -> None:
    picture = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    value = summary(tf.summary.image("p", tf.constant(picture))).value[0]
    assert value.tag == "p/image"
    assert (value.image.height, value.image.width, value.image.colorspace) == (2, 4, 3)
    data = value.image.encoded_image_string
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + length]), np.uint8).reshape(2, 13)
    assert np.array_equal(rows[:, 1:].reshape(2, 4, 3), picture[0])


def test_floats_become_bytes_by_their_largest_magnitude() -> None:
    from xlanb.runtime.host.summaries import _normalized

    assert _normalized(np.array([[[0.0], [0.5], [1.0]]])).ravel().tolist() == [0, 127, 255]
    assert _normalized(np.array([[[-1.0], [0.0], [0.5]]])).ravel().tolist() == [1, 128, 191]
    bad = _normalized(np.array([[[np.nan, 0.0, 0.0], [1.0, 1.0, 1.0]]]))
    assert bad.tolist() == [[[255, 0, 0], [255, 255, 255]]]


def test_sounds_and_texts() -> None:
    sound = tf.summary.audio("s", tf.constant([[0.0, 1.0, -1.0, 2.0]]), 8000.0)
    value = summary(sound).value[0]
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 1, 4)
        assert np.frombuffer(file.readframes(4), "<i2").tolist() == [0, 32767, -32767, 32767]
    value = summary(tf.summary.text("t", tf.constant(["a", "b"]))).value[0]
    assert (list(value.tensor.string_val), value.metadata.plugin_data.plugin_name) == ([b"a", b"b"], "text")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: tf.summary.histogram("h", tf.constant([np.nan])), "'h' are NaN or infinite"),
        (lambda: tf.summary.image("p", tf.zeros([2, 3])), "expected \\[batch, height, width"),
        (lambda: tf.summary.merge([tf.summary.scalar("a", 1.0)] * 2), "two summaries have the tag 'a'"),
    ],
)
def test_what_cannot_be_recorded_names_the_node(made: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        summary(made())


def test_a_traced_run_is_kept_with_its_times(tmp_path: Path) -> None:
    y = tf.constant(2.0, name="c") * 3.0
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    writer = tf.summary.FileWriter(tmp_path)
    with tf.Session() as session:
        session.run(y, options=options, run_metadata=metadata)
    writer.add_run_metadata(metadata, "first", 1)
    writer.close()
    with pytest.raises(ArgumentError, match="expected a tag"):
        writer.add_run_metadata(metadata, "")
    writer.add_summary(messages().Summary().SerializeToString(), 2)  # opens the file again
    writer.flush()
    writer.close()
    _, kept, _ = events(tmp_path)
    read = messages().RunMetadata.FromString(kept.tagged_run_metadata.run_metadata)
    assert kept.tagged_run_metadata.tag == "first"
    assert len(read.step_stats.dev_stats[0].node_stats) >= 1


def test_a_hook_and_a_monitored_session_write_them(tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    tf.summary.scalar("s", tf.cast(step, tf.float32))
    train = tf.assign_add(step, 1)
    stop = tf.train.StopAtStepHook(last_step=5)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_summaries_steps=2, hooks=[stop], log_step_count_steps=None
    ) as session:
        while not session.should_stop():
            session.run(train)
    values = [e.summary.value[0].simple_value for e in events(tmp_path) if e.summary.value]
    assert len(values) == 3
    with pytest.raises(ArgumentError, match="output_dir or a summary_writer"):
        tf.train.SummarySaverHook(save_steps=1)
