"""The schedule of a TPU program.

Lists HLO instructions in execution order with the cost of their code, and what runs concurrently
(copies, collectives).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from xlanb.analysis.cost import Cost, cost
from xlanb.display import Displayable
from xlanb.dump.tpu.chips import CHIPS, TpuChip
from xlanb.dump.tpu.layouts import space_name
from xlanb.dump.tpu.roofline import Roofline, roofline_of
from xlanb.dump.tpu.traffic import HbmTraffic
from xlanb.dump.tpu.utilization import matrix_share
from xlanb.errors import DumpError
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape, Shape
from xlanb.stage import size_text
from xlanb.wording import counted

if TYPE_CHECKING:
    import pandas as pd

_QUIET: Final = frozenset(
    (HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT, HloOpcode.BITCAST)
)
_RUNS_OTHERS: Final = frozenset((HloOpcode.WHILE, HloOpcode.CONDITIONAL, HloOpcode.CALL))
MAX_INSTRUCTIONS: Final = 500_000
"""The most instructions of a schedule, counting called bodies once per call."""

_STARTS: Final = "-start"
_DONES: Final = "-done"
_DEEPEST: Final = 50

COLLECTIVES: Final = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
    "reduce-scatter",
    "send",
    "recv",
)


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """Facts about the program of an HLO instruction.

    It has bundles, empty bundles, and the used share of each unit's capacity, 0 to 1.
    """

    bundles: int
    empty: int
    shares: Mapping[str, float]


_NO_CODE: Final = CodeFacts(0, 0, {})


@dataclass(frozen=True, slots=True)
class ScheduledInstruction:
    """One instruction of the schedule.

    Attributes:
        depth: the number of enclosing loops.
        program: the LLO program that computes it, "" if none.
        bundles: the bundles of its program, each counted once, loops too.
        call_bundles: its bundles in the top level program.
        flops: by XLA's cost analysis.
        hbm_bytes: bytes of its operands and results in HBM; of a slice, what it reads.
        scoped_vmem: the VMEM that its program uses while it runs.
    """

    position: int
    name: str
    opcode: str
    shape: str
    depth: int
    program: str = ""
    bundles: int = 0
    call_bundles: float = 0.0
    empty: int = 0
    shares: tuple[tuple[str, float], ...] = ()
    flops: float = 0.0
    hbm_bytes: int = 0
    scoped_vmem: int = 0

    @property
    def is_collective(self) -> bool:
        """Whether other devices take part."""
        return self.opcode.startswith(COLLECTIVES)

    @property
    def busiest(self) -> tuple[str, float]:
        """The unit that its program uses most, and the share of its capacity."""
        return max(self.shares, key=lambda s: s[1], default=("", 0.0))


@dataclass(frozen=True, slots=True)
class AsyncSpan:
    """An asynchronous copy or collective.

    It runs from position `start` (instruction `name`) until `done` waits for it at `end`. It moves
    `size` bytes from memory space `source` to `target`; `bundles` are those of the programs in
    between.
    """

    name: str
    done: str
    kind: str
    start: int
    end: int
    size: int
    source: str
    target: str
    bundles: int

    @property
    def is_collective(self) -> bool:
        """Whether other devices take part."""
        return self.kind.startswith(COLLECTIVES)

    def __str__(self) -> str:
        moved = f"{counted(self.size, 'byte')} {self.source} -> {self.target}"
        overlapped = counted(self.bundles, "bundle")
        return f"{self.name} ({self.kind}): {moved}, {self.start} to {self.end}, overlaps {overlapped}"


@dataclass(frozen=True, repr=False)
class TpuScheduleRecord(Displayable):
    """The whole schedule; loop bodies come before their loop, as XLA flattens them.

    `cost_analysis` is XLA's own, empty if unknown.
    """

    module: str
    instructions: tuple[ScheduledInstruction, ...]
    spans: tuple[AsyncSpan, ...]
    chip: TpuChip | None = None
    cost_analysis: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def bundles(self) -> int:
        """Bundles of all called programs, counted per occurrence in the schedule, loops once."""
        return sum(i.bundles for i in self.instructions)

    @cached_property
    def mxu_share(self) -> float:
        """Share of the matrix units' capacity that all bundles use, 0 to 1."""
        used = sum(i.bundles * matrix_share(dict(i.shares)) for i in self.instructions)
        return used / self.bundles if self.bundles else 0.0

    def roofline(self, cost_analysis: Mapping[str, float] | None = None) -> Roofline:
        """Return the minimum times of the program on its chip, loops once.

        `cost_analysis` is XLA's, by default the recorded one.

        Raises:
            DumpError: the dump does not say which chip it is for.
        """
        if self.chip is None:
            raise DumpError(
                f"the target chip of {self.module} is unknown: its dump has no target_arguments.txt, "
                f"or names none of {', '.join(CHIPS)}"
            )
        rows = self.instructions
        analysis = self.cost_analysis if cost_analysis is None else cost_analysis
        bundles = sum(i.bundles + i.call_bundles for i in rows)
        traffic = sum(i.hbm_bytes for i in rows) + sum(s.size for s in self.spans if "HBM" in (s.source, s.target))
        return roofline_of(self.chip, bundles, self.mxu_share, sum(i.flops for i in rows), traffic, analysis)

    def seconds(self, bundles: float) -> float | None:
        """Return the time of a number of bundles, None if the chip is unknown."""
        return self.chip.seconds(bundles) if self.chip is not None else None

    def frame(self) -> pd.DataFrame:
        """Return one row per instruction that takes time.

        Columns: bundles, empty ones, static seconds, the busiest unit, use of the matrix units.
        """
        import pandas as pd

        rows = [
            {
                "position": i.position,
                "instruction": i.name,
                "opcode": i.opcode,
                "depth": i.depth,
                "program": i.program,
                "bundles": i.bundles,
                "empty": i.empty,
                "call_bundles": i.call_bundles,
                "seconds": self.seconds(i.bundles + i.call_bundles),
                "busiest": i.busiest[0],
                "busiest_share": i.busiest[1],
                "mxu_share": matrix_share(dict(i.shares)),
                "flops": i.flops,
                "hbm_bytes": i.hbm_bytes,
                "scoped_vmem": i.scoped_vmem,
                "limit_seconds": self.chip.roofline(i.flops, i.hbm_bytes)[0] if self.chip is not None else None,
                "shape": i.shape,
            }
            for i in self.instructions
            if i.bundles or i.call_bundles
        ]
        return pd.DataFrame(rows)

    def span_frame(self) -> pd.DataFrame:
        """Return one row per asynchronous copy or collective."""
        import pandas as pd

        names = ["name", "kind", "start", "end", "size", "source", "target", "bundles"]
        return pd.DataFrame([{n: getattr(s, n) for n in names} for s in self.spans], columns=names)

    def __str__(self) -> str:
        lines = [
            f"schedule of {self.module}: {counted(len(self.instructions), 'instruction')}, "
            f"{counted(self.bundles, 'bundle')}, loops counted once"
        ]
        for i in self.instructions:
            if i.bundles or i.call_bundles:
                unit, share = i.busiest
                used = f", {unit} {100 * share:.0f}%" if unit and share else ""
                own = counted(i.bundles, "bundle") if i.bundles else f"{i.call_bundles:g} bundles of the top level"
                lines.append(f"{i.position:5} {'  ' * i.depth}{i.name}: {own}{used}")
        return "\n".join([*lines, *(f"  {s}" for s in self.spans)])

    def __repr__(self) -> str:
        return f"<TpuScheduleRecord {self.module}: {size_text(self)}>"


