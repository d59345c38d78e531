"""What a stage added, removed and modified, as far as a page that holds the two programs cannot tell by itself.

A page compares by name what it has of both. It is wrong about an op that is renamed or moved to a function, and of a
program that is cut: an op that was not on the page before is not new for that, and what happens to an op that is not
there it does not see.
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
    """A computation, function or graph: its ops, of which those from `first` on are on the page.

    `prefix` stands before the names of its ops where changes are told, `part` is its name among the parts of the program.
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
    """What of a module or graph is on a page."""

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
    """Names of ops on the page by their marks, of those for which comparing by name finds others: "+-" is added and removed."""
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
    """By computation what was added, removed and modified of the ops that are not on the page: [what stands for them, how many of each] (see `CutOutline.end`)."""
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
    """What modified ops are called before."""
    was = {name: old for old, name in changes.renamed.items()}
    return frozenset(was.get(name, name) for name in changes.modified) if was else changes.modified


def _shown_among(shown: Shown, names: Iterable[str]) -> Iterator[str]:
    """Those of the names of changes that are on the page, as the page calls them."""
    wanted = names if isinstance(names, frozenset) else frozenset(names)
    for s in shown.sections:
        yield from (r.name for r in s.shown() if s.prefix + r.name in wanted)
