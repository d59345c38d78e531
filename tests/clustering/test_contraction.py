"""Contraction of clusters: scopes, devices, sizes, variables, cycles, phases; and explanations."""

from __future__ import annotations

import logging
import time

import pytest

from tests.clustering.graphs import Build, loop
from xlanb import tf
from xlanb.clustering.clustering import Clustering, cluster
from xlanb.errors import GraphError


def refused(found: Clustering, a: str, b: str) -> list[str]:
    return [p.value for p in found.why(a, b) if not p.holds]


def line(*lengths: int) -> Build:
    build = Build()
    build.arg("x")
    source = "x"
    for name, length in zip("abcd", lengths, strict=False):
        source = build.chain(name, source, length)
    build.result("r", source)
    return build


def test_two_scopes_never_share_a_cluster_and_a_node_without_one_joins_either() -> None:
    found = cluster(line(4, 1, 4).graph, scopes={"a*": "one", "c*": "two"})
    assert found.cluster_of["a0"] != found.cluster_of["c0"]
    assert found.cluster_of["b0"] in (found.cluster_of["a0"], found.cluster_of["c0"])
    pair = ("a3", "b0") if found.cluster_of["b0"] == found.cluster_of["c0"] else ("b0", "c0")
    assert refused(found, *pair) == ["the two nodes have mismatching XLA scopes"]


def test_two_cpus_never_share_a_cluster() -> None:
    found = cluster(line(4, 4).graph, devices={"b*": "/cpu:1"})
    assert found.cluster_of["a3"] != found.cluster_of["b0"]
    assert refused(found, "a3", "b0")[0] == "the two nodes have incompatible devices"
    assert found.clusters[1].function.device == "/job:localhost/replica:0/task:0/device:CPU:1"


def test_a_cluster_does_not_wait_for_another_device() -> None:
    build = Build()
    build.arg("x")
    build.chain("a", "x", 4)
    build.chain("g", "x", 4)
    build.binary("both", "a3", "g3")
    found = cluster(build.graph, devices={"g*": "/cpu:1"}, tf_xla_min_cluster_size=1)
    assert found.cluster_of["both"] not in (found.cluster_of["a3"], found.cluster_of["g3"])
    assert refused(found, "a3", "both") == ["the new cluster will introduce a cross device dependency"]


def test_clusters_keep_the_maximum_size() -> None:
    found = cluster(line(9).graph, tf_xla_max_cluster_size=4, tf_xla_min_cluster_size=1)
    assert max(len(c) for c in found.clusters) == 4
    a, b = next((a, b) for a, b in found.refusals if found.refusals[a, b])
    assert refused(found, a, b) == ["the new cluster will be larger than the max cluster size"]


def variables() -> Build:
    build = Build()
    build.arg("x")
    build.variable("v")
    last = build.chain("a", "x", 4)
    build.assign("write", "v", last)
    build.read("read", "v", waits=["write"])
    build.chain("b", "read", 4)
    return build


def test_a_read_after_a_write_goes_into_another_cluster_and_both_are_named() -> None:
    found = cluster(variables().graph)
    assert found.cluster_of["write"] == found.cluster_of["a0"]
    assert found.cluster_of["read"] == found.cluster_of["b0"] != found.cluster_of["write"]
    (reason,) = refused(found, "write", "read")
    assert reason == (
        "the new cluster would break resource variable semantics: [write: AssignVariableOp(Write)] -> [read: ReadVariableOp(Read)]"
    )


def test_a_read_before_a_write_may_share_its_cluster() -> None:
    build = Build()
    build.variable("v")
    build.read("read", "v")
    build.assign("write", "v", build.chain("a", "read", 4))
    found = cluster(build.graph)
    assert found.cluster_of["read"] == found.cluster_of["write"] is not None


def test_without_the_safety_check_they_share_one() -> None:
    found = cluster(variables().graph, tf_xla_disable_resource_variable_safety_checks_for_debugging=True)
    assert found.cluster_of["write"] == found.cluster_of["read"]


def detour() -> Build:
    """Build a -> host -> c and a -> c."""
    build = Build()
    build.arg("x")
    build.chain("a", "x", 4)
    build.host("host", "a3")
    build.binary("c", "host", "a3")
    build.result("r", build.chain("d", "c", 4))
    return build


def test_a_cycle_is_told_as_a_path_through_the_node_that_cannot_be_compiled() -> None:
    found = cluster(detour().graph)
    assert found.cluster_of["a3"] != found.cluster_of["c"]
    assert refused(found, "a3", "c") == ["contracting the edge would create a cycle via [host]"]
    first, middle, last = found.path("c", "a3")
    assert "+ 3 others #" in first
    assert middle == "host"
    assert "+ 4 others" in last


def test_of_two_in_one_cluster_and_of_two_far_apart_it_is_said() -> None:
    found = cluster(detour().graph)
    assert found.why("a0", "a3")[0].holds
    assert found.path("a0", "a3") == ()
    build = line(4)
    build.arg("y")
    build.chain("far", "y", 4)
    apart = cluster(build.graph)
    assert refused(apart, "a0", "far0")[0].endswith("only edges are contracted")
    assert refused(found, "host", "c")[0].startswith("No registered 'PyFunc' OpKernel")


