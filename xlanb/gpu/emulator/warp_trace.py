"""The recorded execution of one warp by the emulator (see lanes.py): a displayable object without
dependencies on the emulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.display import Displayable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class WarpStep:
    """One instruction as the lanes of a warp ran it for the n-th time.

    `line` is the place in the kernel's LLVM IR, from 1; `values` holds what each lane computed, None where it did not
    come there: a number, or for a pointer where it points ("p1+16" is byte 16 of the argument p1). A store has what it
    writes, a barrier nothing.
    """

    line: int
    text: str
    round: int
    values: tuple[int | float | str | None, ...]

    @property
    def active(self) -> int:
        """How many lanes took part."""
        return sum(v is not None for v in self.values)

    def __str__(self) -> str:
        known = {v for v in self.values if v is not None}
        shown = f"{_text(next(iter(known)))} in all" if len(known) == 1 else " ".join(map(_text, self.values))
        return f"{self.line:4d}  {self.text:<70}  {self.active:2d} lanes: {shown}"


@dataclass(frozen=True, repr=False)
class WarpTrace(Displayable):
    """What one warp of a block did, step by step; `ir` is the kernel's LLVM IR, `lanes` how many threads it has."""

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
        """The steps at a line of the IR, one for each time that a lane came there."""
        return tuple(s for s in self.steps if s.line == line)

    def frame(self) -> pd.DataFrame:
        """A row for each step: line, round, instruction, active, and a column of values for each lane, by its number."""
        import pandas as pd

        rows = [(s.line, s.round, s.text, s.active, *s.values[: self.lanes]) for s in self.steps]  # noqa: PD011 - a tuple
        return pd.DataFrame(rows, columns=["line", "round", "instruction", "active", *range(self.lanes)])

    def __str__(self) -> str:
        head = f"warp {self.warp} of block {self.block} of {self.kernel}: {len(self.steps)} steps of {self.lanes} lanes"
        more = ["... (the warp executes more steps than are recorded)"] if self.is_cut else []
        return "\n".join([head, *map(str, self.steps), *more])

    def __repr__(self) -> str:
        return f"<WarpTrace {self.kernel}, block {self.block}, warp {self.warp}: {len(self.steps)} steps>"


def _text(value: float | str | None) -> str:
    """A value of a lane for people; a dot where it has none."""
    if value is None:
        return "."
    return f"{value:.4g}" if isinstance(value, float) else str(value)
