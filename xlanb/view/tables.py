"""Traces as pandas tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from xlanb.cpu.records import ExecutionRecord
from xlanb.explorer.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

_MAX_ROWS = 60
_MAX_COLUMNS = 30
_TABLE = '<table cellpadding="4" style="border-collapse:collapse;font:12px system-ui,sans-serif;text-align:left" '


def tables_html(tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """Captioned tables as HTML, every cell escaped; long ones are cut, with a word on it, wide ones scroll."""
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
    """A table as HTML, every cell escaped: words at the left, figures at the right, whatever the page's style says of tables."""
    shown = table.iloc[:, :_MAX_COLUMNS]
    kinds = [("left" if index else ""), *(_side(shown.iloc[:, k].dtype) for k in range(shown.shape[1]))]
    sides = [side for side in kinds if side]
    shown = shown.astype(object).where(shown.notna(), "")  # pandas writes <NA> whatever na_rep says
    body = shown.to_html(index=index, escape=True, border=0, float_format="{:.4g}".format)
    for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL):
        placed = row
        for side in sides:
            placed = re.sub(r"<t([hd])>", rf'<t\1 style="text-align:{side}">', placed, count=1)
        body = body.replace(row, placed, 1)
    return body.replace("<table ", _TABLE, 1).replace(' style="text-align: right;"', "", 1)


def _side(dtype: Any) -> str:
    return "right" if getattr(dtype, "kind", "O") in "iuf" else "left"


def stages_table(trace: Trace) -> Any:
    """A DataFrame with a row per stage: kind, name, pipeline, changed, added, removed, modified, milliseconds (NaN where unknown), what it did."""
    import pandas as pd

    rows = [
        {
            "kind": s.kind,
            "name": s.name,
            "pipeline": " > ".join(s.pipeline),
            "changed": s.changed,
            "added": len(s.added),
            "removed": len(s.removed),
            "modified": len(s.modified),
            "ms": float("nan") if s.seconds is None else s.seconds * 1e3,
            "summary": s.describe(),
        }
        for s in trace
    ]
    columns = [
        "kind",
        "name",
        "pipeline",
        "changed",
        "added",
        "removed",
        "modified",
        "ms",
        "summary",
    ]
    return pd.DataFrame(rows, columns=columns, index=pd.Index([s.index for s in trace], name="stage"))


def kernels_table(record: ExecutionRecord) -> Any:
    """A DataFrame with a row per kernel of a run, the slowest first: microseconds, bytes, flops, both per second, and how near that is to which of the machine's limits."""
    import pandas as pd

    kernels = sorted(record.kernels, key=lambda k: -k.seconds)
    rows = [
        {
            "kernel": k.name,
            "instruction": k.instruction,
            "us": k.seconds * 1e6,
            "bytes": k.bytes_accessed,
            "flops": k.flops,
            "GB/s": k.bytes_accessed / k.seconds / 1e9 if k.seconds else float("nan"),
            "GFLOP/s": k.flops / k.seconds / 1e9 if k.seconds else float("nan"),
            "% of limit": 100 * k.of_limit if k.of_limit is not None else float("nan"),
            "bound": k.bound,
            "op_name": k.op_name,
        }
        for k in kernels
    ]
    return pd.DataFrame(
        rows,
        columns=["kernel", "instruction", "us", "bytes", "flops", "GB/s", "GFLOP/s", "% of limit", "bound", "op_name"],
    )
