"""List the collectives of a partitioned program: mesh axes, bytes and estimated time.

A plan is read from a module alone, so that dumps of the real XLA have one too. Meshes and reasons
come from the source module and from the notes of passes, if they are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from xlanb.analysis.cost import cost, known_trip_count
from xlanb.display import Displayable, Plottable
from xlanb.errors import XlanbError, nearest
from xlanb.frames import framed
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.device_groups import DeviceGrid, device_grid, device_groups, device_pairs
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.python_lines import place_text
from xlanb.hlo.records import ModuleRecord
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import size_text
from xlanb.spmd.costs import Interconnect, bytes_moved, interconnect, seconds, seconds_text
from xlanb.spmd.device_axes import axes_of_groups, axes_of_pairs, axes_text
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.module_meshes import meshes_of
from xlanb.spmd.partitioner.causes import Causes, CollectiveCause
from xlanb.spmd.sdy import AxisRef
from xlanb.spmd.shardy.export import SOURCE_NAMES

if TYPE_CHECKING:
    import pandas as pd

O = HloOpcode  # noqa: E741 - as everywhere
KINDS: Final = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
_PAIRS: Final = "collective-permute"
COMBINED: Final = "combined channels"
"""The module note of combined channels: {channel that is left: all of them}."""


@dataclass(frozen=True)
class PartitionedProgram:
    """A partitioned program: the `module` for one device and, if known, the `source` module."""

    module: HloModule
    source: HloModule | None = None

    @staticmethod
    def of(x: Any) -> PartitionedProgram:
        """Return the program of an executable, a module, a record, a compilation, or a trace.

        A compilation is finished first.

        Raises:
            XlanbError: it holds no module.
        """
        if isinstance(x, HloModule):
            return PartitionedProgram(x)
        if isinstance(x, ModuleRecord):
            return PartitionedProgram(HloModule.from_record(x))
        if isinstance(getattr(x, "hlo_module", None), HloModule):
            source = getattr(x, "source_module", None)
            return PartitionedProgram(x.hlo_module, source if isinstance(source, HloModule) else None)
        if callable(getattr(x, "finish", None)):
            return PartitionedProgram.of(x.finish())
        records = [s.after for s in getattr(x, "stages", ()) if isinstance(getattr(s, "after", None), ModuleRecord)]
        if not records:
            raise XlanbError(f"{type(x).__name__} contains no HLO module")
        return PartitionedProgram(HloModule.from_record(records[-1]), HloModule.from_record(records[0]))

    @cached_property
    def meshes(self) -> Mapping[str, Mesh]:
        """The meshes that the source names, or that the module still names."""
        found: dict[str, Mesh] = {}
        for module in (self.module, self.source):
            found |= meshes_of(module) if module is not None else {}
        return found

    @cached_property
    def flops(self) -> int | float:
        """Floating-point operations per device and run."""
        return cost(self.module).flops

    @property
    def argument_bytes(self) -> int:
        """Bytes of arguments that each device holds."""
        return sum(p.shape.byte_size for p in self.module.entry_computation.parameters)

    @cached_property
    def grid(self) -> DeviceGrid:
        """The replicas and partitions that it runs on."""
        return device_grid(self.module)

    @cached_property
    def mesh(self) -> Mesh | None:
        """The first mesh with as many devices as the program, or None if no mesh is known."""
        fitting = (m for m in self.meshes.values() if m.axes and m.num_devices == self.grid.count)
        return next(fitting, None)

    def value_name(self, name: str) -> str:
        """Return an instruction's name before shardy-xla rewrote the program.

        Propagation events refer to that name.
        """
        renamed: Mapping[str, str] = self.module.notes.get(SOURCE_NAMES, {})
        return renamed.get(name, name)

    def in_source(self, name: str, opcode: str = "") -> HloInstruction | None:
        """Find a source instruction by its name, or by its name before renaming.

        For an inlined instruction, return the only one with the same name stem and opcode, or None.
        """
        if self.source is None or not name:
            return None
        known = self.value_name(name)
        found = self.source.find(known)
        if found is not None and (known != name or opcode in ("", found.opcode.text)):
            return found
        alike = [i for i in self.source.instructions() if _stem(i.name) == _stem(known) and i.opcode.text == opcode]
        return alike[0] if len(alike) == 1 else None

    @property
    def is_ours(self) -> bool:
        """Whether this partitioner made it; a collective without cause is then the program's."""
        return "causes" in self.module.notes

    @cached_property
    def causes(self) -> Mapping[int, CollectiveCause]:
        """The causes that the partitioner recorded, by channel."""
        found = self.module.notes.get("causes")
        return found.by_channel if isinstance(found, Causes) else {}

    def causes_of(self, channel: int | None) -> tuple[CollectiveCause, ...]:
        """Return a channel's causes: several if collectives were combined."""
        combined: Mapping[int, Sequence[int]] = self.module.notes.get(COMBINED, {})
        channels = combined.get(channel, (channel,)) if channel is not None else ()
        return tuple(self.causes[c] for c in channels if c in self.causes)


