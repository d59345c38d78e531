"""The whole program as one picture: clusters as boxes, the data flow between them as edges.

Also the difference from another clustering. A picture is SVG in an image: GitHub removes SVG from
outputs, but shows images. The HLO of each cluster is folded below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

from xlanb.clustering.cluster import Cluster
from xlanb.clustering.clustering import Clustering
from xlanb.clustering.dataflow import Dataflow, Flow
from xlanb.clustering.diff import ClusteringDiff
from xlanb.errors import XlanbError
from xlanb.view.drawing import Drawing, Node, draw
from xlanb.view.still import image_html

_CHARACTER: Final = 6.8  # width of a letter, pixels
_SMALL: Final = 6.2  # width of a letter at an edge, pixels
_NEAR: Final = 0.32  # position of an edge's label along it
_LINE: Final = 16.0
_LONGEST: Final = 34  # letters of a label
_MOST_NODES: Final = 24  # outside of clusters: beyond it those with the same neighbours are one box
_MOST_CLUSTERS: Final = 60  # with HLO below the picture
_HLO_LINES: Final = 400
_PALETTE: Final = ("#2f8c9b", "#c98a2b", "#8a63d2", "#4f8a3c", "#b5527a", "#2867d6")
_STYLE: Final = (
    "font:12px ui-monospace,Menlo,Consolas,monospace;max-width:100%;height:auto;color:#1c2530;background:#f8f9fb"
)
_FILL_OPACITY: Final = 0.16


def picture_html(obj: Any) -> str:
    """Return the picture of a Clustering (with its HLO), a Dataflow or a ClusteringDiff, or ""."""
    if isinstance(obj, Clustering):
        return _clustering_html(obj)
    if isinstance(obj, Dataflow):
        return image_html(program_svg(obj), "Data flow between clusters")
    if isinstance(obj, ClusteringDiff):
        return image_html(diff_svg(obj), "Clusters of nodes, before and after")
    return ""


# -------------------------------------------------------------------------------------- the program


@dataclass(frozen=True)
class _TextBox:
    """A box: its lines of text, its tooltip, its colour ("" outside of clusters)."""

    lines: tuple[str, ...]
    title: str
    colour: str = ""

    @property
    def width(self) -> float:
        return max(len(text) for text in self.lines) * _CHARACTER + 20

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 12


def _clustering_html(clustering: Clustering) -> str:
    sizes = {c.name: len(c) for c in clustering.clusters}
    flows = clustering.dataflow
    what = f"{len(flows.clusters)} clusters, and the data flow between them"
    parts = ["<div>", image_html(program_svg(flows, sizes), what), "</div>"]
    for cluster in clustering.clusters[:_MOST_CLUSTERS]:
        lines = _hlo_lines(cluster)
        if len(lines) > _HLO_LINES:
            lines = [*lines[:_HLO_LINES], f"... {len(lines) - _HLO_LINES:,} more lines"]
        parts.append(
            f"<details><summary>{escape(cluster.name)}: {len(cluster)} nodes, its HLO</summary>"
            '<pre style="white-space:pre;overflow:auto;max-height:30em;font-size:12px">'
            f"{escape(chr(10).join(lines))}</pre></details>"
        )
    return "\n".join(parts)


def _hlo_lines(cluster: Cluster) -> list[str]:
    try:
        text: str = cluster.hlo_module.record().text
    except XlanbError as error:
        text = str(error)
    assumed = (
        ""
        if cluster.states_shapes
        else "// The graph does not specify all shapes: some are assumed (see .assumed_shapes).\n"
    )
    return (assumed + text).splitlines()


def program_svg(flows: Dataflow, sizes: Mapping[str, int] | None = None) -> str:
    """Draw the flows of a program as SVG; `sizes` are the clusters' numbers of nodes."""
    group_of = _groups(flows)
    members: dict[str, list[str]] = {}
    for name, group in group_of.items():
        members.setdefault(group, []).append(name)
    boxes: dict[str, _TextBox] = {}
    for k, name in enumerate(flows.clusters):
        size = (sizes or {}).get(name)
        facts = f"{len(flows.into(name))} in, {len(flows.out_of(name))} out"
        lines = (_short(name), *((f"{size} nodes",) if size else ()), facts)
        boxes[name] = _TextBox(lines, f"{name}: {facts}", _PALETTE[k % len(_PALETTE)])
    for group, names in members.items():
        more = f" + {len(names) - 1} more" if len(names) > 1 else ""
        boxes[group] = _TextBox((_short(names[0]) + more,), ", ".join(names[:40]))
    edges: dict[tuple[str, str], list[Flow]] = {}
    for f in flows:
        edges.setdefault((group_of.get(f.source, f.source), group_of.get(f.target, f.target)), []).append(f)
    drawing = draw([Node(key, b.width, b.height) for key, b in boxes.items()], edges)
    labels = {edge: _edge_label(found) for edge, found in edges.items()}
    what = f"{len(flows.clusters)} clusters, {len(flows.between_clusters)} flows between them, {len(flows)} in all"
    return _svg(drawing, boxes, labels, what)