@size_text.register
def _schedule_size(record: TpuScheduleRecord) -> str:
    moved = len(record.spans)
    also = f", {moved} asynchronous cop{'ies' if moved != 1 else 'y'} and collectives" if moved else ""
    running = counted(sum(bool(i.bundles) for i in record.instructions), "instruction")
    return f"{counted(record.bundles, 'bundle')} of {running}{also}"


def schedule_of(
    live: HloModule,
    facts: Mapping[str, CodeFacts],
    programs: Mapping[str, str],
    calls: Mapping[str, float],
    chip: TpuChip | None = None,
    scoped: Mapping[str, int] | None = None,
) -> TpuScheduleRecord:
    """Return the schedule of a module whose computations are in execution order (is_scheduled).

    Args:
        live: the module.
        facts: by program.
        programs: an instruction's program, if it is not its own.
        calls: bundles of the top level program, by instruction.
        chip: the chip, if known.
        scoped: scoped VMEM in bytes, by instruction.

    Raises:
        DumpError: it is longer than MAX_INSTRUCTIONS.
    """
    module = live.record()
    ordered = list(islice(_flattened(module, module.entry_computation, 0), MAX_INSTRUCTIONS + 1))
    if len(ordered) > MAX_INSTRUCTIONS:
        raise DumpError(f"the schedule of {module.name} exceeds the limit of {MAX_INSTRUCTIONS:,} instructions")
    inner = {name for i, _ in ordered for name in (i.called_computations if i.opcode is HloOpcode.FUSION else ())}
    costs = {i.name: cost(i) for c in live.computations if c.name not in inner for i in c.instructions}
    traffic = HbmTraffic(module)
    rows = []
    for position, (instruction, depth) in enumerate(ordered):
        name = instruction.name
        program = programs.get(name, name)
        code = facts.get(program, _NO_CODE)
        own = costs.get(name, Cost())
        rows.append(
            ScheduledInstruction(
                position,
                name,
                _kind(instruction, module),
                str(instruction.shape),
                depth,
                program=program if program in facts else "",
                bundles=code.bundles,
                call_bundles=calls.get(name, 0.0),
                empty=code.empty,
                shares=tuple(code.shares.items()),
                flops=0.0 if instruction.opcode in _RUNS_OTHERS else own.flops,
                hbm_bytes=traffic.bytes_of(instruction) if program in facts else 0,
                scoped_vmem=scoped.get(program, 0) if scoped is not None else 0,
            )
        )
    return TpuScheduleRecord(module.name, tuple(rows), tuple(_spans(ordered, rows, traffic.shapes)), chip)


