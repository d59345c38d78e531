"""Against the real TensorFlow at work: its clusters, its reasons, its values, next to ours."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import XlanbError
from xlanb.graph.records import GraphRecord

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def line():
    """One training step of a line, in the real TensorFlow; the graph and the run."""
    from xlanb.peers import tensorflow

    graph = tf.Graph()
    with graph.as_default():
        w = tf.get_variable("w", initializer=tf.constant(2.0))
        b = tf.get_variable("b", initializer=tf.constant(1.0))
        x, y = (tf.placeholder(tf.float32, [None], name=n) for n in "xy")
        loss = tf.reduce_mean(tf.square(w * x + b - y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf.global_variables_initializer()
    values = {x: np.arange(4, dtype=np.float32), y: np.ones(4, np.float32)}
    return tensorflow.trace(graph, [loss, train], values, before=[init], runs=2), graph, (loss, train, init, values)


def test_values_are_ours(line):
    real, graph, (loss, train, init, values) = line
    with tf.Session(graph=graph) as session:
        session.run(init)
        ours, _ = session.run([loss, train], values)
    np.testing.assert_allclose(real.results[0], ours, rtol=1e-6)


def test_clusters_and_reasons_come_back(line):
    real, _, _ = line
    assert list(real.sizes) == ["cluster_0"]
    assert real.reasons["w"].startswith("No registered 'VariableV2' OpKernel for XLA_CPU_JIT devices")
    assert len(real.seconds) == 2
    assert "cluster_0 of" in str(real)


def test_our_clusters_are_theirs(line):
    real, _, _ = line
    marked = [s for s in real.graphs if s.name == "before_mark_for_compilation"][-1]
    assert isinstance(marked.after, GraphRecord)
    path = next(p for p in real.graphs_directory.rglob("before_mark_for_compilation_1.pbtxt"))
    ours = xlanb.cluster(tf.Graph.from_graphdef(path))
    theirs = set(real.cluster_of)
    assert {n for n, c in ours.cluster_of.items() if c} == theirs


def test_the_module_of_a_cluster_steps(line):
    real, _, _ = line
    (module,) = real.modules
    assert module["fusion"].changed
    assert any(s.kind == "llvm_ir" for s in module)


def test_a_graph_that_is_refused_is_an_error():
    from xlanb.peers import tensorflow

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        y = x + 1
    with pytest.raises(XlanbError, match=r"(?s)TensorFlow rejects the graph: .*must feed a value"):
        tensorflow.trace(graph, [y])
