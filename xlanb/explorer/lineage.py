"""Lineage: trace a final instruction back to TensorFlow nodes and Python lines, and forwards.

Edits are the links. A copy comes from its source, a replacement from what it replaced. What a rule
added on the way comes from what the rule finally replaced. Names are the keys: a module never
reuses a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from xlanb.display import Displayable
from xlanb.errors import XlanbError, nearest
from xlanb.explorer.diff import diff_modules
from xlanb.explorer.stage import Stage
from xlanb.frames import framed
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.python_lines import place_text
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.tracing import Cause, Edit

if TYPE_CHECKING:
    import pandas as pd

HAND_EDIT = "edit"
"""The name of a stage that records a manual change."""

_MATCHED = 60_000
"""The most instructions of all stages for matching stages without edits by meaning.

This takes some seconds; above it, only names are matched.
"""


@dataclass(frozen=True)
class Link:
    """`new` came from `old` in a stage, because of a pass and a rule."""

    stage: int
    cause: Cause
    old: str
    new: str

    def __str__(self) -> str:
        rule = f" by {self.cause.rule} ({self.cause.where})" if self.cause.rule else ""
        return f"{self.stage:>4}  {self.cause.pass_name or 'edit'}: {self.new} from {self.old}{rule}"


@dataclass(frozen=True)
class Lineage(Displayable):
    """Where an instruction (or a TensorFlow node) came from, and what it became.

    `links` lead from `sources` (instructions of the first module) to `results` (instructions of the
    last).
    `nodes` are the TensorFlow nodes (or the `op_name`s) of the sources, or for a value without a
    name, of its users. `lines` are their Python lines as "file:line".
    """

    name: str
    sources: tuple[str, ...]
    results: tuple[str, ...]
    nodes: tuple[str, ...]
    lines: tuple[str, ...]
    links: tuple[Link, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per link, in order.

        Columns: stage, pass, rule, where the rule is defined, and the instruction before and after.
        """
        rows = [
            (k.stage, k.cause.pass_name or HAND_EDIT, k.cause.rule, k.cause.where, k.old, k.new) for k in self.links
        ]
        return framed(rows, ["stage", "pass", "rule", "where", "before", "after"])

    def __repr__(self) -> str:
        made = f" of {', '.join(self.nodes[:3])}{', ...' * (len(self.nodes) > 3)}" if self.nodes else ""
        return (
            f"<Lineage {self.name}{made}: {len(self.sources)} sources, {len(self.results)} "
            f"results, {len(self.links)} links>"
        )

    def __str__(self) -> str:
        parts = [f"{self.name}"]
        for title, items in (
            ("nodes", self.nodes),
            ("lines", self.lines),
            ("from", self.sources),
            ("became", self.results),
        ):
            if items:
                parts.append(f"  {title}: {', '.join(dict.fromkeys(items))}")
        return "\n".join([*parts, *(f"  {link}" for link in self.links)])


