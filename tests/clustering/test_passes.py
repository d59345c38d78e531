"""Passes around marking: clones, scopes, slices, declustering, functions, launch ops; the order."""

from __future__ import annotations

import numpy as np

from tests.clustering.graphs import Build, loop
from xlanb import tf
from xlanb.clustering.clone_constants_for_better_clustering import clone_constants_for_better_clustering
from xlanb.clustering.cluster_scoping_pass import cluster_scoping
from xlanb.clustering.clustering import cluster
from xlanb.graph.functions import FunctionRef, GraphFunction


def shared_constant(elements: int) -> Build:
    build = Build()
    build.arg("x")
    build.constant("c", np.ones(elements))
    for name in ("a", "b", "d"):
        build.binary(name, "x", "c")
    return build


def test_small_constants_are_cloned_for_all_readers_but_the_last() -> None:
    build = shared_constant(15)
    cloned = clone_constants_for_better_clustering(build.graph)
    readers = [cloned.get_operation_by_name(n).inputs[1].op.name for n in ("a", "b", "d")]
    assert readers == ["c/clone_0", "c/clone_1", "c"]
    assert len(build.graph) == 5
    assert clone_constants_for_better_clustering(cloned) is cloned


def test_large_constants_and_graphs_that_write_in_place_are_left_alone() -> None:
    build = shared_constant(16)
    assert clone_constants_for_better_clustering(build.graph) is build.graph
    small = shared_constant(2)
    small.node("InplaceAdd", "in_place", ["x", "c", "c"], [tf.float32], T=tf.float32)
    assert clone_constants_for_better_clustering(small.graph) is small.graph


def test_what_waits_for_a_constant_waits_for_its_clone_too() -> None:
    build = Build()
    build.arg("x")
    build.constant("c", 1.0)
    build.binary("a", "x", "c")
    build.node("Sin", "waits", ["x"], [tf.float32], waits=["c"], T=tf.float32)
    cloned = clone_constants_for_better_clustering(build.graph)
    assert cloned.get_operation_by_name("a").inputs[1].op.name == "c/clone_0"
    assert [c.name for c in cloned.get_operation_by_name("waits").control_inputs] == ["c"]


def test_stages_of_a_pipeline_get_scopes_of_their_own() -> None:
    build = Build()
    build.arg("x")
    last = build.chain("a", "x", 4)
    build.graph.add_op("Stage", "stage", [build[last]], [], {"dtypes": (tf.float32,)})
    build.node("Unstage", "unstage", (), [tf.float32], dtypes=(tf.float32,))
    build.chain("b", "unstage", 4)
    build.binary("both", "b3", "a3")
    scoped = cluster_scoping(build.graph)
    scopes = {op.name: op.attrs.get("_XlaInternalScope") for op in scoped}
    assert scopes["a0"] == scopes["stage"] == "_0"
    assert scopes["b0"] == scopes["both"] == "_1"
    found = cluster(build.graph)
    assert found.cluster_of["a0"] != found.cluster_of["both"] == found.cluster_of["b0"]


def sliced(size: list[int]) -> Build:
    build = Build()
    build.arg("x")
    build.arg("begin", tf.int32)
    build.constant("size", size, tf.int32)
    build.chain("a", "x", 4)
    build.node("Slice", "slice", ["a3", "begin", "size"], [tf.float32], T=tf.float32, Index=tf.int32)
    build.chain("b", "slice", 4)
    build.op("x").outputs[0].set_shape((3, 5))
    build.op("begin").outputs[0].set_shape((2,))
    return build


def test_a_slice_from_a_place_that_varies_depends_on_its_size_alone() -> None:
    found = cluster(sliced([2, -1]).graph)
    stages = {s.name: s for s in found.stages}
    assert stages["increase_dynamism_for_auto_jit"].changed
    graph = stages["increase_dynamism_for_auto_jit"].graph
    new = graph.get_operation_by_name("slice/static_shaped_slice/static_shaped_slice")
    assert new.attrs["_XlaCompileTimeConstantInputs"] == ("size",)
    assert [t.op.name.rpartition("/")[2] for t in new.inputs] == ["a3", "begin_s64", "slice_size"]
    assert "slice" not in graph


