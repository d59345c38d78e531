"""The shared parts of a payload: items (instructions) and chunks (text and outline of
computations).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.attributes import OpMetadata, StackFrame
from xlanb.hlo.python_lines import place_text, users_frames
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.view.marks import Section, Shown
from xlanb.view.outline.data import part_data
from xlanb.view.outline.program import Part, ProgramOutline
from xlanb.view.parts.diff import DiffRow, DiffSection
from xlanb.view.parts.graph import graph_label
from xlanb.view.parts.hlo import computation_heading, module_heading
from xlanb.view.parts.items import Item, clip, instruction_item, node_item

S = TypeVar("S")

_COMPACT = json.JSONEncoder(separators=(",", ":"))
_FRAMES = 24  # the innermost ones of a stack
_CONTEXT = 3  # unchanged rows kept on each side of a change


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one artifact in a payload.

    They are lines of text, rows of a diff, rewrites, lines of code, and lines of the program of one
    TPU or GPU kernel.
    """

    text_lines: int
    diff_rows: int
    rewrites: int
    code_lines: int
    program_lines: int


LEVELS = (
    Limits(12_000, 1500, 300, 200_000, 2_500),
    Limits(12_000, 1500, 300, 200_000, 400),
    Limits(12_000, 200, 50, 20_000, 400),
    Limits(12_000, 200, 50, 20_000, 100),
    Limits(3000, 200, 50, 20_000, 400),
    Limits(1000, 100, 20, 5_000, 200),
    Limits(200, 100, 20, 200, 100),
    Limits(40, 20, 5, 40, 40),
)
"""Limits, from those that keep all of most programs to the tightest."""
FEW_ROWS, SHORT = 2, 4
"""Levels with fewer rows of differences, and with less text."""


class Pool:
    """Items and chunks by index, each stored once."""

    def __init__(self, limits: Limits, made: dict[int, tuple[InstructionRecord, Item]] | None = None) -> None:
        """`made` keeps items by record, for a pool that is made anew with other limits."""
        self.limits = limits
        self._made = {} if made is None else made
        self._items: dict[int, tuple[object, int]] = {}
        self._by_text: dict[str, int] = {}
        self._chunks: dict[tuple[int, str], tuple[object, int]] = {}
        self._stacks: dict[int, tuple[StackFrame, int]] = {}
        self._new_items: list[Item] = []
        self._new_chunks: list[dict[str, Any]] = []
        self._frames: dict[tuple[str, str, int], int] = {}
        self._new_frames: list[list[Any]] = []
        self.shown: dict[int, Shown] = {}
        """What of each program is there, by the identity of its record."""
        self._item_count = 0
        self._chunk_count = 0

    def take_new(self) -> tuple[list[Item], list[dict[str, Any]]]:
        """Return the entries that are new since the last call."""
        new = self._new_items, self._new_chunks
        self._new_items, self._new_chunks = [], []
        return new

    def take_new_frames(self) -> list[list[Any]]:
        """Return new frames of the Python stack: [place, function, the caller's index or -1]."""
        new, self._new_frames = self._new_frames, []
        return new

    def _stack(self, metadata: OpMetadata) -> int:
        """The index of the innermost frame of the Python stack of an instruction that has one."""
        innermost = metadata.frame
        if innermost is None:
            return -1
        known = self._stacks.get(id(innermost))
        if known is None:
            known = self._stacks[id(innermost)] = innermost, self._frame(metadata.stack)
        return known[1]

    def _frame(self, stack: Sequence[StackFrame]) -> int:
        """The index of the innermost frame of a stack."""
        index = -1
        for f in reversed(users_frames(stack)[:_FRAMES]):
            key = (place_text(f.file, f.line), f.function, index)
            known = self._frames.get(key, -1)
            if known < 0:
                known = self._frames[key] = len(self._frames)
                self._new_frames.append(list(key))
            index = known
        return index

    def item(self, record: InstructionRecord | NodeRecord | Item) -> int:
        """The index of an instruction's or node's item."""
        known = self._items.get(id(record))
        if known is not None:
            return known[1]
        if isinstance(record, InstructionRecord):
            data = self._plain(record)
            if record.metadata.frame is not None:
                data = {**data, "k": self._stack(record.metadata)}
        elif isinstance(record, NodeRecord):
            data = node_item(record)
        else:
            data = dict(record)
        if "h" not in data:
            data["h"] = list(graph_label(data))
        text = _COMPACT.encode(data)
        index = self._by_text.get(text, -1)
        if index < 0:
            index = self._by_text[text] = self._item_count
            self._item_count += 1
            self._new_items.append(data)
        self._items[id(record)] = record, index  # the record too: an id is only unique while its object lives
        return index

    def _plain(self, record: InstructionRecord) -> Item:
        """Return an instruction's item without fields that are specific to this payload."""
        known = self._made.get(id(record))
        if known is None:
            data = instruction_item(record)
            data["h"] = list(graph_label(data))
            known = self._made[id(record)] = record, data
        return known[1]

    def _chunk(
        self,
        source: S,
        word: str,
        head: Callable[[S], str],
        records: Sequence[InstructionRecord] | Sequence[NodeRecord],
        tail: str,
        part: Part | None = None,
    ) -> int:
        """Return the index of a source's chunk; one source has a chunk for each `word` of its
        heading.
        """
        key = (id(source), word)
        known = self._chunks.get(key)
        if known is not None:
            return known[1]
        index = self._chunk_count
        self._chunk_count += 1
        chunk: dict[str, Any] = {"h": clip(head(source)), "i": [self.item(r) for r in records], "z": tail}
        if part is not None:
            chunk["t"] = part_data(part, len(part.ops) - len(records))
        self._new_chunks.append(chunk)
        self._chunks[key] = (source, index)
        return index

    def module_chunks(self, module: ModuleRecord, program: ProgramOutline) -> tuple[list[int], str]:
        """Return the chunks of a module's text, the entry last as in XLA, and a note if
        truncated.
        """
        chunks = [self._chunk(module, "module", module_heading, (), "")]
        left = self.limits.text_lines
        entry = module.by_name.get(module.entry)
        ordered = [c for c in module.computations if c is not entry]
        kept: list[ComputationRecord] = []
        if entry is not None:  # the entry is the most important: it gets its lines first
            left -= min(len(entry.instructions), left)
        for c in ordered:
            if len(c.instructions) <= left:
                kept.append(c)
                left -= len(c.instructions)
        parts = program.parts
        chunks.extend(
            self._chunk(c, "computation", computation_heading, c.instructions, "}", parts.get(c.name)) for c in kept
        )
        sections = [Section(c.name, c.instructions, 0, part=c.name) for c in kept]
        hidden = len(ordered) - len(kept)
        note = f"{hidden:,} more computations are not shown." if hidden else ""
        if entry is not None:
            shown = entry.instructions[-self.limits.text_lines :]
            if len(shown) < len(entry.instructions):
                rest = len(entry.instructions) - len(shown)
                note = f"The first {rest:,} instructions of the entry are not shown. {note}".strip()
            heading = partial(computation_heading, entry=True)
            chunks.append(self._chunk(entry, "entry", heading, shown, "}", parts.get(entry.name)))
            first = len(entry.instructions) - len(shown)
            sections.append(Section(entry.name, entry.instructions, first, part=entry.name))
        self.shown[id(module)] = Shown(module, program, sections)
        return chunks, note

    def graph_chunks(self, graph: GraphRecord, program: ProgramOutline) -> tuple[list[int], str]:
        """The chunks of a graph's text, one a function."""
        left = self.limits.text_lines
        chunks = []
        sections = []
        hidden = 0
        for g, word in ((graph, "graph"), *((f, "function") for f in graph.functions)):
            shown = g.nodes[max(0, len(g.nodes) - max(left, 0)) :]
            left -= len(shown)
            hidden += len(g.nodes) - len(shown)
            name, prefix = ("", "") if g is graph else (g.name, f"{g.name}:")
            chunks.append(self._chunk(g, word, partial(_graph_heading, word), shown, "}", program.parts.get(name)))
            sections.append(Section(g.name, g.nodes, len(g.nodes) - len(shown), prefix, name))
        self.shown[id(graph)] = Shown(graph, program, sections)
        return chunks, f"{hidden:,} more nodes are not shown." if hidden else ""


