"""Draw a `.dot` file with Graphviz' `dot` if installed, else with xlanb's layout.

Clusters and colours are kept. The picture is an image in an `<img>`, in which browsers run and
fetch nothing. Only text, colours, shapes and boxes are passed to Graphviz: links, images and style
sheets are not.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Final

from xlanb.dump.dot import DotCluster, DotEdge, DotGraph, DotNode
from xlanb.view.drawing import Drawing, DrawnGroup, Node, draw
from xlanb.wording import counted

MAX_NODES: Final = 600
"""The most nodes of a readable picture; beyond it clusters are folded, and the rest is left out."""

_TIMEOUT_S: Final = 20
_LETTERS: Final = 46
_LINES: Final = 8
_LINE: Final = 14.0
_WIDTH: Final = 6.6  # of a letter
_COLOUR = re.compile(r"#[0-9A-Fa-f]{3,8}|[A-Za-z]{1,30}\d{0,3}")
_SHAPES = frozenset("ellipse oval circle diamond hexagon octagon note cylinder folder parallelogram trapezium".split())
_ROUND = frozenset("ellipse oval circle".split())
_STYLES = frozenset("filled rounded bold dashed dotted solid invis".split())
_CONTROL = re.compile("[^\\t -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")  # no XML holds it


def dot_html(graph: DotGraph) -> str:
    """Return a graph as HTML: a caption and its picture."""
    shown, note = _limited(graph)
    svg = _by_graphviz(shown) or dot_svg(shown)
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode()
    words = escape(f"{graph.title}: {_size(graph)}{note}")
    return (
        '<figure style="margin:0"><figcaption style="font:13px system-ui,sans-serif;padding:4px '
        f'0">{words}</figcaption>'
        f'<div style="overflow:auto;max-height:80vh"><img alt="{words}" style="max-width:none;background:#fff" '
        f'src="data:image/svg+xml;base64,{data}"/></div></figure>'
    )


def _size(graph: DotGraph) -> str:
    inside = f", {counted(len(graph.clusters), 'cluster')}" if graph.clusters else ""
    return f"{counted(len(graph.nodes), 'node')}, {counted(len(graph.edges), 'edge')}{inside}"


# ------------------------------------------------------------------------------------ what is drawn


def _limited(graph: DotGraph) -> tuple[DotGraph, str]:
    """Return the graph with at most MAX_NODES nodes, and a note on the rest."""
    if len(graph.nodes) <= MAX_NODES:
        return graph, ""
    folded = _folded(graph) if graph.clusters else graph
    note = "; clusters are folded" if graph.clusters else ""
    if len(folded.nodes) <= MAX_NODES:
        return folded, note
    kept = {n.id for n in folded.nodes[:MAX_NODES]}
    left = len(folded.nodes) - MAX_NODES
    edges = tuple(e for e in folded.edges if e.source in kept and e.target in kept)
    cut = replace(folded, nodes=folded.nodes[:MAX_NODES], edges=edges)
    return cut, f"{note}; the last {counted(left, 'node')} are not drawn"


def _folded(graph: DotGraph) -> DotGraph:
    """Fold each outermost cluster into one node."""
    parents = {c.id: c.parent for c in graph.clusters}
    outer: dict[str, str] = {"": ""}
    for c in graph.clusters:  # a cluster comes after the one around it
        outer[c.id] = outer.get(parents[c.id], "") or c.id
    inside: dict[str, int] = {}
    for n in graph.nodes:
        inside[outer.get(n.cluster, "")] = inside.get(outer.get(n.cluster, ""), 0) + 1
    place = {n.id: outer.get(n.cluster, "") or n.id for n in graph.nodes}
    boxes = tuple(
        DotNode(c.id, (*c.lines[:2], counted(inside.get(c.id, 0), "node")), {**c.attributes, "shape": "folder"})
        for c in graph.clusters
        if not c.parent
    )
    nodes = (*boxes, *(n for n in graph.nodes if place[n.id] == n.id))
    pairs = {(place[e.source], place[e.target]): e for e in graph.edges if place[e.source] != place[e.target]}
    edges = tuple(DotEdge(a, b, e.attributes) for (a, b), e in pairs.items())
    return replace(graph, nodes=nodes, edges=edges, clusters=())


def _lines(lines: Sequence[str]) -> list[str]:
    """Return the text of a box, cut to a readable number of lines and characters."""
    shown = [_CONTROL.sub("?", t if len(t) <= _LETTERS else t[: _LETTERS - 1] + "…") for t in lines[:_LINES]]
    return shown + (["…"] if len(lines) > _LINES else [])


def _colour(attributes: Mapping[str, str], name: str, otherwise: str) -> str:
    """A colour of the file, the first of a list; XLA ends some with a semicolon."""
    text = attributes.get(name, "").split(":")[0].strip().rstrip(";")
    return text if _COLOUR.fullmatch(text) else otherwise


def _fill(attributes: Mapping[str, str]) -> str:
    if "filled" not in attributes.get("style", "") and "fillcolor" not in attributes:
        return "#ffffff"
    return _colour(attributes, "fillcolor", _colour(attributes, "color", "#eceff1"))


# ----------------------------------------------------------------------------------------- Graphviz


def dot_source(graph: DotGraph) -> str:
    """Write the graph in the DOT language, with only its text, colours, shapes and boxes."""
    ids = {n.id: f"n{k}" for k, n in enumerate(graph.nodes)}
    children: dict[str, list[DotCluster]] = {}
    members: dict[str, list[DotNode]] = {}
    for box in graph.clusters:
        children.setdefault(box.parent, []).append(box)
    for n in graph.nodes:
        members.setdefault(n.cluster, []).append(n)
    kind, arrow = ("digraph", "->") if graph.is_directed else ("graph", "--")
    out = [f"{kind} g {{", 'graph [fontname="Helvetica" fontsize=11 compound=true]']
    out += ['node [shape=box fontname="Helvetica" fontsize=11]', 'edge [fontname="Helvetica" fontsize=9]']
    waiting: list[tuple[str, DotCluster | None]] = [("", c) for c in reversed(children.get("", []))]
    out += [_node_source(ids[n.id], n) for n in members.get("", [])]
    for number in range(2 * len(graph.clusters)):
        what, c = waiting.pop()
        if c is None:
            out.append(what)
            continue
        out.append(f"subgraph cluster_{number} {{")
        out.append(_attributes({"label": _quoted(_lines(c.lines)), **_box(c.attributes)}, ";\n"))
        out += [_node_source(ids[n.id], n) for n in members.get(c.id, [])]
        waiting.append(("}", None))
        waiting += [("", inner) for inner in reversed(children.get(c.id, []))]
    for e in graph.edges:
        label = e.attributes.get("label", "")
        said = {"label": _quoted(_lines([label])), "color": _quoted([_colour(e.attributes, "color", "#78909c")])}
        style = _style(e.attributes)
        out.append(f"{ids[e.source]} {arrow} {ids[e.target]} [{_attributes(said | style, ' ')}]")
    return "\n".join([*out, "}", ""])


def _node_source(name: str, n: DotNode) -> str:
    shape = n.attributes.get("shape", "box")
    said = {"label": _quoted(_lines(n.lines)), "shape": shape if shape in _SHAPES else "box", **_box(n.attributes)}
    return f"{name} [{_attributes(said, ' ')}]"


def _box(attributes: Mapping[str, str]) -> dict[str, str]:
    return {
        "style": '"filled,rounded"' if "rounded" in attributes.get("style", "") else "filled",
        "fillcolor": _quoted([_fill(attributes)]),
        "color": _quoted([_colour(attributes, "color", "#90a4ae")]),
        "fontcolor": _quoted([_colour(attributes, "fontcolor", "#000000")]),
    }


def _style(attributes: Mapping[str, str]) -> dict[str, str]:
    found = [s for s in re.split(r"[\s,]+", attributes.get("style", "")) if s in _STYLES]
    return {"style": _quoted([",".join(found)])} if found else {}


def _attributes(values: Mapping[str, str], between: str) -> str:
    return between.join(f"{k}={v}" for k, v in values.items())


def _quoted(lines: Iterable[str]) -> str:
    return '"' + "\\n".join(t.replace("\\", "\\\\").replace('"', '\\"') for t in lines) + '"'


def _by_graphviz(graph: DotGraph) -> str:
    """Return Graphviz' picture; "" if it is not installed, fails or takes too long."""
    tool = shutil.which("dot")
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            [tool, "-Tsvg"],
            input=dot_source(graph),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return done.stdout if done.returncode == 0 and "<svg" in done.stdout else ""


