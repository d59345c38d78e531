"""Marks of ops that a stage added, removed or modified, where a page cannot compute them.

A page compares by name the ops that it has of both programs. That is wrong for an op that was
renamed or moved to a function, and for a truncated program: an op that was not on the page before
is not necessarily new, and changes of absent ops are invisible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.stage import Changes
from xlanb.view.outline.ops import INPUT, RESULT
from xlanb.view.outline.program import ProgramOutline

Record = InstructionRecord | NodeRecord
ADDED, REMOVED, MODIFIED = "+-~"


@dataclass(frozen=True, eq=False)
class Section:
    """A computation, function or graph; its ops from `first` on are on the page.

    `prefix` precedes the names of its ops in marks, `part` is its name among the parts of the
    program.
    """

    name: str
    records: Sequence[Record]
    first: int
    prefix: str = ""
    part: str = ""

    def shown(self) -> Sequence[Record]:
        """The ops that are on the page."""
        return self.records[self.first :]


@dataclass(frozen=True, eq=False)
class Shown:
    """The part of a module or graph on a page."""

    record: ModuleRecord | GraphRecord
    program: ProgramOutline
    sections: Sequence[Section]

    @property
    def is_cut(self) -> bool:
        """Whether something is not there."""
        given = self.record
        count = len(given.computations) if isinstance(given, ModuleRecord) else 1 + len(given.functions)
        return len(self.sections) < count or any(s.first for s in self.sections)


def wrong_marks(before: Shown, after: Shown, changes: Changes, index: Callable[[Record], int]) -> dict[str, list[str]]:
    """Return names by mark for ops whose marks by name would be wrong; "+-" is added and
    removed.
    """
    plain = isinstance(after.record, ModuleRecord) and not (before.is_cut or after.is_cut or changes.renamed)
    if plain:
        return {}
    old = {r.name: index(r) for s in before.sections for r in s.shown()}
    new = {r.name: index(r) for s in after.sections for r in s.shown()}
    marks: dict[str, set[str]] = defaultdict(set)
    for shown, mark, names in (
        (after, ADDED, changes.added),
        (after, MODIFIED, changes.modified),
        (before, REMOVED, changes.removed),
        (before, MODIFIED, _names_before(changes)),
    ):
        for name in _shown_among(shown, names):
            marks[name].add(mark)
    wrong: dict[str, list[str]] = defaultdict(list)
    for name in old.keys() | new.keys():
        found = ADDED if name not in old else REMOVED if name not in new else MODIFIED * (old[name] != new[name])
        wanted = "".join(m for m in (ADDED, REMOVED, MODIFIED) if m in marks.get(name, ()))
        if found != wanted:
            wrong[wanted].append(name)
    return {mark: sorted(names) for mark, names in wrong.items()}


def hidden_marks(shown: Shown, changes: Changes, *, is_before: bool) -> dict[str, list[list[int]]]:
    """Count changes of ops that are not on the page, by computation and representative.

    Entries are [representative (see `CutOutline.end`), number added, removed, modified].
    """
    told = (
        ((1, changes.removed), (2, _names_before(changes)))
        if is_before
        else ((0, changes.added), (2, changes.modified))
    )
    found: dict[str, list[list[int]]] = {}
    for section in shown.sections:
        part = shown.program.parts.get(section.part)
        if not section.first or part is None:
            continue
        cut = part.cut(section.first)
        rows: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for k, record in enumerate(section.records[: section.first]):
            name = section.prefix + record.name
            for column, names in told:
                if name in names and part.ops.roles[k] not in (INPUT, RESULT):
                    rows[cut.end(k)][column] += 1
        if rows:
            found[section.name] = [[end, *row] for end, row in sorted(rows.items()) if end != -1]
    return found


def _names_before(changes: Changes) -> frozenset[str]:
    """Return the old names of modified ops."""
    was = {name: old for old, name in changes.renamed.items()}
    return frozenset(was.get(name, name) for name in changes.modified) if was else changes.modified


def _shown_among(shown: Shown, names: Iterable[str]) -> Iterator[str]:
    """Return those of the changed names that are on the page, by the page's names."""
    wanted = names if isinstance(names, frozenset) else frozenset(names)
    for s in shown.sections:
        yield from (r.name for r in s.shown() if s.prefix + r.name in wanted)