def test_a_slice_of_fixed_size_needs_no_constant_argument() -> None:
    found = cluster(sliced([2, 2]).graph)
    (function,) = found.encapsulated.functions.values()
    assert function.constant_arguments == frozenset()
    (marked,) = found.clusters
    assert [marked.function.sources[i] for i in marked.function.constant_arguments] == ["begin:0"]


def test_a_slice_from_a_fixed_place_stays() -> None:
    build = sliced([2, 2])
    build.constant("fixed", [0, 0], tf.int32)
    build.op("slice").set_input(1, build["fixed"])
    stages = {s.name: s for s in cluster(build.graph).stages}
    assert not stages["increase_dynamism_for_auto_jit"].changed


def test_what_must_be_constant_and_comes_first_leaves_its_cluster() -> None:
    build = Build()
    build.arg("x")
    build.arg("n", tf.int32)
    build.node("Neg", "negated", ["n"], [tf.int32], T=tf.int32)
    build.node("Reshape", "r", ["x", "negated"], [tf.float32], T=tf.float32, Tshape=tf.int32)
    build.chain("a", "r", 4)
    found = cluster(build.graph)
    assert found.cluster_of["negated"] == found.cluster_of["a0"]
    assert found.declustering.graph.get_operation_by_name("negated").attrs.get("_XlaCluster") is None
    assert [p.value for p in found.why("negated") if not p.holds] == ["Declustering must-be-constant node negated"]
    (function,) = found.encapsulated.functions.values()
    assert [function.sources[i] for i in sorted(function.constant_arguments)] == ["negated:0"]


def test_a_shape_that_comes_first_leaves_its_cluster() -> None:
    build = Build()
    build.arg("x")
    build.node("Size", "size", ["x"], [tf.int32], T=tf.float32, out_type=tf.int32)
    build.node("Cast", "cast", ["size"], [tf.float32], SrcT=tf.int32, DstT=tf.float32)
    build.chain("a", "cast", 4)
    reasons = cluster(build.graph).declustering.reasons
    assert reasons == {"size": "Declustering size because it is a root shape consumer"}


def test_what_the_host_reads_is_computed_outside_as_well() -> None:
    build = Build()
    build.arg("x")
    build.chain("a", "x", 4)
    build.node("ShapeN", "shapes", ["a3", "x"], [tf.int32, tf.int32], T=tf.float32, N=2, out_type=tf.int32)
    build.node("Cast", "inside", ["shapes"], [tf.float32], SrcT=tf.int32, DstT=tf.float32)
    attrs = {"T": tf.float32, "Tshape": tf.int32, "_XlaCompile": False}
    build.node("Reshape", "r", ["x", "shapes:0"], [tf.float32], **attrs)
    build.result("out", "r")
    build.result("kept", "inside")
    found = cluster(build.graph)
    assert found.cluster_of["shapes"] == found.cluster_of["a0"]
    assert found.cluster_of["r"] is None
    graph = found.declustering.graph
    assert graph.get_operation_by_name("r").inputs[1].op.name == "shapes/declustered"
    assert graph.get_operation_by_name("inside").inputs[0].op.name == "shapes"


def test_arguments_are_constants_then_tensors_then_variables() -> None:
    build = Build()
    build.arg("x")
    build.variable("v")
    build.arg("shape", tf.int32)
    build.read("read", "v")
    build.binary("sum", "read", "x")
    build.node("Reshape", "r", ["sum", "shape"], [tf.float32], T=tf.float32, Tshape=tf.int32)
    build.result("out", build.chain("a", "r", 4))
    found = cluster(build.graph)
    function = found.clusters[0].function
    assert function.sources == ("shape:0", "x:0", "v:0")
    assert (function.constant_arguments, function.resource_arguments) == (frozenset({0}), frozenset({2}))
    assert [op.attrs["index"] for op in function.body if op.type == "_Arg" and op.name == "v_0_arg"] == [2]
    assert "argument 0 shape_0_arg: s32[*] = shape:0 (constant)" in str(function)
    call = found.encapsulated.graph.get_operation_by_name("cluster_0")
    assert [t.name for t in call.inputs] == ["shape:0", "x:0", "v:0"]
    assert (call.attrs["_XlaNumConstantArgs"], call.attrs["_XlaNumResourceArgs"]) == (1, 1)


