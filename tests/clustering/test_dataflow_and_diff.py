"""Data flow between clusters, and what another flag, scope or device would change."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.clustering.graphs import Build
from xlanb import tf
from xlanb.clustering.clustering import cluster
from xlanb.clustering.dataflow import Flow
from xlanb.errors import FlagError, GraphError


def two_clusters() -> Build:
    build = Build()
    build.arg("x")
    build.op("x").outputs[0].set_shape((2, 3))
    build.chain("a", "x", 4)
    build.host("host", "a3")
    build.op("host").outputs[0].set_shape((2, 3))
    build.binary("b", "host", "a2")
    build.result("out", build.chain("c", "b", 3))
    return build


def test_flows_name_outputs_and_parameters_with_shapes() -> None:
    found = cluster(two_clusters().graph)
    (between,) = found.dataflow.between_clusters
    assert between == Flow("cluster_0", 1, "cluster_1", 1, "a2:0", "f32[2,3]", "data")
    assert [(f.source, f.parameter) for f in found.dataflow.into("cluster_1")] == [("host", 0), ("cluster_0", 1)]
    assert [f.target for f in found.dataflow.out_of("cluster_1")] == ["out"]
    table = found.dataflow.table()
    assert list(table.columns) == ["source", "output", "target", "parameter", "tensor", "type", "kind"]
    assert len(table) == len(found.dataflow)
    assert "cluster_0 output 1 -> cluster_1 parameter 1  a2:0: f32[2,3]" in str(found.dataflow)


def test_a_parameter_of_the_function_is_that_of_its_hlo() -> None:
    found = cluster(two_clusters().graph)
    second = found.clusters[1]
    assert second.function.sources == ("host:0", "a2:0")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    (result,) = xlanb.evaluate(second.hlo_module, x, 2 * x)
    np.testing.assert_allclose(result, np.tanh(np.tanh(np.tanh(3 * x))), rtol=1e-5)


def test_shapes_that_the_graph_does_not_state_can_be_given() -> None:
    build = Build()
    build.arg("x")
    build.result("out", build.chain("a", "x", 4))
    (only,) = cluster(build.graph).clusters
    assert only.assumed_shapes == {"x:0": (8,)}  # what nodes leave open is chosen, and told
    assert "f32[8]" in str(only.hlo_module)
    assert "f32[5]" in str(only.lower({"x:0": (5,)}))
    with pytest.raises(GraphError, match="has no input 'y:0'; its inputs are x:0"):
        only.lower({"y:0": (5,)})
    (given,) = cluster(build.graph, shapes={"x:0": (7,)}).clusters
    assert "f32[7]" in str(given.hlo_module)


def test_another_minimum_size_lets_nodes_in() -> None:
    build = two_clusters()
    build.host("last", "c2")
    build.result("more", build.chain("small", "last", 2))
    found = cluster(build.graph)
    diff = found.what_if(tf_xla_min_cluster_size=1)
    assert {n.node: n.change for n in diff.changes} == {"small0": "entered", "small1": "entered"}
    assert not diff.is_same
    assert diff.became == {"cluster_0": "cluster_0", "cluster_1": "cluster_1"}
    assert diff.table()["reason_before"].str.contains("fewer than tf_xla_min_cluster_size=4").all()
    assert "small0, small1: outside -> cluster_2\n      was outside: its cluster would have 2" in str(diff)
    assert str(diff).count("tf_xla_min_cluster_size=4") == 1
    assert found.what_if().is_same
    (_, clusters), (_, nodes) = diff.tables
    assert clusters["nodes after"].tolist() == [4, 4, 2]
    assert len(nodes) == 2
    html = diff._repr_mimebundle_()["text/html"]
    assert "small0" in html
    assert "outside -&gt;" not in html, "what the table shows is not said once more as text"
    assert found.what_if(tf_xla_min_cluster_size=9).change_of["a0"] == "left"


def test_another_scope_splits_a_cluster_and_the_larger_part_is_the_heir() -> None:
    build = Build()
    build.arg("x")
    build.result("out", build.chain("b", build.chain("a", "x", 6), 4))
    diff = cluster(build.graph).what_if(scopes={"a*": "one", "b*": "two"})
    assert {n.node for n in diff.changes if n.change == "moved"} == {f"b{i}" for i in range(4)}
    assert "is new" in str(diff)


def test_another_device_and_another_wish() -> None:
    found = cluster(two_clusters().graph)
    moved = found.what_if(devices={"c*": "/cpu:1"})
    assert not moved.is_same
    out = found.what_if(compile_nodes={"a2": False})
    assert out.change_of["a2"] == "left"
    assert next(n for n in out.nodes if n.node == "a2").reason_after == "kXlaCompileAttr(_XlaCompile) is false."


def test_two_clusterings_of_two_graphs() -> None:
    build = two_clusters()
    before = cluster(build.graph)
    build.chain("extra", "c2", 1)
    diff = before.diff(cluster(build.graph))
    assert diff.change_of["extra0"] == "added"
    assert cluster(build.graph).diff(before).change_of["extra0"] == "gone"
    assert "nodes differ" in repr(diff)


def test_unknown_flags_and_tensors_are_refused() -> None:
    graph = two_clusters().graph
    with pytest.raises(FlagError, match="tf_xla_min_cluster_size"):
        cluster(graph, tf_xla_min_cluster_sise=1)
    with pytest.raises(GraphError, match="nothing"):
        cluster(graph, shapes={"nothing:0": (1,)})
    with pytest.raises(GraphError, match="no operation named 'nobody'"):
        cluster(graph).why("nobody")


def test_the_face_takes_the_same_arguments() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4], name="x")
        tf.tanh(tf.exp(x, name="a"), name="b")
    assert xlanb.cluster(graph, tf_xla_min_cluster_size=1).cluster_of["a"] == "cluster_0"
