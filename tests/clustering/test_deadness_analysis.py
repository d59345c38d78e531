"""When nodes are alive: branches, merges and loops, as TensorFlow writes it."""

from __future__ import annotations

import pytest

from tests.clustering.graphs import Build, loop
from xlanb import tf
from xlanb.clustering.clustering import cluster
from xlanb.errors import GraphValueError


def diamond() -> Build:
    build = Build()
    build.arg("x")
    build.arg("p", tf.bool)
    build.switch("Switch", "x", "p")
    build.chain("f", "Switch:0", 4, "Sin")
    build.chain("t", "Switch:1", 4, "Cos")
    build.node("Merge", "Merge", ["f3", "t3"], [tf.float32, tf.int32], T=tf.float32, N=2)
    build.chain("after", "Merge", 4)
    return build


def test_branches_live_by_their_condition_and_a_merge_by_either() -> None:
    found = cluster(diamond().graph)
    assert found.deadness("f0") == "~*p:0"
    assert found.deadness("t3") == "*p:0"
    assert found.deadness("after0") == "#true"
    clusters = {found.cluster_of[n] for n in ("f0", "t0", "after0")}
    assert len(clusters) == 3
    assert None not in clusters


def test_nodes_of_two_branches_are_kept_apart_with_both_predicates() -> None:
    build = diamond()
    build.binary("both", "f3", "t3")
    found = cluster(build.graph)
    assert found.deadness("both") == "#false"
    words = "the two nodes have mismatching deadness: ~*p:0 and #false"
    assert [p.value for p in found.why("f3", "both") if not p.holds][-1] == words
    assert found.refusals["f3", "both"] == words


def test_without_the_safety_check_branches_may_share_a_cluster() -> None:
    build = diamond()
    build.binary("both", "f3", "t3")
    found = cluster(build.graph, tf_xla_disable_deadness_safety_checks_for_debugging=True)
    assert found.cluster_of["f3"] == found.cluster_of["both"] == found.cluster_of["t3"]
    assert found.deadness("both") == "not analysed"


def test_a_loop_is_a_recurrence_and_what_leaves_it_lives_as_what_entered() -> None:
    build = Build()
    build.arg("x")
    before = build.chain("before", "x", 4)
    exit_ = loop(build, "while", before)
    build.chain("after", exit_, 4)
    found = cluster(build.graph)
    assert found.deadness("while/Merge") == "{#true,&,*while/LoopCond:0}<while_context>"
    assert found.deadness("after0") == "#true"
    body = found.cluster_of["while/body0"]
    assert body == found.cluster_of["while/body2"]
    assert body not in (None, found.cluster_of["before0"])
    # The clusters before and after the loop stay apart: the loop would have to wait for itself.
    assert found.cluster_of["before0"] != found.cluster_of["after0"]


def test_nested_loops_name_both_frames() -> None:
    build = Build()
    build.arg("x")
    loop(build, "outer", "x")
    inner = loop(build, "inner", "outer/body0")
    build.op("outer/body1").set_input(0, build[inner])
    found = cluster(build.graph)
    assert found.deadness("inner/Merge").endswith("<inner_context;outer_context>")
    assert found.deadness("outer/body2") == found.deadness("outer/body0")


def test_a_switch_of_many_branches_numbers_them() -> None:
    build = Build()
    build.arg("x")
    build.arg("i", tf.int32)
    build.node("_SwitchN", "many", ["x", "i"], [tf.float32] * 3, T=tf.float32, num_outs=3)
    for port in range(3):
        build.chain(f"b{port}_", f"many:{port}", 4)
    found = cluster(build.graph)
    assert [found.deadness(f"b{p}_0") for p in range(3)] == ["i:0=0", "(~i:0=0 & i:0=1)", "(~i:0=0 & ~i:0=1)"]


def test_a_constant_condition_is_its_value() -> None:
    build = diamond()
    build.constant("yes", True, tf.bool)
    build.op("Switch").set_input(1, build["yes"])
    found = cluster(build.graph)
    assert (found.deadness("t0"), found.deadness("f0")) == ("#true", "#false")


def test_a_merge_with_two_ways_back_is_refused_by_name() -> None:
    build = Build()
    build.arg("x")
    loop(build, "while", "x")
    build.node("NextIteration", "second", ["while/body0"], [tf.float32], T=tf.float32)
    build.op("while/Merge").add_input(build["second"])
    build.op("while/Merge").set_attr("N", 3)
    with pytest.raises(GraphValueError, match="several NextIteration inputs: while/NextIteration, second"):
        cluster(build.graph)


def test_a_node_in_two_loops_at_once_is_refused_by_name() -> None:
    build = Build()
    build.arg("x")
    loop(build, "a", "x")
    loop(build, "b", "x")
    build.binary("mixed", "a/body0", "b/body0")
    with pytest.raises(GraphValueError, match=r"mixed.*inputs from different frames"):
        cluster(build.graph)
