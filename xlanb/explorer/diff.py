"""Two modules, or two compilations, compared by structure: which instruction is which does not depend on names.

An instruction is known by what it computes: its opcode, shape and attributes, and what its operands compute. A fusion is seen through, so that an instruction that went
into one is the same instruction in another place. What computes the same on both sides is matched first; then what stands at the same place among the matched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.explorer.stage import Stage
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.records import ComputationName, InstructionRecord, ModuleRecord

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.explorer.trace import Trace

KINDS = ("same", "moved", "changed", "removed", "added")
_TRANSPARENT = frozenset({Op.FUSION, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.CALL})
_MAX_DEPTH = 200
_SHOWN = 40


@dataclass(frozen=True)
class Match:
    """One instruction on both sides, or on one only (`before` or `after` is None).

    `kind` is "same", "moved" (the same in another computation: fused, outlined), "changed" (`detail` says in what), "removed" or "added".
    """

    kind: str
    before: InstructionRecord | None
    after: InstructionRecord | None
    computation_before: str = ""
    computation_after: str = ""
    detail: str = ""

    @property
    def opcode(self) -> str:
        """The opcode, of either side."""
        record = self.before if self.before is not None else self.after
        return str(record.opcode) if record is not None else ""

    def __str__(self) -> str:
        mark = {"same": "=", "moved": ">", "changed": "~", "removed": "-", "added": "+"}[self.kind]
        if self.before is None or self.after is None:
            record = self.before or self.after
            return f"{mark} {record}"
        return f"{mark} {self.before.name} -> {self.after.name} ({self.opcode}): {self.detail}"


@dataclass(frozen=True)
class ModuleDiff(Displayable):
    """The instructions of two modules, matched. `counts` says how many there are of each kind, `groups` gathers what differs in the same way."""

    before: ModuleRecord
    after: ModuleRecord
    matches: tuple[Match, ...]
    names: tuple[str, str] = ("before", "after")

    @cached_property
    def counts(self) -> dict[str, int]:
        """Matches by kind."""
        found = Counter(m.kind for m in self.matches)
        return {k: found[k] for k in KINDS}

    @property
    def is_equal(self) -> bool:
        """Whether both compute the same by the same instructions, wherever these stand."""
        return not (self.counts["changed"] or self.counts["removed"] or self.counts["added"])

    @property
    def groups(self) -> pd.DataFrame:
        """Differences of one kind, opcode and detail in one row, the most frequent first, with an example of either side."""
        import pandas as pd

        found: dict[tuple[str, str, str], list[Match]] = defaultdict(list)
        for m in self.matches:
            if m.kind != "same":
                found[m.kind, m.opcode, m.detail].append(m)
        rows = [
            {
                "kind": kind,
                "opcode": opcode,
                "detail": detail,
                "count": len(ms),
                "before": ms[0].before.name if ms[0].before else None,
                "after": ms[0].after.name if ms[0].after else None,
            }
            for (kind, opcode, detail), ms in sorted(found.items(), key=lambda g: (-len(g[1]), g[0]))
        ]
        return pd.DataFrame(rows, columns=["kind", "opcode", "detail", "count", "before", "after"])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """What a notebook shows below the summary."""
        return (("differences, grouped", self.groups),)

    @property
    def text(self) -> str:
        """The unified diff of the canonical texts, line by line."""
        sides = (str(self.before).splitlines(), str(self.after).splitlines())
        return "\n".join(unified_diff(*sides, *self.names, lineterm=""))

    def of(self, name: str) -> list[Match]:
        """The matches in which an instruction of this name takes part, on either side."""
        return [m for m in self.matches if name in {r.name for r in (m.before, m.after) if r is not None}]

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n)
        lines = [f"{self.names[0]} -> {self.names[1]}: {counts or 'nothing on either side'}"]
        different = [m for m in self.matches if m.kind not in ("same", "moved")]
        lines += [f"  {m}" for m in different[:_SHOWN]]
        if len(different) > _SHOWN:
            lines.append(f"  ... {len(different) - _SHOWN} more; see .groups")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ModuleDiff {self.names[0]} -> {self.names[1]}: {self.counts}>"


def diff_modules(before: ModuleRecord, after: ModuleRecord, names: tuple[str, str] = ("before", "after")) -> ModuleDiff:
    """Match the instructions of two modules, and say of each what became of it."""
    left, right = _Side(before), _Side(after)
    pairs = _Pairs(left, right)
    pairs.by_meaning()
    pairs.by_neighbours()
    pairs.by_looks()
    matches = [_judged(left, right, k, pairs.forward[k]) for k, _ in left.items() if k in pairs.forward]
    matches += [Match("removed", i, None, k[0], "") for k, i in left.items() if k not in pairs.forward]
    matches += [Match("added", None, i, "", k[0]) for k, i in right.items() if k not in pairs.backward]
    matches.sort(key=lambda m: KINDS.index(m.kind))
    return ModuleDiff(before, after, tuple(matches), names)


# -- one side -------------------------------------------------------------------------------------------------------

Key = tuple[str, str]


class _Side:
    """The instructions of a module by (computation, name), with what each computes as a number."""

    def __init__(self, module: ModuleRecord) -> None:
        self.module = module
        self.meaning: dict[Key, int] = {}
        self._seen_through: set[str] = set()
        self._computations: dict[str, int] = {}
        for c in module.computations:
            if c.name not in self._seen_through and c.name not in self._fused:
                self._visit(c.name, None, 0)

    @cached_property
    def _fused(self) -> frozenset[str]:
        return frozenset(
            n
            for c in self.module.computations
            for i in c.instructions
            if i.opcode is Op.FUSION
            for n in i.called_computations
        )

    def items(self) -> Iterator[tuple[Key, InstructionRecord]]:
        """What takes part: everything but the parameters of fused computations, which stand for operands."""
        for c in self.module.computations:
            fused = c.name in self._fused
            for i in c.instructions:
                if not (fused and i.opcode is Op.PARAMETER):
                    yield (c.name, i.name), i

    def at(self, key: Key) -> InstructionRecord:
        """The instruction of a key."""
        return self.module.by_name[key[0]].by_name[key[1]]

    def _visit(self, name: str, arguments: Sequence[int] | None, depth: int) -> int:
        """Give every instruction of a computation its meaning; that of the root. `arguments` are the meanings of a fusion's operands."""
        computation = self.module.by_name[name]
        self._seen_through.add(name)
        for i in computation.instructions:
            self.meaning[name, i.name] = self._meaning_of(name, i, arguments, depth)
        return self.meaning.get((name, computation.root), 0)

    def _meaning_of(self, name: str, i: InstructionRecord, arguments: Sequence[int] | None, depth: int) -> int:
        operands = tuple(self.meaning.get((name, o), 0) for o in i.operands)
        if i.opcode is Op.PARAMETER:
            number = int(i.attributes.get("parameter_number", 0))
            if arguments is not None and number < len(arguments):
                return arguments[number]
            return hash((str(i.opcode), number, i.shape.text(layout=False)))
        if i.opcode is Op.FUSION and i.called_computations and depth < _MAX_DEPTH:
            return self._visit(i.called_computations[0], operands, depth + 1)
        if i.opcode is Op.GET_TUPLE_ELEMENT and operands:
            return self._element(name, i, operands[0])
        return hash((_local(i, self._called), operands))

    def _element(self, name: str, i: InstructionRecord, whole: int) -> int:
        """An element of a tuple that a fusion (or a tuple instruction) makes is what that element computes."""
        index = i.attributes.get("index", 0)
        source_in, source = name, self.module.by_name[name].by_name.get(i.operands[0])
        while source is not None and source.opcode is Op.FUSION and source.called_computations:
            source_in = source.called_computations[0]
            inner = self.module.by_name[source_in]
            source = inner.by_name.get(inner.root)
        if source is not None and source.opcode is Op.TUPLE and index < len(source.operands):
            return self.meaning.get((source_in, source.operands[index]), 0)
        return hash(("element", index, whole))

    def _called(self, name: str) -> int:
        """What a called computation (a reducer, a loop's body) computes."""
        if name not in self._computations:
            self._computations[name] = 0  # a recursive call stands for itself
            if name in self.module.by_name:
                self._computations[name] = self._visit(name, None, 1)
        return self._computations[name]


