"""An annotated source as HTML: lines tinted by cost, with details on click.

It uses plain details elements and inline styles, and so works without scripts.
"""

from __future__ import annotations

from html import escape

from xlanb.explorer.annotation import Annotation, SourceLine
from xlanb.explorer.numbers import time_text

_MONO = "font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:12px;line-height:1.5"
_PARTS = (("hlo", "HLO"), ("llvm", "LLVM IR"), ("assembly", "assembly"))


def annotated_html(annotation: Annotation) -> str:
    """Return the source as HTML, each line with its share of the time, darker for more.

    A line with generated code opens to its HLO, LLVM IR and assembly.
    """
    most = max((s.share for s in annotation.lines), default=0.0)
    head = f"{time_text(annotation.seconds)} in kernels"
    if annotation.elsewhere > 0:
        head += f", {annotation.elsewhere:.0%} of it from other cells"
    rows = "\n".join(_line(s, most) for s in annotation.lines if s.text or s.number > 1)
    title = escape(annotation.title or "HLO")
    return (
        f'<div role="group" aria-label="{title}, annotated" style="{_MONO};border:1px solid '
        "rgba(128,128,128,.35);border-radius:4px;"
        f'padding:4px 0;overflow-x:auto"><div style="padding:0 8px 4px;opacity:.8">{title}: '
        f"{head}</div>\n{rows}\n</div>"
    )


def _line(line: SourceLine, most: float) -> str:
    strength = line.share / most if most else 0.0
    # An orange that is readable with dark and light text; the number next to it says the same.
    tint = f"background:rgba(230,120,20,{0.45 * strength:.2f})" if line.share else ""
    share = f"{line.share:.0%}" if line.share >= 0.005 else "&lt;1%" if line.share else ""
    text = (
        f'<span style="display:inline-block;width:3.5em;text-align:right;padding-right:1em;opacity:.85">{share}</span>'
        '<span style="display:inline-block;width:2.5em;text-align:right;padding-right:1em;opacity:.6">'
        f"{line.number}</span>"
        f'<span style="white-space:pre">{escape(line.text)}</span>'
    )
    if not line.hlo:
        return f'<div style="padding-left:18px;{tint}">{text}</div>'
    parts = "".join(_part(title, getattr(line, name)) for name, title in _PARTS)
    spent = (
        time_text(line.seconds) if line.seconds else "no time of its own: computed earlier, or as part of other lines"
    )
    return (
        f'<details style="{tint}"><summary style="cursor:pointer;padding-left:4px">{text}</summary>'
        '<div style="padding:2px 8px 6px 60px;background:rgba(128,128,128,.10)"><div '
        f'style="opacity:.8">{spent}</div>{parts}</div></details>'
    )


def _part(title: str, lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    body = escape("\n".join(lines))
    is_open = " open" if title == "HLO" else ""
    return (
        f'<details{is_open}><summary style="cursor:pointer">{title} ({len(lines)})</summary>'
        '<pre style="margin:2px 0 '
        f'4px;max-height:18em;overflow:auto;white-space:pre;font-size:11px">{body}</pre></details>'
    )
