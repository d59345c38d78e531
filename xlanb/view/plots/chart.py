"""The common style of all figures, and bars that fit a screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xlanb.errors import MissingLibraryError
from xlanb.view.parts.items import clip

CHANGED: Final = "#2867d6"
SAME: Final = "#9aa4b2"
KERNEL: Final = "#2f8c9b"
RUN: Final = "#c98a2b"
FAULT: Final = "#c4453c"
PALETTE: Final = (CHANGED, RUN, KERNEL, "#8a63d2", "#4f8a3c", "#b5527a", "#777777")
_TEXT: Final = "#767e8a"  # legible on white and on black
_OTHERS: Final = "rgba(128,128,128,0.4)"
_GRID: Final = "rgba(128,128,128,0.25)"
_MOST: Final = 20
_LABEL: Final = 44  # characters
_ROW: Final = 22  # pixels
_FRAME: Final = 150


def graph_objects() -> Any:
    """plotly.graph_objects.

    Raises:
        MissingLibraryError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise MissingLibraryError("a plot needs plotly: pip install plotly") from None
    return go


def escaped(text: str) -> str:
    """Escape plotly's tags in a text; names of the IR are shown verbatim."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def labelled(text: str) -> str:
    """Return a name for an axis: escaped, a long one shortened in its middle."""
    short = text if len(text) <= _LABEL else f"{text[: _LABEL // 2 - 2]}...{text[1 - _LABEL // 2 :]}"
    return escaped(short)


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length, its colour's group, and its hover text."""

    label: str
    value: float
    group: str = ""
    note: str = ""


def fitting(bars: Sequence[Bar], most: int = _MOST) -> list[Bar]:
    """Keep the `most` longest bars in their order; merge the others into one, "88 others"."""
    if len(bars) <= most + 1:
        return list(bars)
    kept = set(sorted(range(len(bars)), key=lambda k: -bars[k].value)[:most])
    rest = [b for k, b in enumerate(bars) if k not in kept]
    others = Bar(f"{len(rest)} others", sum(b.value for b in rest), rest[0].group, _listed(rest))
    if len({b.group for b in rest}) > 1:
        others = Bar(others.label, others.value, "others", others.note)
    return [*(b for k, b in enumerate(bars) if k in kept), others]


def _listed(bars: Sequence[Bar]) -> str:
    longest = sorted(bars, key=lambda b: -b.value)[:5]
    return "the longest: " + ", ".join(clip(b.label, _LABEL) for b in longest)


def bar_figure(title: str, axis: str, unit: str, bars: Sequence[Bar], colours: dict[str, str]) -> Any:
    """Horizontal bars, the first at the top, a colour for each group; `axis` names the quantity."""
    go = graph_objects()
    shown = fitting(bars)
    labels = [labelled(b.label) for b in shown]
    figure = go.Figure()
    for group in dict.fromkeys(b.group for b in shown):
        mine = [(label, b) for label, b in zip(labels, shown, strict=True) if b.group == group]
        figure.add_bar(
            x=[b.value for _, b in mine],
            y=[label for label, _ in mine],
            orientation="h",
            name=escaped(group),
            marker_color=colours.get(group, _OTHERS),
            text=[f"{b.value:,.3g}" for _, b in mine],
            textposition="outside",
            cliponaxis=False,
            customdata=[[escaped(clip(b.label, 200)), _lines(b.note)] for _, b in mine],
            hovertemplate=f"<b>%{{customdata[0]}}</b><br>%{{x:,.4g}} {unit}<br>%{{customdata[1]}}<extra></extra>",
        )
    figure = styled(figure, title, x=f"{axis}, {unit}" if unit else axis, height=_FRAME + _ROW * len(shown))
    figure.update_yaxes(categoryorder="array", categoryarray=labels[::-1], automargin=True, type="category")
    return figure.update_layout(barmode="overlay", showlegend=len(figure.data) > 1)


def _lines(note: str) -> str:
    """A note broken into lines that fit a label at the pointer."""
    words, lines = note.split(" "), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 90:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(escaped(line) for line in lines[:6])


def styled(figure: Any, title: str, *, x: str = "", y: str = "", height: int = 420) -> Any:
    """Style a figure: title, axis titles, and the page's own background, light or dark."""
    axis = {"gridcolor": _GRID, "zerolinecolor": _GRID, "linecolor": _GRID}
    return figure.update_layout(
        title={"text": escaped(clip(title, 120)), "font": {"size": 15}},
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _TEXT, "size": 12},
        height=height,
        margin={"l": 20, "r": 20, "t": 70, "b": 50},
        xaxis={"title": {"text": x, "standoff": 14}, **axis, "automargin": True},
        yaxis={"title": {"text": y}, **axis, "automargin": True},
        colorway=PALETTE,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"},
    )


def left_out(count: int, what: str) -> str:
    """The end of a title where not all is drawn."""
    return f" ({count:,} more {what} omitted)" if count > 0 else ""


def unique(labels: Iterable[str]) -> list[str]:
    """Labels of a category axis: one that comes again gets its number."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found
