"""The picture of a program for pages without scripts: the initially open groups, as SVG in an
`<img>`.

GitHub, untrusted notebooks and mail readers remove scripts, style sheets and `<svg>` from an
output's HTML, but show an image that is given as data.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.view.layout import Point
from xlanb.view.outline.picture import OutlineDrawing, outline_drawing
from xlanb.view.outlines import Outlines

Box = tuple[float, float, float, float]

_TRIED: Final = (30, 22, 16, 10, 5)  # nodes at first, fewer if they do not fit the width
_WIDTH: Final = 860.0  # pixels: letters of 12 are still 11 where a page is 800 wide
_HEIGHT: Final = 560.0  # beyond it the drawing continues in another column if there is room
_TALLEST: Final = 1000.0
_GAP: Final = 36.0
_EDGE: Final = 14.0
_LEAD: Final = 9.0  # of an edge between columns, before it turns
_LETTERS: Final = 34
_STYLE: Final = (
    "text{font:12px system-ui,Helvetica,Arial,sans-serif;fill:#1c2530;text-anchor:middle}"
    "path{fill:none;stroke:#77828f;marker-end:url(#a)}marker path{fill:#77828f;stroke:none;marker-end:none}"
    "rect{rx:5px;fill:#fff;stroke:#8b97a6}.s,text+text{font-size:11px;fill:#4d5866}"
)
_CLASSES: Final = {
    "l": "text-anchor:start",
    "g": "fill:#e8eef7;stroke:#5f7fae",
    "h": "fill:#d7e6ff;stroke:#2867d6",
    "f": "fill:#fdf0d9;stroke:#b97d1f",
    "p": "fill:#eef0f2;stroke:#8b97a6",
    "b": "fill:#2867d60b;stroke:#9fb1cc;stroke-dasharray:4 3",
}
_HEAVY: Final = (
    "dot",
    "convolution",
    "MatMul",
    "Conv",
    "Einsum",
    "custom-call",
    "sort",
    "fft",
    "all-",
    "reduce-scatter",
)
_CONTROL: Final = re.compile("[^\\t -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")  # no XML holds it
_KEYS: Final = {"fusion": "f", "parameter": "p", "result": "p", "Placeholder": "p", "_Arg": "p", "_Retval": "p"}


def still_html(record: ModuleRecord | GraphRecord, what: str = "", outlines: Outlines | None = None) -> str:
    """Return the picture as an `<img>`, or "" if there is nothing to draw.

    `outlines` may have the groups of the program already.
    """
    svg = still_svg(record, outlines)
    return image_html(svg, what or f"The graph of {record.name}") if svg else ""


def image_html(svg: str, what: str) -> str:
    """SVG as an image that is part of the HTML."""
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="{escape(what)}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'


def still_svg(record: ModuleRecord | GraphRecord, outlines: Outlines | None = None) -> str:
    """Draw a program's initially open groups as SVG of at most about 860 pixels; "" if it is
    empty.
    """
    best: tuple[OutlineDrawing, _Sheet] | None = None
    program = (outlines or Outlines()).program(record)
    for most in _TRIED:
        made = outline_drawing(program, most)
        if not made.drawing.nodes:
            return ""
        for columns in range(math.ceil(made.drawing.height / _HEIGHT), 0, -1):
            sheet = _in_columns(made, columns)
            if best is None or sheet.cost < best[1].cost:
                best = made, sheet
        if best is not None and best[1].cost <= 1:
            break
    return _svg(*best) if best is not None else ""


@dataclass(frozen=True)
class _Sheet:
    """Positions of boxes and lines when a tall drawing is split into columns."""

    nodes: Mapping[str, Box]
    groups: Mapping[str, Box]
    edges: Sequence[Sequence[Point]]
    left: float
    width: float
    height: float

    @property
    def cost(self) -> float:
        """The excess over a legible size on a page of 800 pixels; 1 if there is none."""
        return max(self.width / _WIDTH, self.height / _TALLEST, 1.0)


# ------------------------------------------------------------------------------------------ columns


def _in_columns(made: OutlineDrawing, columns: int) -> _Sheet:
    """Cut a tall drawing between boxes, and put its parts next to each other."""
    drawing = made.drawing
    outer = [box for key, box in drawing.groups.items() if not drawing.labels[key].parent]
    outer += [box for key, box in drawing.nodes.items() if not _is_within(box, outer)]
    cuts = _cuts(outer, drawing.height, columns)
    shifts: list[tuple[float, float]] = []
    lefts: list[float] = []
    left = height = 0.0
    for top, bottom in zip([0.0, *cuts], [*cuts, drawing.height + 1], strict=True):
        inside = [b for b in outer if top <= b[1] < bottom]
        begin = min((b[0] for b in inside), default=0.0)
        first = min((b[1] for b in inside), default=top)
        shifts.append((left - begin, -first + (_LEAD if cuts else 0.0)))
        lefts.append(left)
        left += max((b[0] + b[2] for b in inside), default=begin) - begin + _GAP
        height = max(height, max((b[1] + b[3] for b in inside), default=first) - first + (_LEAD if cuts else 0.0))

    def shifted(box: Box) -> Box:
        dx, dy = shifts[_column(box[1], cuts)]
        return box[0] + dx, box[1] + dy, box[2], box[3]

    nodes = {key: shifted(box) for key, box in drawing.nodes.items()}
    groups = {key: shifted(box) for key, box in drawing.groups.items()}
    edges: list[Sequence[Point]] = []
    for (a, b), points in drawing.edges.items():
        column = _column(drawing.nodes[a][1], cuts)
        if column == _column(drawing.nodes[b][1], cuts):
            dx, dy = shifts[column]
            edges.append([(x + dx, y + dy) for x, y in points])
        else:
            edges.append(_across(nodes[a], nodes[b], lefts[_column(drawing.nodes[b][1], cuts)]))
    across = [x for points in edges for x, _ in points]
    begin, end = min([0.0, *across]), max([left - _GAP, *across])
    return _Sheet(nodes, groups, edges, begin, end - begin, max([height, *(y for points in edges for _, y in points)]))


def _is_within(box: Box, outer: Iterable[Box]) -> bool:
    x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
    return any(a <= x <= a + w and b <= y <= b + h for a, b, w, h in outer)


def _cuts(boxes: Sequence[Box], height: float, columns: int) -> list[float]:
    """Return heights of about equal columns' starts, each at the top of a box and crossing none."""
    if columns < 2:
        return []
    wanted = height / columns
    tops = sorted({b[1] for b in boxes})
    free = [t for t in tops[1:] if not any(b[1] < t < b[1] + b[3] for b in boxes)]
    cuts: list[float] = []
    last = 0.0
    for k, top in enumerate(free):
        following = free[k + 1] if k + 1 < len(free) else height
        if following - last > wanted + 1 and top > last:
            cuts.append(top)
            last = top
    return cuts


