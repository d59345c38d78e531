"""A figure as a picture and as text, for where no script draws it: GitHub, a PDF, a mail."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import groupby
from typing import Any, Final

_WIDTH: Final = 820.0
_RIGHT, _TOP, _BOTTOM = 56.0, 46.0, 46.0
_LETTER: Final = 6.4  # pixels
_LABELS: Final = 250.0  # at most, at the left
_TEXT_LINES: Final = 9
_TICKS: Final = 5
_CONTROL: Final = re.compile("[^\t -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # no XML holds it
_FONT: Final = "font:12px system-ui,Helvetica,Arial,sans-serif"
_PALETTE: Final = ("#2867d6", "#c98a2b", "#2f8c9b", "#8a63d2", "#4f8a3c", "#b5527a", "#777777")


@dataclass(frozen=True)
class PlotAxis:
    """The scale of an axis: categories, or numbers from `low` to `high`."""

    categories: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    is_log: bool = False

    def share(self, value: Any) -> float | None:
        """Return a value's position along the axis, 0 to 1; None if it is off the axis."""
        if self.categories:
            at = {c: k for k, c in enumerate(self.categories)}.get(str(value))
            return None if at is None else (at + 0.5) / len(self.categories)
        number = _number(value)
        if number is None or (self.is_log and number <= 0):
            return None
        if self.is_log:
            return (math.log10(number) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (number - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions along the axis, with their labels."""
        if self.categories:
            step = max(1, math.ceil(len(self.categories) / 40))
            return [((k + 0.5) / len(self.categories), c) for k, c in enumerate(self.categories) if not k % step]
        if self.is_log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, math.ceil((last - first) / _TICKS))
            values = [10.0**k for k in range(first, last + 1, step)]
        else:
            unit = _round_step((self.high - self.low) / _TICKS)
            begin = math.ceil(self.low / unit)
            values = [k * unit for k in range(begin, math.floor(self.high / unit) + 1)]
        return [(share, f"{v:,.4g}") for v in values if (share := self.share(v)) is not None]


def figure_svg(figure: Any) -> str:
    """The bars, lines and points of a plotly figure, on a light background."""
    x, y = _axis(figure, "x"), _axis(figure, "y")
    left = min(_LABELS, max([len(t) for _, t in y.ticks()] or [4]) * _LETTER) + 30
    height = max(200.0, min(900.0, float(figure.layout.height or 420)))
    width, deep = _WIDTH - left - _RIGHT, height - _TOP - _BOTTOM

    def at(a: float, b: float) -> tuple[float, float]:
        return left + a * width, _TOP + (1 - b) * deep

    parts = [*_frame(figure, x, y, at, height)]
    for k, trace in enumerate(figure.data):
        draw = _bars if trace.type == "bar" else _lines
        parts.extend(draw(trace, x, y, at, _PALETTE[k % len(_PALETTE)]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height:.0f}">'
        f"<style>text{{{_FONT};fill:#1c2530}}.m{{text-anchor:middle}}.e{{text-anchor:end}}.t{{fill:#4d5866;font-size:11px}}"
        f".g{{stroke:#d9dee5}}.c{{fill:none;stroke-width:2}}</style>"
        f'<rect x="1" y="1" width="{_WIDTH - 2:.0f}" height="{height - 2:.0f}" rx="6" fill="#f8f9fb" stroke="#d0d6de"/>'
        f"{''.join(parts)}</svg>"
    )


def figure_text(figure: Any) -> str:
    """The title of a figure and its largest values, in ten lines."""
    rows = [
        (str(_plain(name)), number)
        for trace in figure.data
        for name, value in zip(*_pairs(trace), strict=False)
        if (number := _number(value)) is not None
    ]
    shown = sorted(rows, key=lambda row: -row[1])[: _TEXT_LINES - (len(rows) > _TEXT_LINES)]
    wide = max([len(name) for name, _ in shown] or [0])
    lines = [f"  {name.ljust(wide)}  {number:,.4g}" for name, number in shown]
    more = [f"  ... {len(rows) - len(shown):,} more"] if len(rows) > len(shown) else []
    axis = figure.layout.xaxis if any(_is_across(t) for t in figure.data) else figure.layout.yaxis
    unit = _plain(axis.title.text or "")
    title = _plain(figure.layout.title.text or "")
    return "\n".join([f"{title} ({unit})" if unit else title, *lines, *more])


# --------------------------------------------------------------------------------------------- axes


def _axis(figure: Any, name: str) -> PlotAxis:
    given = figure.layout[f"{name}axis"]
    values = [v for trace in figure.data for v in _axis_values(trace, name)]
    if given.type == "category" or any(isinstance(v, str) for v in values):
        order = [str(v) for v in given.categoryarray] if given.categoryarray is not None else []
        return PlotAxis(tuple(dict.fromkeys([*order, *(str(v) for v in values if v is not None)])))
    numbers = [n for v in values if (n := _number(v)) is not None]
    if given.type == "log":
        positive = [n for n in numbers if n > 0] or [0.1, 1.0]
        low, high = min(positive), max(positive)
        return PlotAxis((), low / 2, high * 2, is_log=True)
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    room = (high - low) * 0.04 or 1.0
    return PlotAxis((), low - (room if low < 0 else 0.0), high + room)


def _axis_values(trace: Any, name: str) -> Iterator[Any]:
    """Yield a trace's values along an axis; for bars also their ends."""
    values = _listed(trace[name])
    yield from values
    if trace.type == "bar" and (name == "x") == _is_across(trace):
        for base, value in zip(_listed(trace.base), values, strict=False):
            begin, size = _number(base), _number(value)
            if begin is not None and size is not None:
                yield begin
                yield begin + size
    elif trace.type == "bar" and trace.width is not None:
        for middle, width in zip(values, _listed(trace.width), strict=False):
            number, wide = _number(middle), _number(width)
            if number is not None and wide is not None:
                yield number - wide / 2
                yield number + wide / 2


def _is_across(trace: Any) -> bool:
    return bool(trace.type == "bar" and trace.orientation == "h")


def _pairs(trace: Any) -> tuple[list[Any], list[Any]]:
    """Names and numbers of a trace."""
    x, y = _listed(trace.x), _listed(trace.y)
    return (y, x) if _is_across(trace) else (x, y)


def _listed(values: Any) -> list[Any]:
    if values is None:
        return []
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _round_step(step: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(step))
    return next(unit * k for k in (1, 2, 5, 10) if unit * k >= step * 0.999)


# -------------------------------------------------------------------------------------------- marks


def _frame(
    figure: Any, x: PlotAxis, y: PlotAxis, at: Callable[[float, float], tuple[float, float]], height: float
) -> Iterator[str]:
    """Yield title, grid, axis labels, and legend."""
    (left, bottom), (right, top) = at(0, 0), at(1, 1)
    title = _words(_plain(figure.layout.title.text or ""), 110)
    yield f'<text x="14" y="24" font-weight="600">{title}</text>'
    for share, text in x.ticks():
        place = at(share, 0)[0]
        yield f'<path class="g" d="M{place:.0f} {top:.0f}V{bottom:.0f}"/>'
        if not x.categories or len(x.categories) <= 12:
            yield f'<text class="t m" x="{place:.0f}" y="{bottom + 16:.0f}">{_words(_plain(text), 14)}</text>'
    for share, text in y.ticks():
        place = at(0, share)[1]
        if not y.categories:
            yield f'<path class="g" d="M{left:.0f} {place:.0f}H{right:.0f}"/>'
        yield f'<text class="t e" x="{left - 6:.0f}" y="{place + 4:.0f}">{_words(_plain(text), 38)}</text>'
    along = _words(_plain(figure.layout.xaxis.title.text or ""), 80)
    yield f'<text class="t m" x="{(left + right) / 2:.0f}" y="{height - 10:.0f}">{along}</text>'
    upwards = _words(_plain(figure.layout.yaxis.title.text or ""), 40)
    yield f'<text class="t" x="14" y="{top - 6:.0f}">{upwards}</text>'
    named = [t for t in figure.data if t.name]
    place = right
    for k, trace in reversed(list(enumerate(figure.data))) if len(named) > 1 else ():
        text = _words(_plain(trace.name or ""), 24)
        place -= len(text) * _LETTER + 22
        own = trace.line.color if trace.type == "scatter" and trace.line.color else _PALETTE[k % len(_PALETTE)]
        colour = _colours(trace, 1, own)[0]
        yield f'<rect x="{place:.0f}" y="{top - 15:.0f}" width="9" height="9" fill="{colour}"/>'
        yield f'<text class="t" x="{place + 13:.0f}" y="{top - 6:.0f}">{text}</text>'


def _bars(
    trace: Any, x: PlotAxis, y: PlotAxis, at: Callable[[float, float], tuple[float, float]], colour: str
) -> Iterator[str]:
    names, values = _pairs(trace)
    across = _is_across(trace)
    along, beside = (x, y) if across else (y, x)
    colours = _colours(trace, len(values), colour)
    bases, widths = _listed(trace.base), _listed(trace.width)
    for k, (name, value) in enumerate(zip(names, values, strict=False)):
        size = _number(value)
        base = _number(bases[k]) if k < len(bases) else 0.0
        if size is None or base is None:
            continue
        begin = along.share(base)
        end = along.share(base + size)
        wide = _number(widths[k]) if k < len(widths) else None
        middle = beside.share(name)
        if end is None or middle is None:
            continue
        half = 0.36 / len(beside.categories) if beside.categories else (wide or 0.8) / (beside.high - beside.low) / 2
        low, high = max(begin or 0.0, 0.0), end
        a, b = (low, middle - half), (high, middle + half)
        (left, bottom), (right, top) = (at(*a), at(*b)) if across else (at(a[1], a[0]), at(b[1], b[0]))
        yield (
            f'<rect x="{min(left, right):.1f}" y="{top:.1f}" width="{max(abs(right - left), 0.5):.1f}" '
            f'height="{max(bottom - top, 0.5):.1f}" fill="{colours[k]}"{_opacity(trace)}/>'
        )
        if across and trace.text is not None and k < len(trace.text):
            yield (
                f'<text class="t" x="{right + 4:.0f}" '
                f'y="{(top + bottom) / 2 + 4:.0f}">{_words(_plain(str(trace.text[k])), 12)}</text>'
            )


def _lines(
    trace: Any, x: PlotAxis, y: PlotAxis, at: Callable[[float, float], tuple[float, float]], colour: str
) -> Iterator[str]:
    shares = [(x.share(a), y.share(b)) for a, b in zip(_listed(trace.x), _listed(trace.y), strict=False)]
    points = [at(a, b) for a, b in shares if a is not None and b is not None]
    mode = trace.mode or "lines"
    painted = (trace.line.color or colour) if "lines" in mode else colour
    if "lines" in mode and points:
        runs = [
            list(run) for is_there, run in groupby(shares, lambda s: None not in s) if is_there
        ]  # a gap ends a line
        path = "".join(
            f"{'L' if k else 'M'}{a:.1f} {b:.1f}"
            for run in runs
            for k, (a, b) in enumerate(_stepped(trace, [at(a, b) for a, b in run if a is not None and b is not None]))
        )
        yield f'<path class="c" stroke="{_safe(painted, colour)}" d="{path}"/>'
    if "markers" in mode:
        colours = _colours(trace, len(points), painted)
        for (a, b), c in zip(points, colours, strict=True):
            yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{c}"/>'


def _stepped(trace: Any, points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The corners of a line that goes on level until it changes."""
    last: tuple[float, float] | None = None
    for a, b in points:
        if last is not None and trace.line.shape in ("hv", "hvh"):
            yield a, last[1]
        yield a, b
        last = a, b


def _colours(trace: Any, count: int, otherwise: str) -> list[str]:
    given = trace.marker.color if trace.marker.color is not None else otherwise
    if isinstance(given, str):
        return [_safe(given, otherwise)] * count
    found = [_safe(c, otherwise) for c in _listed(given)]
    return [*found[:count], *[otherwise] * (count - len(found))]


def _safe(colour: Any, otherwise: str) -> str:
    return (
        colour
        if isinstance(colour, str) and re.fullmatch(r"#[\da-f]{3,8}|rgba?\([\d., ]+\)|[a-z]+", colour)
        else otherwise
    )


def _opacity(trace: Any) -> str:
    value = _number(trace.marker.opacity) if not isinstance(trace.marker.opacity, Sequence) else None
    return f' fill-opacity="{value:g}"' if value is not None else ""


def _plain(text: Any) -> str:
    """A text without the few tags and references that plotly reads."""
    return unescape(re.sub(r"</?(?:b|i|br|sub|sup)/?>", " ", str(text))).strip()


def _words(text: str, most: int) -> str:
    text = _CONTROL.sub("?", text)
    return escape(text if len(text) <= most else f"{text[: most - 1]}…", quote=False)
