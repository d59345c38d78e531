"""The step view as HTML that needs no kernel and no network: a page of its own, or a piece of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path

from xlanb.collector import seldom
from xlanb.explorer import displays
from xlanb.explorer.numbers import time_text
from xlanb.explorer.trace import Trace
from xlanb.files import path_to_write
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.view import assets
from xlanb.view.parts.items import clip
from xlanb.view.payload import MAX_BYTES, Payload, build_payload, with_less_code
from xlanb.view.text import artifact_text, trace_text

_FALLBACK_LINES = 400
_TABLE_ROWS = 100
_PROGRAM_LINES = 200
_PROGRAM_CHARACTERS = 20_000
_IS_ELSEWHERE: ContextVar[Callable[[], bool] | None] = ContextVar("xlanb code is elsewhere", default=None)


@displays.write_page.implement
def write_page(traces: Sequence[Trace], path: str | Path) -> None:
    """Write the step view of these traces as one file that works from disk."""
    path_to_write(path).write_text(page_html(traces), encoding="utf-8")


def page_html(traces: Sequence[Trace], title: str = "") -> str:
    """The step view of these traces as a whole page."""
    named = title or ", ".join(t.name for t in traces[:3]) or "xlanb"
    return whole_page(fragment_html(traces, title=named), named)


def whole_page(body: str, title: str) -> str:
    """A piece of HTML as a page of its own."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f'</head>\n<body style="margin:0">\n{body}\n</body>\n</html>\n'
    )


@seldom()
def fragment_html(traces: Sequence[Trace], title: str = "") -> str:
    """The step view of these traces as a piece of HTML for a notebook's output; where no script runs, their text."""
    text = "\n\n".join(trace_text(t) for t in traces)
    return view_html(build_payload(traces, title=title), text)


def saved_html(payload: Payload, traces: Sequence[Trace], ident: str) -> str:
    """What a notebook keeps beside a live step view: the same view without a kernel, which hides itself where the live one of this `ident` is shown.

    Where no script runs there are the stages as a table and the program as it is in the end; that is all where the rest is too large to be kept.
    """
    tables = "\n".join(f"{passes_html(t)}\n{_program_html(t)}" for t in traces)
    fallback, attributes = f'<div class="xlanb-fallback">\n{tables}\n</div>', f' data-ident="{escape(ident)}"'
    html = _view_html(payload, fallback, attributes)
    if len(html) > MAX_BYTES:
        html = _view_html(with_less_code(payload), fallback, attributes)
    return html if len(html) <= MAX_BYTES else tables


def _program_html(trace: Trace) -> str:
    """The last HLO, or else the last graph, folded."""
    for kind in (ModuleRecord, GraphRecord):
        for stage in reversed(trace.stages):
            given = stage.given_after
            if isinstance(given, kind):
                text = clip("\n".join(artifact_text(given).splitlines()[:_PROGRAM_LINES]), _PROGRAM_CHARACTERS)
                return f"<details><summary>The program after {escape(clip(stage.name, 80))}</summary>\n{pre_html(text)}\n</details>"
    return ""


def view_html(payload: Payload, text: str) -> str:
    """A payload with the program that shows it; `text` stands there where no script runs.

    Nothing outside the piece is touched: the style lives in a shadow root, the program under one symbol.
    """
    lines = text.splitlines()
    if len(lines) > _FALLBACK_LINES:
        text = "\n".join([*lines[:_FALLBACK_LINES], f"... {len(lines) - _FALLBACK_LINES:,} more lines"])
    fallback = f'<pre class="xlanb-fallback" style="white-space:pre-wrap;font-size:12px">{escape(text)}</pre>'
    return _view_html(payload, fallback)


@contextmanager
def code_shared_by(is_elsewhere: Callable[[], bool]) -> Iterator[None]:
    """Let views made meanwhile leave out program and style where `is_elsewhere()`: another output of the same notebook has them."""
    token = _IS_ELSEWHERE.set(is_elsewhere)
    try:
        yield
    finally:
        _IS_ELSEWHERE.reset(token)


def _view_html(payload: Payload, fallback: str, attributes: str = "") -> str:
    is_elsewhere = _IS_ELSEWHERE.get()
    parts = {
        **({} if is_elsewhere is not None and is_elsewhere() else assets.packed_files()),
        "payload": assets.packed(json.dumps(payload, separators=(",", ":"))),
    }
    scripts = "\n".join(
        f'<script type="application/octet-stream" data-part="{name}">{data}</script>' for name, data in parts.items()
    )
    return (
        f'<div class="xlanb-static"{attributes}>\n{fallback}\n'
        f'{scripts}\n<script data-version="{assets.version()}">{assets.loader()}</script>\n</div>'
    )


def passes_html(trace: Trace) -> str:
    """The stages of a trace as a small table that needs neither script nor style: what changed something, and what failed.

    At most `_TABLE_ROWS` rows: a notebook keeps it beside the widget.
    """
    told = [s for s in trace if s.changed or s.failed]
    rows = "\n".join(
        f"<tr><td>{s.index}</td><td>{escape(s.name)}</td><td>{escape(time_text(s.seconds))}</td><td>{escape(clip(s.describe().removeprefix(f'{s.name}: '), 200))}</td></tr>"
        for s in told[:_TABLE_ROWS]
    )
    rest = len(told) - _TABLE_ROWS
    more = f"<p>{rest:,} more that changed something.</p>" if rest > 0 else ""
    head = "".join(f"<th>{name}</th>" for name in ("", "stage", "time", "what it did"))
    return (
        f"<p><b>{escape(clip(trace.name, 200))}</b>: {len(trace)} stage{'s' * (len(trace) != 1)}, {len(trace.changed)} changed something</p>\n"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>{more}"
    )


def pre_html(text: str) -> str:
    """Plain text as HTML, nothing in it read as markup."""
    return f'<pre style="white-space:pre-wrap;font-size:12px">{escape(text)}</pre>'
