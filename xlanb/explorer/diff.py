"""Compare two modules, or two compilations, by structure, independent of names.

An instruction is identified by what it computes: its opcode, shape and attributes, and what its
operands compute. Fusions are looked through, so that a fused instruction is the same instruction in
another place. Once matched (see matching.py), an instruction is the same if its operands match: a
difference is reported where it is, not in everything after it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.explorer.matching import Key, ModuleSide, Pairs, plain
from xlanb.explorer.stage import Stage
from xlanb.frames import framed
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.records import ComputationName, InstructionRecord, ModuleRecord
from xlanb.hlo.text.literal_text import literal_text
from xlanb.shape import Literal

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.explorer.trace import Trace

_MARKS = {"same": "=", "moved": ">", "changed": "~", "removed": "-", "added": "+"}
KINDS = tuple(_MARKS)
_SEEN_THROUGH = frozenset({Op.FUSION, Op.GET_TUPLE_ELEMENT})
_SHOWN = 40
_LINE = 160
_REPEATED = 4  # from this count on, equal differences are reported as one
_NAMED = 4
_DETAILS = re.compile(r", (?:metadata|backend_config|frontend_attributes|origin)=.*$", re.DOTALL)


@dataclass(frozen=True)
class Match:
    """One instruction on both sides, or on one only (`before` or `after` is None).

    `kind` is "same", "moved" (to another computation: fused, outlined), "changed" (`detail` says in
    what), "removed" or "added" (`detail` says what it fuses, or which instruction of the other side
    computes the same).
    `pattern` is the detail without names, equal for equal differences of other instructions.
    """

    kind: str
    before: InstructionRecord | None
    after: InstructionRecord | None
    computation_before: str = ""
    computation_after: str = ""
    detail: str = ""
    pattern: str = ""

    @property
    def opcode(self) -> str:
        """The opcode."""
        record = self.before if self.before is not None else self.after
        return str(record.opcode) if record is not None else ""

    def __str__(self) -> str:
        mark = _MARKS[self.kind]
        if self.before is None or self.after is None:
            text = _DETAILS.sub("", str(self.before or self.after))
            return f"{mark} {text if len(text) <= _LINE else text[:_LINE] + ' ...'}" + (
                f"  ({self.detail})" if self.detail else ""
            )
        return f"{mark} {self.before.name} -> {self.after.name} ({self.opcode}): {self.detail}"


@dataclass(frozen=True)
class ModuleDiff(Displayable):
    """The matched instructions of two modules.

    `counts` has the number of each kind, and `groups` groups equal differences.
    """

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
        """Whether both compute the same by the same instructions, in whatever place."""
        return not (self.counts["changed"] or self.counts["removed"] or self.counts["added"])

    @cached_property
    def _alike(self) -> dict[tuple[str, str, str], list[Match]]:
        """Differences by kind, opcode and detail without names, in order."""
        found: dict[tuple[str, str, str], list[Match]] = defaultdict(list)
        for m in self.matches:
            if m.kind != "same":
                found[m.kind, m.opcode, m.pattern or m.detail].append(m)
        return found

    @property
    def groups(self) -> pd.DataFrame:
        """One row per kind, opcode and detail of differences, most frequent first.

        Each has an example from either side.
        """
        rows = [
            {
                "kind": kind,
                "opcode": opcode,
                "detail": detail,
                "count": len(ms),
                "before": ms[0].before.name if ms[0].before else None,
                "after": ms[0].after.name if ms[0].after else None,
            }
            for (kind, opcode, detail), ms in sorted(self._alike.items(), key=lambda g: (-len(g[1]), g[0]))
        ]
        return framed(rows, columns=["kind", "opcode", "detail", "count", "before", "after"])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks, below the summary."""
        return () if self.is_equal else (("differences, grouped", self.groups),)

    @property
    def text(self) -> str:
        """The unified diff of the canonical texts, line by line."""
        sides = (str(self.before).splitlines(), str(self.after).splitlines())
        return "\n".join(unified_diff(*sides, *self.names, lineterm=""))

    def of(self, name: str) -> list[Match]:
        """Return the matches with an instruction of this name on either side."""
        return [m for m in self.matches if name in {r.name for r in (m.before, m.after) if r is not None}]

    def __str__(self) -> str:
        if self.is_equal:
            return self._equality()
        counts = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n)
        lines = [f"{self.names[0]} -> {self.names[1]}: {counts or 'nothing on either side'}"]
        described = [line for (kind, _, __), ms in self._alike.items() if kind != "moved" for line in _described(ms)]
        lines += [f"  {line}" for line in described[:_SHOWN]]
        if len(described) > _SHOWN:
            lines.append(f"  ... {len(described) - _SHOWN} more; see .groups")
        return "\n".join(lines)

    def _equality(self) -> str:
        """Return one line about equal modules."""
        count, moved = len(self.matches), self.counts["moved"]
        elsewhere = f", {moved} of them in another computation" if moved else ""
        return f"{self.names[0]} and {self.names[1]} are equal: {count:,} instruction{'s' * (count != 1)}{elsewhere}"

    def __repr__(self) -> str:
        return f"<ModuleDiff {self.names[0]} -> {self.names[1]}: {self.counts}>"


