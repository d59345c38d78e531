r"""Decode names of graphs that TensorFlow dumps into the directory of TF_DUMP_GRAPH_PREFIX.

    PASS_NAME[_N].{pbtxt,mlir}                              one of GRAPHS, dumped for the N-th time
    {before,after}_MetaOptimizer_iteration_I_ADDRESS        Grappler: one round over one graph
    after_MetaOptimizer_iteration_I_OPTIMIZER_ADDRESS       ... after one of its optimizers
    after_MetaOptimizer_ADDRESS                             ... at the end, with functions
    tfg_{before,after}_graph_GRAPH_HASH                     Grappler's optimizers in MLIR
    FUNCTION.NNNN.GROUP.TAG.{pbtxt,mlir}                    between groups of passes
    (DebugDataDumper)
    FUNCTION{placer_input,placer_output,colocation_graph}   the placer
    N_mlir_bridge_PASS_{before,after}.mlir                  passes of the MLIR bridge

ADDRESS is the graph's address in memory: graphs with one address and one repeat belong together.
Source of the rules: the DumpGraphToFile calls of tensorflow/core and tensorflow/compiler,
tensorflow/core/util/debug_data_dumper.cc, and what TensorFlow 2.21 wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Graphs by the beginning of the name; the order is that of TensorFlow's passes.
GRAPHS = {
    "isolate_deep_ops_before": "before ops that the placer must look into are set apart",
    "isolate_deep_ops_after": "ops that the placer must look into are set apart",
    "encapsulate_xla_computations_before": "before tpu.rewrite and xla.compile computations become functions",
    "encapsulate_xla_computations_halfway": "after tpu.rewrite and xla.compile computations become functions",
    "encapsulate_xla_computations_after": "calls of these functions became XlaLaunch",
    "functionalize_control_flow_before": "before Switch, Merge and Enter become If and While",
    "functionalize_control_flow_after": "Switch, Merge and Enter became If and While",
    "functionalize_before": "before one loop becomes While",
    "functionalize_after": "one loop became While",
    "extract_outside_compilation_before": "before ops that run on the host leave the computation",
    "extract_outside_compilation_after": "ops that run on the host have left the computation",
    "extract_outside_compilation_for_func_before": "a function before ops that run on the host leave it",
    "extract_outside_compilation_for_func_after": "a function without the ops that run on the host",
    "forward_type_inference_before": "before types are inferred from inputs to outputs",
    "forward_type_inference_after": "types inferred from inputs to outputs",
    "control_flow_deps_to_chains_before": "before control edges around loops become data",
    "control_flow_deps_to_chains_after": "control edges around loops became data",
    "placer_input": "before devices are chosen",
    "placer_output": "every node has its device",
    "colocation_graph": "which nodes the placer keeps on one device",
    "before_dtensor_mlir_pass": "before DTensor spreads layouts",
    "after_dtensor_mlir_pass": "DTensor spread layouts",
    "before_replicate_constants_pass": "before small constants are copied to each device that reads them",
    "after_replicate_constants_pass": "small constants copied to each device that reads them",
    "before_clone_constants_for_better_clustering": "before constants are cloned",
    "after_clone_constants_for_better_clustering": "constants cloned, so that each cluster can have its own",
    "before_mark_for_compilation": "before clusters are marked",
    "mark_for_compilation_annotated": "clusters marked, with TensorFlow's notes",
    "mark_for_compilation": "clusters marked",
    "before_increase_dynamism_for_auto_jit_pass": "before slices are made dynamic",
    "increase_dynamism_for_auto_jit_pass": "slices made dynamic",
    "before_partially_decluster_pass": "before nodes leave their clusters again",
    "partially_decluster": "some nodes left their clusters again",
    "encapsulate_subgraphs_before": "before clusters become functions",
    "encapsulate_subgraphs_subgraph": "one cluster, extracted",
    "encapsulate_fdef_graph": "the body of a cluster's function, as a graph",
    "encapsulate_fdef": "a cluster's function (a FunctionDef)",
    "encapsulate_subgraphs_after": "clusters are calls of functions",
    "build_xla_ops": "calls became _XlaCompile and _XlaRun",
    "xla_compile_function_input": "a cluster's function as passed to the compiler",
    "xla_compile_function": "a cluster's function as passed to the compiler",
    "xla_compile_graph": "a cluster's graph as passed to the compiler",
    "before_mark": "before clusters are marked",
    "after_mark": "clusters marked",
    "partition": "the part of the graph on one device",
    "EnsureMemoryTypes": "copies between host and device memory inserted for kernels",
    "tf_mlir_importer_base": "a graph as passed to MLIR",
    "tf_mlir_imported_base": "a graph as MLIR took it, in the tf_executor dialect",
    "compile_graph_setup_before": "a cluster in MLIR, before it is prepared for compilation",
    "compile_graph_setup_after": "a cluster in MLIR, prepared for compilation",
    "compile_mlir_shape_refiner": "a cluster in MLIR with the shapes of its arguments",
    "legalize_hlo_before": "a cluster in MLIR, before it becomes HLO",
    "legalize_hlo_after": "a cluster in MLIR, as HLO",
    "build_hlo_tf_before": "a cluster in MLIR, before HLO is built of it",
    "build_hlo_tf_after": "a cluster in MLIR, from which HLO was built",
    "standard_pipeline_before": "a module in MLIR before the passes of its standard pipeline",
    "standard_pipeline_after": "a module in MLIR after the passes of its standard pipeline",
}

# Grappler's optimizers, in the order in which its MetaOptimizer runs them.
OPTIMIZERS = {
    "pruning": "unused nodes removed",
    "model_pruner": "unused nodes removed",
    "implementation_selector": "functions replaced by the best implementation for the device",
    "function_optimizer": "functions specialized and inlined",
    "tfg_optimizer": "Grappler's passes in MLIR",
    "common_subgraph_elimination": "equal nodes merged",
    "debug_stripper": "Assert, Print and CheckNumerics removed",
    "constant_folding": "constants computed",
    "shape_optimizer": "nodes that depend on shapes alone simplified",
    "auto_mixed_precision": "nodes moved to half precision",
    "generic_layout_optimizer": "layouts chosen by device: NHWC or NCHW",
    "layout": "layouts chosen by device: NHWC or NCHW",
    "remapper": "nodes fused: _FusedConv2D, _FusedMatMul",
    "loop_optimizer": "invariant nodes moved out of loops",
    "arithmetic_optimizer": "arithmetic simplified",
    "dependency_optimizer": "control edges simplified",
    "memory_optimizer": "nodes recomputed or swapped to save memory",
    "auto_parallel": "the graph replicated for data parallelism",
    "scoped_allocator_optimizer": "collectives share one buffer",
    "pin_to_host_optimizer": "small integer nodes pinned to the host",
}

# Groups of passes in the order in which a function goes through them.
_GROUPS = {
    "pre_placement": "the passes before devices are chosen",
    "post_placement": "the passes after devices are chosen",
    "post_rewrite_for_exec": "the passes after feeds and fetches are rewritten (includes clustering)",
    "post_partitioning": "the passes after the graph is cut up by device",
}

_ENDINGS = frozenset({"pbtxt", "pb", "mlir"})
_NUMBERED = re.compile(r"(?P<label>.+)_(?P<n>\d+)")
_META = re.compile(
    r"(?P<label>(?:before|after)_MetaOptimizer(?:_iteration_\d+)?(?:_(?P<name>[a-zA-Z].*?))?)"
    r"_(?P<address>\d{9,})(?:_(?P<n>\d+))?",
    re.DOTALL,
)
_TFG = re.compile(r"(?P<label>tfg_(?:before|after)_graph)_(?P<graph>.+?)_(?P<hash>\d{9,})(?:_(?P<n>\d+))?", re.DOTALL)
_GROUPED = re.compile(
    r"(?P<owner>.+)\.(?P<n>\d{4,})\.(?P<group>main|bridge_\w+|runtime_lowering|tf_\w+|mlir_\w+)\.(?P<tag>[\w-]+)",
    re.DOTALL,
)
_PLACER = re.compile(r"(?P<owner>.+?)(?P<label>placer_input|placer_output|colocation_graph)(?:_(?P<n>\d+))?", re.DOTALL)
_PARTITION = re.compile(r"(?P<label>partition_.+)_(?P<address>\d{9,})(?:_(?P<n>\d+))?", re.DOTALL)
_BRIDGE = re.compile(r"(?P<n>\d+)_(?P<label>mlir_bridge_\w+_(?:before|after))")
_ITERATION = re.compile(
    r"(?P<when>before|after)_MetaOptimizer(?:_iteration_(?P<round>\d+))?(?:_(?P<name>.+))?", re.DOTALL
)
_OPT_GROUP = re.compile(r"(?P<when>before|after)_opt_group_(?P<group>\w+)")
_MLIR_PASS = re.compile(
    r"(?:(?P<when>before|after)_(?P<name>[A-Z][\w-]*)|mlir_bridge_(?P<bridge>\w+)_(?P<end>before|after))"
)


@dataclass(frozen=True)
class GraphName:
    """What a graph's file name says.

    Attributes:
        label: the label of the pass.
        sequence: counts dumps with the same label, None for the first.
        owner: the function, program or address that it belongs to.
        group: the group of passes.
    """

    label: str
    sequence: int | None = None
    owner: str = ""
    group: str = ""


def decode_graph_name(stem: str, extension: str) -> GraphName | None:
    """Decode a file name without its extension; return None if it is not a graph's."""
    placed = _PLACER.fullmatch(stem)
    if placed is not None and extension == ("txt" if placed["label"] == "colocation_graph" else "pbtxt"):
        return GraphName(placed["label"], _number(placed["n"]), placed["owner"], "placer")
    if extension == "txt" and re.fullmatch(r"colocation_graph(?:_\d+)?", stem):
        return _plain(stem)
    if extension not in _ENDINGS:
        return None
    for pattern, group, owner in ((_META, "grappler", "address"), (_TFG, "grappler", "graph")):
        found = pattern.fullmatch(stem)
        if found is not None:
            more = f"_{found['hash']}" if "hash" in found.re.groupindex else ""
            return GraphName(found["label"], _number(found["n"]), found[owner] + more, group)
    found = _PARTITION.fullmatch(stem)
    if found is not None:
        return GraphName(found["label"], _number(found["n"]), found["address"], "partition")
    found = _BRIDGE.fullmatch(stem)
    if found is not None:
        return GraphName(found["label"], int(found["n"]), "", "MLIR bridge")
    found = _GROUPED.fullmatch(stem)
    if found is not None:
        return GraphName(found["tag"], int(found["n"]), found["owner"], found["group"])
    return _plain(stem) if graph_label(stem) else None


