"""Explain why a collective is needed.

Gives the instruction that needs it, the shardings that conflict, where they come from, its cost,
and possible remedies. The partitioner records a Cause for each collective, and the propagation an
event for each sharding that it propagates; both are read here. A program that was partitioned
elsewhere has neither, and its card says what the module alone shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from xlanb.display import Displayable
from xlanb.frames import framed
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.python_lines import place_text
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import size_text
from xlanb.shape import ArrayShape
from xlanb.spmd.annotations import annotation_of, annotations_after, axes_named, sharding_words
from xlanb.spmd.costs import Interconnect, interconnect, seconds_text
from xlanb.spmd.partitioner.causes import CauseKind, CollectiveCause
from xlanb.spmd.plan import Collective, CollectivePlan, PartitionedProgram, plan_of
from xlanb.spmd.remedies import Remedy, RemedyAttempt, remedies_for
from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy.events import Propagation

if TYPE_CHECKING:
    import pandas as pd

_KINDS: Final[Mapping[CauseKind, str]] = {
    CauseKind.RESHARD: "the array is needed with another sharding than it has",
    CauseKind.PARTIAL_REDUCTION: "each device has a partial result of its own part; the partial results are reduced",
    CauseKind.HALO: "windows and shifted tiles read elements of a neighbouring device",
    CauseKind.FULL_REMATERIALIZATION: (
        "no cheaper conversion between the two shardings is known: every device gets the "
        "whole array and slices out its tile (involuntary full rematerialization)"
    ),
    CauseKind.WINDOWED_EINSUM: "one operand is passed around the devices while each multiplies its current tile",
    CauseKind.MANUAL: "the program itself contains it, in a manual computation",
    CauseKind.OTHER: "required by the partitioner",
}
_MOST_STEPS: Final = 8
UNRECORDED: Final = (
    "the reason was not recorded: the program was not partitioned by xlanb (a dump, or a module parsed from text)"
)


@dataclass(frozen=True)
class CollectiveNeed:
    """One reason for a collective.

    Attributes:
        cause: what the partitioner recorded.
        instruction: the instruction that needed it, by its name in the source program if known.
        moved: the operand that is moved, named likewise.
        had: the operand's sharding, by mesh axes if they can express it, otherwise HLO's.
        wanted: the needed sharding, in the same form.
        had_from: where the first comes from, one step each.
        wanted_from: where the second comes from, one step each.
    """

    cause: CollectiveCause
    instruction: str
    moved: str
    had: str
    wanted: str
    had_from: tuple[str, ...]
    wanted_from: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The instruction, its op_name and its Python line."""
        c = self.cause
        where = ", ".join(filter(None, (c.op_name, place_text(*c.python_line))))
        moved = f"operand {c.operand}, {self.moved}" if c.operand is not None else "its result"
        return f"needed by {self.instruction}{f' ({where})' if where else ''}: {moved}"

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return names and values of all facts, in reading order."""
        estimates = ", ".join(f"{what} {size_text(count)}" for what, count in self.cause.estimates)
        reason = f"{self.cause.kind.value}: {self.cause.reason or _KINDS[self.cause.kind]}"
        rows = [("reason", reason), ("had", self.had or "no sharding of its own")]
        rows += [("", step) for step in self.had_from]
        rows += [("wanted", self.wanted or "no sharding of its own"), *(("", step) for step in self.wanted_from)]
        return (*rows, *((("chosen by", estimates),) if estimates else ()))


@dataclass(frozen=True, eq=False)
class CollectiveWhy(Displayable):
    """The card of a collective.

    `needs` are its reasons: several if collectives were combined, none if none were recorded.
    """

    collective: Collective
    link: Interconnect
    program: PartitionedProgram
    needs: tuple[CollectiveNeed, ...]
    note: str = ""

    @property
    def cost(self) -> str:
        """Bytes and time, per execution and per run."""
        c = self.collective
        runs = f", executed {c.executions} times per run" if c.executions != 1 else ""
        return (
            f"each of {c.members} devices sends {size_text(c.bytes)}, about "
            f"{seconds_text(c.seconds)} on {self.link}{runs}"
        )

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """Return annotation changes that might remove the collective; none has been tried.

        `remedies[0].attempt()` tries one.
        """
        return remedies_for([n.cause for n in self.needs], self.program, self.link)

    def attempts(self) -> tuple[RemedyAttempt, ...]:
        """Try every remedy and return the attempts, best first.

        Those that make each device compute more come last.

        Raises:
            XlanbError: the program does not compile with one of them.
        """
        return tuple(
            sorted(
                (r.attempt() for r in self.remedies), key=lambda a: (not a.is_better, a.after.seconds, a.after.bytes)
            )
        )

    @property
    def title(self) -> str:
        """Name, kind, shape, and mesh axes."""
        c = self.collective
        return f"{c.name}: {c.kind} {c.shape} along {c.along}"

    @property
    def headline(self) -> str:
        """What it is and what it costs, in two lines."""
        return f"{self.title}\n{self.cost}" + (f"\n{self.note}" if self.note else "")

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return one table per reason, and one of possible remedies."""
        needs = tuple((need.headline, framed(need.facts, ["", "value"])) for need in self.needs)
        rows = [(str(r), "not tried") for r in self.remedies]
        return (*needs, *((("What might remove it", framed(rows, ["change", "outcome"])),) if rows else ()))

    def __repr__(self) -> str:
        return f"<CollectiveWhy {self.title}>"

    def __str__(self) -> str:
        lines = [self.title, f"  {self.cost}"]
        for need in self.needs:
            lines.append(f"  {need.headline}")
            lines += [f"    {name:10}{value}" for name, value in need.facts]
        if self.note:
            lines.append(f"  {self.note}")
        if self.remedies:
            lines.append("  might remove it (not tried: .remedies[0].attempt() compiles the program with the change):")
            lines += [f"    {n}  {remedy}" for n, remedy in enumerate(self.remedies)]
        return "\n".join(lines)