def test_the_shape_of_a_tensor_is_taken_where_the_tensor_is() -> None:
    # Size could go with its producer or its consumer, not with both: host lies between.
    build = Build()
    build.arg("x")
    build.chain("a", "x", 4)
    build.host("host", "a3")
    build.node("Size", "size", ["a3"], [tf.int32], T=tf.float32, out_type=tf.int32)
    build.node("Cast", "cast", ["size"], [tf.float32], SrcT=tf.int32, DstT=tf.float32)
    build.binary("c", "host", "cast")
    build.result("r", build.chain("d", "c", 4))
    found = cluster(build.graph)
    assert found.cluster_of["size"] == found.cluster_of["a0"] != found.cluster_of["d0"]


def test_a_fill_that_only_others_read_is_left_out() -> None:
    build = Build()
    build.arg("x")
    build.constant("dims", [4], tf.int32)
    build.chain("a", "x", 4)
    build.node("Sum", "sum", ["a3", "dims"], [tf.float32], T=tf.float32, Tidx=tf.int32, keep_dims=False)
    build.node("Fill", "fill", ["dims", "sum"], [tf.float32], T=tf.float32, index_type=tf.int32)
    build.host("host", "fill")
    found = cluster(build.graph)
    assert found.cluster_of["sum"] == found.cluster_of["a0"] is not None
    assert found.cluster_of["fill"] is None
    assert found.reasons["fill"].startswith("Fill whose users are all outside of the cluster")


def test_a_functional_loop_is_compiled_whatever_the_minimum_size() -> None:
    from xlanb.graph.functions import FunctionRef, GraphFunction

    build = Build()
    build.arg("x")
    for name, op_type, out in (("cond", "IsFinite", tf.bool), ("body", "Sin", tf.float32)):
        function = Build()
        function.arg("a")
        function.node(op_type, "f", ["a"], [out], T=tf.float32)
        function.result("r", "f")
        build.graph.functions[name] = GraphFunction.of_body(name, function.graph)
    attrs = {"cond": FunctionRef("cond"), "body": FunctionRef("body"), "T": (tf.float32,)}
    build.node("While", "while", ["x"], [tf.float32], **attrs)
    assert cluster(build.graph).cluster_of["while"] == "cluster_0"


def test_deterministic_names_bear_the_graphs_fingerprint() -> None:
    names = [cluster(line(n).graph, tf_xla_deterministic_cluster_names=True).cluster_of["a0"] for n in (4, 4, 5)]
    assert names[0] == names[1] != names[2]
    assert str(names[0]).startswith("cluster_")
    assert str(names[0]).endswith("_0")


def test_refusals_are_logged_as_tensorflow_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "xlanb.clustering"):
        cluster(detour().graph)
        cluster(variables().graph)
    texts = [r.getMessage() for r in caplog.records]
    assert any(
        t.startswith("Could not contract <a")
        and t.endswith("because contracting the edge would create a cycle via [host].")
        for t in texts
    )
    assert "Unsafe edge: [write: AssignVariableOp(Write)] -> [read: ReadVariableOp(Read)]" in texts


def test_a_cycle_without_a_loop_is_refused_by_name() -> None:
    build = line(4)
    build.op("a0").set_input(0, build["a3"])
    with pytest.raises(GraphError, match=r"cycle.*a3 <- a2"):
        cluster(build.graph)


def test_a_loop_that_is_entered_by_what_leaves_it_is_not_clustered() -> None:
    build = Build()
    build.arg("x")
    loop(build, "while", build.chain("a", "x", 4))
    build.node(
        "Enter", "second", ["while/Exit"], [tf.float32], T=tf.float32, frame_name="while_context", is_constant=True
    )
    build.binary("mixed", "second", "while/body3")
    found = cluster(build.graph)
    assert set(found.cluster_of.values()) == {None}
    assert found.reasons["a0"] == "could not form cycle detection graph"


def test_a_graph_that_was_clustered_stays_as_it_is() -> None:
    marked = cluster(line(4).graph)
    again = cluster(marked.graph)
    assert again.cluster_of == marked.cluster_of
    assert not again.why("a0")[0].holds


def test_eighteen_hundred_nodes_take_less_than_a_second() -> None:
    build = Build()
    build.arg("x")
    source = "x"
    for i in range(450):
        build.chain(f"n{i}_", source, 2)
        build.binary(f"s{i}", f"n{i}_0", f"n{i}_1")
        if i % 50 == 49:
            build.host(f"h{i}", f"s{i}")
            build.binary(f"j{i}", f"h{i}", f"s{i}")
        source = f"j{i}" if i % 50 == 49 else f"s{i}"
        build.chain(f"m{i}_", f"s{i}", 1)
    begin = time.process_time()
    found = cluster(build.graph)
    assert time.process_time() - begin < 3  # processor time: the machine may be loaded
    assert len(found.cluster_of) > 1800
    assert len({c for c in found.cluster_of.values() if c}) > 5


def test_a_node_that_lacks_an_input_is_refused_by_name() -> None:
    build = line(4)
    build.node("AddV2", "short", ["a3"], [tf.float32], T=tf.float32)
    with pytest.raises(GraphError, match=r"'short' = AddV2\(a3\): op AddV2 takes 2 tensors \(x, y\), not 1"):
        cluster(build.graph)
    lost = line(4)
    lost.node("AddN", "sum", ["a2", "a3"], [tf.float32], T=tf.float32)
    with pytest.raises(GraphError, match=r"'sum' = AddN\(a2, a3\) lacks the attribute 'N'"):
        cluster(lost.graph)
