"""Preparing a graph: TensorFlow's passes as stages, jit scopes, dumped graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from tests.programs import LineFit, line_fit
from xlanb import tf
from xlanb.errors import DumpError
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.graph.graph import Graph
from xlanb.tracing import observing

GRAPH_STAGES = [
    "graph",
    "prune",
    "constant_folding",
    "remove_identities",
    "common_subgraph_elimination",
    "rewrite_for_execution",
    "clone_constants_for_better_clustering",
    "cluster_scoping",
    "mark_for_compilation",
    "force_xla_constants_on_host",
    "increase_dynamism_for_auto_jit",
    "partially_decluster",
    "report_clustering_info",
    "encapsulate_subgraphs",
    "build_xla_ops",
    "build_xla_launch_ops",
]


def traced(program: LineFit, fetch: Any, text: str = "") -> Trace:
    with observing(Recorder()) as recorder, xlanb.flags(text), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(fetch, program.feeds)
    return recorder.traces[-1]


def test_the_passes_are_stages_in_tensorflows_order() -> None:
    program = line_fit()
    trace = traced(program, program.loss, "--tf_xla_auto_jit=2")
    graphs = [s for s in trace if s.kind in ("tf_graph", "optimize", *GRAPH_STAGES)]
    assert [s.name for s in graphs] == GRAPH_STAGES
    assert all(s.after is not None and (s.before is not None or s.name == "graph") for s in graphs)
    today, launch = trace[GRAPH_STAGES.index("build_xla_ops")].after, trace["build_xla_launch_ops"].after
    assert {"_XlaCompile", "_XlaRun", "_XlaMerge"} <= {n.op for n in today.nodes}  # type: ignore[union-attr]
    assert [n.op for n in launch.nodes].count("XlaLaunch") == 1  # type: ignore[union-attr]
    assert [d.action for d in trace["mark_for_compilation"].decisions].count("cluster") > 0


def scoped(program: LineFit) -> list[str]:
    names = [op.name for op in program.graph.get_operations() if op.type in ("Mul", "Add", "AddV2", "Sub", "Square")]
    for name in names:
        program.graph.get_operation_by_name(name).set_attr("_XlaCompile", True)
    return names


def test_a_jit_scope_is_compiled_in_a_session_without_jit() -> None:
    plain = line_fit()
    program = line_fit()
    names = scoped(program)
    trace = traced(program, program.loss)
    marked = {n.name: n.cluster for n in trace["mark_for_compilation"].after.nodes}  # type: ignore[union-attr]
    inside = {name for name, cluster in marked.items() if cluster}
    assert inside
    assert inside <= set(names)
    assert [n.op for n in trace["build_xla_launch_ops"].after.nodes].count("XlaLaunch") >= 1  # type: ignore[union-attr]
    with tf.Session(program.graph) as session, tf.Session(plain.graph) as other:
        for s in (session, other):
            s.load_variables({"weights": np.float32(0.5), "bias": np.float32(0.25)})
        np.testing.assert_allclose(
            session.run(program.loss, program.feeds), other.run(plain.loss, plain.feeds), rtol=1e-6
        )


VERBOSE = (
    "--tf_xla_auto_jit=2 --tf_xla_clustering_debug --vmodule=encapsulate_subgraphs_pass=1,build_xla_ops_pass=1,"
    "clone_constants_for_better_clustering=1,xla_compiler=2"
)
BEFORE_COMPILING = {
    "after_clone_constants_for_better_clustering",
    "before_clone_constants_for_better_clustering",
    "before_increase_dynamism_for_auto_jit_pass",
    "before_mark_for_compilation",
    "build_xla_ops",
    "encapsulate_fdef_cluster_0",
    "encapsulate_fdef_graph_cluster_0",
    "encapsulate_subgraphs_after",
    "encapsulate_subgraphs_before",
    "encapsulate_subgraphs_subgraph_cluster_0",
    "mark_for_compilation",
    "mark_for_compilation_annotated",
}


def test_graphs_are_dumped_under_tensorflows_names_and_open_again(tmp_path: Path) -> None:
    program = line_fit(use_resource=True)
    with xlanb.flags(f"--tf_dump_graph_prefix={tmp_path} {VERBOSE}"), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.loss, program.feeds)
        names = {p.stem for p in tmp_path.iterdir()}
        session.run([program.loss, program.train], program.feeds)
    attributes = "_XlaCompiledKernel=true,_XlaHasReferenceVars=false,_XlaNumConstantArgs=0,_XlaNumResourceArgs=2_"
    assert names == BEFORE_COMPILING | {f"xla_compile_{w}_cluster_0_{attributes}" for w in ("function", "graph")}
    assert (tmp_path / "mark_for_compilation_1.pbtxt").exists()
    marked = Graph.from_graphdef(tmp_path / "mark_for_compilation.pbtxt")
    annotated = Graph.from_graphdef(tmp_path / "mark_for_compilation_annotated.pbtxt")
    groups = {op.name: f"{op.attrs.get('_XlaCluster', 'unclustered')}/{op.name}" for op in marked}
    groups |= {n: f"varhandle/{n}" for n in groups if marked.get_operation_by_name(n).type == "VarHandleOp"}
    assert [op.name for op in annotated] == [groups[op.name] for op in marked]
    opened = xlanb.read_dump(tmp_path).graphs
    assert opened is not None
    assert all(len(s.after.nodes) > 0 for s in opened)  # type: ignore[union-attr]


def test_without_the_flags_of_a_pass_its_graphs_are_not_dumped(tmp_path: Path) -> None:
    program = line_fit()
    text = f"--tf_dump_graph_prefix={tmp_path} --tf_xla_auto_jit=2 --vmodule=build_xla_ops_pass=1"
    with xlanb.flags(text), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.loss, program.feeds)
    assert [p.name for p in tmp_path.iterdir()] == ["build_xla_ops.pbtxt"]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = line_fit()
    with xlanb.flags(f"--tf_dump_graph_prefix={tmp_path}/file {VERBOSE}"), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        with pytest.raises(DumpError, match="TF_DUMP_GRAPH_PREFIX: cannot write"):
            session.run(program.loss, program.feeds)