def _described(alike: list[Match]) -> list[str]:
    """Describe differences with one pattern, one per line, or together if there are many."""
    if len(alike) < _REPEATED:
        return [str(m) for m in alike]
    first = alike[0]
    names = [(m.after if m.after is not None else m.before).name for m in alike]  # type: ignore[union-attr]
    more = f", ... {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    what = f": {first.pattern or first.detail}" if first.detail else ""
    return [f"{_MARKS[first.kind]} {len(alike)} x {first.opcode}{what}  ({', '.join(names[:_NAMED])}{more})"]


@boundary("compare modules")
def diff_modules(before: ModuleRecord, after: ModuleRecord, names: tuple[str, str] = ("before", "after")) -> ModuleDiff:
    """Match the instructions of two modules, and classify each."""
    pairs = Pairs(ModuleSide(before), ModuleSide(after))
    pairs.find()
    return ModuleDiff(before, after, tuple(_Judge(pairs).matches()), names)


# -- classifying pairs -----------------------------------------------------------------------------


class _Judge:
    """Classifies each instruction once all are paired."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.left, self.right = pairs.left, pairs.right
        self.alike = [
            {(i.opcode, side.meaning.get(k, 0)): i.name for k, i in side.items()} for side in (self.left, self.right)
        ]

    def matches(self) -> list[Match]:
        """Return every instruction of both sides, ordered by kind."""
        forward, backward = self.pairs.forward, self.pairs.backward
        found = [self._pair(k, forward[k]) for k, _ in self.left.items() if k in forward]
        found += [self._alone("removed", self.left, k, i) for k, i in self.left.items() if k not in forward]
        found += [self._alone("added", self.right, k, i) for k, i in self.right.items() if k not in backward]
        found.sort(key=lambda m: KINDS.index(m.kind))
        return found

    def _pair(self, a: Key, b: Key) -> Match:
        x, y = self.left.at(a), self.right.at(b)
        differences = list(self._differences(a, b, x, y))
        if differences:
            detail, group = (", ".join(words) for words in zip(*differences, strict=True))
            return Match("changed", x, y, a[0], b[0], detail, group)
        apart = (a[0] == self.left.module.entry) != (b[0] == self.right.module.entry)
        return Match("moved" if apart else "same", x, y, a[0], b[0], f"{a[0]} -> {b[0]}" if apart else "")

    def _differences(self, a: Key, b: Key, x: InstructionRecord, y: InstructionRecord) -> Iterator[tuple[str, str]]:
        """Return each difference in words, and its words without names."""
        old, new = x.shape.text(layout=False), y.shape.text(layout=False)
        if old != new:
            yield (f"shape {old} -> {new}",) * 2
        elif x.shape.text() != y.shape.text():
            yield (f"layout {x.shape.text()} -> {y.shape.text()}",) * 2
        for key in sorted({*x.attributes, *y.attributes}):
            if x.opcode is Op.FUSION and key in ("calls", "kind"):
                continue
            p, q = x.attributes.get(key), y.attributes.get(key)
            if plain(p, self.left.called) != plain(q, self.right.called):
                yield (f"{key} {_short(p)} -> {_short(q)}",) * 2
        if x.opcode not in _SEEN_THROUGH:
            yield from self._operands(a, b, x, y)
        if x.is_root != y.is_root and a[0] == self.left.module.entry and b[0] == self.right.module.entry:
            yield ("is the result" if y.is_root else "is no longer the result",) * 2

    def _operands(self, a: Key, b: Key, x: InstructionRecord, y: InstructionRecord) -> Iterator[tuple[str, str]]:
        if len(x.operands) != len(y.operands):
            yield (f"{len(x.operands)} -> {len(y.operands)} operands",) * 2
            return
        for k, (o, p) in enumerate(zip(x.operands, y.operands, strict=True)):
            u, v = (a[0], o), (b[0], p)
            if self.left.meaning.get(u) == self.right.meaning.get(v):
                continue
            u, v = self.left.source(u), self.right.source(v)
            if self.pairs.forward.get(u) != v:
                opcodes = f"{self.left.at(u).opcode} -> {self.right.at(v).opcode}"
                yield f"operand {k} {u[1]} -> {v[1]}", f"operand {k} {opcodes}"

    def _alone(self, kind: str, side: ModuleSide, key: Key, i: InstructionRecord) -> Match:
        """Describe an instruction on one side only.

        Says what it fuses, or which instruction of the other side already computes the same.
        """
        detail = pattern = ""
        if i.opcode is Op.FUSION and i.called_computations and i.called_computations[0] in side.module.by_name:
            inner = side.module.by_name[i.called_computations[0]].instructions
            counts = Counter(str(f.opcode) for f in inner if f.opcode is not Op.PARAMETER)
            detail = pattern = "fuses " + ", ".join(f"{n} {o}" if n > 1 else o for o, n in counts.items())
        elif i.operands and (twin := self.alike[side is self.left].get((i.opcode, side.meaning.get(key, 0)))):
            words = "as a duplicate of {}" if side is self.left else "another copy of {}"
            detail, pattern = words.format(twin), words.format("one")
        if side is self.left:
            return Match(kind, i, None, key[0], "", detail, pattern)
        return Match(kind, None, i, "", key[0], detail, pattern)


def _short(value: Any) -> str:
    text = str(value)
    if isinstance(value, Literal):
        text = literal_text(value)
    elif isinstance(value, ComputationName):
        text = value.name
    return text if len(text) <= 40 else text[:37] + "..."


# -- two traces ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceDiff(Displayable):
    """Two compilations, with HLO passes aligned by pipeline and name, in order.

    `final` compares the results.
    """

    before: Trace
    after: Trace
    pairs: tuple[tuple[Stage | None, Stage | None], ...]

    @cached_property
    def final(self) -> ModuleDiff:
        """The comparison of both last modules.

        Raises:
            XlanbError: a trace holds no HLO.
        """
        return diff_modules(last_module(self.before), last_module(self.after), (self.before.name, self.after.name))

    @cached_property
    def passes(self) -> pd.DataFrame:
        """One row per aligned pass.

        Columns: name, and for each side whether the pass changed something (missing if absent) and
        instructions after it.
        """
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
        return framed(rows).convert_dtypes()

    @cached_property
    def is_equal(self) -> bool:
        """Whether the same passes ran with the same effect, and left equal modules."""
        alike = all(
            a is not None and b is not None and a.changed == b.changed and a.describe() == b.describe()
            for a, b in self.pairs
        )
        return alike and self.final.is_equal

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks (changing passes, final differences); none if equal."""
        if self.is_equal:
            return ()
        passes = self.passes
        changed = passes["changed_before"].fillna(value=False) | passes["changed_after"].fillna(value=False)
        return (("passes", passes[changed]), ("differences in the end, grouped", self.final.groups))

    def at(self, name: str) -> ModuleDiff:
        """Return both modules after the last pass of this name.

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
        if self.is_equal:
            count = len(self.pairs)
            return (
                f"{self.before.name} and {self.after.name} are equal: {count} "
                f"pass{'es' * (count != 1)} made the same changes"
            )
        lines = [f"{self.before.name} | {self.after.name}"]
        for a, b in self.pairs:
            if (a is not None and a.changed) or (b is not None and b.changed):
                sides = [("-" if s is None else s.describe().partition(": ")[2] or "changed") for s in (a, b)]
                lines.append(f"  {(a or b).name if a or b else ''}: {sides[0]} | {sides[1]}")  # type: ignore[union-attr]
        return "\n".join([*lines, str(self.final)])

    def __repr__(self) -> str:
        return f"<TraceDiff {self.before.name} | {self.after.name}: {len(self.pairs)} passes>"


@boundary("compare traces")
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
    """Return the HLO at the end of a compilation.

    Raises:
        XlanbError: the trace holds none.
    """
    for stage in reversed(trace.stages):
        if stage.kind in ("hlo", "hlo_pass", "schedule", "tf2xla") and isinstance(stage.after, ModuleRecord):
            return stage.after
    raise XlanbError(f"trace {trace.name} holds no HLO")


def _count(stage: Stage | None) -> int | None:
    return stage.after.instruction_count if stage is not None and isinstance(stage.after, ModuleRecord) else None
