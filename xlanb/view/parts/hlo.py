"""HLO modules: which nodes and boxes a picture has, and the text by computation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.view.drawing import DrawnGroup

_EXPANDED = {
    HloOpcode.FUSION: "fusion",
    HloOpcode.CALL: "call",
    HloOpcode.WHILE: "call",
    HloOpcode.CONDITIONAL: "call",
    HloOpcode.ASYNC_START: "call",
}
_MAX_DEPTH = 8
_CENTRES = 3
_FAN = 6


@dataclass(frozen=True, slots=True)
class SheetNode:
    """One node: its key, and its group's key ("" for none)."""

    key: str
    group: str = ""


@dataclass
class Sheet:
    """A program to draw, without positions; `subjects` maps each key to its node or group."""

    nodes: list[SheetNode] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    groups: list[DrawnGroup] = field(default_factory=list)
    subjects: dict[str, InstructionRecord] = field(default_factory=dict)
    note: str = ""


def module_sheet(module: ModuleRecord, max_nodes: int = 400) -> Sheet:
    """Return the entry computation, with called ones as boxes, as deep as `max_nodes` allows.

    If the entry alone is too large, only the neighbourhood of the root is drawn, with a note.
    """
    entry = module.entry_computation
    for depth in range(_MAX_DEPTH, -1, -1):
        if _count(module, entry, depth, max_nodes) <= max_nodes:
            sheet = Sheet()
            _Expander(module, sheet).add(entry, "", "", depth)
            if depth < _MAX_DEPTH and _count(module, entry, depth + 1, max_nodes) > max_nodes:
                sheet.note = f"Fusions and calls are folded, as there would be more than {max_nodes:,} nodes."
            return sheet
    return computation_sheet(entry, max_nodes)


def computation_sheet(computation: ComputationRecord, max_nodes: int = 400) -> Sheet:
    """Return one computation, nothing unfolded; if too large, the neighbourhood of the root."""
    by_name = computation.by_name
    kept = set(by_name) if len(by_name) <= max_nodes else near(_neighbours(computation), [computation.root], max_nodes)
    sheet = Sheet()
    for i in computation.instructions:
        if i.name in kept:
            _add_node(sheet, i.name, i, "")
            sheet.edges.extend((o, i.name) for o in i.operands if o in kept)
    if len(kept) < len(by_name):
        sheet.note = f"Showing {len(kept):,} of {len(by_name):,} instructions, those nearest to {computation.root}."
    return sheet


def near(neighbours: Mapping[str, Iterable[str]], centres: Iterable[str], limit: int) -> set[str]:
    """Return up to `limit` names, the nearest to the centres first.

    Of a name with many neighbours only some are taken while there are others: the operands of a
    wide tuple say little about a program. Of many centres only the first few are used: hundreds of
    unconnected nodes are not a picture.
    """
    kept: dict[str, None] = {}
    waiting = deque(centres)
    queue = deque(waiting.popleft() for _ in range(min(_CENTRES, len(waiting))))
    later: deque[str] = deque()
    while (queue or later or waiting) and len(kept) < limit:
        name = (queue or later or waiting).popleft()
        if name not in kept:
            kept[name] = None
            fresh = [n for n in neighbours.get(name, ()) if n not in kept]
            queue.extend(fresh[:_FAN])
            later.extend(fresh[_FAN:])
    return set(kept)


def _neighbours(computation: ComputationRecord) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {i.name: list(i.operands) for i in computation.instructions}
    for i in computation.instructions:
        for o in i.operands:
            if o in found:
                found[o].append(i.name)
    return found


def _count(module: ModuleRecord, computation: ComputationRecord, depth: int, limit: int) -> int:
    total = 0
    for i in computation.instructions:
        callees = _callees(module, i) if depth else []
        total += sum(_count(module, c, depth - 1, limit) for c in callees) if callees else 1
        if total > limit:
            break
    return total


def _callees(module: ModuleRecord, i: InstructionRecord) -> list[ComputationRecord]:
    if i.opcode not in _EXPANDED:
        return []
    return [module.by_name[c] for c in i.called_computations if c in module.by_name]


def _add_node(sheet: Sheet, key: str, i: InstructionRecord, group: str) -> None:
    sheet.nodes.append(SheetNode(key, group))
    sheet.subjects[key] = i


class _Expander:
    def __init__(self, module: ModuleRecord, sheet: Sheet) -> None:
        self.module = module
        self.sheet = sheet
        self.drawn: dict[str, int] = {}

    def add(self, computation: ComputationRecord, group: str, prefix: str, depth: int) -> tuple[list[str], str]:
        """Draw a computation into a group.

        Returns the keys of its parameters by number, and of its root's last node.
        """
        ends: dict[str, str] = {}
        parameters: dict[int, str] = {}
        for i in computation.instructions:
            key = prefix + i.name
            callees = _callees(self.module, i) if depth else []
            if callees:
                ends[i.name] = self._box(i, key, group, callees, ends, depth)
                continue
            _add_node(self.sheet, key, i, group)
            ends[i.name] = key
            self.sheet.edges.extend((ends[o], key) for o in i.operands if o in ends)
            if i.opcode is HloOpcode.PARAMETER:
                parameters[int(i.attributes.get("parameter_number", len(parameters)))] = key
        return [parameters.get(k, "") for k in range(max(parameters, default=-1) + 1)], ends.get(computation.root, "")

    def _box(
        self,
        i: InstructionRecord,
        key: str,
        group: str,
        callees: list[ComputationRecord],
        ends: Mapping[str, str],
        depth: int,
    ) -> str:
        kind = _EXPANDED[i.opcode]
        detail = str(i.attributes.get("kind", "")) if i.opcode is HloOpcode.FUSION else ""
        self.sheet.groups.append(DrawnGroup(key, f"{i.name}  {detail}".rstrip(), kind, group))
        self.sheet.subjects[key] = i
        operands = [ends.get(o, "") for o in i.operands]
        root = ""
        for number, callee in enumerate(callees):
            inner = key
            if len(callees) > 1:
                inner = f"{key}/{callee.name}"
                self.sheet.groups.append(DrawnGroup(inner, callee.name, "computation", key))
                self.sheet.subjects[inner] = i
            times = self.drawn[callee.name] = self.drawn.get(callee.name, 0) + 1
            parameters, root = self.add(callee, inner, f"{key}/" if times > 1 else "", depth - 1)
            given = operands[number + 1 : number + 2] if i.opcode is HloOpcode.CONDITIONAL else operands
            self.sheet.edges.extend((a, b) for a, b in zip(given, parameters, strict=False) if a and b)
        return root


def computation_heading(computation: ComputationRecord, *, entry: bool = False) -> str:
    """The line that opens a computation, as XLA prints it."""
    parameters = sorted(
        (i for i in computation.instructions if i.opcode is HloOpcode.PARAMETER),
        key=lambda i: int(i.attributes.get("parameter_number", 0)),
    )
    given = ", ".join(f"{p.name}: {p.shape.text(layout=False)}" for p in parameters)
    root = computation.by_name.get(computation.root)
    result = root.shape.text(layout=False) if root else ""
    return f"{'ENTRY ' if entry else ''}%{computation.name} ({given}) -> {result} {{"


def module_heading(module: ModuleRecord) -> str:
    """The module's first line."""
    return ", ".join([f"HloModule {module.name}", *(f"{k}={v}" for k, v in module.header)])
