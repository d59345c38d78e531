"""Frozen results of the backend: LLVM IR, assembly, and the times of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from xlanb.codegen.plan import KernelPlan
from xlanb.cpu.listing import COLUMNS, instructions
from xlanb.display import Displayable, Plottable
from xlanb.frames import framed
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.frames.frame import Frame


@dataclass(frozen=True)
class CodeRecord(Displayable):
    """LLVM IR or assembly as text.

    `language` is "llvm" or "asm". `functions` are the functions' names, in order. `lines` maps
    1-based lines of the text to HLO instructions, if known; `kernels` maps functions to the HLO
    instructions that they compute; `plans` (assembly only) maps them to the decisions made for
    their code.
    """

    language: str
    text: str
    functions: tuple[str, ...] = ()
    kernels: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[int, str] = field(default_factory=dict)
    plans: Mapping[str, KernelPlan] = field(default_factory=dict)

    def to_dataframe(self) -> Frame:
        """One row per instruction of assembly or LLVM IR.

        Columns: line, function, instruction, operands, hlo (the HLO instruction, "" if unknown),
        vector_bits (of the widest vector in it, 0 for none), loop: "hot" in the innermost loop with
        the most vector instructions, "inner" in the other innermost loops, otherwise "".
        """
        return framed(instructions(self.text, self.language, self.lines), COLUMNS)

    @property
    def line_count(self) -> int:
        """The number of lines of the text."""
        return self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))

    def __repr__(self) -> str:
        return f"<CodeRecord {self.language}: {self.line_count:,} lines, {len(self.functions)} functions>"


_PROMPT_LINES = 40


class Code(str, Displayable):  # noqa: SLOT000 - it keeps its record
    """LLVM IR, assembly or PTX: a string that notebooks show coloured, searchable, with links.

    They link lines to HLO instructions.
    """

    _record: CodeRecord

    @classmethod
    def of(cls, record: CodeRecord) -> Code:
        """The text of a record."""
        made = cls(record.text)
        made._record = record
        return made

    def record(self) -> CodeRecord:
        """The text with information on its lines and functions."""
        return self._record

    @property
    def beginning(self) -> str:
        """The first lines, and how many more there are."""
        lines = self.splitlines()
        rest = len(lines) - _PROMPT_LINES
        more = [f"... {rest:,} more lines: print() shows them all"] if rest > 0 else []
        return "\n".join([*lines[:_PROMPT_LINES], *more])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.beginning)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


@dataclass(frozen=True)
class KernelTime:
    """Time of one kernel in one run, in seconds; bytes and flops by the cost analysis.

    `source` is the Python line as "file:line", "" if unknown. `limit` is the least time on this
    machine for these bytes and flops (0 if unknown), `bound` what determines it: "memory" or
    "compute". `grain` is the clock's resolution in seconds: shorter times are not measured.
    """

    name: str
    instruction: str
    seconds: float
    bytes_accessed: int = 0
    flops: int = 0
    op_name: str = ""
    source: str = ""
    limit: float = 0.0
    bound: str = ""
    grain: float = 0.0

    @property
    def is_measured(self) -> bool:
        """Whether it took long enough for the clock."""
        return self.seconds > 0 and self.seconds >= self.grain

    @property
    def of_limit(self) -> float | None:
        """The fraction of the machine's limit reached, at most 1; None if unknown or unmeasured.

        A kernel that beats the limit shows that the limit was measured too low; its fraction is 1.
        """
        return min(self.limit / self.seconds, 1.0) if self.limit and self.is_measured else None


_KERNEL_COLUMNS = (
    "kernel", "instruction", "us", "% of run", "bytes", "flops", "GB/s", "GFLOP/s", "% of limit", "bound", "op_name",
)  # fmt: skip


@dataclass(frozen=True)
class ExecutionRecord(Displayable, Plottable):
    """One run: wall seconds, its kernels if they were timed, results as (shape, short text).

    `peak_flops` (f32, per second) and `bandwidth` (pairs of a working set in bytes and bytes per
    second) are the machine's limits, measured by kernels of their own; 0 and () if not measured.
    """

    seconds: float
    kernels: tuple[KernelTime, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    runs: int = 1
    peak_flops: float = 0.0
    bandwidth: tuple[tuple[int, float], ...] = ()

    def to_dataframe(self) -> Frame:
        """One row per kernel, the slowest first.

        Columns: microseconds, share of the run, bytes, flops, both per second, and the fraction of
        the machine's limit and which limit that is.
        """
        rows = [self._row(k) for k in sorted(self.kernels, key=lambda k: -k.seconds)]
        return framed(rows, list(_KERNEL_COLUMNS))

    def _row(self, k: KernelTime) -> tuple[object, ...]:
        nan = float("nan")
        rates = (k.bytes_accessed / k.seconds / 1e9, k.flops / k.seconds / 1e9) if k.seconds else (nan, nan)
        limit = nan if k.of_limit is None else 100 * k.of_limit
        measured = (k.seconds * 1e6, 100 * self.share_of(k), k.bytes_accessed, k.flops, *rates, limit)
        return (k.name, k.instruction, *measured, k.bound, k.op_name)

    def share_of(self, kernel: KernelTime) -> float:
        """The share of the run that a kernel took, 0 to 1."""
        whole = max(self.seconds, sum(k.seconds for k in self.kernels))
        return kernel.seconds / whole if whole else 0.0


@dataclass(frozen=True)
class CacheRecord(Displayable):
    """The compilation cache after a run: the requested signature, whether it was found, totals."""

    signature: str
    hit: bool
    hits: int
    misses: int
    entries: int
    seconds: float = 0.0
