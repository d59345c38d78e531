"""The text of a program's Python lines, as they were when it was traced."""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.graph.records import GraphRecord
from xlanb.hlo.python_lines import source_text, users_frames
from xlanb.hlo.records import ModuleRecord

_MAX_LINES = 5_000
_MAX_TEXT = 200


def source_lines(record: ModuleRecord | GraphRecord) -> dict[tuple[str, int], str]:
    """Return the text of each line that an instruction or node comes from, by file and line.

    Includes lines of callers; omits lines that cannot be read.
    """
    out: dict[tuple[str, int], str] = {}
    for place in _places(record):
        if len(out) >= _MAX_LINES:
            break
        if place not in out:
            out[place] = source_text(*place)[:_MAX_TEXT]
    return {place: text for place, text in out.items() if text}


def _places(record: ModuleRecord | GraphRecord) -> Iterator[tuple[str, int]]:
    if isinstance(record, GraphRecord):
        for graph in (record, *record.functions):
            yield from ((n.source_file, n.source_line) for n in graph.nodes)
        return
    seen: set[int] = set()
    for computation in record.computations:
        for i in computation.instructions:
            frame = i.metadata.frame
            if frame is None:
                yield i.metadata.python_line
            elif id(frame) not in seen:
                seen.add(id(frame))
                yield from ((f.file, f.line) for f in users_frames(i.metadata.stack))
