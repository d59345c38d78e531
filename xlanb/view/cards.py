"""Answers as HTML without script or style sheet: reasons of decisions, and origins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape
from typing import Any, Final

from xlanb.explorer.lineage import HAND_EDIT, Lineage
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.recording import attribute_text
from xlanb.hlo.python_lines import place_text
from xlanb.runtime.session import Session
from xlanb.tracing import Decision, Predicate
from xlanb.view.parts.items import clip
from xlanb.view.tables import tables_html
from xlanb.why import BASES, Why

_MOST_DECISIONS: Final = 60
_MOST_LINKS: Final = 100
_MOST_NAMES: Final = 12
_MOST_TENSORS: Final = 30
_OPEN: Final = 3  # decisions that are shown with their conditions at first
_FAILS, _HOLDS = "#c4453c", "#2f8c5b"
_CARD: Final = "font:13px/1.5 system-ui,sans-serif;max-width:80em"
_CODE: Final = "font:12px ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere"
_CELL: Final = (
    "font:13px/1.5 system-ui,sans-serif;color:inherit;text-align:left;vertical-align:top;padding:1px 12px 1px "
    "0;border:0"
)
_QUIET: Final = "opacity:.75"


@singledispatch
def card_html(_obj: Any) -> str:
    """Return an answer as HTML, or "" if the object is not one."""
    return ""


@card_html.register
def _why(why: Why) -> str:
    if why.is_one:
        return _one_decision(why)
    grouped = why.grouped
    shown = [_decision(d, basis, at, is_open=k < _OPEN) for k, (d, basis, at) in enumerate(grouped[:_MOST_DECISIONS])]
    rest = len(grouped) - len(shown)
    more = _note(f"{rest:,} more decisions: .to_dataframe() has them all") if rest > 0 else ""
    note = _note(why.note) if why.note else ""
    head = " and ".join(map(_code, why.subject)) + (f": {_linked(why.answer)}" if why.answer else "")
    return _card(head, _plural(len(grouped), "decision"), [*shown, more, note])


def _one_decision(why: Why) -> str:
    """An answer with the conditions that decided it, those that failed first."""
    predicates = why.decisions[0].predicates
    failing = [p for p in predicates if not p.holds]
    said = f"{len(predicates) - len(failing)} of {_plural(len(predicates), 'condition')} hold"
    parts = [_predicates(failing), _folded("those that hold", _predicates(p for p in predicates if p.holds))]
    if not failing:
        parts = [_predicates(predicates)]
    return _card(f"{_code(why.about)}: {_linked(why.answer)}", said, [*parts, _note(why.note) if why.note else ""])


@card_html.register
def _lineage(lineage: Lineage) -> str:
    rows = [
        ("Python", lineage.lines),
        ("made for", lineage.nodes),
        ("came from", lineage.sources),
        ("became", lineage.results),
    ]
    facts = _facts((title, _names(names)) for title, names in rows)
    links = [
        (
            str(k.stage),
            escape(k.cause.pass_name or HAND_EDIT),
            f"{_code(k.old)} &rarr; {_code(k.new)}",
            f"{escape(k.cause.rule)} <span style='{_QUIET}'>{escape(k.cause.where)}</span>",
        )
        for k in lineage.links[:_MOST_LINKS]
    ]
    rest = len(lineage.links) - len(links)
    more = _note(f"{rest:,} more links: .to_dataframe() has them all") if rest > 0 else ""
    table = _table(("stage", "pass", "before and after", "rule"), links) if links else _note("no pass replaced it")
    summary = _plural(len(lineage.links), "link")
    body = _folded(f"the path through the passes: {summary}", table + more, is_open=len(lineage.links) <= _MOST_NAMES)
    return _card(_code(lineage.name), "", [facts, body])


@card_html.register
def _operation(op: Operation) -> str:
    place = place_text(op.source_file, op.source_line) if op.source_line else ""
    facts = [
        ("type", _code(op.type)),
        ("inputs", _tensors(op.inputs)),
        ("after", _names([o.name for o in op.control_inputs])),
        ("outputs", _tensors(op.outputs)),
        ("read by", _names([user.name for t in op.outputs for user in t.consumers()])),
        *((name, _code(attribute_text(value))) for name, value in sorted(op.attrs.items())),
        ("device", _code(op.device) if op.device else ""),
        ("made at", _code(place) if place else ""),
    ]
    return _card(_code(op.name), f"operation of graph {_code(op.graph.name)}", [_facts(facts)])


@card_html.register
def _tensor(tensor: Tensor) -> str:
    op = tensor.op
    facts = [
        ("type", _code(tensor.describe())),
        ("made by", f"{_code(op.name)} {_code(op.type)}"),
        ("of", _tensors(op.inputs)),
        ("read by", _names([f"{user.name} ({user.type})" for user in tensor.consumers()])),
        ("made at", _code(place_text(op.source_file, op.source_line)) if op.source_line else ""),
    ]
    return _card(_code(tensor.name), f"tensor of graph {_code(op.graph.name)}", [_facts(facts)])


def _tensors(tensors: Iterable[Tensor]) -> str:
    return ", ".join(f"{_code(t.name)} {_code(t.describe())}" for t in list(tensors)[:_MOST_TENSORS])


@card_html.register
def _session(session: Session) -> str:
    tables = [
        ("variables", session.variables_table()),
        ("compiled", session.cache.table),
    ]
    said = escape(repr(session).strip("<>"))
    return _card(_code("Session"), said.removeprefix("Session "), [tables_html(tables)])


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values (HTML), without those that have none."""
    lines = (
        f'<tr><th scope="row" style="{_CELL};opacity:.75;font-weight:normal">{escape(name)}</th><td '
        f'style="{_CELL}">{value}</td></tr>'
        for name, value in rows
        if value
    )
    return f'<table style="border:0">{"".join(lines)}</table>'