def _local(i: InstructionRecord, called: Callable[[str], int]) -> tuple[Any, ...]:
    """What an instruction is by itself, without names and layouts."""
    attributes = tuple((k, _plain(v, called)) for k, v in sorted(i.attributes.items()))
    return (str(i.opcode), i.shape.text(layout=False), attributes)


def _plain(value: Any, called: Callable[[str], int]) -> Any:
    if isinstance(value, ComputationName):
        return called(value.name)
    if isinstance(value, tuple) and value and isinstance(value[0], ComputationName):
        return tuple(called(v.name) for v in value)
    return str(value)


# -- pairing --------------------------------------------------------------------------------------------------------


@dataclass
class _Pairs:
    left: _Side
    right: _Side
    forward: dict[Key, Key] = field(default_factory=dict)
    backward: dict[Key, Key] = field(default_factory=dict)

    def add(self, a: Key, b: Key) -> bool:
        """Pair two that are free."""
        if a in self.forward or b in self.backward:
            return False
        self.forward[a], self.backward[b] = b, a
        return True

    def by_meaning(self) -> None:
        """What computes the same is the same; of several alike those of equal name first, then in order."""
        self._by(lambda side, key, i: (str(i.opcode), side.meaning.get(key, 0)))

    def by_neighbours(self) -> None:
        """Operands at the same place of matched instructions, and users whose operands are matched, if of one opcode."""
        users = [_users(s) for s in (self.left, self.right)]
        work = list(self.forward.items())
        while work:
            a, b = work.pop()
            x, y = self.left.at(a), self.right.at(b)
            near = [((a[0], p), (b[0], q)) for p, q in zip(x.operands, y.operands, strict=False)]
            near += [
                (u, v)
                for u in users[0].get(a, ())
                for v in users[1].get(b, ())
                if _place(self.left, u, a) == _place(self.right, v, b)
            ]
            for u, v in near:
                if self._fit(u, v) and self.add(u, v):
                    work.append((u, v))

    def _fit(self, u: Key, v: Key) -> bool:
        return u not in self.forward and v not in self.backward and self.left.at(u).opcode is self.right.at(v).opcode

    def by_looks(self) -> None:
        """The rest by opcode, shape and the op it came from; then by name."""
        self._by(lambda _s, _k, i: (str(i.opcode), i.shape.text(layout=False), i.metadata.op_name))
        self._by(lambda _s, k, i: (str(i.opcode), k[0], i.name))

    def _by(self, sort: Callable[[_Side, Key, InstructionRecord], Any]) -> None:
        groups: dict[Any, list[Key]] = defaultdict(list)
        for key, i in self.right.items():
            if key not in self.backward:
                groups[sort(self.right, key, i)].append(key)
        rest: list[tuple[Key, list[Key]]] = []
        for key, i in self.left.items():
            if key in self.forward:
                continue
            free = groups.get(sort(self.left, key, i), [])
            named = (
                next((k for k in free if k[1] == key[1] and k not in self.backward), None) if len(free) < 100 else None
            )
            if named is not None:
                self.add(key, named)
            elif free:
                rest.append((key, free))
        for key, free in rest:
            while free and free[0] in self.backward:
                free.pop(0)
            if free:
                self.add(key, free[0])