@dataclass(frozen=True)
class Collective:
    """A collective of a program for one device.

    Attributes:
        bytes: what each device sends per execution.
        seconds: the estimated time of one execution.
        executions: executions per run; a loop with an unknown trip count counts once.
        axes: the mesh axes it communicates along; None if no mesh is known, or if the groups form
            no grid of its axes.
        members: the size of the largest group.
    """

    name: str
    kind: str
    channel_id: int | None
    shape: str
    groups: str
    members: int
    axes: tuple[AxisRef, ...] | None
    bytes: int
    seconds: float
    executions: int
    op_name: str
    python_line: tuple[str, int]
    causes: tuple[CollectiveCause, ...]

    @property
    def along(self) -> str:
        """The axes, or else the groups."""
        return axes_text(self.axes) if self.axes is not None else self.groups

    @property
    def place(self) -> str:
        """The Python line that it comes from, else the op_name, else the source instruction."""
        for cause in self.causes:
            if cause.python_line[1]:
                return place_text(*cause.python_line)
        first = self.causes[0] if self.causes else None
        return place_text(*self.python_line) or (first.op_name if first else "") or self.op_name

    @property
    def reason(self) -> str:
        """The instructions that needed it and why, in a few words; "" if not recorded."""
        said = (f"{c.opcode} {c.instruction}: {c.reason}" if c.instruction else c.reason for c in self.causes)
        return "; ".join(dict.fromkeys(said))


