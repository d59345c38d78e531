"""A warp's recorded execution (see lanes.py), displayable without the emulator."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.display import Displayable
from xlanb.errors import ArgumentError, nearest
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pandas as pd

_OPCODE = re.compile(r"(?:%[\w.]+ = )?(?:tail )?(\w+)")
_INTRINSIC = re.compile(r"\bcall .*?@llvm\.nvvm\.([\w.]+)")
_SECTOR = 32
"""Bytes of a sector: the least that a load reads from device memory."""


@dataclass(frozen=True)
class WarpStep:
    """One instruction as the lanes of a warp ran it for the n-th time.

    `line` is the 1-based line of the kernel's LLVM IR. `values` has what each lane computed, or
    None if it was inactive: a number, or what a pointer points to ("p1+16" is byte 16 of the
    argument p1). A store has what it writes, a barrier nothing. `addresses` has, for an access to
    memory, what each lane's address points to, or None if unknown or inactive; () for others.
    """

    line: int
    text: str
    round: int
    values: tuple[int | float | str | None, ...]
    addresses: tuple[str | None, ...] = ()

    @property
    def opcode(self) -> str:
        """LLVM's opcode, as "load"; for an NVVM intrinsic its name, as "shfl.sync.down.f32"."""
        if intrinsic := _INTRINSIC.search(self.text):
            return intrinsic[1]
        found = _OPCODE.match(self.text)
        return found[1] if found else ""

    @property
    def sectors(self) -> int:
        """How many sectors of 32 bytes of device memory the active lanes access; 0 if none.

        Counted from the start of each argument, for naturally aligned elements.
        """
        places = [a.rpartition("+") for a in self.addresses if a is not None and "+" in a]
        return len({(name, int(offset) // _SECTOR) for name, _, offset in places if name != "shared"})

    @property
    def active(self) -> int:
        """How many lanes were active."""
        return sum(v is not None for v in self.values)

    def __str__(self) -> str:
        known = {v for v in self.values if v is not None}
        shown = f"{_text(next(iter(known)))} in all" if len(known) == 1 else " ".join(map(_text, self.values))
        return f"{self.line:4d}  {self.text:<70}  {self.active:2d} lanes: {shown}"


@dataclass(frozen=True, repr=False)
class WarpTrace(Displayable):
    """The steps of one warp; `ir` is the kernel's LLVM IR, `lanes` the number of its threads."""

    kernel: str
    block: int
    warp: int
    lanes: int
    ir: str
    steps: tuple[WarpStep, ...]
    is_cut: bool = False

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, key: int) -> WarpStep:
        return self.steps[key]

    def at(self, line: int) -> tuple[WarpStep, ...]:
        """Return the steps at a line of the IR, one per visit."""
        return tuple(s for s in self.steps if s.line == line)

    def only(self, *opcodes: str) -> WarpTrace:
        """Return the steps with these opcodes: `only("load", "store")`.

        "shfl" stands for all intrinsics whose names begin with "shfl.".

        Raises:
            ArgumentError: no step has one of the opcodes; the message lists the nearest.
        """
        known = {s.opcode: s.opcode.partition(".")[0] for s in self.steps}
        missing = next((o for o in opcodes if o not in known and o not in known.values()), None)
        if missing is not None:
            near = nearest(missing, {*known, *known.values()})
            raise ArgumentError(f"no step of kernel {self.kernel} has the opcode {missing!r}{near}")
        wanted = {o for o, family in known.items() if {o, family} & set(opcodes)}
        return replace(self, steps=tuple(s for s in self.steps if s.opcode in wanted))

    def frame(self) -> pd.DataFrame:
        """Return one row per step: line, round, instruction, active, sectors, a column per lane.

        The lanes' columns hold the values and have the lane numbers as names.
        """
        import pandas as pd

        rows = [
            (s.line, s.round, s.text, s.active, s.sectors, *s.values[: self.lanes])  # noqa: PD011 - a tuple
            for s in self.steps
        ]
        return pd.DataFrame(rows, columns=["line", "round", "instruction", "active", "sectors", *range(self.lanes)])

    def __str__(self) -> str:
        head = f"warp {self.warp} of block {self.block} of {self.kernel}: {len(self.steps)} steps of {self.lanes} lanes"
        more = ["... (the warp executes more steps than are recorded)"] if self.is_cut else []
        return "\n".join([head, *map(str, self.steps), *more])

    def __repr__(self) -> str:
        return f"<WarpTrace {self.kernel}, block {self.block}, warp {self.warp}: {len(self.steps)} steps>"


def _text(value: float | str | None) -> str:
    """Format a lane's value; a dot if it has none."""
    if value is None:
        return "."
    return f"{value:.4g}" if isinstance(value, float) else str(value)