def _groups(flows: Dataflow) -> dict[str, str]:
    """Return each outside node's box: its own or, if there are many, one per set of neighbours."""
    clusters = set(flows.clusters)
    given: dict[str, set[str]] = {}
    taken: dict[str, set[str]] = {}
    for f in flows:
        if f.source not in clusters:
            given.setdefault(f.source, set()).add(f.target)
        if f.target not in clusters:
            taken.setdefault(f.target, set()).add(f.source)
    names = dict.fromkeys((*given, *taken))
    if len(names) <= _MOST_NODES:
        return {n: f"outside {n}" for n in names}
    return {n: f"outside {sorted(taken.get(n, ()))} {sorted(given.get(n, ()))}" for n in names}


def _edge_label(flows: Sequence[Flow]) -> tuple[str, str]:
    """Return an edge's label, and its full description."""
    data = [f for f in flows if f.kind != "control"]
    texts = [
        f"{f.tensor}: {f.type}{'' if f.kind == 'data' else f' ({f.kind})'}, output {f.output} to parameter "
        f"{f.parameter}"
        for f in data
    ]
    if not data:
        return "control", "waits for it"
    types = Counter(f.type for f in data)
    label = (
        data[0].type
        if len(data) == 1
        else f"{len(data)} x {data[0].type}"
        if len(types) == 1
        else f"{len(data)} tensors"
    )
    return label, "\n".join(texts[:40])


def _svg(
    drawing: Drawing, boxes: Mapping[str, _TextBox], labels: Mapping[tuple[str, str], tuple[str, str]], what: str
) -> str:
    places = _label_places({edge: drawing.edges[edge] for edge in labels if edge in drawing.edges})
    ends = [places[edge][0] + 4 + len(labels[edge][0]) * _SMALL for edge in places]
    width, height = max([drawing.width, *ends]) + 20, drawing.height + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(what)}" viewBox="-10 -10 '
        f'{width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'style="{_STYLE}"><title>{escape(what)}</title>'
    )
    lines = [_edge_svg(drawing.edges[edge], labels[edge], places[edge]) for edge in places]
    shapes = [_box_svg(drawing.nodes[key], box) for key, box in boxes.items()]
    return "\n".join([head, *lines, *shapes, "</svg>"])


