"""TransformGraph: the Graph Transform Tool on a frozen graph, each transform a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from xlanb.boundary import boundary
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import graph_of_proto, graph_to_proto, parse_graphdef
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.optimize.graph_transforms.table import apply_transform, parse_transforms
from xlanb.graph.optimize.graph_transforms.transform import TransformContext
from xlanb.graph.optimize.grappler import Rewrite
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.runtime.compiler import finished, start_compilation
from xlanb.stage import Stage
from xlanb.tf2xla import constant_value
from xlanb.tracing import Cause, Decision, Predicate


@boundary("transform a graph")
def TransformGraph(  # noqa: N802 - TensorFlow's name
    input_graph_def: Any, inputs: Iterable[str], outputs: Iterable[str], transforms: Iterable[str]
) -> Any:
    """Rewrite a frozen graph for inference, like TensorFlow 1's graph_transforms.TransformGraph.

    Args:
        input_graph_def: A GraphDef message (xlanb's, TensorFlow's or TensorBoard's), a Graph, the
            bytes of a GraphDef, or a path to one.
        inputs: Names of the fed nodes.
        outputs: Names of the fetched nodes; these and the inputs keep their names.
        transforms: Names with parameters, as in "remove_nodes(op=Identity)";
            docs/how-to/transform-a-graph.md lists them.

    Returns:
        The transformed graph, of the same kind as the input; a GraphDef message for a path.

    Raises:
        GraphError: The graph cannot be read, or a transform is unknown, not implemented, or rejects
            the graph.
    """
    stages, proto = _transformed(input_graph_def, tuple(inputs), tuple(outputs), transforms)
    if isinstance(input_graph_def, Graph):
        return graph_of_proto(proto, input_graph_def.name) if stages else input_graph_def
    if isinstance(input_graph_def, bytes):
        return proto.SerializeToString()
    if hasattr(input_graph_def, "SerializeToString"):
        made = type(input_graph_def)()
        made.ParseFromString(proto.SerializeToString())
        return made
    return proto


def transform_stages(
    graph: Any, inputs: Iterable[str], outputs: Iterable[str], transforms: Iterable[str]
) -> list[Stage]:
    """The graph before and after each transform, as the stages that observers see."""
    return _transformed(graph, tuple(inputs), tuple(outputs), transforms)[0]


def _transformed(
    given: Any, inputs: Sequence[str], outputs: Sequence[str], transforms: Iterable[str]
) -> tuple[list[Stage], Any]:
    """The stages, and the final GraphDef message."""
    wanted = parse_transforms(transforms)
    proto = _proto(given)
    key = start_compilation("TransformGraph")
    stages: list[Stage] = []
    before = _record(proto)
    stages.append(finished(key, Stage("tf_graph", "graph", None, before, summary="original")))
    for transform in wanted:
        start = perf_counter()
        context = TransformContext(tuple(inputs), tuple(outputs), transform, constant_value)
        proto = apply_transform(proto, context)
        seconds = perf_counter() - start
        made = _record(proto)
        after = before if made == before else made
        words = f"{transform}: {len(before.nodes)} nodes, then {len(after.nodes)}"
        stage = Stage("optimize", transform.name, before, after, seconds=seconds, summary=words)
        stages.append(finished(key, replace(stage, decisions=rewrite_decisions(context.rewrites))))
        before = after
    return stages, proto


def rewrite_decisions(rewrites: Iterable[Rewrite]) -> tuple[Decision, ...]:
    """Named rewrites of a graph, each with its reason."""
    return tuple(
        Decision(Cause(r.optimizer, r.rule), r.rule, (r.node,), True, (Predicate(r.why, holds=True),)) for r in rewrites
    )


def rewrite_summary(rewrites: Iterable[Rewrite]) -> str:
    """How often each rule was applied: "ConvertLayout 3 times, SinkTranspose once"."""
    counts = Counter(r.rule for r in rewrites)
    words = {1: "once", 2: "twice"}
    return ", ".join(f"{rule} {words.get(n, f'{n} times')}" for rule, n in counts.items())


def _record(proto: Any) -> GraphRecord:
    """A snapshot; only nodes and edges if rename_op or remove_attribute left unknown ops."""
    try:
        return graph_of_proto(proto).record()
    except GraphError:
        return GraphRecord(
            "graph", tuple(NodeRecord(n.name, n.op, tuple(n.input), device=n.device) for n in proto.node)
        )


def _proto(given: Any) -> Any:
    """The graph as xlanb's GraphDef message."""
    if isinstance(given, Graph):
        return graph_to_proto(given)
    if hasattr(given, "SerializeToString"):
        made = new_message("GraphDef")
        made.ParseFromString(given.SerializeToString())
        return made
    return parse_graphdef(given)
