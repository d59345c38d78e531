"""Convert modules, computations and TensorFlow graphs to `graphviz.Digraph`s, and to files by
`dot`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from xlanb.debug_options import current
from xlanb.dump import writer
from xlanb.errors import XlanbError
from xlanb.graph.extensions import write_picture
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ComputationRecord, ModuleRecord
from xlanb.view.parts.graph import GraphSheet, graph_label, graph_sheet
from xlanb.view.parts.hlo import Sheet, computation_sheet, module_sheet
from xlanb.view.parts.items import Item, instruction_item, node_item, operand_name

MAX_NODES = 1000
"""Beyond this `dot` takes minutes."""

_FILL = {
    "input": "#e3edfb",
    "constant": "#eff1f4",
    "element": "#fdf3d9",
    "data": "#e4f3ea",
    "reduce": "#f8e4f0",
    "matrix": "#fce5d8",
    "norm": "#e9f0d4",
    "control": "#ebe6f8",
    "fusion": "#dcf0f3",
    "launch": "#dcf0f3",
    "comm": "#eff0d9",
    "variable": "#d9eff6",
    "scope": "#f2f3f6",
}


def digraph(record: ModuleRecord | ComputationRecord | GraphRecord, max_nodes: int = MAX_NODES) -> Any:
    """Return a `graphviz.Digraph` with computations and clusters as subgraphs; `.source` is DOT
    text.

    Above `max_nodes`, boxes and scopes are folded, and finally only a neighbourhood is drawn; the
    title says so.
    """
    import graphviz

    sheet: Sheet | GraphSheet
    if isinstance(record, GraphRecord):
        sheet = graph_sheet(record, max_nodes)
    elif isinstance(record, ComputationRecord):
        sheet = computation_sheet(record, max_nodes)
    else:
        sheet = module_sheet(record, max_nodes)
    dot = graphviz.Digraph(_plain(record.name))
    dot.attr(
        "graph",
        fontname="Helvetica",
        fontsize="11",
        compound="true",
        label=_text(sheet.note),
        labelloc="t",
    )
    dot.attr(
        "node",
        shape="box",
        style="rounded,filled",
        fontname="Helvetica",
        fontsize="11",
        color="#98a2b3",
    )
    dot.attr("edge", color="#8b95a3", arrowsize="0.6", fontname="Helvetica", fontsize="8", fontcolor="#667085")
    ids = {key: f"n{k}" for k, key in enumerate(n.key for n in sheet.nodes)}
    _fill(dot, sheet, "", ids)
    said = _edge_labels(record, ids) if isinstance(record, GraphRecord) else {}
    for a, b in dict.fromkeys(sheet.edges):
        if a in ids and b in ids and a != b:
            dot.edge(ids[a], ids[b], **said.get((a, b), {}))
    return dot


def _edge_labels(graph: GraphRecord, ids: Mapping[str, str]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the labels of a graph's drawn edges: type and shape, or the number between folded
    scopes.

    Control edges are dashed.
    """
    drawn = {n.name: _drawn_as(n.name, ids) for n in graph.nodes}
    tensors: dict[tuple[str, str], dict[str, str]] = {}
    controls: set[tuple[str, str]] = set()
    for node in graph.nodes:
        for reference in node.inputs:
            source = operand_name(reference)
            edge = (drawn.get(source, ""), drawn[node.name])
            if reference.startswith("^"):
                controls.add(edge)
                continue
            _, _, port = reference.rpartition(":")
            index = int(port) if port.isdigit() else 0
            outputs = graph.by_name[source].outputs if source in graph.by_name else ()
            tensors.setdefault(edge, {})[reference] = outputs[index] if index < len(outputs) else ""
    labels = {
        edge: {"label": _text(next(iter(found.values())) if len(found) == 1 else f"{len(found)} tensors")}
        for edge, found in tensors.items()
    }
    return labels | {edge: {"style": "dashed", "color": "#b9770e"} for edge in controls - set(tensors)}


def _drawn_as(name: str, ids: Mapping[str, str]) -> str:
    """The node itself, or the innermost folded scope that is drawn for it."""
    while name not in ids and "/" in name:
        name = name.rpartition("/")[0]
    return name


