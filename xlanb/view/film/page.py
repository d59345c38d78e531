"""A film as HTML: the step view with only its Film pane, and that pane's part of a payload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xlanb.explorer import displays
from xlanb.explorer.film import Film
from xlanb.files import path_to_write
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.view.brief import last_drawn, trace_brief
from xlanb.view.page import view_html, whole_page
from xlanb.view.payload import build_payload
from xlanb.view.payload_builder import Payload
from xlanb.view.still import still_html


@displays.write_film.implement
def write_film(film: Film, path: str | Path) -> None:
    """Write a film as a page that works from disk."""
    html = whole_page(film_html(film), f"{film.trace.name}: the film")
    path_to_write(path).write_text(html, encoding="utf-8")


@raised_gc_thresholds()
def film_html(film: Film) -> str:
    """Return a film as HTML for a notebook's output; without scripts, a picture and ten lines."""
    drawn = last_drawn(film.trace)
    return view_html(
        film_payload(film), f"{film}\n{trace_brief(film.trace)}", "" if drawn is None else still_html(drawn)
    )


def film_payload(film: Film) -> Payload:
    """Return the Film pane's data: programs, counts, kernel times, replacements; no code, no
    reasons.
    """
    payload = build_payload([film.trace], title=film.trace.name)
    payload["film"] = 1
    payload["artifacts"] = [_without_code(a) for a in payload["artifacts"]]
    for trace in payload["traces"]:
        trace["stages"] = [_without_reasons(s) for s in trace["stages"]]
    return payload


def _without_code(artifact: dict[str, Any]) -> dict[str, Any]:
    """Return an artifact without its text: for code, its ops; for GPU kernels, their times."""
    if artifact["k"] == "code":
        ops = dict.fromkeys(op for _, op in artifact["ops"])
        return {
            "k": "code",
            "lang": artifact["lang"],
            "lines": [],
            "total": 0,
            "functions": [],
            "ops": [[1, op] for op in ops],
        }
    if artifact["k"] == "gpu":
        return {**artifact, "kernels": [{**k, "code": {}, "cut": {}} for k in artifact["kernels"]]}
    return {**artifact, "rows": []} if artifact["k"] == "bundles" else artifact


def _without_reasons(stage: dict[str, Any]) -> dict[str, Any]:
    """Return a stage with its edits as names, and only the renames of its difference."""
    kept = {k: v for k, v in stage.items() if k not in {"why", "diff"}}
    if "why" in stage:
        edits = [
            [{k: e[k] for k in ("kind", "in", "a", "b") if k in e} for e in r["edits"]]
            for r in stage["why"]["rewrites"]
        ]
        kept["why"] = {"rewrites": [{"edits": e} for e in edits], "decisions": []}
    renamed = [r for section in stage.get("diff", ()) for r in section["rows"] if isinstance(r, list) and min(r) >= 0]
    if renamed:
        kept["diff"] = [{"name": "", "rows": renamed}]
    return kept
