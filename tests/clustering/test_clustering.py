"""Marking, encapsulating, launching: which nodes, why, and functions that mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.clustering.build_xla_ops import LAUNCH, build_xla_ops
from xlanb.clustering.clustering import cluster
from xlanb.clustering.encapsulate_subgraphs import encapsulate_subgraphs
from xlanb.clustering.mark_for_compilation import mark_for_compilation
from xlanb.debug_options import flags
from xlanb.errors import GraphValueError


def chain(length: int) -> tf.Graph:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4], name="x")
        for i in range(length):
            x = tf.tanh(x, name=f"t{i}")
    return graph


@pytest.mark.parametrize(("length", "least", "inside"), [(3, 4, False), (4, 4, True), (1, 1, True)])
def test_the_minimum_size_decides_and_is_said(length: int, least: int, inside: bool) -> None:
    with flags(tf_xla_min_cluster_size=least):
        found = cluster(chain(length))
    assert (found.cluster_of["t0"] is not None) == inside
    last = found.why("t0")[-1]
    assert last.holds == inside
    if not inside:
        assert f"{length} operations, fewer than tf_xla_min_cluster_size={least}" in last.value


def test_a_node_that_cannot_be_compiled_splits_the_graph_in_two() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4], name="x")
        before = tf.tanh(tf.exp(x, name="a"), name="b")
        host = graph.create_op(
            "PyFunc", [before], [tf.float32], {"token": "f", "Tin": (tf.float32,), "Tout": (tf.float32,)}, "host"
        ).outputs[0]
        host.set_shape([4])
        tf.add(tf.tanh(host, name="c"), before, name="d")
    with flags(tf_xla_min_cluster_size=1):
        found = cluster(graph)
    assert found.cluster_of["a"] == found.cluster_of["b"] != found.cluster_of["c"] == found.cluster_of["d"]
    assert found.cluster_of["host"] is None
    # b feeds d directly: merging the two clusters would let each wait for the other
    assert any("would create a cycle via [host" in p.value for p in found.why("b", "d"))


def test_the_maximum_size_is_kept() -> None:
    with flags(tf_xla_min_cluster_size=1, tf_xla_max_cluster_size=3):
        found = cluster(chain(7))
    sizes = sorted(len(c) for c in found.clusters)
    assert max(sizes) <= 3
    assert sum(sizes) == 7


def test_xla_compile_false_keeps_a_node_out() -> None:
    graph = chain(6)
    graph.get_operation_by_name("t2").set_attr("_XlaCompile", False)
    with flags(tf_xla_min_cluster_size=1):
        found = cluster(graph)
    assert found.cluster_of["t2"] is None
    assert found.cluster_of["t1"] != found.cluster_of["t3"]
    assert [p.value for p in found.why("t2") if not p.holds] == ["kXlaCompileAttr(_XlaCompile) is false."]


def test_a_cluster_becomes_a_function_and_a_launch() -> None:
    marked = mark_for_compilation(chain(5)).graph
    encapsulated = encapsulate_subgraphs(marked)
    (function,) = encapsulated.functions.values()
    types = [op.type for op in function.body]
    assert types.count("_Arg") == len(function.arguments) == 1
    assert types.count("Tanh") == 5
    launched = build_xla_ops(encapsulated).graph
    (launch,) = [op for op in launched if op.type == LAUNCH]
    assert launch.attrs["function"] == function.name
    assert [t.op.name for t in launch.inputs] == ["x"]
    assert len(marked) == 6  # the graph before stays as it was


def test_constants_that_shapes_need_are_marked_as_such() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [6], name="x")
        shape = tf.placeholder(tf.int32, [2], name="shape")
        tf.tanh(tf.exp(tf.reshape(tf.sqrt(x), shape)), name="end")
    encapsulated = encapsulate_subgraphs(mark_for_compilation(graph).graph)
    (function,) = encapsulated.functions.values()
    assert [function.arguments[i].op.name for i in function.constant_arguments] == ["shape_0_arg"]


def test_hlo_of_a_cluster_computes_what_its_nodes_compute() -> None:
    graph = chain(4)
    graph.add_op("_Retval", "_retval", graph.get_operation_by_name("t3").outputs, [], {"T": tf.float32, "index": 0})
    (only,) = cluster(graph).clusters
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    (result,) = xlanb.evaluate(only.hlo_module, x)
    np.testing.assert_allclose(result, np.tanh(np.tanh(np.tanh(np.tanh(x)))), rtol=1e-5)


def test_the_line_fit_is_one_cluster_without_its_variables() -> None:
    program = line_fit()
    found = cluster(program.graph)
    assert found.cluster_of["weights"] is None
    assert found.cluster_of["weights/read"] is None
    assert found.cluster_of["mul"] == found.cluster_of["gradients/mul_grad/Mul"] is not None
    assert "No registered 'ApplyGradientDescent' OpKernel for XLA_CPU_JIT devices" in "".join(
        p.value for p in found.why("GradientDescent/update_weights/ApplyGradientDescent")
    )


@pytest.mark.parametrize("value", [b"\xff", 5, [b"a"]])
def test_a_cluster_of_the_graphs_own_has_a_name(value: object) -> None:
    graph = chain(2)
    graph.get_operation_by_name("t0").set_attr("_XlaCluster", value)
    with pytest.raises(GraphValueError, match=r"node 't0': the attribute '_XlaCluster' must be a cluster's name"):
        cluster(graph)


def test_a_table_has_every_node_and_the_reason_without_its_name() -> None:
    g = tf.Graph()
    with g.as_default():
        for name in ("v", "w"):
            tf.get_variable(name, shape=[2])
    found = cluster(g)
    table = found.to_dataframe().set_index("node")
    assert list(table.columns) == ["op", "cluster", "why", "reason"]
    assert list(table.index) == list(found.cluster_of)
    outside = table[table.op == "VariableV2"]
    assert set(outside.cluster) == {""}
    assert outside.why.nunique() == 2
    assert set(outside.reason) == {"No registered 'VariableV2' OpKernel for XLA_CPU_JIT devices"}
