"""TensorFlow graphs: clusters, function bodies and folded name scopes as boxes and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.view.drawing import DrawnGroup
from xlanb.view.parts.hlo import SheetNode, near
from xlanb.view.parts.items import Item, label, node_item, operand_name

_MAX_DEPTH = 6


@dataclass
class GraphSheet:
    """A graph to draw; `subjects` maps each key to its node, or to the item of a folded scope."""

    nodes: list[SheetNode] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    groups: list[DrawnGroup] = field(default_factory=list)
    subjects: dict[str, NodeRecord | Item] = field(default_factory=dict)
    note: str = ""


def graph_sheet(
    graph: GraphRecord,
    max_nodes: int = 400,
) -> GraphSheet:
    """Return a graph with its clusters, and the bodies of called functions, as boxes.

    Beyond `max_nodes` bodies are folded first, then name scopes, the deepest first; finally only
    the neighbourhood of the last node remains.
    """
    functions = {f.name: f for f in graph.functions}
    if _count(graph, functions, _MAX_DEPTH, max_nodes) <= max_nodes:
        sheet = GraphSheet()
        _add(sheet, graph, functions, "", "", _MAX_DEPTH)
        return sheet
    if len(graph.nodes) <= max_nodes:
        sheet = GraphSheet(note=f"Function bodies are folded, as there would be more than {max_nodes:,} nodes.")
        _add(sheet, graph, {}, "", "", 0)
        return sheet
    return _folded(graph, max_nodes)


def function_of(node: NodeRecord, names: Iterable[str]) -> str:
    """Return the library function that a node calls (its op, or an attribute that names one), or
    "".
    """
    known = set(names)
    if node.op in known:
        return node.op
    for value in node.attributes.values():
        text = str(value).strip("\"'")
        if text in known:
            return text
    return ""


def _count(graph: GraphRecord, functions: dict[str, GraphRecord], depth: int, limit: int) -> int:
    total = 0
    for n in graph.nodes:
        called = function_of(n, functions) if functions and depth else ""
        total += 1 if not called else max(1, _count(functions[called], functions, depth - 1, limit))
        if total > limit:
            break
    return total


def _add(
    sheet: GraphSheet,
    graph: GraphRecord,
    functions: dict[str, GraphRecord],
    group: str,
    prefix: str,
    depth: int,
) -> None:
    boxes: set[str] = set()
    keys: dict[str, str] = {}
    for n in graph.nodes:
        key = prefix + n.name
        called = function_of(n, functions) if depth else ""
        cluster = "" if group else n.cluster
        parent = group
        if cluster and not called:
            parent = f"{prefix}[{cluster}]"
            if parent not in boxes:
                boxes.add(parent)
                sheet.groups.append(DrawnGroup(parent, cluster, "cluster", group))
        if called and functions[called].nodes:
            box = f"{key}/"
            sheet.groups.append(DrawnGroup(box, f"{n.name}  {n.op}" if n.op != n.name else n.name, "cluster", group))
            sheet.subjects[box] = n
            _add(sheet, functions[called], functions, box, box, depth - 1)
        else:
            sheet.nodes.append(SheetNode(key, parent))
            sheet.subjects[key] = n
        keys[n.name] = key
    _connect(sheet, graph, functions if depth else {}, keys)


def _connect(sheet: GraphSheet, graph: GraphRecord, functions: dict[str, GraphRecord], keys: dict[str, str]) -> None:
    """Add edges; those of a node drawn as a box go to its arguments and from its results."""
    drawn = {n.key for n in sheet.nodes}
    inner: dict[str, tuple[list[str], list[str]]] = {}
    for n in graph.nodes:
        called = function_of(n, functions) if functions else ""
        if called and keys[n.name] not in drawn:
            body = functions[called].nodes
            box = f"{keys[n.name]}/"
            arguments = [box + b.name for b in body if b.op in {"_Arg", "Placeholder"}]
            results = [box + b.name for b in body if b.op == "_Retval"] or ([box + body[-1].name] if body else [])
            inner[n.name] = (
                [a for a in arguments if a in drawn],
                [r for r in results if r in drawn],
            )
    for n in graph.nodes:
        data = [x for x in n.inputs if not x.startswith("^")]
        for k, reference in enumerate(n.inputs):
            source = operand_name(reference)
            if source not in keys:
                continue
            starts = _outputs(inner[source][1], reference) if source in inner else [keys[source]]
            if n.name in inner:
                ends = inner[n.name][0][k : k + 1] if k < len(data) else inner[n.name][0][:1]
            else:
                ends = [keys[n.name]]
            sheet.edges.extend((a, b) for a in starts for b in ends)


def _outputs(results: list[str], reference: str) -> list[str]:
    _, _, port = reference.partition(":")
    index = int(port) if port.isdigit() else 0
    return results[index : index + 1] or results[-1:]


def _folded(graph: GraphRecord, max_nodes: int) -> GraphSheet:
    """Name scopes folded into one node each, as few as needed."""
    deepest = max((n.name.count("/") for n in graph.nodes), default=0)
    for depth in range(deepest, 0, -1):
        scope_of = {
            n.name: "/".join(n.name.split("/")[:depth]) if n.name.count("/") >= depth else n.name for n in graph.nodes
        }
        if len(set(scope_of.values())) <= max_nodes:
            return _fold(
                graph,
                scope_of,
                f"Name scopes are folded at depth {depth}: {len(graph.nodes):,} nodes.",
            )
    return _focused(graph, max_nodes)


def _fold(graph: GraphRecord, scope_of: dict[str, str], note: str) -> GraphSheet:
    members: dict[str, list[NodeRecord]] = {}
    for n in graph.nodes:
        members.setdefault(scope_of[n.name], []).append(n)
    sheet = GraphSheet(note=note)
    for scope, inside in members.items():
        item = node_item(inside[0]) if len(inside) == 1 and inside[0].name == scope else _scope_item(scope, inside)
        sheet.subjects[scope] = inside[0] if "fold" not in item else item
        clusters = {n.cluster for n in inside}
        cluster = clusters.pop() if len(clusters) == 1 else ""
        if cluster and f"[{cluster}]" not in {g.key for g in sheet.groups}:
            sheet.groups.append(DrawnGroup(f"[{cluster}]", cluster, "cluster"))
        sheet.nodes.append(SheetNode(scope, f"[{cluster}]" if cluster else ""))
    for n in graph.nodes:
        sheet.edges.extend((scope_of[s], scope_of[n.name]) for s in map(operand_name, n.inputs) if s in scope_of)
    sheet.edges = list(dict.fromkeys(sheet.edges))
    return sheet


def _scope_item(scope: str, inside: list[NodeRecord]) -> Item:
    item: Item = {
        "n": scope,
        "o": f"{scope.rsplit('/', 1)[-1]}/",
        "s": "",
        "f": "tf-scope",
        "fold": len(inside),
        "t": f"  {scope}/  ({len(inside)} nodes)",
    }
    item["h"] = [item["o"], "", f"{len(inside)} nodes"]
    return item


def _focused(graph: GraphRecord, max_nodes: int) -> GraphSheet:
    neighbours: dict[str, list[str]] = {n.name: [operand_name(x) for x in n.inputs] for n in graph.nodes}
    for n in graph.nodes:
        for source in map(operand_name, n.inputs):
            if source in neighbours:
                neighbours[source].append(n.name)
    centre = graph.nodes[-1].name
    kept = near(neighbours, [centre], max_nodes)
    part = GraphRecord(graph.name, tuple(n for n in graph.nodes if n.name in kept))
    sheet = GraphSheet(note=f"Showing {len(part.nodes):,} of {len(graph.nodes):,} nodes, those nearest to {centre}.")
    _add(sheet, part, {}, "", "", 0)
    return sheet


def graph_label(item: Item) -> tuple[str, str, str]:
    """The label of a node or of a folded scope."""
    if "h" in item:
        return item["h"][0], item["h"][1], item["h"][2]
    return label(item)