def why(x: Any, name: str, *, on: str | Interconnect = "cpu") -> CollectiveWhy:
    """Explain why the collective `name` is in a compiled program.

    Args:
        x: an executable, a module, a compilation, a trace, or a record from the real XLA.
        name: the collective's name, as `collectives(x)` lists it.
        on: the interconnect for the time estimate, a name of `costs.INTERCONNECTS`.

    Raises:
        XlanbError: there is no such collective; the message lists the nearest names.
    """
    program, link = PartitionedProgram.of(x), interconnect(on)
    return _card(plan_of(program, link).named(name), program, link)


def _card(
    collective: Collective, program: PartitionedProgram, link: Interconnect, others: tuple[str, ...] = ()
) -> CollectiveWhy:
    """Return the card of a collective, which names the others with the same reason."""
    needs = tuple(_need(cause, program) for cause in collective.causes)
    note = f"{', '.join(others)}: for the same reason" if others else ""
    return CollectiveWhy(collective, link, program, needs, note if needs else _known(collective, program))


def collectives(x: Any, *, on: str | Interconnect = "cpu") -> CollectivePlan:
    """Return the collectives of a compiled program by time and bytes, with their reasons.

    `.to_dataframe()` of the result is the table.

    Raises:
        XlanbError: `x` holds no module.
    """
    return plan_of(PartitionedProgram.of(x), on)


@dataclass(frozen=True)
class ShardingFindings(Displayable):
    """Collectives that a better annotation could avoid: involuntary full rematerializations.

    It has one card for each.
    """

    cards: tuple[CollectiveWhy, ...]

    def __len__(self) -> int:
        return len(self.cards)

    def __iter__(self) -> Iterator[CollectiveWhy]:
        return iter(self.cards)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per collective and reason, sizes in bytes and times in seconds.

        Columns: collective, instruction, sharding had, sharding wanted, bytes, seconds, source
        line.
        """
        rows = [
            (of.name, n.cause.instruction, n.had, n.wanted, of.bytes, of.seconds, of.place)
            for of, needs in ((c.collective, c.needs) for c in self.cards)
            for n in needs
        ]
        return framed(rows, ["collective", "instruction", "had", "wanted", "bytes", "seconds", "source"])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the same rows for display."""
        return (("Involuntary full rematerializations", self.to_dataframe()),)

    def __str__(self) -> str:
        return "\n".join(map(str, self.cards)) if self.cards else "no involuntary full rematerialization"


