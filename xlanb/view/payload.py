"""Traces as one JSON payload for the step view; it grows by deltas while a compilation is live.

    {"revision", "title", "items": [...], "chunks": [...], "artifacts": [...],
     "traces": [{"name", "live", "counts", "stages": [...]}], "order": [...],
     "frames": [[place, function, caller], ...], "lines": {place: text of the Python line},
     "shardings": {mesh: ...} (view/parts/sharding.py)}

Stages name artifacts by index, artifacts name chunks (the text of one computation) and items (one
instruction) by index; data that is the same in two passes is stored once. view/parts/items.py
describes items, view/pool.py chunks and pictures.

A stage that changed a graph or a module has "n", the numbers of added, removed and modified parts.
It has "marks" if the page cannot compute them: "wrong" the names of ops by their marks, "before"
and "after" by computation [representative of ops that are not on the page, number added, removed,
modified]. A measured stage has "numerics", a row {"name", "min", "max", "nan", "inf", "err"} for
each result, and "err", the largest error. An artifact that was too large to read is {"k": "later",
"size", "note"} until `PayloadBuilder.load` is called for it. A module has "keys" of the loops,
calls and fusions that a pass renamed (view/outline/caller_keys.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

from xlanb.explorer.stage import Deferred
from xlanb.explorer.trace import Trace
from xlanb.hlo.records import ModuleRecord
from xlanb.view.outlines import Outlines
from xlanb.view.packing import packed
from xlanb.view.parts.llvm import code_characters, shorten_code
from xlanb.view.payload_builder import MAX_JSON, READ_BYTES, Payload, PayloadBuilder, compact_json
from xlanb.view.pool import FEW_ROWS, LEVELS, SHORT, Limits
from xlanb.view.read_ahead import reading_ahead

MAX_BYTES = 2_000_000
"""The largest page in bytes; its uncompressed JSON is at most `MAX_JSON`."""
_MANY = (12_000, 60_000)
"""Different instructions beyond which the first level, and the second, would be too much."""
MAX_CODE = 12_000_000
"""Characters of LLVM IR and assembly in one page, in addition to the rest: they pack to a tenth."""
_PROGRAMS = ("bundles", "gpu")
"""Artifacts that are the programs of kernels."""
_CODE_LINES = (20_000, 5_000, 2_500, 800)
_PROGRAM_BYTES = 200_000  # the program and the style, next to the payload


def build_payload(
    traces: Sequence[Trace],
    *,
    live: bool = False,
    title: str = "",
    max_bytes: int = MAX_BYTES,
    outlines: Outlines | None = None,
) -> Payload:
    """Return the payload of finished or running traces, under `max_bytes` when packed for a page.

    If needed it has less code, then less text and smaller pictures, with a note. `outlines` caches
    the groups of the programs for later use.
    """
    payload: Payload = {}
    outlines = outlines or Outlines()
    tried: Limits | None = None
    with reading_ahead(traces, READ_BYTES):
        for level in LEVELS[_first_level(traces) :]:
            if tried is not None and _is_same_but_for_programs(tried, level, payload):
                continue
            tried = level
            builder = PayloadBuilder(level, title=title, outlines=outlines)
            builder.update(traces, live=live)
            payload, fits = _cut_code(builder.payload, max_bytes)
            if fits:
                break
            payload["note"] = "This trace is large: pictures and texts are truncated."
    return payload


def _is_same_but_for_programs(tried: Limits, level: Limits, payload: Payload) -> bool:
    """Whether a level cuts only the programs of kernels, and the payload has none."""
    same = replace(tried, program_lines=level.program_lines) == level
    return same and not any(a["k"] in _PROGRAMS for a in payload["artifacts"])


def _cut_code(payload: Payload, max_bytes: int) -> tuple[Payload, bool]:
    """Return the payload, with its longest code texts cut if it does not fit, and whether it
    fits.
    """
    if _fits(payload, max_bytes):
        return payload, True
    bare = _with_code_lines(payload, 0)
    if len(compact_json(bare)) <= MAX_JSON:  # else it is not the code that is too much
        room = max_bytes - _PROGRAM_BYTES - len(packed(bare))
        for shorter in (payload, *(_with_code_lines(payload, lines) for lines in _CODE_LINES)):
            code = [a for a in shorter["artifacts"] if a["k"] == "code"]
            if _packs_into(compact_json(code), room) and sum(map(code_characters, code)) <= MAX_CODE:
                return shorter, True
    return _with_code_lines(payload, _CODE_LINES[-1]), False


def _with_code_lines(payload: Payload, lines: int) -> Payload:
    artifacts = [shorten_code(a, lines) if a["k"] == "code" else a for a in payload["artifacts"]]
    return {**payload, "artifacts": artifacts}


def _fits(payload: Payload, max_bytes: int) -> bool:
    """Whether a payload certainly fits a page.

    Packing takes longer to compute; it is a third to a half as long as deflating.
    """
    text = compact_json(payload)
    code = sum(code_characters(a) for a in payload["artifacts"] if a["k"] == "code")
    if code > MAX_CODE or len(text) - code > MAX_JSON:
        return False
    return len(text) <= max_bytes // 2 or _packs_into(text, max_bytes - _PROGRAM_BYTES, level=1)


def _packs_into(text: str, room: int, level: int = 6) -> bool:
    return len(zlib.compress(text.encode(), level)) * 5 // 4 <= room  # base 85 takes a quarter more


def _first_level(traces: Sequence[Trace]) -> int:
    """Return the first level to try, so that a large payload is not written four times."""
    sizes = {
        id(g): g.size for t in traces for s in t for g in (s.given_before, s.given_after) if isinstance(g, Deferred)
    }
    total = sum(sizes.values())
    if total < READ_BYTES // 4:
        distinct = _distinct(traces)
        return (0, FEW_ROWS, SHORT)[sum(distinct > many for many in _MANY)]
    return FEW_ROWS if total < READ_BYTES else SHORT


def _distinct(traces: Sequence[Trace]) -> int:
    """Count the distinct instructions of the stages that are read."""
    modules = [s.given_after for t in traces for s in t if isinstance(s.given_after, ModuleRecord)]
    computations = {id(c): c for m in modules for c in m.computations}
    return len({id(i) for c in computations.values() for i in c.instructions})