class Provenance:
    """The links of all stages of a trace, which can be followed in both directions."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        modules = [s.after for s in stages if isinstance(s.after, ModuleRecord)]
        if not modules:
            raise XlanbError("the trace holds no HLO: no lineage to follow")
        self._module = modules[-1]
        self.first = _instructions(modules[0])
        self.last = _instructions(modules[-1])
        applied = _applied(modules[-1])
        self._fused = {
            i.name: [j.name for j in modules[-1].by_name[c].instructions if j.opcode is not HloOpcode.PARAMETER]
            for i in self.last.values()
            if i.opcode is HloOpcode.FUSION
            for c in i.called_computations[:1]
        }
        self._outside = {j: fusion for fusion, inside in self._fused.items() for j in inside}
        self._counted = [i.name for c in modules[-1].computations if c.name not in applied for i in c.instructions]
        self._back: dict[str, dict[str, Link]] = {}
        self._forth: dict[str, dict[str, Link]] = {}
        untold = [s for s in stages if s.name == HAND_EDIT or (s.changed and not s.edits)]
        matched = set(map(id, untold)) if sum(map(_size, untold)) <= _MATCHED else set()
        for stage in stages:
            for link in _by_meaning(stage) if id(stage) in matched else _links(stage):
                self._back.setdefault(link.new, {}).setdefault(link.old, link)
                self._forth.setdefault(link.old, {}).setdefault(link.new, link)

    def lineage(self, name: str) -> Lineage:
        """Return the lineage of an instruction of any stage, or of a TensorFlow node.

        Raises:
            XlanbError: no stage has that name.
        """
        name = name.removeprefix("%")
        starts = (
            [name]
            if name in self.first or name in self.last or name in self._back or name in self._forth
            else self._of_node(name)
        )
        if not starts:
            raise XlanbError(f"no instruction and no node {name!r} in this trace{nearest(name, self._names())}")
        inside = self._inside(starts)
        before = self._walk([*starts, *inside], self._back)
        after = self._walk(starts, self._forth)
        after += [n for n in map(self._outside.get, after) if n is not None and n not in after]
        sources = [n for n in before if n in self.first]
        origins = [self.first[n].metadata for n in sources]
        if not any(m.op_name for m in origins):
            origins += [self.last[n].metadata for n in (*starts, *inside) if n in self.last]
        if not any(m.op_name for m in origins):
            origins += [self.last[n].metadata for n in self._served([name, *after])]
        links = {
            k
            for names, table in ((before, self._back), (after, self._forth))
            for n in names
            for k in table.get(n, {}).values()
        }
        return Lineage(
            name,
            tuple(sources),
            tuple(n for n in after if n in self.last),
            tuple(dict.fromkeys(m.op_name for m in origins if m.op_name)),
            tuple(dict.fromkeys(place_text(*m.python_line) for m in origins if m.python_line[1])),
            tuple(sorted(links, key=lambda k: (k.stage, k.new, k.old))),
        )

    def _names(self) -> Iterable[str]:
        """Yield valid names: instructions of every stage, and nodes of the first module."""
        yield from (*self.last, *self.first, *self._forth, *self._back)
        yield from (i.metadata.op_name for i in self.first.values() if i.metadata.op_name)

    def _served(self, names: Sequence[str]) -> list[str]:
        """Return the nearest final users that have an op_name, for a value without one.

        Such values are constants, tuple elements and fusion parameters.
        """
        seen, near = set(names), list(names)
        while near:
            named = [n for n in near if n in self.last and self.last[n].metadata.op_name]
            if named:
                return named
            near = [u for n in near for u in self._readers.get(n, ()) if u not in seen]
            seen.update(near)
        return []

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        """Return each final instruction's users; for a called root, also the caller."""
        found: dict[str, list[str]] = {}
        for c in self._module.computations:
            for i in c.instructions:
                for o in i.operands:
                    found.setdefault(o, []).append(i.name)
                for called in i.called_computations:
                    if called in self._module.by_name:
                        found.setdefault(self._module.by_name[called].root, []).append(i.name)
        return found

    def coverage(self) -> float:
        """Return the share of the final instructions that lead back to an op_name, 0 to 1.

        They lead to an instruction of the first module that has one, or serve one that does. Scalar
        computations applied by a reduce, a sort, ... belong to it and do not count.
        """
        known = [self._names_its_op(name) for name in self._counted]
        return sum(known) / len(known) if known else 1.0

    def _inside(self, names: Iterable[str]) -> list[str]:
        """Return the instructions fused into the fusions among `names`."""
        return [j for n in names for j in self._fused.get(n, ())]

    def _names_its_op(self, name: str) -> bool:
        ancestors = (self.first[n] for n in self._walk([name, *self._inside([name])], self._back) if n in self.first)
        own = bool(self.last[name].metadata.op_name) or any(i.metadata.op_name for i in ancestors)
        return own or bool(self._served([name]))

    def _of_node(self, node: str) -> list[str]:
        return [n for n, i in self.first.items() if i.metadata.op_name == node]

    def _walk(self, starts: Iterable[str], table: dict[str, dict[str, Link]]) -> list[str]:
        seen = dict.fromkeys(starts)
        stack = list(seen)
        while stack:
            for n in table.get(stack.pop(), {}):
                if n not in seen:
                    seen[n] = None
                    stack.append(n)
        return list(seen)


def _instructions(module: ModuleRecord) -> dict[str, InstructionRecord]:
    return {i.name: i for c in module.computations for i in c.instructions}


def _applied(module: ModuleRecord) -> set[str]:
    """Return the names of scalar computations that instructions apply to elements."""
    found = set()
    for i in _instructions(module).values():
        for key in ("to_apply", "select", "scatter"):
            applied = i.attributes.get(key)
            if applied is not None and i.opcode is not HloOpcode.CALL:
                found.add(applied.name)
    return found


def _links(stage: Stage) -> Iterable[Link]:
    """Yield the links of one stage's edits."""
    waiting: list[Edit] = []
    derived: set[str] = set()
    for e in stage.edits:
        if waiting and waiting[-1].cause != e.cause:
            waiting = []
        if e.kind == "add" and e.old is None:
            waiting.append(e)
        elif e.kind == "replace":
            for added in waiting:
                if added.new.name != e.new.name:
                    yield Link(stage.index, e.cause, e.old.name, added.new.name)
            yield from _from_parts(stage.index, e, waiting)
            waiting = []
        if e.kind not in ("add", "replace", "update") or e.old is None or e.new is None or e.old.name == e.new.name:
            continue
        # A fusion's parameter represents what is copied in its place: the copy has its own source.
        if e.kind == "replace" and e.old.opcode is HloOpcode.PARAMETER and e.new.name in derived:
            continue
        derived.add(e.new.name)
        yield Link(stage.index, e.cause, e.old.name, e.new.name)


def _from_parts(stage: int, e: Edit, added: Sequence[Edit]) -> Iterable[Link]:
    """Yield links from all matched instructions to the replacement, except those it still reads.

    transpose(dot(A, B)) => dot(B, A) comes from the transpose and from the dot.
    """
    parts = dict.fromkeys(name for _, name in e.cause.parts)
    if e.new.name in parts:
        return
    made = {e.new.name: e.new, **{a.new.name: a.new for a in added}}
    read = {o for i in made.values() for o in i.operands}
    for name in parts:
        if name != e.old.name and name not in read and name not in made:
            yield Link(stage, e.cause, name, e.new.name)


def _size(stage: Stage) -> int:
    return stage.after.instruction_count if isinstance(stage.after, ModuleRecord) else 0


def _by_meaning(stage: Stage) -> Iterable[Link]:
    """Yield the links of a stage without edits by meaning: a manual change or a step of a dump."""
    if not isinstance(stage.before, ModuleRecord) or not isinstance(stage.after, ModuleRecord):
        return
    if {*_instructions(stage.after)} == {*_instructions(stage.before)}:
        return
    for m in diff_modules(stage.before, stage.after).matches:
        if m.before is not None and m.after is not None and m.before.name != m.after.name:
            yield Link(stage.index, Cause(stage.name), m.before.name, m.after.name)
