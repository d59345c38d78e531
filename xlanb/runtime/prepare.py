"""Prepare the user's graph for running, each step a stage.

The steps: optimize, feeds to arguments, mark, encapsulate, launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

from xlanb.clustering.candidates import asks_for_compilation
from xlanb.clustering.clustering import Clustering, PassStage, Request, marking_steps
from xlanb.clustering.encapsulate_subgraphs import ClusterFunction
from xlanb.debug_options import current
from xlanb.dump.graphs import dumps_graphs
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.optimize import optimize_steps
from xlanb.graph.rewrite import subgraph
from xlanb.logs import VLog
from xlanb.runtime.compiler import finished, start_compilation
from xlanb.runtime.executor import PreparedNode
from xlanb.runtime.graph_dumps import dump_pass
from xlanb.runtime.graph_transforms import rewrite_decisions, rewrite_summary
from xlanb.runtime.placement import placed
from xlanb.stage import Stage, Stages
from xlanb.tf2xla import constant_value
from xlanb.tracing import Decision, is_observed

_LOG = VLog("runtime", "direct_session")
# Stages are grouped by kind: stages before marking prepare it, later ones make functions.
_KINDS: Final = {
    "mark_for_compilation": "mark_for_compilation",
    "encapsulate_subgraphs": "encapsulate_subgraphs",
    "build_xla_ops": "build_xla_ops",
}


def prepare(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    *,
    jit: bool,
    name: str,
    numbers: Iterator[int] | None = None,
) -> Stages[PreparedNode]:
    """Prepare a graph to be run with these feeds and fetches.

    `jit` clusters everything that can be compiled, otherwise only nodes that request it (jit
    scopes). Clusters are numbered by `numbers`. Every pass is a stage, in TensorFlow's order. The
    last two are alternative views:
    `build_xla_ops`, with today's _XlaCompile and _XlaRun, and `build_xla_launch_ops`, with an
    XlaLaunch per cluster as in 2017 and 2018, which is the one that runs.

    Raises:
        GraphError: The graph has a cycle, or a node is invalid.
        DumpError: A graph to be dumped cannot be written.
    """
    stages = _Stages(start_compilation(name))
    yield stages.report("tf_graph", "graph", None, graph, f"{len(graph):,} nodes as the program built them")
    pruned = subgraph(graph, [*fetches, *targets], list(feeds))
    yield stages.report("optimize", "prune", graph, pruned)
    before = placed(pruned)
    if before is not pruned:
        yield stages.report("optimize", "placement", pruned, before, "missing devices")
    for step in optimize_steps(
        before,
        [f.name for f in fetches],
        [f.name for f in feeds],
        [t.name for t in targets],
        constant_value,
        fold_norms=current().xlanb_fold_batch_norms,
        grappler=current().xlanb_grappler,
    ):
        words, decisions = rewrite_summary(step.rewrites), rewrite_decisions(step.rewrites)
        yield stages.report("optimize", step.name, before, step.graph, words, decisions)
        before = step.graph
    rewritten, arguments, results = _with_arguments(before, [f.name for f in feeds], [f.name for f in fetches])
    yield stages.report("optimize", "rewrite_for_execution", before, rewritten)
    _log_optimized(rewritten)
    if not jit and not asks_for_compilation(rewritten):
        return _prepared(rewritten, arguments, results, targets, {}, stages.key)
    clustering = yield from _clustered(stages, rewritten, numbers, jit=jit)
    functions = clustering.encapsulated.functions
    return _prepared(clustering.launch_graph, arguments, results, targets, functions, stages.key)


def _clustered(stages: _Stages, graph: Graph, numbers: Iterator[int] | None, *, jit: bool) -> Stages[Clustering]:
    """The passes that form clusters and calls of them."""
    request = Request(graph, current(), 1 if jit else 0, cpu_global_jit=jit, only_lowered=True)
    before = graph
    steps = marking_steps(request, numbers)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            clustering: Clustering = end.value
            break
        yield stages.report(_KINDS.get(step.name, "optimize"), step.name, before, step.graph, _summary(step))
        with stages.uncounted():
            dump_pass(step.name, before, step.graph)
        before = step.graph
    has_readers = is_observed() or dumps_graphs()  # for graphs that are only displayed
    for step in clustering.later_stages() if has_readers else ():
        yield stages.report(
            _KINDS.get(step.name, "encapsulate_subgraphs"), step.name, before, step.graph, _summary(step)
        )
        with stages.uncounted():
            dump_pass(step.name, before, step.graph)
        before = step.graph
    called = clustering.encapsulated.graph
    yield stages.report("build_xla_ops", "build_xla_launch_ops", called, clustering.launch_graph, "as executed")
    return clustering


def _summary(step: PassStage) -> str:
    return _clusters(step.graph) if step.name == "mark_for_compilation" else ""


def _log_optimized(graph: Graph) -> None:
    _LOG.vlog(1, "Graph after optimization: %s, %d nodes", graph.name, len(graph))
    if _LOG.is_on(2):
        for op in graph:
            _LOG.vlog(2, "  %s = %s(%s)", op.name, op.type, ", ".join(op.node_inputs))


class _Stages:
    """Reports the stages of one compilation, each with the time since the previous one."""

    def __init__(self, key: int) -> None:
        self.key = key
        self._begin = perf_counter()

    def report(
        self,
        kind: str,
        name: str,
        before: Graph | None,
        after: Graph,
        summary: str = "",
        decisions: Sequence[Decision] = (),
    ) -> Stage:
        """Report one stage; equal graphs count as no change."""
        seconds = perf_counter() - self._begin
        if not is_observed():
            self._begin = perf_counter()
            return Stage(kind, name, None, None, seconds=seconds, summary=summary, decisions=tuple(decisions))
        old = None if before is None else before.record()
        new = after.record()
        kept = old if old == new else new
        made = Stage(kind, name, old, kept, seconds=seconds, summary=summary, decisions=tuple(decisions))
        stage = finished(self.key, made)
        self._begin = perf_counter()
        return stage

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Exclude the block's time from the next stage."""
        start = perf_counter()
        yield
        self._begin += perf_counter() - start