# Variables, feeds, constants and folded scopes also differ by outline, for colour-blind readers.
_OUTLINES = {
    **{op: {"shape": "cylinder", "style": "filled"} for op in ("VariableV2", "Variable", "VarHandleOp")},
    **{
        op: {"shape": "ellipse", "style": "filled"}
        for op in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg")
    },
    "Const": {"shape": "note", "style": "filled"},
}
_FOLDER = {"shape": "folder", "style": "filled", "penwidth": "1.4"}


def _outline(subject: Any) -> dict[str, str]:
    if isinstance(subject, dict):
        return _FOLDER if "fold" in subject else {}
    return _OUTLINES.get(getattr(subject, "op", ""), {})


def write_graph(
    record: ModuleRecord | ComputationRecord | GraphRecord,
    path: str | Path,
    max_nodes: int = MAX_NODES,
) -> None:
    """Write a .dot file, or a .svg, .pdf or .png by Graphviz' `dot`.

    Raises:
        XlanbError: the extension is none of these, or `dot` is needed and missing.
    """
    import graphviz

    path = Path(path)
    dot = digraph(record, max_nodes)
    if path.suffix in {".dot", ".gv"}:
        path.write_text(dot.source, encoding="utf-8")
        return
    if path.suffix not in {".svg", ".pdf", ".png"}:
        raise XlanbError(f"cannot write a graph as {path.name!r}: expected a .dot, .svg, .pdf or .png file")
    try:
        path.write_bytes(dot.pipe(format=path.suffix[1:]))
    except graphviz.ExecutableNotFound:
        raise XlanbError(f"{path.name} needs Graphviz' dot on the PATH; use a .dot file instead") from None


write_picture.implement(write_graph)


@writer.dot_source.implement
def _dot_source(record: ModuleRecord) -> str:
    source: str = digraph(record).source
    return source


def _fill(dot: Any, sheet: Sheet | GraphSheet, group: str, ids: dict[str, str]) -> None:
    known = {g.key for g in sheet.groups}
    by_sharding = current().xla_hlo_graph_sharding_color
    for node in sheet.nodes:
        if (node.group if node.group in known else "") == group:
            item = _item(sheet.subjects[node.key])
            title, rest, below = graph_label(item)
            if "fold" in item:  # the last part of a scope's name says too little: many are called unit_1
                title = "/".join(item["n"].rsplit("/", 2)[-2:]) + "/"
            family = item["f"].removeprefix("tf-")
            fill = _FILL.get(family, "#fdf3d9")
            if by_sharding:
                sharding = str(getattr(sheet.subjects[node.key], "sharding", ""))
                fill = _sharding_fill(sharding)
                below = " ".join(filter(None, (below, sharding)))
            dot.node(
                ids[node.key],
                label=f"<<b>{_html(title)}</b>{_html(rest)}<br/><font point-size='9'>{_html(below)}</font>>",
                fillcolor=fill,
                tooltip=_text(item["n"]),
                **_outline(sheet.subjects[node.key]),
            )
    for number, g in enumerate(sheet.groups):
        if (g.parent if g.parent in known else "") == group and g.key != group:
            with dot.subgraph(name=f"cluster_{number}") as inner:
                inner.attr(
                    "graph",
                    label=_text(g.label),
                    style="rounded",
                    color="#2f8c9b",
                    fontcolor="#2f8c9b",
                )
                _fill(inner, sheet, g.key, ids)


def _sharding_fill(sharding: str) -> str:
    """Return the colour of a sharding, white if there is none (--xla_hlo_graph_sharding_color)."""
    if not sharding:
        return "#ffffff"
    colours = list(_FILL.values())
    return colours[zlib.crc32(sharding.encode()) % len(colours)]


def _item(subject: Any) -> Item:
    if isinstance(subject, dict):
        return subject
    return node_item(subject) if hasattr(subject, "op") else instruction_item(subject)


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in text)


def _html(text: str) -> str:
    return escape("".join(c if c.isprintable() else " " for c in text)) or " "


def _text(text: str) -> str:
    """Escape a label, so that Graphviz shows it verbatim."""
    import graphviz

    escaped: str = graphviz.escape(text)
    return escaped