def _plain(stem: str) -> GraphName:
    numbered = _NUMBERED.fullmatch(stem)
    if numbered is not None and graph_label(numbered["label"]) == numbered["label"]:
        return GraphName(numbered["label"], int(numbered["n"]))
    return GraphName(stem)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def graph_label(label: str) -> str:
    """Return the longest entry of GRAPHS that is a prefix of a label."""
    return max((g for g in GRAPHS if label == g or label.startswith(g + "_")), key=len, default="")


def graph_order(label: str) -> tuple[int, int]:
    """Return a label's place: (Grappler round, place in the order of passes)."""
    found = _ITERATION.fullmatch(label)
    if found is not None:
        known = [k for k, name in enumerate(OPTIMIZERS) if (found["name"] or "").startswith(name)]
        first, last = -1, len(OPTIMIZERS) + 1
        place = (
            known[-1] if known else len(OPTIMIZERS) if found["name"] else first if found["when"] == "before" else last
        )
        return int(found["round"]) if found["round"] else 1 << 30, place
    if label.startswith("tfg_"):
        return 0, int(label.startswith("tfg_after"))
    return 0, next((k for k, g in enumerate(GRAPHS) if label.startswith(g)), len(GRAPHS))


def graph_words(label: str) -> str:
    """Describe what a graph with this label shows; return an unknown label itself."""
    found = _ITERATION.fullmatch(label)
    if found is not None:
        return _grappler_words(found["when"], found["round"], found["name"])
    if label.startswith("tfg_"):
        return f"{label.split('_')[1]} Grappler's passes in MLIR"
    found = _OPT_GROUP.fullmatch(label)
    if found is not None:
        return f"{found['when']} {_GROUPS.get(found['group'], found['group'])}"
    if label == "before_partition":
        return "before the graph is cut up by device"
    known = GRAPHS.get(graph_label(label))
    if known is not None:
        return known
    found = _MLIR_PASS.fullmatch(label)
    if found is not None:
        return f"{found['when'] or found['end']} the MLIR pass {found['name'] or found['bridge']}"
    return label


def _grappler_words(when: str, number: str | None, name: str | None) -> str:
    if number is None:
        return "after Grappler, functions too"
    if not name:
        return f"{when} round {number} of Grappler"
    known = [n for n in OPTIMIZERS if name.startswith(n)]
    more = f": {OPTIMIZERS[known[-1]]}" if known else ""
    return f"after Grappler's {name.partition('{')[0]}, round {number}{more}"
