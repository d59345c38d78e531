"""Graphs for Graphviz: a `graphviz.Digraph` of a module, a computation or a TensorFlow graph; files by its `dot` where that is installed."""

from __future__ import annotations

import zlib
from html import escape
from pathlib import Path
from typing import Any

from xlanb.debug_options import current
from xlanb.errors import XlanbError
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ComputationRecord, ModuleRecord
from xlanb.view.parts.graph import GraphSheet, graph_label, graph_sheet
from xlanb.view.parts.hlo import Sheet, computation_sheet, module_sheet
from xlanb.view.parts.items import Item, instruction_item, node_item

MAX_NODES = 1000
"""Beyond this `dot` takes minutes."""

_FILL = {
    "input": "#e3edfb",
    "constant": "#eff1f4",
    "element": "#fdf3d9",
    "data": "#e4f3ea",
    "reduce": "#f8e4f0",
    "matrix": "#fce5d8",
    "control": "#ebe6f8",
    "fusion": "#dcf0f3",
    "launch": "#dcf0f3",
    "comm": "#eff0d9",
    "variable": "#d9eff6",
    "scope": "#f2f3f6",
}


def digraph(record: ModuleRecord | ComputationRecord | GraphRecord, max_nodes: int = MAX_NODES) -> Any:
    """A `graphviz.Digraph`, computations and clusters as subgraphs; `.source` is the DOT text.

    Where the graph has more than `max_nodes`, boxes and scopes are folded, and at last only a neighbourhood is drawn; the title says so.
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
    dot.attr("edge", color="#8b95a3", arrowsize="0.6")
    ids = {key: f"n{k}" for k, key in enumerate(n.key for n in sheet.nodes)}
    _fill(dot, sheet, "", ids)
    for a, b in dict.fromkeys(sheet.edges):
        if a in ids and b in ids:
            dot.edge(ids[a], ids[b])
    return dot


def write_graph(
    record: ModuleRecord | ComputationRecord | GraphRecord,
    path: str | Path,
    max_nodes: int = MAX_NODES,
) -> None:
    """Write a .dot file, or a .svg, .pdf or .png by Graphviz' `dot`.

    Raises:
        XlanbError: the ending is none of these, or it needs `dot` and there is none.
    """
    import graphviz

    path = Path(path)
    dot = digraph(record, max_nodes)
    if path.suffix in {".dot", ".gv"}:
        path.write_text(dot.source, encoding="utf-8")
        return
    if path.suffix not in {".svg", ".pdf", ".png"}:
        raise XlanbError(f"cannot write a graph as {path.name!r}: .dot, .svg, .pdf and .png are known")
    try:
        path.write_bytes(dot.pipe(format=path.suffix[1:]))
    except graphviz.ExecutableNotFound:
        raise XlanbError(f"{path.name} needs Graphviz' dot on the PATH; a .dot file does not") from None


def _fill(dot: Any, sheet: Sheet | GraphSheet, group: str, ids: dict[str, str]) -> None:
    known = {g.key for g in sheet.groups}
    by_sharding = current().xla_hlo_graph_sharding_color
    for node in sheet.nodes:
        if (node.group if node.group in known else "") == group:
            item = _item(sheet.subjects[node.key])
            title, rest, below = graph_label(item)
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
    """One colour for each sharding, white where there is none (--xla_hlo_graph_sharding_color)."""
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
    """A label that Graphviz shows as it is: no escapes, no HTML."""
    import graphviz

    escaped: str = graphviz.escape(text)
    return escaped
