"""Annotate a cell's lines with their cost and with what they became: HLO, LLVM IR and assembly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlanb.cpu.profile import kernel_times
from xlanb.cpu.records import CodeRecord, KernelTime
from xlanb.errors import XlanbError
from xlanb.explorer.lineage import Provenance
from xlanb.explorer.running import inputs_for
from xlanb.explorer.trace import Trace
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape

_DEFINITION = re.compile(r"\s*(?:ROOT\s+)?%?([\w.-]+)\s*=")
_RUNS = 10
_MOST_LINES = 400
_FREE = frozenset((HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT))


@dataclass(frozen=True)
class SourceLine:
    """A line of the source.

    It has the seconds in one run, their share of the whole, and the lines that it became: final
    HLO, optimized LLVM IR, assembly.
    """

    number: int
    text: str
    seconds: float = 0.0
    share: float = 0.0
    hlo: tuple[str, ...] = ()
    llvm: tuple[str, ...] = ()
    assembly: tuple[str, ...] = ()


@dataclass(frozen=True)
class Annotation:
    """A source with its lines' costs; `elsewhere` is the share that came from no line of it."""

    title: str
    lines: tuple[SourceLine, ...]
    seconds: float
    elsewhere: float

    def __str__(self) -> str:
        head = (
            f"{self.title or 'HLO'}: {self.seconds * 1e6:.3g} us in kernels, "
            f"{self.elsewhere:.0%} of it from outside the module"
        )
        rows = [
            f"{f'{s.share:.0%}' if s.hlo else '':>5} {s.number:>4}  {s.text}"
            for s in self.lines
            if s.text or s.number > 1
        ]
        return "\n".join([head, *rows])


def annotate(traces: Sequence[Trace], source: str, title: str) -> Annotation:
    """Return the cost of each line of a source, over all programs compiled from it.

    The programs run on their last inputs. `title` is the lines' file name in the metadata, or "" if
    the source is HLO text itself. A kernel's time is distributed over its instructions by their
    elements.

    Raises:
        XlanbError: no trace has a program.
    """
    programs = [t for t in traces if t.program is not None]
    if not programs:
        raise XlanbError("nothing to annotate: no compilation of this cell was completed (-F recompiles)")
    defined = {} if title else _definitions(source)
    costs: defaultdict[int, float] = defaultdict(float)
    became: defaultdict[int, list[list[str]]] = defaultdict(lambda: [[], [], []])
    for trace in programs:
        _Program(trace, title, defined).add_to(costs, became)
    total = sum(costs.values())
    lines = [
        SourceLine(
            number,
            text,
            costs.get(number, 0.0),
            costs.get(number, 0.0) / total if total else 0.0,
            *(tuple(dict.fromkeys(part))[:_MOST_LINES] for part in became.get(number, ((), (), ()))),
        )
        for number, text in enumerate(source.splitlines(), 1)
    ]
    return Annotation(title, tuple(lines), total, costs.get(0, 0.0) / total if total else 0.0)


def _definitions(source: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(source.splitlines(), 1):
        name = _DEFINITION.match(line)
        if name:
            found.setdefault(name[1], number)
    return found


class _Program:
    """One compiled program: where its final instructions come from."""

    def __init__(self, trace: Trace, title: str, defined: Mapping[str, int]) -> None:
        self.trace, self.title, self.defined = trace, title, defined
        self.module = next(s.after for s in reversed(trace.stages) if isinstance(s.after, ModuleRecord))
        self.by_name = {i.name: i for c in self.module.computations for i in c.instructions}
        self._provenance = Provenance(trace.stages)
        self._known: dict[str, int] = {}

    def line_of(self, i: InstructionRecord) -> int:
        """Return the source line that an instruction comes from, 0 if none of this source."""
        if i.name not in self._known:
            self._known[i.name] = self._line_of(i)
        return self._known[i.name]

    def _line_of(self, i: InstructionRecord) -> int:
        file, line = i.metadata.python_line
        if self.title and file == self.title:
            return line
        try:
            sources = self._provenance.lineage(i.name).sources
        except XlanbError:
            return 0
        for name in sources:
            first = self._provenance.first[name]
            if not self.title and name in self.defined:
                return self.defined[name]
            file, line = first.metadata.python_line
            if self.title and file == self.title:
                return line
        return 0

    def add_to(self, costs: defaultdict[int, float], became: defaultdict[int, list[list[str]]]) -> None:
        """Add this program's costs to each line."""
        program = self.trace.program
        if program is None:
            return
        times, _ = kernel_times(program, inputs_for(self.trace), _RUNS)
        for k in times:
            self._spread(k, costs)
        for i in self.by_name.values():
            line = self.line_of(i)
            if line and i.opcode is not HloOpcode.PARAMETER:
                became[line][0].append(i.text)
        for part, kind in ((1, "llvm_ir_optimized"), (2, "assembly")):
            record = next((s.after for s in reversed(self.trace.stages) if s.kind == kind), None)
            if isinstance(record, CodeRecord):
                self._code(record, part, became)

    def _spread(self, k: KernelTime, costs: defaultdict[int, float]) -> None:
        inside = [i for i in self._parts(self.by_name.get(k.instruction)) if i.opcode not in _FREE]
        weights = [(self.line_of(i), _elements(i)) for i in inside] or [(0, 1)]
        known = [(line, w) for line, w in weights if line] or weights
        whole = sum(w for _, w in known) or 1
        for line, weight in known:
            costs[line] += k.seconds * weight / whole

    def _parts(self, i: InstructionRecord | None) -> list[InstructionRecord]:
        if i is None:
            return []
        if i.opcode is not HloOpcode.FUSION:
            return [i]
        return [j for name in i.called_computations for j in self.module.by_name[name].instructions]

    def _code(self, record: CodeRecord, part: int, became: defaultdict[int, list[list[str]]]) -> None:
        texts = record.text.splitlines()
        for number, name in record.lines.items():
            i = self.by_name.get(name)
            line = self.line_of(i) if i is not None else 0
            if line and number <= len(texts):
                became[line][part].append(texts[number - 1].strip())


def _elements(i: InstructionRecord) -> int:
    return sum(s.element_count for _, s in i.shape.leaves() if isinstance(s, ArrayShape)) or 1