def _label_places(
    edges: Mapping[tuple[str, str], Sequence[tuple[float, float]]],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the label positions of edges: near the end that fewer edges share, where they are
    apart.
    """
    leaving, coming = Counter(a for a, _ in edges), Counter(b for _, b in edges)
    return {(a, b): _point(points, _NEAR if coming[b] >= leaving[a] else 1 - _NEAR) for (a, b), points in edges.items()}


def _point(points: Sequence[tuple[float, float]], share: float) -> tuple[float, float]:
    """The point at a share (0 to 1) of the height that a line goes down."""
    (x, y), (u, v) = points[0], points[-1]
    height = y + (v - y) * share
    for (a, b), (c, d) in pairwise(points):
        if b <= height <= d and d > b:
            return a + (c - a) * (height - b) / (d - b), height
    return x + (u - x) * share, height


def _edge_svg(points: Sequence[tuple[float, float]], label: tuple[str, str], place: tuple[float, float]) -> str:
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    (x, y), (u, v) = points[-2] if len(points) > 1 else points[-1], points[-1]
    length = ((u - x) ** 2 + (v - y) ** 2) ** 0.5 or 1.0
    dx, dy = (u - x) / length * 7, (v - y) / length * 7
    head = (
        f"M{u:.1f} {v:.1f} L{u - dx - dy / 2:.1f} {v - dy + dx / 2:.1f} L{u - dx + dy / 2:.1f} {v - dy - dx / 2:.1f} Z"
    )
    dash = ' stroke-dasharray="4 3"' if label[0] == "control" else ""
    return (
        f'<g><title>{escape(label[1])}</title><path d="{path}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.55"{dash}/>'
        f'<path d="{head}" fill="currentColor" fill-opacity="0.55"/>'
        f'<text x="{place[0] + 4:.1f}" y="{place[1]:.1f}" fill="currentColor" '
        f'font-size="10">{escape(label[0])}</text></g>'
    )


def _box_svg(place: tuple[float, float, float, float], box: _TextBox) -> str:
    x, y, w, h = place
    colour = box.colour or "currentColor"
    opacity = _FILL_OPACITY if box.colour else 0.05
    weights = ["bold" if box.colour and not k else "normal" for k in range(len(box.lines))]
    texts = [
        f'<text x="{x + w / 2:.1f}" y="{y + 18 + k * _LINE:.1f}" text-anchor="middle" font-weight="{weights[k]}" '
        f'fill="currentColor">{escape(text)}</text>'
        for k, text in enumerate(box.lines)
    ]
    return (
        f'<g><title>{escape(box.title)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
        f'rx="{3 if box.colour else 12}" fill="{colour}" fill-opacity="{opacity}" '
        f'stroke="{colour}"/>{"".join(texts)}</g>'
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"...{text[3 - _LONGEST :]}"


# ------------------------------------------------------------------------------------- a difference

_OUTSIDE: Final = "outside"
_WIDTH, _GAP, _SPAN = 190.0, 12.0, 260.0


def diff_svg(diff: ClusteringDiff) -> str:
    """Draw old clusters left, new ones right; bands are proportional to the shared nodes."""
    pairs = Counter(
        (n.before or _OUTSIDE, n.after or _OUTSIDE) for n in diff.nodes if n.change not in ("added", "gone")
    )
    sides = [Counter[str](), Counter[str]()]
    for side, ends in zip(sides, zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
        for end, number in zip(ends, pairs.values(), strict=True):
            side[end] += number
    scale = 240.0 / max(1, sum(pairs.values()))
    places = [dict(_column(side, scale)) for side in sides]
    height = max((top + size for p in places for top, size in p.values()), default=20.0) + 10
    width = 2 * _WIDTH + _SPAN
    what = f"{len(diff.changes)} of {len(diff.nodes)} nodes differ"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(what)}" viewBox="0 -4 {width:.0f} '
        f'{height:.0f}" width="{width:.0f}" height="{height:.0f}" style="{_STYLE}"><title>{escape(what)}</title>'
    ]
    parts += _bands(pairs, places, scale, diff)
    for index, (side, place) in enumerate(zip(sides, places, strict=True)):
        for k, (name, (top, size)) in enumerate(place.items()):
            box = _TextBox(
                (f"{_short(name)} ({side[name]})",),
                f"{name}: {side[name]} nodes {('before', 'after')[index]}",
                _colour(name, k),
            )
            parts.append(_box_svg((index * (_WIDTH + _SPAN) + 1, top, _WIDTH - 2, size), box))
    return "\n".join([*parts, "</svg>"])


def _colour(name: str, index: int) -> str:
    return "" if name == _OUTSIDE else _PALETTE[index % len(_PALETTE)]


def _column(sizes: Mapping[str, int], scale: float) -> Iterator[tuple[str, tuple[float, float]]]:
    top = 0.0
    for name in sorted(sizes, key=lambda n: (n == _OUTSIDE, -sizes[n])):
        size = max(sizes[name] * scale, 28.0)
        yield name, (top, size)
        top += size + _GAP


def _bands(
    pairs: Mapping[tuple[str, str], int],
    places: Sequence[Mapping[str, tuple[float, float]]],
    scale: float,
    diff: ClusteringDiff,
) -> Iterator[str]:
    used: Counter[tuple[int, str]] = Counter()
    x, u = _WIDTH, _WIDTH + _SPAN
    for old in places[0]:
        for new in places[1]:
            number = pairs.get((old, new), 0)
            if not number:
                continue
            y, v = (places[side][n][0] + used[side, n] * scale for side, n in ((0, old), (1, new)))
            thick = max(number * scale, 1.5)
            used[0, old] += number
            used[1, new] += number
            same = (_OUTSIDE if old == _OUTSIDE else diff.became.get(old)) == new
            half = (x + u) / 2
            path = (
                f"M{x} {y:.1f} C{half} {y:.1f} {half} {v:.1f} {u} {v:.1f} v{thick:.1f} C{half} "
                f"{v + thick:.1f} {half} {y + thick:.1f} {x} {y + thick:.1f} Z"
            )
            colour = "currentColor" if same else "#b5527a"
            yield (
                f'<g><title>{number} nodes: {escape(old)} to {escape(new)}</title><path d="{path}" '
                f'fill="{colour}" fill-opacity="{0.14 if same else 0.4}"/>'
                f'<text x="{half:.1f}" y="{(y + v + thick) / 2 + 4:.1f}" text-anchor="middle" font-size="10" '
                f'fill="currentColor">{"" if same else "~ "}{number}</text></g>'
            )
