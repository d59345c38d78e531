"""Stable keys for the boxes of loops, branches, calls and fusions whose instructions passes rename.

A pass that moves code out of a loop replaces the loop:

    while.29 = while(...), body=region_2.9    ->    while.0 = while(...), body=region_2.9.clone

For a reader it is the same box. It keeps the first one's key, so that it stays open and in place,
and removals in it are counted there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from xlanb.explorer.stage import Stage
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.view.outline.module import CALLERS


class CallerKeys:
    """Keys of a trace's callers by name, if they differ from the name; stages are added in
    order.
    """

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._last: tuple[ModuleRecord | None, dict[str, InstructionRecord]] = None, {}

    def of(self, module: ModuleRecord) -> Mapping[str, str]:
        """Return the keys of a module."""
        return {name: self._keys[name] for name in self._callers(module) if name in self._keys}

    def update(self, stage: Stage, before: ModuleRecord, after: ModuleRecord) -> None:
        """Take in the callers that a stage renamed or made anew."""
        if before is after:
            return
        old, new = self._callers(before), self._callers(after)
        gone = {name: i for name, i in old.items() if name not in new}
        fresh = {name: i for name, i in new.items() if name not in old}
        if not fresh:
            return
        source = _sources(stage)
        for name, i in fresh.items():
            was = source.get(name, "")
            if was in gone and gone[was].opcode is i.opcode:
                self._keys[name] = self._keys.get(was, was)
                del gone[was]
        left = {name: i for name, i in fresh.items() if name not in self._keys}
        for was, name in _alike(gone, left):
            self._keys[name] = self._keys.get(was, was)
        self._keep_apart(new, fresh)

    def _callers(self, module: ModuleRecord) -> dict[str, InstructionRecord]:
        """Return a module's callers; those of the last one are cached, as it precedes the next
        stage.
        """
        if self._last[0] is not module:
            found = {i.name: i for c in module.computations for i in c.instructions if i.opcode in CALLERS}
            self._last = module, found
        return self._last[1]

    def _keep_apart(self, callers: Iterable[str], fresh: Iterable[str]) -> None:
        """Give a new caller that has the name which is another's key a key of its own."""
        taken = {self._keys[name] for name in callers if name in self._keys}
        for name in fresh:
            if name in taken and name not in self._keys:
                self._keys[name] = f"{name}~"


def _sources(stage: Stage) -> dict[str, str]:
    """Return the old name of each caller that a stage made of another."""
    found = {new: old for old, new in stage.changes.renamed.items()}
    for e in stage.edits:
        if e.kind not in ("add", "replace") or e.old is None or e.new is None or e.old.name == e.new.name:
            continue
        if e.new.opcode in CALLERS and e.old.opcode is e.new.opcode:
            found.setdefault(e.new.name, found.get(e.old.name, e.old.name))
    return found


def _alike(gone: Mapping[str, InstructionRecord], fresh: Mapping[str, InstructionRecord]) -> Iterable[tuple[str, str]]:
    """Pair callers before and after that match uniquely: by shape, else by op name.

    A loop may carry more than before, so a single old and a single new loop always match.
    """
    for likeness in (_shaped, _named, _only_loop):
        sides: dict[Hashable, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for side, callers in enumerate((gone, fresh)):
            for name, i in callers.items():
                if (word := likeness(i)) is not None:
                    sides[word][side].append(name)
        pairs = [(old[0], new[0]) for old, new in sides.values() if len(old) == len(new) == 1]
        yield from pairs
        gone = {name: i for name, i in gone.items() if name not in {old for old, _ in pairs}}
        fresh = {name: i for name, i in fresh.items() if name not in {new for _, new in pairs}}


def _shaped(i: InstructionRecord) -> Hashable:
    return i.opcode, i.metadata.op_name, i.shape.text(layout=False)


def _named(i: InstructionRecord) -> Hashable:
    return (i.opcode, i.metadata.op_name) if i.metadata.op_name else None


def _only_loop(i: InstructionRecord) -> Hashable:
    return i.opcode if i.opcode in (HloOpcode.WHILE, HloOpcode.CONDITIONAL) else None
