"""One warp of a kernel as a grid: a row per instruction, a column per lane; inactive lanes are
empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from xlanb.gpu.emulator.warp_trace import WarpStep, WarpTrace

_MOST_ROWS = 160
_TINTS = 8
_TINTED = "".join(
    f".xw .t{n}{{background:color-mix(in srgb,Highlight {8 + 5 * n}%,transparent)}}" for n in range(_TINTS)
)
_STYLE = (
    "<style>.xw{font:11px ui-monospace,SFMono-Regular,Menlo,monospace;border-collapse:collapse;color:CanvasText}"
    ".xw th{font-weight:400;opacity:.75;text-align:center;padding:1px 3px;position:sticky;top:0;background:Canvas}"
    ".xw td{padding:1px 3px;text-align:right;white-space:nowrap;min-width:2em}"
    ".xw .i{text-align:left;max-width:30em;padding-right:12px;position:sticky;left:0;background:Canvas;overflow:hidden;"
    "text-overflow:ellipsis}"
    ".xw .l{opacity:.6}.xw .n{background:color-mix(in srgb,GrayText 14%,transparent)}"
    f".xw .b td{{border-top:2px solid Highlight}}{_TINTED}</style>"
)


def warp_html(trace: WarpTrace) -> str:
    """The grid, every text in it escaped; of a long run the first rows, and how many there are."""
    head = f"<b>{escape(trace.kernel)}</b>, block {trace.block}, warp {trace.warp}: {len(trace.steps)} steps"
    lanes = "".join(f"<th>{n}</th>" for n in range(trace.lanes))
    counts = any(step.sectors for step in trace.steps)
    count = '<th title="sectors of 32 bytes that the lanes access">sectors</th>' if counts else ""
    rows = "".join(_row(step, trace.lanes, counts) for step in trace.steps[:_MOST_ROWS])
    rest = len(trace.steps) - _MOST_ROWS
    more = f"<div>... {rest:,} more steps: str() of it, or .frame(), has all</div>" if rest > 0 else ""
    cut = "<div>The warp executes more steps than are recorded.</div>" if trace.is_cut else ""
    return (
        f'{_STYLE}<div style="margin:.3em 0;font:13px system-ui,sans-serif">{head}</div>'
        f'<div style="overflow:auto;max-height:560px" tabindex="0" role="region" aria-label="lanes of a warp">'
        '<table class="xw"><tr><th>line</th><th '
        f'style="text-align:left">instruction</th>{count}{lanes}</tr>{rows}</table></div>{more}{cut}'
    )


def _row(step: WarpStep, lanes: int, counts: bool) -> str:
    values = step.values[:lanes]
    low, high = _range(values)
    cells = "".join(_cell(v, low, high) for v in values)
    kind = ' class="b"' if step.opcode.startswith(("barrier", "shfl")) else ""
    count = f"<td>{step.sectors or ''}</td>" if counts else ""
    text = escape(step.text)
    return (
        f'<tr{kind}><td class="l">{step.line}</td><td class="i" style="text-align:left" '
        f'title="{text}">{text}</td>{count}{cells}</tr>'
    )


def _cell(value: float | str | None, low: float, high: float) -> str:
    """Return a lane's value, tinted by its position in the row's range."""
    if value is None:
        return '<td class="n"></td>'
    shown = escape(f"{value:.4g}" if isinstance(value, float) else str(value))
    share = 0.0
    if isinstance(value, int | float) and math.isfinite(value) and high > low:
        share = (value - low) / (high - low)
    return f'<td class="t{min(int(share * _TINTS), _TINTS - 1)}">{shown}</td>'


def _range(values: Sequence[float | str | None]) -> tuple[float, float]:
    numbers = [v for v in values if isinstance(v, int | float) and math.isfinite(v)]
    return (min(numbers), max(numbers)) if numbers else (0.0, 0.0)
