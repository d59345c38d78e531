"""Tables as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from xlanb.display import table_html as table_html_hook

if TYPE_CHECKING:
    import pandas as pd

_MAX_ROWS = 60
_MAX_COLUMNS = 30
_MIN_ROWS = 10
_MAX_HTML = 12_000  # a notebook keeps it
_TABLE = '<table cellpadding="4" style="border-collapse:collapse;font:12px system-ui,sans-serif;text-align:left" '


def tables_html(tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """Return captioned tables as HTML, every cell escaped; long ones are cut with a note, wide ones
    scroll.
    """
    parts = []
    for caption, table in tables:
        if not len(table):
            continue
        rest = len(table) - _MAX_ROWS
        more = f" <small>(the first {_MAX_ROWS} of {len(table):,} rows)</small>" if rest > 0 else ""
        body = table_html(table.head(_MAX_ROWS))
        parts.append(
            f'<details open style="margin:.4em 0"><summary><b>{escape(caption)}</b>{more}</summary>'
            f'<div style="overflow-x:auto">{body}</div></details>'
        )
    return "\n".join(parts)


def table_html(table: pd.DataFrame, *, index: bool = False) -> str:
    """Return a table as HTML, every cell escaped: texts left, numbers right, whatever the page's
    style.
    """
    shown = table.iloc[:, :_MAX_COLUMNS]
    kinds = [("left" if index else ""), *(_side(shown.iloc[:, k].dtype) for k in range(shown.shape[1]))]
    sides = [side for side in kinds if side]
    shown = shown.astype(object).where(shown.notna(), "")  # pandas writes <NA> regardless of na_rep
    body = shown.to_html(index=index, escape=True, border=0, float_format=_figure)
    for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL):
        placed = row
        for side in sides:
            placed = re.sub(r"<t([hd])>", rf'<t\1 style="text-align:{side}">', placed, count=1)
        body = body.replace(row, placed, 1)
    return body.replace("<table ", _TABLE, 1).replace(' style="text-align: right;"', "", 1)


@table_html_hook.implement
def frame_html(table: pd.DataFrame) -> str:
    """A `Frame` as a notebook shows it: its first rows, and how many there are."""
    shown = table.head(_MAX_ROWS)
    body = table_html(shown, index=True)
    if len(body) > _MAX_HTML:
        shown = table.head(max(_MIN_ROWS, len(shown) * _MAX_HTML // len(body)))
        body = table_html(shown, index=True)
    cut = f"<p>{len(table):,} rows, the first {len(shown)} shown</p>" if len(table) > len(shown) else ""
    return f'<div style="overflow-x:auto">{body}</div>{cut}'


def _figure(value: float) -> str:
    """Four digits; of large numbers all before the point."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _side(dtype: Any) -> str:
    return "right" if getattr(dtype, "kind", "O") in "iuf" else "left"