def findings(x: Any, *, on: str | Interconnect = "cpu") -> ShardingFindings:
    """Return the involuntary full rematerializations of a compiled program.

    All collectives of one rematerialization share a card.

    Raises:
        XlanbError: `x` holds no module.
    """
    program, link = PartitionedProgram.of(x), interconnect(on)
    alike: dict[tuple[object, ...], list[Collective]] = {}
    for c in plan_of(program, link).collectives:
        if _is_finding(c):
            key = tuple((n.instruction, n.operand, n.have, n.want) for n in c.causes)
            alike.setdefault(key, []).append(c)
    return ShardingFindings(tuple(_card(c, program, link, tuple(r.name for r in rest)) for c, *rest in alike.values()))


def _is_finding(collective: Collective) -> bool:
    return any(c.kind is CauseKind.FULL_REMATERIALIZATION for c in collective.causes)


def _known(collective: Collective, program: PartitionedProgram) -> str:
    """Describe a collective that has no recorded cause."""
    of = ", ".join(filter(None, (collective.op_name, place_text(*collective.python_line))))
    if program.is_ours:
        where = f" ({of})" if of else ""
        return (
            f"the program itself contains {collective.name}{where}, in a manual "
            "computation, in which each device works on "
            f"its own part, without resharding; each device has {collective.shape} afterwards"
        )
    return UNRECORDED + (f"; its metadata names {of}" if of else "; it has no metadata")


def _need(cause: CollectiveCause, program: PartitionedProgram) -> CollectiveNeed:
    at = program.in_source(cause.instruction, cause.opcode)
    moved = program.in_source(cause.operand_name) if cause.operand is not None else at
    rank = len(moved.shape.dimensions) if moved is not None and isinstance(moved.shape, ArrayShape) else None
    needing, given = program.value_name(cause.instruction), program.value_name(cause.operand_name)
    had_from = tuple(_origin(needing if cause.operand is None else given, program))
    if not had_from and at is not None and cause.operand is None:
        # It works in the shardings of its operands.
        had_from = tuple(dict.fromkeys(step for o in at.operands for step in _origin(o.name, program)))
    wanted_from = tuple(_origin(needing, program)) if cause.operand is not None else ()
    if at is not None and cause.operand is None:
        wanted_from = _asked_for(at, axes_named(cause.want, program.mesh, rank), program)
    return CollectiveNeed(
        cause,
        f"{at.opcode.text} {at.name}" if at else f"{cause.opcode} {needing}",
        moved.name if moved else given,
        sharding_words(cause.have, program.mesh, rank),
        sharding_words(cause.want, program.mesh, rank),
        had_from[:_MOST_STEPS],
        wanted_from[:_MOST_STEPS],
    )


def _asked_for(i: HloInstruction, wanted: TensorSharding | None, program: PartitionedProgram) -> tuple[str, ...]:
    """Return the nearest annotation after an instruction that requires this sharding."""
    if wanted is None or program.source is None:
        return ()
    behind = annotations_after(program.source, i, program.meshes)
    return tuple(str(a) for a in behind if a.sharding.closed() == wanted)[:1]


def _origin(name: str, program: PartitionedProgram, seen: set[str] | None = None) -> Iterator[str]:
    """Yield the propagation steps that gave an array its sharding, back to the annotations."""
    seen = set() if seen is None else seen
    if name in seen or program.source is None:
        return
    seen.add(name)
    found = program.source.find(name)
    annotation = annotation_of(found, program.meshes) if found is not None else None
    if annotation is not None:
        yield str(annotation)
    propagation = program.module.notes.get("propagation")
    if not isinstance(propagation, Propagation):
        return
    sources = []
    for event in propagation.of(name):
        for gain in event.gains:
            if gain.value == name != gain.source:
                yield f"{gain}, by {event.kind} {event.name} ({event.step})"
                sources.append(gain.source)
    for source in sources:
        yield from _origin(source, program, seen)
