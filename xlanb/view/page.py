"""The step view as HTML without kernel or network: a page, or a part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path

from xlanb.explorer import displays
from xlanb.explorer.numbers import time_text
from xlanb.explorer.trace import Trace
from xlanb.files import path_to_write
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.view import assets
from xlanb.view.brief import last_drawn, traces_brief
from xlanb.view.outlines import Outlines
from xlanb.view.packing import packed, parts_shared
from xlanb.view.parts.items import clip
from xlanb.view.parts.llvm import kept_code
from xlanb.view.payload import MAX_BYTES, build_payload
from xlanb.view.payload_builder import Payload
from xlanb.view.still import still_html
from xlanb.view.text import artifact_text

_TABLE_ROWS = 100
_PROGRAM_LINES = 30
_PROGRAM_CHARACTERS = 3_000
_KEPT_CODE = 1_800
"""Characters of LLVM IR and assembly that a notebook keeps with a view of something else."""
_IS_ELSEWHERE: ContextVar[Callable[[], bool] | None] = ContextVar("xlanb code is elsewhere", default=None)


@displays.write_page.implement
def write_page(traces: Sequence[Trace], path: str | Path) -> None:
    """Write the step view of traces as one file that works from disk."""
    path_to_write(path).write_text(page_html(traces), encoding="utf-8")


def page_html(traces: Sequence[Trace], title: str = "") -> str:
    """The step view of these traces as a whole page."""
    named = title or ", ".join(t.name for t in traces[:3]) or "xlanb"
    return whole_page(fragment_html(traces, title=named), named)


def whole_page(body: str, title: str) -> str:
    """A piece of HTML as a page of its own."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" '
        'content="light dark">\n'
        f'</head>\n<body style="margin:0">\n{body}\n</body>\n</html>\n'
    )


@raised_gc_thresholds()
def fragment_html(traces: Sequence[Trace], title: str = "", *, is_kept: bool = False) -> str:
    """Return the step view of traces as an HTML fragment; without scripts, a picture and ten lines.

    With `is_kept` it is for a saved notebook: only the code of its kernels is included.
    """
    outlines = Outlines()
    with parts_shared():
        payload = build_payload(traces, title=title, outlines=outlines)
        return view_html(kept(payload) if is_kept else payload, traces_brief(traces), _picture(traces, outlines))


def _picture(traces: Sequence[Trace], outlines: Outlines) -> str:
    drawn = next((found for t in traces if (found := last_drawn(t)) is not None), None)
    return still_html(drawn, outlines=outlines) if drawn is not None else ""


def kept(payload: Payload) -> Payload:
    """Return the payload for a saved notebook: of LLVM IR and assembly only short kernels."""
    codes = sum(a["k"] == "code" for a in payload["artifacts"])
    artifacts = [kept_code(a, _KEPT_CODE // codes) if a["k"] == "code" else a for a in payload["artifacts"]]
    return {**payload, "artifacts": artifacts}


def saved_html(payload: Payload, traces: Sequence[Trace], ident: str) -> str:
    """Return the page that a notebook saves with a live step view: the same view without a kernel.

    It hides itself if the live one of this `ident` is shown. Without scripts there are a picture,
    ten lines, and, folded, the stages as a table and the final program; that is all if the rest is
    too large to keep.
    """
    tables = "\n".join(f"{passes_html(t)}\n{_program_html(t)}" for t in traces)
    folded = f"<details><summary>The stages that changed something</summary>\n{tables}\n</details>"
    fallback, attributes = (
        _fallback(traces_brief(traces), _picture(traces, Outlines()), folded),
        f' data-ident="{escape(ident)}"',
    )
    html = _view_html(payload if _opens_on_code(payload) else kept(payload), fallback, attributes)
    if len(html) > MAX_BYTES:
        html = _view_html(kept(payload), fallback, attributes)
    return html if len(html) <= MAX_BYTES else fallback


def _opens_on_code(payload: Payload) -> bool:
    """Whether the view opens at LLVM IR or assembly, its subject then."""
    start = payload.get("start") or {}
    if start.get("pane") == "Code":
        return True
    stages = payload["traces"][start.get("branch", 0)]["stages"] if start and payload["traces"] else []
    shown = stages[start.get("stage", 0)]["a"] if start.get("stage", 0) < len(stages) else -1
    return shown >= 0 and payload["artifacts"][shown]["k"] == "code"


def _program_html(trace: Trace) -> str:
    """The last HLO, or else the last graph, folded."""
    for kind in (ModuleRecord, GraphRecord):
        for stage in reversed(trace.stages):
            given = stage.given_after
            if isinstance(given, kind):
                text = clip("\n".join(artifact_text(given).splitlines()[:_PROGRAM_LINES]), _PROGRAM_CHARACTERS)
                return (
                    "<details><summary>The program after "
                    f"{escape(clip(stage.name, 80))}</summary>\n{pre_html(text)}\n</details>"
                )
    return ""


def view_html(payload: Payload, text: str, picture: str = "") -> str:
    """Return a payload with its viewer; `picture` (HTML) and `text` are shown without scripts.

    Nothing outside the fragment is changed: the style is in a shadow root, the program under one
    symbol.
    """
    return _view_html(payload, _fallback(text, picture))


def _fallback(text: str, picture: str, more: str = "") -> str:
    words = f'<pre style="white-space:pre-wrap;font-size:12px">{escape(text)}</pre>'
    return f'<div class="xlanb-fallback">{picture}{words}{more}</div>'


@contextmanager
def code_shared_by(is_elsewhere: Callable[[], bool]) -> Iterator[None]:
    """Leave out program and style in views made inside if `is_elsewhere()`.

    That means that another output of the same notebook includes them.
    """
    token = _IS_ELSEWHERE.set(is_elsewhere)
    try:
        yield
    finally:
        _IS_ELSEWHERE.reset(token)


def _view_html(payload: Payload, fallback: str, attributes: str = "") -> str:
    is_elsewhere = _IS_ELSEWHERE.get()
    shared = "" if is_elsewhere is not None and is_elsewhere() else f"{assets.shared_html()}\n"
    return (
        f'<div class="xlanb-static"{attributes}>\n{fallback}\n{shared}'
        f'<script type="application/octet-stream" data-part="payload">{packed(payload)}</script>\n'
        f'<script data-version="{assets.version()}">{assets.loader(stands_in=bool(attributes))}</script>\n</div>'
    )


def passes_html(trace: Trace) -> str:
    """Return a trace's changed and failed stages as a table without script or style.

    It has at most `_TABLE_ROWS` rows: a notebook keeps it with the widget.
    """
    told = [s for s in trace if s.changed or s.failed]
    rows = "\n".join(
        f"<tr><td>{s.index}</td><td>{escape(s.name)}</td><td>{escape(time_text(s.seconds))}</td>"
        f"<td>{escape(clip(s.describe().removeprefix(f'{s.name}: '), 200))}</td></tr>"
        for s in told[:_TABLE_ROWS]
    )
    rest = len(told) - _TABLE_ROWS
    more = f"<p>{rest:,} more stages changed something.</p>" if rest > 0 else ""
    head = "".join(f"<th>{name}</th>" for name in ("", "stage", "time", "what it did"))
    return (
        f"<p><b>{escape(clip(trace.name, 200))}</b>: {len(trace)} stage{'s' * (len(trace) != 1)}, "
        f"{len(trace.changed)} changed something</p>\n"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>{more}"
    )


def pre_html(text: str) -> str:
    """Return plain text as escaped HTML."""
    return f'<pre style="white-space:pre-wrap;font-size:12px">{escape(text)}</pre>'