def _graph_heading(word: str, graph: GraphRecord) -> str:
    return f"{word} {graph.name} {{"


def diff_rows(
    pool: Pool,
    sections: Sequence[DiffSection[InstructionRecord]] | Sequence[DiffSection[NodeRecord]],
) -> list[dict[str, Any]]:
    """Return a diff's sections as plain data.

    A row is [before, after] with -1 for a missing one, an index for an equal pair, -n for n omitted
    equal rows.
    """
    left = pool.limits.diff_rows
    out: list[dict[str, Any]] = []
    for section in sections:
        if not section.changed:
            continue
        rows, cut = _compact(pool, section.rows, left)
        if cut:
            out.append({"name": section.name, "rows": rows, "cut": cut})
            return out
        left -= len(rows)
        out.append({"name": section.name, "rows": rows})
    return out


def _compact(pool: Pool, rows: Sequence[DiffRow[Any]], limit: int) -> tuple[list[Any], int]:
    """Rows as plain data, at most `limit`; and how many rows were cut off."""
    keep = [False] * len(rows)
    for k, row in enumerate(rows):
        if row.mark != "=":
            for near in range(max(0, k - _CONTEXT), min(len(rows), k + _CONTEXT + 1)):
                keep[near] = True
    out: list[Any] = []
    skipped = 0
    for k, (row, kept) in enumerate(zip(rows, keep, strict=True)):
        if len(out) >= limit:
            return out, len(rows) - k
        if not kept:
            skipped += 1
            continue
        if skipped:
            out.append(-skipped)
            skipped = 0
        if row.mark == "=" and row.after is not None:
            out.append(pool.item(row.after))
        else:
            out.append(
                [
                    -1 if row.before is None else pool.item(row.before),
                    -1 if row.after is None else pool.item(row.after),
                ]
            )
    if skipped:
        out.append(-skipped)
    return out, 0
