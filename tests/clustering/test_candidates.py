"""Why a node is not a candidate: TensorFlow's text for each kind, in its order; and the flags."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tests.clustering.graphs import Build, loop
from xlanb import tf
from xlanb.clustering import compilability
from xlanb.clustering.clustering import Clustering, cluster
from xlanb.errors import FlagError
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.tf2xla.registry import kernel


def reasons(found: Clustering, node: str) -> list[str]:
    return [p.value for p in found.why(node) if not p.holds]


def one(op_type: str, **attrs: object) -> Clustering:
    build = Build()
    build.arg("x")
    build.node(op_type, "n", ["x"], [tf.float32], **{"T": tf.float32, **attrs})
    return cluster(build.graph)


@pytest.mark.parametrize(
    ("op_type", "words"),
    [
        ("CheckNumerics", "Assert or CheckNumerics"),
        ("MatrixInverse", "slow operation"),
        ("PyFunc", "No registered 'PyFunc' OpKernel for XLA_CPU_JIT devices compatible with node {{node n}}"),
    ],
)
def test_reasons_are_tensorflows_words(op_type: str, words: str) -> None:
    found = one(op_type, message="", token="f", Tin=(tf.float32,), Tout=(tf.float32,), adjoint=False)
    assert reasons(found, "n") == [words]
    assert found.reasons["n"] == words


def test_every_condition_is_shown_also_for_a_node_that_is_in() -> None:
    build = Build()
    build.arg("x")
    build.chain("t", "x", 4)
    found = cluster(build.graph).why("t0")
    assert all(p.holds for p in found)
    names = [p.name for p in found]
    assert names.index("is not a stateful random op") < names.index("has no variants")
    assert names[-2:] == ["its cluster has the minimum size", "stays in its cluster (partially_decluster)"]


def test_a_kernel_must_fit_the_element_type() -> None:
    build = Build()
    build.arg("x", tf.string)
    build.node("Reshape", "r", ["x", "x"], [tf.string], T=tf.string, Tshape=tf.int32)
    build.node("Const", "c", (), [tf.string], dtype=tf.string, value=np.array(b"a", object))
    found = cluster(build.graph)
    assert found.reasons["r"].startswith(
        "No registered 'Reshape' OpKernel for XLA_CPU_JIT devices compatible with node {{node r}}"
    )
    assert "attributes didn't match" in found.reasons["r"]
    assert "T=DT_STRING" in found.reasons["r"]
    assert found.reasons["c"] == "Const op with type DT_STRING is not supported by XLA."


def test_random_numbers_with_state_stay_out_and_those_without_go_in() -> None:
    build = Build()
    build.constant("shape", [4], tf.int32)
    build.constant("seed", [1, 2], tf.int32)
    build.node("RandomUniform", "with", ["shape"], [tf.float32], T=tf.int32, dtype=tf.float32)
    build.node(
        "StatelessRandomUniform",
        "without",
        ["shape", "seed"],
        [tf.float32],
        T=tf.int32,
        Tseed=tf.int32,
        dtype=tf.float32,
    )
    build.chain("t", "without", 4)
    found = cluster(build.graph)
    assert reasons(found, "with") == ["stateful random op"]
    assert found.cluster_of["without"] == found.cluster_of["t3"] is not None


def test_an_identity_of_a_reference_is_an_unsafe_cast() -> None:
    build = Build()
    build.node("VariableV2", "v", (), [as_dtype("float32_ref")], dtype=tf.float32, shape=tf.TensorShape([4]))
    build.node("Identity", "read", ["v"], [tf.float32], T=tf.float32)
    assert reasons(cluster(build.graph), "read") == ["Identity with unsafe cast."]


def test_the_identity_that_starts_a_loops_body_stays_out_when_constants_wait_for_it() -> None:
    build = Build()
    build.arg("x")
    loop(build, "while", "x")
    build.constant("while/two", 2.0, waits=["while/Identity"])
    build.binary("while/more", "while/body3", "while/two")
    build.op("while/NextIteration").set_input(0, build["while/more"])
    found = cluster(build.graph)
    assert reasons(found, "while/Identity")[0].startswith(
        "including it can create dependencies between while loop condition and body"
    )


def test_what_must_be_constant_but_has_state_is_isolated() -> None:
    build = Build()
    build.arg("x")
    build.node("VarHandleOp", "v", (), [tf.resource], dtype=tf.int32, shape=tf.TensorShape([2]))
    build.node("ReadVariableOp", "shape", ["v"], [tf.int32], dtype=tf.int32)
    build.node("Reshape", "r", ["x", "shape"], [tf.float32], T=tf.float32, Tshape=tf.int32)
    build.chain("t", "r", 4)
    assert reasons(cluster(build.graph), "shape") == ["must-be-constant stateful op"]


def test_a_call_is_judged_by_its_body_and_the_fault_is_named() -> None:
    build = Build()
    build.arg("x")
    for name, op_type in (("good", "Sin"), ("bad", "CheckNumerics")):
        body = Build()
        body.arg("a")
        body.node(op_type, "inner", ["a"], [tf.float32], T=tf.float32, message="")
        body.result("r", "inner")
        build.graph.functions[name] = GraphFunction.of_body(name, body.graph)
        attrs = {"f": FunctionRef(name), "Tin": (tf.float32,), "Tout": (tf.float32,)}
        build.node("PartitionedCall", f"call_{name}", ["x"], [tf.float32], **attrs)
        build.chain(f"after_{name}", f"call_{name}", 4)
    build.node(
        "PartitionedCall", "lost", ["x"], [tf.float32], f=FunctionRef("none"), Tin=(tf.float32,), Tout=(tf.float32,)
    )
    found = cluster(build.graph)
    assert found.cluster_of["call_good"] == found.cluster_of["after_good0"] is not None
    assert found.reasons["call_bad"] == "unsupported function"
    assert reasons(found, "call_bad") == [
        "unsupported function: inner (op CheckNumerics) of bad: Assert or CheckNumerics"
    ]
    assert reasons(found, "lost") == ["unsupported function: could not instantiate call: 'none'"]


def test_a_function_that_calls_itself_is_refused_and_ends() -> None:
    body = Build()
    body.arg("a")
    attrs = {"f": FunctionRef("self"), "Tin": (tf.float32,), "Tout": (tf.float32,)}
    body.node("PartitionedCall", "again", ["a"], [tf.float32], **attrs)
    body.result("r", "again")
    function = GraphFunction.of_body("self", body.graph)
    body.graph.functions["self"] = function
    build = Build()
    build.graph.functions["self"] = function
    build.arg("x")
    build.node("PartitionedCall", "call", ["x"], [tf.float32], **attrs)
    assert "function depth limit exceeded" in reasons(cluster(build.graph), "call")[0]


def test_only_listed_ops_are_clustered() -> None:
    build = Build()
    build.arg("x")
    build.chain("t", build.chain("s", "x", 4, "Sin"), 4)
    build.node("L2Loss", "l", ["t3"], [tf.float32], T=tf.float32)
    found = cluster(build.graph, tf_xla_ops_to_cluster=("PW",))
    assert found.cluster_of["t0"] is not None
    assert reasons(found, "l")[0] == "it is not listed in --tf_xla_ops_to_cluster."
    assert (
        cluster(build.graph, tf_xla_ops_to_cluster=("L2Loss",), tf_xla_min_cluster_size=1).cluster_of["l"] is not None
    )
    with pytest.raises(FlagError, match="'Tahn' passed to --tf_xla_ops_to_cluster is not supported"):
        cluster(build.graph, tf_xla_ops_to_cluster=("Tahn",))  # codespell:ignore


def test_fuel_bounds_the_candidates() -> None:
    build = Build()
    build.arg("x")
    build.chain("t", "x", 9)
    found = cluster(build.graph, tf_xla_clustering_fuel=5)
    assert [n for n, c in found.cluster_of.items() if c] == [f"t{i}" for i in range(5)]
    assert reasons(found, "t5") == ["Hit fuel limit; not marking any remaining ops as clusterable."]


def test_without_jit_only_what_asks_for_it_is_compiled() -> None:
    build = Build()
    build.arg("x")
    build.chain("b", build.chain("a", "x", 2, _XlaCompile=True, _XlaScope="one"), 4)
    found = cluster(build.graph, global_jit_level=0, cpu_global_jit=False)
    assert found.cluster_of["a0"] == found.cluster_of["a1"] is not None
    assert reasons(found, "b0") == ["compilation is not requested on /job:localhost/replica:0/task:0/device:CPU:0"]


def test_devices_that_must_compile_compile_everything() -> None:
    build = Build()
    build.arg("x")
    device = "/job:localhost/replica:0/task:0/device:XLA_CPU:0"
    build.node("CheckNumerics", "n", ["x"], [tf.float32], device=device, T=tf.float32, message="")
    found = cluster(build.graph, global_jit_level=0, cpu_global_jit=False, tf_xla_min_cluster_size=1)
    assert found.cluster_of["n"] is not None
    build.op("n").set_device("/device:TPU:0")
    assert reasons(cluster(build.graph), "n") == ["could not find JIT device for TPU"]


def test_the_lines_that_people_grep_for_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    build = Build()
    build.arg("x")
    build.host("host", "x")
    build.chain("t", "host", 4)
    with caplog.at_level(logging.DEBUG, "xlanb"):
        cluster(build.graph)
    lines = {r.getMessage(): r.levelno for r in caplog.records}
    found = [t for t in lines if t.startswith("Found uncompilable node host (op PyFunc): No registered 'PyFunc'")]
    assert [lines[t] for t in found] == [logging.DEBUG]
    assert lines[" Built 1 clusters, size 4 / 6 (66.67%)"] == logging.INFO


def test_in_a_graph_that_is_to_run_what_cannot_be_lowered_here_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilability, "kernel", lambda op: None if op == "XlaReplicaId" else kernel(op))
    build = Build()
    build.arg("x", tf.int32)
    build.node("SymbolicGradient", "s", ["x"], [tf.int32], f=FunctionRef("g"), Tin=(tf.int32,), Tout=(tf.int32,))
    build.node("XlaReplicaId", "n", (), [tf.int32])
    assert "xlanb has no lowering for XlaReplicaId" in reasons(cluster(build.graph, only_lowered=True), "n")
    assert "xlanb has no lowering for XlaReplicaId" not in reasons(cluster(build.graph), "n")


def test_the_flag_can_turn_jit_off() -> None:
    build = Build()
    build.arg("x")
    build.chain("t", "x", 4)
    off = cluster(build.graph, tf_xla_auto_jit=-1, cpu_global_jit=False)
    assert set(off.cluster_of.values()) == {None}
    assert cluster(build.graph, tf_xla_auto_jit=2).cluster_of["t0"] is not None