def _users(side: _Side) -> Mapping[Key, list[Key]]:
    found: dict[Key, list[Key]] = defaultdict(list)
    for (c, name), i in side.items():
        for o in dict.fromkeys(i.operands):
            found[c, o].append((c, name))
    return found


def _place(side: _Side, user: Key, operand: Key) -> tuple[int, int]:
    i = side.at(user)
    return (i.operands.index(operand[1]), len(i.operands))


def _judged(left: _Side, right: _Side, a: Key, b: Key) -> Match:
    x, y = left.at(a), right.at(b)
    detail = ", ".join(_differences(x, y, left, right))
    if detail:
        return Match("changed", x, y, a[0], b[0], detail)
    if left.meaning.get(a) != right.meaning.get(b) and x.opcode not in _TRANSPARENT:
        return Match("changed", x, y, a[0], b[0], "its operands")
    apart = (a[0] == left.module.entry) != (b[0] == right.module.entry)
    return Match("moved" if apart else "same", x, y, a[0], b[0], f"{a[0]} -> {b[0]}" if apart else "")


def _differences(x: InstructionRecord, y: InstructionRecord, left: _Side, right: _Side) -> Iterator[str]:
    old, new = x.shape.text(layout=False), y.shape.text(layout=False)
    if old != new:
        yield f"shape {old} -> {new}"
    elif x.shape.text() != y.shape.text():
        yield f"layout {x.shape.text()} -> {y.shape.text()}"
    for key in sorted({*x.attributes, *y.attributes}):
        if x.opcode is Op.FUSION and key in ("calls", "kind"):
            continue
        p, q = x.attributes.get(key), y.attributes.get(key)
        if _plain(p, left._called) != _plain(q, right._called):  # noqa: SLF001 - of this module
            yield f"{key} {_short(p)} -> {_short(q)}"


