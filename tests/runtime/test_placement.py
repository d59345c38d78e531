"""Missing devices; and partition graphs, cost graphs, callables, devices of a session."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import FeedError, GraphError


def test_a_device_that_is_not_here_is_told_and_another_one_runs_it(caplog: pytest.LogCaptureFixture) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        with tf.device("/job:localhost/replica:0/task:0/device:XLA_GPU:0"):
            y = tf.add(x, x, name="y")
        with tf.device("/gpu:1"):
            z = tf.multiply(y, y, name="z")
        with tf.device("/device:XLA_CPU:0"):
            w = tf.exp(z, name="w")
    with caplog.at_level(logging.WARNING, "xlanb.runtime.placement"):
        metadata = tf.RunMetadata()
        session = tf.Session(graph)
        for _ in range(2):
            got = session.run(w, {x: [1, 0]}, tf.RunOptions(output_partition_graphs=True), metadata)
    np.testing.assert_allclose(got, np.exp([4.0, 0.0]), rtol=1e-6)
    assert [r.getMessage() for r in caplog.records] == [
        "No device XLA_GPU:0: 'y' runs on XLA_CPU:0, compiled by XLA for the CPU",
        "No device GPU:1: 'z' runs on CPU:0",
    ]
    assert graph.node("y").device.endswith("XLA_GPU:0")  # the program's graph is unchanged
    devices = {n.name: n.device for n in metadata.partition_graphs[0].node}
    assert (devices["y"].rpartition("/")[2], devices["z"]) == ("device:XLA_CPU:0", "/device:CPU:0")


def test_a_cost_graph_has_the_times_and_sizes_of_a_traced_run() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.exp(x, name="y")
    session = tf.Session(graph, tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=1)))
    metadata = tf.RunMetadata()
    session.run(y, {x: [1, 2]}, run_metadata=metadata)
    node = next(n for n in metadata.cost_graph.node if n.name == "y")
    assert (node.compute_time, node.output_info[0].size) == (0, -1)  # not measured
    session.run(y, {x: [1, 2]}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    nodes = {n.name: n for n in metadata.cost_graph.node}
    assert nodes["y"].output_info[0].size == 8
    assert nodes["y"].compute_time >= 0
    assert metadata.cost_graph.node[nodes["y"].input_info[0].preceding_node].name.startswith("_arg_x")
    assert [n.is_final for n in metadata.cost_graph.node].count(True) == 1


def test_callables_devices_and_partial_runs() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = x * 2.0
    session = tf.Session(graph)
    double = session.make_callable([y], [x])
    np.testing.assert_array_equal(double([1, 2])[0], [2, 4])
    with pytest.raises(FeedError, match=r"takes 1 values \(x:0\), got 2"):
        double(1, 2)
    with pytest.raises(GraphError, match="partial runs are not supported"):
        session.partial_run_setup([y], [x])
    with pytest.raises(FeedError, match="cannot fetch None"):
        session.run([y, None])
    assert [d.rpartition(":")[0].rpartition(":")[2] for d in session.list_devices()] == ["CPU", "XLA_CPU"]
    assert [n.name for n in session.graph_def.node] == [op.name for op in graph]


def test_threads_share_a_session_and_sessions_share_a_graph() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None], name="x")
        v = tf.Variable(0.0)
        y, grow = tf.exp(x) + v, v.assign_add(1.0)
    first, second = tf.Session(graph), tf.Session(graph)
    first.run(v.initializer)
    first.run(grow)
    second.run(v.initializer)
    failures: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for _ in range(5):
                np.testing.assert_allclose(first.run(y, {x: np.zeros(size)}), np.full(size, 2.0))
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    np.testing.assert_array_equal(second.run(y, {x: [0]}), [1])
    first.close()
    with pytest.raises(GraphError, match="closed Session"):
        first.run(y, {x: [0]})