def _flattened(
    module: ModuleRecord, computation: ComputationRecord, depth: int
) -> Iterator[tuple[InstructionRecord, int]]:
    """Yield instructions in execution order.

    Bodies of loops and branches come before the instruction that runs them.
    """
    for instruction in computation.instructions:
        if instruction.opcode in _RUNS_OTHERS and depth < _DEEPEST:
            inner = depth + (instruction.opcode is HloOpcode.WHILE)
            for called in instruction.called_computations:
                if called in module.by_name:
                    yield from _flattened(module, module.by_name[called], inner)
        if instruction.opcode not in _QUIET:
            yield instruction, depth


def _kind(instruction: InstructionRecord, module: ModuleRecord) -> str:
    """Return the opcode; for an asynchronous one, what it wraps: "slice-start"."""
    opcode = str(instruction.opcode)
    if opcode not in ("async-start", "async-update", "async-done"):
        return opcode
    called = [module.by_name[c] for c in instruction.called_computations if c in module.by_name]
    wrapped = called[0].by_name.get(called[0].root) if called else None
    return f"{wrapped.opcode}{opcode.removeprefix('async')}" if wrapped is not None else opcode


def _spans(
    ordered: list[tuple[InstructionRecord, int]], rows: list[ScheduledInstruction], shapes: Mapping[str, Shape]
) -> Iterator[AsyncSpan]:
    at = {i.name: k for k, (i, _) in enumerate(ordered)}
    total = [0]
    for row in rows:
        total.append(total[-1] + row.bundles)
    for end, (done, _) in enumerate(ordered):
        start = at.get(done.operands[0], end) if str(done.opcode).endswith(_DONES) and done.operands else end
        if start >= end or not rows[start].opcode.endswith(_STARTS):
            continue
        begun = ordered[start][0]
        source = shapes.get(begun.operands[0]) if begun.operands else None
        kind = rows[start].opcode.removesuffix(_STARTS)
        between = total[end] - total[start + 1]
        yield AsyncSpan(
            begun.name, done.name, kind, start, end, done.shape.byte_size, _space(source), _space(done.shape), between
        )


def _space(shape: Shape | None) -> str:
    """Return the memory space of the first array."""
    leaf = next((s for _, s in shape.leaves()), None) if shape is not None else None
    return space_name(leaf.layout) if isinstance(leaf, ArrayShape) else ""
