"""Find data flow between the modules of one dump, by the graph that calls them or by shapes.

A TensorFlow graph whose clusters are calls (encapsulate_subgraphs_after, build_xla_ops) states
exactly which cluster's result another one takes. Without it, as in a dump of JAX, a module's
results can only be inputs of a later module: matching shapes are reported as possible flows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xlanb.clustering.dataflow import Dataflow, Flow
from xlanb.explorer.dump_ranking import DumpedModule
from xlanb.explorer.stage import Stage
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.shape import ArrayShape, Shape, TupleShape

POSSIBLE = "possible"
_CALLING = ("encapsulate_subgraphs_after", "build_xla_ops")
_LAUNCHES = frozenset({"XlaLaunch", "_XlaLaunch", "XlaLaunchV2", "_XlaCompile", "_XlaRun"})
_THROUGH = frozenset({"Identity", "_XlaMerge", "Merge", "Switch", "StatefulPartitionedCall", "PartitionedCall"})
_MOST_SHAPES = 200


def graph_dataflow(stages: Iterable[Stage], modules: Mapping[str, str]) -> Dataflow | None:
    """Return the flows in TensorFlow graphs whose clusters are calls; None without such graphs.

    `modules` gives a cluster's display name. Reads one graph per run: the one with function calls
    before they become _XlaCompile and _XlaRun, else the one with those.
    """
    chosen: dict[tuple[str, ...], Stage] = {}
    for stage in stages:
        if stage.name in _CALLING and (stage.pipeline not in chosen or stage.name == _CALLING[0]):
            chosen[stage.pipeline] = stage
    flows: dict[Flow, None] = {}
    clusters: dict[str, None] = {}
    for stage in chosen.values():
        if isinstance(stage.after, GraphRecord):
            named = {n: modules.get(c, c) for n, c in _calls(stage.after).items()}
            clusters |= dict.fromkeys(named.values())
            flows |= dict.fromkeys(_flows(stage.after, named))
    return Dataflow(tuple(flows), tuple(clusters)) if clusters else None


def _calls(graph: GraphRecord) -> dict[str, str]:
    """Return the nodes that run a cluster, by name, with their cluster."""
    found: dict[str, str] = {}
    for n in graph.nodes:
        if "_XlaCompiledKernel" in n.attributes or n.op in _LAUNCHES:
            name = n.op if n.op not in _LAUNCHES else _function(n)
            if name:
                found[n.name] = name
    compiled = {n.name: found[n.name] for n in graph.nodes if n.op == "_XlaCompile" and n.name in found}
    for n in graph.nodes:
        if n.op == "_XlaRun":
            prefix = n.name.rpartition("/")[0]
            found[n.name] = compiled.get(f"{prefix}/xla_compile", prefix)
    return found


def _function(n: NodeRecord) -> str:
    return re.sub(r"\W.*", "", n.attributes.get("function", ""))


def _flows(graph: GraphRecord, calls: Mapping[str, str]) -> Iterator[Flow]:
    by_name = graph.by_name
    for n in graph.nodes:
        target = calls.get(n.name, n.name)
        for index, text in enumerate(n.inputs):
            if text.startswith("^"):
                source = calls.get(text[1:], text[1:])
                if source != target and (n.name in calls or text[1:] in calls):
                    yield Flow(source, -1, target, -1, "", "", "control")
                continue
            giver, port = _giver(text, by_name, calls)
            if giver is None or (giver.name not in calls and n.name not in calls):
                continue
            source = calls.get(giver.name, giver.name)
            if source == target or (n.op in _THROUGH and n.name not in calls):
                continue  # a cluster's own key; forwarding nodes are looked through
            kind = "constant" if _is_constant(n, index) else "resource" if giver.op == "VarHandleOp" else "data"
            shape = giver.outputs[port] if port < len(giver.outputs) else ""
            yield Flow(source, port, target, index, f"{giver.name}:{port}", shape, kind)


def _is_constant(n: NodeRecord, index: int) -> bool:
    count = n.attributes.get("_XlaNumConstantArgs", "")
    if count.isdigit():
        return index < int(count)
    types = n.attributes.get("Tconstants", "[]").strip("[]")
    return n.op != "_XlaRun" and index < len([t for t in types.split(",") if t.strip()])


def _giver(text: str, by_name: Mapping[str, NodeRecord], calls: Mapping[str, str]) -> tuple[NodeRecord | None, int]:
    """Return the producer of a tensor, looking through nodes that only forward it.

    For a cluster's result, also through the fallback call.
    """
    seen: set[str] = set()
    while True:
        name, _, port = text.partition(":")
        node = by_name.get(name)
        if node is None or name in seen:
            return node, int(port) if port.isdigit() else 0
        seen.add(name)
        data = [t for t in node.inputs if not t.startswith("^")]
        runs = [t for t in data if t.partition(":")[0] in calls]
        if name in calls or node.op not in _THROUGH or not data:
            return node, int(port) if port.isdigit() else 0
        text = runs[0] if runs else data[0]


# -- by shapes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ends:
    name: str
    order: int
    parameters: tuple[str, ...]
    results: tuple[str, ...]


def possible_dataflow(modules: Sequence[DumpedModule], read: Callable[[DumpedModule], ModuleRecord | None]) -> Dataflow:
    """Return possible flows from a module's results to later modules' parameters.

    Type and shape must be equal. Scalars are excluded, because they match too often. Each flow has
    kind "possible".
    """
    ends = [e for m in modules if (e := _ends(m, read(m))) is not None]
    flows = [
        Flow(a.name, k, b.name, p, "by its shape alone", shape, POSSIBLE)
        for b in sorted(ends, key=lambda e: e.order)
        for p, wanted in enumerate(b.parameters[:_MOST_SHAPES])
        for a in ends
        if a.order < b.order
        for k, shape in enumerate(a.results[:_MOST_SHAPES])
        if shape == wanted != "" and "[]" not in shape
    ]
    return Dataflow(tuple(flows), tuple(e.name for e in ends))


def _ends(m: DumpedModule, record: ModuleRecord | None) -> _Ends | None:
    if record is None:
        return None
    entry = record.entry_computation
    parameters = [i for i in entry.instructions if i.opcode is HloOpcode.PARAMETER]
    parameters.sort(key=lambda i: int(i.attributes.get("number", 0)))
    root = entry.by_name[entry.root]
    shapes = root.shape.shapes if isinstance(root.shape, TupleShape) else (root.shape,)
    number = m.files.number
    return _Ends(
        f"{m.name} (module_{number:04d})" if number >= 0 else m.name,
        number,
        tuple(_text(i.shape) for i in parameters),
        tuple(_text(s) for s in shapes),
    )


def _text(shape: Shape) -> str:
    """Return a shape without its layout, which may differ on either side; "" if it is no array."""
    return str(replace(shape, layout=None)) if isinstance(shape, ArrayShape) else ""