# --------------------------------------------------------------------------------------- our layout


def dot_svg(graph: DotGraph) -> str:
    """The graph as SVG by our own layout."""
    lines = {n.id: _lines(n.lines) for n in graph.nodes}
    labels = {c.id: _lines(c.lines[:1]) for c in graph.clusters}
    nodes = [Node(n.id, _wide(lines[n.id]), _high(lines[n.id]), n.cluster) for n in graph.nodes]
    groups = [DrawnGroup(c.id, " ".join(labels[c.id]), "cluster", c.parent) for c in graph.clusters]
    drawing = draw(nodes, [(e.source, e.target) for e in graph.edges if e.source != e.target], groups)
    return _svg(graph, drawing, lines, labels)


def _wide(lines: Sequence[str]) -> float:
    return max((len(t) for t in lines), default=1) * _WIDTH + 18


def _high(lines: Sequence[str]) -> float:
    return max(len(lines), 1) * _LINE + 12


def _svg(
    graph: DotGraph, drawing: Drawing, lines: Mapping[str, Sequence[str]], labels: Mapping[str, Sequence[str]]
) -> str:
    width, height = drawing.width + 24, drawing.height + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="-12 -12 {width:.0f} {height:.0f}" font-family="Helvetica,Arial,sans-serif" font-size="11">',
        '<defs><marker id="a" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L6 3L0 6z" fill="#607d8b"/></marker></defs>',
    ]
    for c in graph.clusters:  # outer ones first
        if c.id in drawing.groups:
            x, y, w, h = drawing.groups[c.id]
            parts.append(_shape(c.attributes, x, y, w, h, 6))
            most = max(int((w - 16) / (_WIDTH + 0.4)), 4)
            title = " ".join(labels[c.id]).removeprefix("Fused expression for ")
            title = title if len(title) <= most else title[: most - 1] + "…"
            parts.append(_text(c.attributes, x + 8, y + 15, title, "start", "bold"))
    tip = ' marker-end="url(#a)"' if graph.is_directed else ""
    for e in graph.edges:
        points = drawing.edges.get((e.source, e.target), ())
        if len(points) > 1:
            path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
            is_broken = re.search("dashed|dotted", e.attributes.get("style", ""))
            dash = ' stroke-dasharray="4 3"' if is_broken else ""
            stroke = _colour(e.attributes, "color", "#78909c")
            parts.append(f'<path d="{path}" fill="none" stroke="{stroke}"{dash}{tip}/>')
            if e.attributes.get("label"):
                x, y = points[len(points) // 2]
                parts.append(_text(e.attributes, x + 4, y - 4, " ".join(_lines([e.attributes["label"]])), "start"))
    for n in graph.nodes:
        x, y, w, h = drawing.nodes[n.id]
        parts.append(_shape(n.attributes, x, y, w, h, 3))
        for k, line in enumerate(lines[n.id]):
            weight = "bold" if not k and len(lines[n.id]) > 1 else "normal"
            parts.append(_text(n.attributes, x + w / 2, y + 16 + k * _LINE, line, "middle", weight))
    return "".join([*parts, "</svg>"])


def _shape(attributes: Mapping[str, str], x: float, y: float, w: float, h: float, radius: int) -> str:
    paint = f'fill="{_fill(attributes)}" stroke="{_colour(attributes, "color", "#90a4ae")}"'
    if attributes.get("shape") in _ROUND:
        return f'<ellipse cx="{x + w / 2:.0f}" cy="{y + h / 2:.0f}" rx="{w / 2:.0f}" ry="{h / 2:.0f}" {paint}/>'
    return f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" rx="{radius}" {paint}/>'


def _text(attributes: Mapping[str, str], x: float, y: float, text: str, anchor: str, weight: str = "normal") -> str:
    colour = _colour(attributes, "fontcolor", "#000000")
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{colour}">{escape(text, quote=False)}</text>'
    )