def compiled(**more: object) -> tf.Graph:
    build = Build()
    build.arg("x")
    build.arg("n", tf.int32)
    build.chain("a", "x", 4)
    build.node("Cast", "cast", ["n"], [tf.float32], SrcT=tf.int32, DstT=tf.float32)
    build.binary("b", "a3", "cast")
    build.result("out", "b")
    build.node("Sin", "after", ["x"], [tf.float32], waits=["b"], _XlaCompile=False, T=tf.float32)
    return cluster(build.graph, **more).xla_ops_graph  # type: ignore[arg-type]


def test_todays_view_compiles_and_runs_with_a_call_beside() -> None:
    graph = compiled()
    ops = {op.name: op for op in graph}
    scope = "cluster_0_1"
    assert ops[f"{scope}/xla_compile"].attrs["must_compile"] is False
    run, call = ops[f"{scope}/xla_run"], ops[f"{scope}/stateful_partitioned_call"]
    assert run.inputs[-1].name == f"{scope}/predicated_compilation_key:1"
    assert [t.op.name for t in ops[f"{scope}/merge_oidx_0"].inputs] == [call.name, run.name]
    assert ops["out"].inputs[0].op.type == "_XlaMerge"
    # The int32 argument is passed on only where the call happens.
    assert [t.op.name for t in call.inputs if t.dtype is tf.int32] == [f"{scope}/int32_id_n"]
    assert [c.type for c in ops["after"].control_inputs] == ["Identity"]
    assert ops[f"{scope}/ctrl_merge"].type == "Merge"
    again = tf.Graph.from_graphdef(graph.to_graphdef())
    assert [op.name for op in again] == [op.name for op in graph]
    assert "cluster_0" in again.functions


def test_without_lazy_compilation_there_is_no_way_round() -> None:
    graph = compiled(tf_xla_enable_lazy_compilation=False)
    types = [op.type for op in graph]
    assert "StatefulPartitionedCall" not in types
    assert types.count("_XlaRun") == 1
    assert graph.get_operation_by_name("out").inputs[0].op.type == "_XlaRun"


def test_the_stages_are_tensorflows_in_their_order() -> None:
    build = shared_constant(2)
    build.chain("t", "a", 4)
    found = cluster(build.graph)
    assert [s.name for s in found.stages] == [
        "clone_constants_for_better_clustering",
        "cluster_scoping",
        "mark_for_compilation",
        "force_xla_constants_on_host",
        "increase_dynamism_for_auto_jit",
        "partially_decluster",
        "report_clustering_info",
        "encapsulate_subgraphs",
        "build_xla_ops",
    ]
    assert [s.changed for s in found.stages][:3] == [True, False, True]
    assert found.summary.clustered_node_count == 6
    assert dict(found.summary.clusters[0].op_histogram)["Tanh"] == 4
    assert "XlaLaunch" in [op.type for op in found.launch_graph]


def test_constants_of_a_call_that_asks_to_be_compiled_stay_on_the_host() -> None:
    body = Build()
    body.arg("a")
    body.arg("s", tf.int32)
    body.node("Reshape", "r", ["a", "s"], [tf.float32], T=tf.float32, Tshape=tf.int32)
    body.result("out", "r")
    build = Build()
    build.graph.functions["f"] = GraphFunction.of_body("f", body.graph)
    build.arg("x")
    build.arg("shape", tf.int32)
    attrs = {"f": FunctionRef("f"), "Tin": (tf.float32, tf.int32), "Tout": (tf.float32,), "_XlaMustCompile": True}
    build.node("PartitionedCall", "call", ["x", "shape"], [tf.float32], **attrs)
    found = cluster(build.graph)
    assert found.cluster_of["call"] == "cluster_0"
    on_host = {s.name: s.graph for s in found.stages}["force_xla_constants_on_host"]
    assert on_host.get_operation_by_name("call").attrs["_input_hostmem"] == (1,)


def test_loops_go_through_all_passes() -> None:
    build = Build()
    build.arg("x")
    build.result("out", loop(build, "while", "x"))
    found = cluster(build.graph)
    types = [op.type for op in found.xla_ops_graph]
    assert types.count("_XlaRun") == 1
    assert types.count("NextIteration") == 1
