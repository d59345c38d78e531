"""Decisions about a kernel before code generation: its loops, and choices with their costs."""

from __future__ import annotations

from typing import Protocol

from xlanb.lazy_dataclass import dataclass


class Step(Protocol):
    """A nest of loops, or a choice; prints as one or several lines."""

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Choice:
    """One decision: `what` it was about, the option `taken`, why, and the others' costs."""

    what: str
    taken: str
    why: str = ""
    others: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        first = f"{self.what}: {self.taken}" + (f", {self.why}" if self.why else "")
        return "\n".join([first, *(f"  not {way}: {cost}" for way, cost in self.others)])


@dataclass(frozen=True)
class KernelPlan:
    """The plan of one instruction's kernel; `print(plan)` shows it.

    `function` is the kernel's name in LLVM IR and assembly, `instruction` the HLO instruction that
    it computes, `steps` its loops and choices in the order of the decisions.
    """

    function: str
    instruction: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [line for step in self.steps for line in str(step).split("\n")]
        return "\n".join([f"{self.instruction}:", *(f"  {line}" for line in lines)])


def time_text(nanoseconds: float) -> str:
    """A time in a suitable unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