def _with_arguments(graph: Graph, feeds: Sequence[str], fetches: Sequence[str]) -> tuple[Graph, list[str], list[str]]:
    """Replace fed tensors by `_Arg` nodes, and end fetched ones in `_Retval` nodes.

    TensorFlow does so before clustering.
    """
    graph = graph.copy()
    arguments, results = [], []
    for index, name in enumerate(feeds):
        op_name, _, port = name.rpartition(":")
        if op_name not in graph:
            arguments.append("")
            continue
        fed = graph.get_tensor_by_name(name)
        attrs = {"T": fed.dtype.base_dtype, "index": index, "_output_shapes": (fed.shape,)}
        arg = graph.add_op(
            "_Arg", graph.unique_name(f"_arg_{op_name}_{port}_{index}"), (), [fed.dtype.base_dtype], attrs
        )
        arg.source_file, arg.source_line = fed.op.source_file, fed.op.source_line
        arg.outputs[0].give_shape(fed.shape.as_tuple())
        fed.replace_uses(arg.outputs[0])
        arguments.append(arg.name)
    for index, name in enumerate(fetches):
        op_name, _, port = name.rpartition(":")
        tensor = graph.get_tensor_by_name(arguments[feeds.index(name)] + ":0" if name in feeds else name)
        attrs = {"T": tensor.dtype.base_dtype, "index": index}
        retval = graph.add_op("_Retval", graph.unique_name(f"_retval_{op_name}_{port}_{index}"), [tensor], [], attrs)
        results.append(retval.name)
    fed_ops = [graph.get_operation_by_name(n.rpartition(":")[0]) for n, a in zip(feeds, arguments, strict=True) if a]
    graph.remove_ops(dict.fromkeys(op for op in fed_ops if not any(t.uses for t in op.outputs)))
    return graph, arguments, results


def _prepared(
    graph: Graph,
    arguments: Sequence[str],
    results: Sequence[str],
    targets: Sequence[Operation],
    functions: dict[str, ClusterFunction],
    key: int,
) -> PreparedNode:
    args = tuple(graph.get_operation_by_name(a).outputs[0] for a in arguments if a)
    fetched = tuple(graph.get_operation_by_name(r).inputs[0] for r in results)
    # A target inside a cluster runs with its cluster: every node without users is a target.
    wanted = {t.name for t in targets}
    last = [
        op
        for op in graph
        if op.type != "_Retval"
        and (op.name in wanted or (op.type == "XlaLaunch" and not any(t.uses for t in op.outputs)))
    ]
    return PreparedNode(graph, args, fetched, tuple(last), functions, key)


def _clusters(marked: Graph) -> str:
    sizes: dict[str, int] = {}
    for op in marked:
        cluster: Any = op.attrs.get("_XlaCluster")
        if cluster:
            sizes[cluster] = sizes.get(cluster, 0) + 1
    if not sizes:
        return "no cluster"
    return (
        ", ".join(f"{c} of {n:,} nodes" for c, n in sizes.items())
        + f"; {len(marked) - sum(sizes.values()):,} nodes stay out"
    )