def _short(value: Any) -> str:
    text = value.name if isinstance(value, ComputationName) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


# -- two traces -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceDiff(Displayable):
    """Two compilations side by side: HLO passes aligned by pipeline and name, in order; `final` compares what came out."""

    before: Trace
    after: Trace
    pairs: tuple[tuple[Stage | None, Stage | None], ...]

    @cached_property
    def final(self) -> ModuleDiff:
        """The last modules of both, compared.

        Raises:
            XlanbError: a trace holds no HLO.
        """
        return diff_modules(last_module(self.before), last_module(self.after), (self.before.name, self.after.name))

    @cached_property
    def passes(self) -> pd.DataFrame:
        """One row per aligned pass: its name, whether it is on either side and changed something there, instructions after it."""
        import pandas as pd

        rows = []
        for a, b in self.pairs:
            named = a or b
            row: dict[str, Any] = {
                "pass": named.name if named else "",
                "pipeline": "/".join(named.pipeline) if named else "",
            }
            for side, stage in (("before", a), ("after", b)):
                row[f"changed_{side}"] = None if stage is None else stage.changed
                row[f"instructions_{side}"] = _count(stage)
            rows.append(row)
        return pd.DataFrame(rows).convert_dtypes()

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """What a notebook shows below the summary: the passes that changed something on either side, and what differs in the end."""
        passes = self.passes
        moved = passes["changed_before"].fillna(value=False) | passes["changed_after"].fillna(value=False)
        return (("passes", passes[moved]), ("differences in the end, grouped", self.final.groups))

    def at(self, name: str) -> ModuleDiff:
        """The modules of both after the last pass of this name.

        Raises:
            XlanbError: one of them has no such pass.
        """
        records = []
        for trace in (self.before, self.after):
            record = trace[name].after
            if not isinstance(record, ModuleRecord):
                raise XlanbError(f"stage {name!r} of {trace.name} holds no HLO")
            records.append(record)
        return diff_modules(records[0], records[1], (f"{self.before.name}: {name}", f"{self.after.name}: {name}"))

    def __str__(self) -> str:
        lines = [f"{self.before.name} | {self.after.name}"]
        for a, b in self.pairs:
            if (a is not None and a.changed) or (b is not None and b.changed):
                sides = [("-" if s is None else s.describe().partition(": ")[2] or "changed") for s in (a, b)]
                lines.append(f"  {(a or b).name if a or b else ''}: {sides[0]} | {sides[1]}")  # type: ignore[union-attr]
        return "\n".join([*lines, str(self.final)])

    def __repr__(self) -> str:
        return f"<TraceDiff {self.before.name} | {self.after.name}: {len(self.pairs)} passes>"


def diff_traces(before: Trace, after: Trace) -> TraceDiff:
    """Align the HLO passes of two compilations by pipeline and name."""
    sides = [[s for s in t.stages if s.kind == "hlo_pass"] for t in (before, after)]
    keys = [[s.name for s in side] for side in sides]
    pairs: list[tuple[Stage | None, Stage | None]] = []
    for tag, i, j, k, m in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(sides[0][i:j], sides[1][k:m], strict=True)
        else:
            pairs += [(s, None) for s in sides[0][i:j]]
            pairs += [(None, s) for s in sides[1][k:m]]
    return TraceDiff(before, after, tuple(pairs))


def last_module(trace: Trace) -> ModuleRecord:
    """The HLO at the end of a compilation.

    Raises:
        XlanbError: the trace holds none.
    """
    for stage in reversed(trace.stages):
        if stage.kind in ("hlo", "hlo_pass", "schedule", "tf2xla") and isinstance(stage.after, ModuleRecord):
            return stage.after
    raise XlanbError(f"trace {trace.name} holds no HLO")


def _count(stage: Stage | None) -> int | None:
    return stage.after.instruction_count if stage is not None and isinstance(stage.after, ModuleRecord) else None
