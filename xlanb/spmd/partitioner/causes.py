"""Record a Cause for every channel that the partitioner opens: why the collective is there.

A module's table maps channel ids to causes. Later passes keep the channel of what they rewrite, so
an instruction of the compiled program finds its cause by its channel_id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from enum import Enum

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.hlo_sharding import HloSharding


class CauseKind(Enum):
    """What a collective is for."""

    RESHARD = "reshard"
    PARTIAL_REDUCTION = "partial-reduction"
    HALO = "halo"
    FULL_REMATERIALIZATION = "full-rematerialization"
    WINDOWED_EINSUM = "windowed-einsum"
    MANUAL = "manual"
    OTHER = "other"


@dataclass(frozen=True)
class CollectiveCause:
    """The reason for one collective.

    Attributes:
        kind: what the collective is for.
        reason: the reason in words.
        instruction: name of the source instruction that needed it.
        opcode: its opcode.
        op_name: its op_name.
        python_line: its source file and line.
        operand: number of the operand that is moved; None for the result.
        operand_name: name of that operand.
        have: the operand's sharding in XLA's text.
        want: the needed sharding in XLA's text.
        estimates: costs in bytes of the alternatives, if a cost decided.
    """

    kind: CauseKind
    reason: str
    instruction: str = ""
    opcode: str = ""
    op_name: str = ""
    python_line: tuple[str, int] = ("", 0)
    operand: int | None = None
    operand_name: str = ""
    have: str = ""
    want: str = ""
    estimates: tuple[tuple[str, int], ...] = ()
    collective: str = ""
    channel_id: int = 0

    def __str__(self) -> str:
        moved = f"operand {self.operand} ({self.operand_name})" if self.operand is not None else "the result"
        shardings = f": {self.have or '?'} -> {self.want or '?'}" if self.have or self.want else ""
        return (
            f"{self.collective} (channel {self.channel_id}), {self.kind.value}: {self.reason}; "
            f"{moved} of {self.opcode} {self.instruction}{shardings}"
        )


@dataclass(frozen=True, slots=True)
class _CauseBlock:
    """The arguments of one `Causes.because` block."""

    kind: CauseKind
    reason: str
    hlo: HloInstruction | None
    operand: int | None
    have: HloSharding | None
    want: HloSharding | None
    estimates: tuple[tuple[str, int], ...]
    weak: bool

    def over(self, outer: CollectiveCause) -> CollectiveCause:
        """Return the cause of collectives in this block, given that of the enclosing block."""
        kind, reason, have, want = self.kind, self.reason, self.have, self.want
        if self.weak and outer.reason:
            kind, reason = outer.kind, outer.reason
            have, want = (None if outer.have else have), (None if outer.want else want)
        made = replace(outer, kind=kind, reason=reason, estimates=self.estimates or outer.estimates)
        if self.hlo is not None:
            made = replace(
                made,
                instruction=self.hlo.name,
                opcode=self.hlo.opcode.text,
                op_name=self.hlo.metadata.op_name,
                python_line=self.hlo.metadata.python_line,
                operand=self.operand,
                operand_name=self.hlo.operands[self.operand].name if self.operand is not None else "",
                have="",
                want="",
            )
        return replace(
            made,
            have=made.have if have is None else str(have),
            want=made.want if want is None else str(want),
        )


@dataclass
class Causes:
    """The causes of a module's collectives by channel id; `findings` are those worth a warning."""

    by_channel: dict[int, CollectiveCause] = field(default_factory=dict)
    is_trial: bool = False
    """Whether it records a trial of what something would cost, which emits no warnings."""
    _open: list[_CauseBlock] = field(default_factory=list, repr=False)

    @property
    def findings(self) -> tuple[CollectiveCause, ...]:
        """Return the collectives of involuntary full rematerializations.

        They replicate a whole array only to slice it again.
        """
        return tuple(c for c in self.by_channel.values() if c.kind is CauseKind.FULL_REMATERIALIZATION)

    @contextmanager
    def because(
        self,
        kind: CauseKind,
        reason: str,
        *,
        hlo: HloInstruction | None = None,
        operand: int | None = None,
        have: HloSharding | None = None,
        want: HloSharding | None = None,
        estimates: tuple[tuple[str, int], ...] = (),
        weak: bool = False,
    ) -> Iterator[None]:
        """Give every collective made in this block this cause.

        What it leaves out comes from the enclosing block. A `weak` cause counts only if that has no
        reason.
        """
        self._open.append(_CauseBlock(kind, reason, hlo, operand, have, want, estimates, weak))
        try:
            yield
        finally:
            self._open.pop()

    def record(self, channel_id: int, collective: str) -> None:
        """Record a collective under its channel, with the current cause."""
        cause = CollectiveCause(CauseKind.OTHER, "")
        for frame in self._open:
            cause = frame.over(cause)
        self.by_channel[channel_id] = replace(cause, channel_id=channel_id, collective=collective)


def causes_of(module: HloModule) -> Causes:
    """Return the causes of a module's collectives; empty if this partitioner did not make it."""
    causes: Causes = module.notes.setdefault("causes", Causes())
    return causes