def _card(head: str, said: str, parts: Iterable[str]) -> str:
    count = f' <span style="{_QUIET}">{said}</span>' if said else ""
    return f'<div class="xlanb-card" style="{_CARD}"><div><b>{head}</b>{count}</div>{"".join(parts)}</div>'


def _decision(d: Decision, basis: str, stages: Sequence[int], *, is_open: bool) -> str:
    """Show a decision, unfolding to its conditions."""
    when = [str(s) for s in stages if s >= 0]
    where = [f"stage {', '.join(when)}"] if when else ["in the end"]
    where += [d.cause.where] if d.cause.where else []
    where += [f"keeps: {d.cause.keeps}"] if d.taken and d.cause.keeps else []
    where += [BASES[basis]] if BASES.get(basis) else []
    about = " &rarr; ".join(map(_code, d.subject))
    head = (
        f"{_mark('yes' if d.taken else 'no', good=d.taken)} "
        f"<b>{escape(d.cause.pass_name or 'xlanb')}</b> "
        f'{escape(d.action)} {about} <span style="{_QUIET}">{escape(", ".join(where))}</span>'
    )
    return _folded(head, _predicates(d.predicates), is_open=is_open, is_html=True)


def _predicates(predicates: Iterable[Predicate]) -> str:
    rows = [
        f'<tr><td style="{_CELL};white-space:nowrap">{_mark("holds" if p.holds else "FAILS", good=p.holds)}</td>'
        f'<td style="{_CELL}">{escape(p.name)}</td>'
        f'<td style="{_CELL};{_CODE};line-height:20px">{escape(str(p.value))}{_remedy(p.remedy)}</td></tr>'
        for p in predicates
    ]
    return f'<table style="border:0;margin-left:1em">{"".join(rows)}</table>' if rows else ""


def _remedy(remedy: str) -> str:
    """Show a remedy on its own line."""
    return f'<div style="{_CARD}">&#8618; {_linked(remedy)}</div>' if remedy else ""


def _linked(text: str) -> str:
    """Words with the names in backquotes as code."""
    parts = text.split("`")
    return "".join(_code(part) if n % 2 else escape(part) for n, part in enumerate(parts))


def _mark(word: str, *, good: bool) -> str:
    """A word behind a coloured mark: the word has the text's own colour, legible on every page."""
    colour, mark = (_HOLDS, "&#10003;") if good else (_FAILS, "&#10007;")
    return f'<b style="color:{colour}">{mark}</b> {word if good else f"<b>{word}</b>"}'


def _folded(head: str, body: str, *, is_open: bool = False, is_html: bool = False) -> str:
    if not body:
        return f"<div>{head if is_html else escape(head)}</div>"
    opened = " open" if is_open else ""
    shown = head if is_html else escape(head)
    return f'<details{opened} style="margin:.2em 0"><summary style="cursor:pointer">{shown}</summary>{body}</details>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f'<th scope="col" style="{_CELL};{_QUIET};font-weight:normal">{escape(h)}</th>' for h in heads)
    lines = ("".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border:0;margin-left:1em"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _names(names: Sequence[str]) -> str:
    """Names in a row; of many the first, the others folded."""
    found = list(dict.fromkeys(names))
    first, rest = found[:_MOST_NAMES], found[_MOST_NAMES:]
    line = ", ".join(map(_code, first))
    return line + (_folded(f"{len(rest)} more", ", ".join(map(_code, rest))) if rest else "")


def _code(text: str) -> str:
    return f'<code style="{_CODE};background:none;color:inherit;padding:0">{escape(clip(text, 300))}</code>'


def _note(text: str) -> str:
    return f'<p style="{_QUIET};margin:.3em 0">{escape(text)}</p>'


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