def _column(y: float, cuts: Sequence[float]) -> int:
    return sum(y >= cut for cut in cuts)


def _across(a: Box, b: Box, left: float) -> Sequence[Point]:
    """Route an edge from below a box to above one in a column at `left`, between rows and
    columns.
    """
    below, above = a[1] + a[3] + _LEAD, b[1] - _LEAD
    middle, end = a[0] + a[2] / 2, b[0] + b[2] / 2
    gutter = left - _GAP / 2
    return [(middle, a[1] + a[3]), (middle, below), (gutter, below), (gutter, above), (end, above), (end, b[1])]


# ---------------------------------------------------------------------------------------------- SVG


def _svg(made: OutlineDrawing, sheet: _Sheet) -> str:
    width, height = sheet.width + 2 * _EDGE, sheet.height + 2 * _EDGE
    labels, left = made.drawing.labels, sheet.left - _EDGE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left:.0f} {-_EDGE:.0f} {width:.0f} {height:.0f}">'
        '<defs><marker id="a" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L6 3L0 6z"/></marker></defs>'
        f'<rect x="{left + 1:.0f}" y="{1 - _EDGE:.0f}" width="{width - 2:.0f}" height="{height - 2:.0f}" '
        'style="fill:#f8f9fb;stroke:#d0d6de"/>'
    )
    parts: list[str] = []
    for key, (x, y, w, h) in sheet.groups.items():
        kind = "f" if labels[key].kind == "fusion" else "b"
        parts.append(_rect(kind, x, y, w, h))
        parts.append(f'<text class="s l" x="{x + 8:.0f}" y="{y + 15:.0f}">{_words(labels[key].label, w)}</text>')
    parts.extend(f'<path d="{_line(points)}"/>' for points in sheet.edges)
    for key, box in sheet.nodes.items():
        parts.append(_node(_kind(key, made.titles[key]), box, made.titles[key]))
    drawn = "".join(parts)
    used = "".join(f".{name}{{{how}}}" for name, how in _CLASSES.items() if f'{name}"' in drawn)
    return f"{head}<style>{_STYLE}{used}</style>{drawn}</svg>"


def _line(points: Sequence[tuple[float, float]]) -> str:
    """Write the path through points in whole pixels, without points on straight lines."""
    places = [(round(x), round(y)) for x, y in points]
    corners = [
        b
        for a, b, c in zip(places, places[1:], places[2:], strict=False)
        if not (a[0] == b[0] == c[0] or a[1] == b[1] == c[1])
    ]
    text = "M{} {}".format(*places[0])
    for (x, y), (u, v) in pairwise((places[0], *corners, places[-1])):
        text += f"V{v}" if u == x else f"H{u}" if v == y else f"L{u} {v}"
    return text


def _kind(key: str, title: tuple[str, str]) -> str:
    """Return the class of a node: closed group, fusion, heavy op, parameter or result, other op."""
    if "@" in key.rpartition("/")[2][:1] or title[1].endswith(" ops"):
        return "g"
    word = title[0].split(" ")[0]
    if word in _KEYS:
        return _KEYS[word]
    return "h" if word.startswith(_HEAVY) else "n"


def _node(kind: str, box: Box, title: tuple[str, str]) -> str:
    x, y, w, h = box
    stacked = _rect(kind, x + 4, y + 4, w, h) if kind == "g" else ""
    middle = x + w / 2
    first, second = (_words(t, w) for t in title)
    if not second:
        return f'{stacked}{_rect(kind, x, y, w, h)}<text x="{middle:.0f}" y="{y + h / 2 + 4:.0f}">{first}</text>'
    return (
        f"{stacked}{_rect(kind, x, y, w, h)}"
        f'<text x="{middle:.0f}" y="{y + 18:.0f}">{first}</text><text x="{middle:.0f}" y="{y + 33:.0f}">{second}</text>'
    )


def _rect(kind: str, x: float, y: float, w: float, h: float) -> str:
    named = f' class="{kind}"' if kind in _CLASSES else ""
    return f'<rect{named} x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}"/>'


def _words(text: str, width: float) -> str:
    """Return a text, shortened in its middle if longer than its box."""
    text = _CONTROL.sub("?", text)
    most = max(6, min(_LETTERS, int((width - 8) / 6.6)))
    if len(text) <= most:
        return escape(text, quote=False)
    head = (most - 1) // 2
    return escape(f"{text[:head]}…{text[-(most - 1 - head) :]}", quote=False)