@dataclass(frozen=True)
class CollectivePlan(Plottable, Displayable):
    """All collectives of a program on an interconnect, most expensive first."""

    collectives: tuple[Collective, ...]
    link: Interconnect

    @property
    def bytes(self) -> int:
        """Bytes that each device sends in one run."""
        return sum(c.bytes * c.executions for c in self.collectives)

    @property
    def seconds(self) -> float:
        """The estimated time of a run's collectives, one after the other."""
        return sum(c.seconds * c.executions for c in self.collectives)

    @property
    def kinds(self) -> Counter[str]:
        """The number of collectives of each kind."""
        return Counter(c.kind for c in self.collectives)

    def named(self, name: str) -> Collective:
        """Return the collective with that name.

        Raises:
            XlanbError: there is none; the message lists the nearest names.
        """
        plain = name.removeprefix("%")
        found = next((c for c in self.collectives if c.name == plain), None)
        if found is None:
            raise XlanbError(
                f"no collective {plain!r} in the program{nearest(plain, (c.name for c in self.collectives))}"
            )
        return found

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per collective; bytes and seconds are per run.

        Columns: name, kind, axes, members, executions, bytes, seconds, reason, source line.
        """
        rows = [
            (c.name, c.kind, c.along, c.members, n, c.bytes * n, c.seconds * n, c.reason, c.place)
            for c, n in ((c, c.executions) for c in self.collectives)
        ]
        return framed(rows, ["name", "kind", "along", "members", "runs", "bytes", "seconds", "reason", "source"])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the same rows for display."""
        return ((self.summary, readable(self.to_dataframe())),)

    @property
    def summary(self) -> str:
        """Count the collectives by kind, with bytes and time in all."""
        if not self.collectives:
            return "no collectives"
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.kinds.items()))
        return (
            f"{kinds}: {size_text(self.bytes)} sent by each device, about "
            f"{seconds_text(self.seconds)} on {self.link.name}"
        )

    def __str__(self) -> str:
        lines = [
            (
                f"  {c.name}  along {c.along}  {size_text(c.bytes * c.executions)}  "
                f"{seconds_text(c.seconds * c.executions)}"
            )
            + (f"  {c.reason}" if c.reason else "")
            for c in self.collectives
        ]
        return "\n".join([self.summary, *lines])


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Format a table of collectives for display: units for sizes and times, no empty columns."""
    units: dict[str, Callable[[Any], str]] = {"bytes": size_text, "seconds": seconds_text}
    shown = {}
    for name in table.columns:
        column, text = table[name], units.get(name.partition(" ")[0])
        if text is not None or not (column == "").all():
            shown[name.replace("seconds", "time")] = column if text is None else column.map(text)
    return type(table)(shown)


def plan_of(program: PartitionedProgram, on: str | Interconnect = "cpu") -> CollectivePlan:
    """Return the plan of a program on an interconnect."""
    link = interconnect(on)
    executions = _executions(program.module)
    found = [
        _collective(i, program, link, executions.get(c, 0))
        for c in program.module.computations
        for i in c
        if _kind(i) in KINDS
    ]
    return CollectivePlan(tuple(sorted(found, key=lambda c: (-c.seconds * c.executions, c.name))), link)


def _stem(name: str) -> str:
    """Return a name without the number that makes it unique."""
    stem, dot, number = name.rpartition(".")
    return stem if dot and number.isdigit() else name


def _kind(i: HloInstruction) -> str:
    return i.opcode.text.removesuffix("-start")


def _collective(i: HloInstruction, program: PartitionedProgram, link: Interconnect, executions: int) -> Collective:
    kind, grid = _kind(i), program.grid
    if kind == _PAIRS:
        pairs = [p for p in device_pairs(i, 0, grid) if p[0] != p[1]]
        text = "{" + ",".join(f"{{{s},{t}}}" for s, t in pairs) + "}"
        members, axes = (2 if pairs else 1), axes_of_pairs(pairs, program.mesh) if program.mesh else None
    else:
        groups = device_groups(i, grid)
        text = i.attributes.get("replica_groups") or "{}"
        members, axes = max(map(len, groups)), axes_of_groups(groups, program.mesh) if program.mesh else None
    size = sum(o.shape.byte_size for o in i.operands)
    channel = i.attributes.get("channel_id")
    return Collective(
        i.name,
        kind,
        channel,
        str(i.shape),
        text,
        members,
        axes,
        bytes_moved(kind, size, members),
        seconds(kind, size, members, link),
        executions,
        i.metadata.op_name,
        i.metadata.python_line,
        program.causes_of(channel),
    )


def _executions(module: HloModule) -> dict[HloComputation, int]:
    """Return how often each computation of control flow executes per run.

    Computations that are applied to elements are not counted.
    """
    counts: Counter[HloComputation] = Counter({module.entry_computation: 1})
    # Callers come before callees.
    for c in reversed(list(_callees_first(module.entry_computation, set()))):
        for i in c:
            trips = known_trip_count(i) if i.opcode is O.WHILE else 1
            for called in i.called_computations:
                counts[called] += counts[c] * (1 if trips is None else trips)
    return counts


def _callees_first(c: HloComputation, seen: set[HloComputation]) -> Iterator[HloComputation]:
    if c in seen:
        return
    seen.add(c)
    for i in c:
        for called in i.called_computations:
            yield from _callees_first(called, seen)
    yield c
