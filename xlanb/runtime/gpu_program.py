"""The result of XLA:GPU for a module: kernels, and the launches of a run in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from xlanb.cpu.records import Code, CodeRecord
from xlanb.display import Displayable
from xlanb.dump.gpu.backend import KernelBackend
from xlanb.dump.gpu.ptxas import KernelResources
from xlanb.dump.gpu.thunks import Thunk
from xlanb.errors import XlanbError, nearest
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.kernel_cost import KernelCost
from xlanb.gpu.occupancy import Occupancy
from xlanb.gpu.roofline import Estimate, duration
from xlanb.lazy_dataclass import dataclass
from xlanb.stage import named_parts, size_text
from xlanb.wording import counted

if TYPE_CHECKING:
    import pandas as pd

FORMS = (
    ("hlo", "HLO"),
    ("triton", "Triton IR"),
    ("llvm", "LLVM IR"),
    ("llvm_optimized", "LLVM IR, optimized"),
    ("ptx", "PTX"),
    ("sass", "SASS"),
)
"""The texts of a kernel, from HLO to machine code."""


@dataclass(frozen=True)
class KernelCode:
    """The texts of a kernel, "" if the dump lacks one.

    `sass_lines` gives for each line of the SASS its line of the PTX, 0 if unknown.
    """

    hlo: str = ""
    llvm: str = ""
    llvm_optimized: str = ""
    ptx: str = ""
    sass: str = ""
    sass_lines: tuple[int, ...] = ()
    triton: str = ""

    @property
    def forms(self) -> tuple[tuple[str, str, str], ...]:
        """(name, title, text) of the existing texts."""
        return tuple((name, title, text) for name, title in FORMS if (text := getattr(self, name)))


@dataclass(frozen=True, repr=False)
class GpuKernel(Displayable):
    """One kernel: what it computes, its launch, its resources, and its estimated time.

    The estimate is a roofline. `instructions` are the HLO instructions that launch it, several if
    XLA found equal ones; `launches` counts the launches of a run, loops by their trip count. `unit`
    is the dtype that its tensor cores multiply, "" if it uses none. `refusal` is why there is no
    machine code.
    """

    name: str
    instructions: tuple[str, ...] = ()
    emitter: KernelBackend | None = None
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    shared_bytes: int = 0
    launches: int = 0
    resources: KernelResources | None = None
    occupancy: Occupancy | None = None
    cost: KernelCost | None = None
    estimate: Estimate | None = None
    unit: str = ""
    op_name: str = ""
    source: str = ""
    refusal: str = ""
    code: KernelCode = field(default_factory=KernelCode, compare=False)

    @property
    def instruction(self) -> str:
        """The first HLO instruction that launches it, "" if unknown."""
        return self.instructions[0] if self.instructions else ""

    @property
    def ptx(self) -> Code:
        """Its PTX."""
        return Code.of(CodeRecord("ptx", self.code.ptx))

    @property
    def sass(self) -> Code:
        """Its machine code."""
        return Code.of(CodeRecord("sass", self.code.sass))

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Its properties as text: (name, value)."""
        cost, time = self.cost, self.estimate
        rows = (
            ("HLO", ", ".join(self.instructions)),
            ("from", " ".join(w for w in (self.op_name, self.source) if w)),
            ("emitter", str(self.emitter or "")),
            ("launch", self._launch()),
            ("registers", str(self.resources or "")),
            ("no SASS", self.refusal),
            ("occupancy", str(self.occupancy or "")),
            ("work", f"{cost.flops:,.0f} flops, {cost.bytes:,.0f} bytes" if cost is not None else ""),
            ("tensor cores", f"{self.unit} products" if self.unit else ""),
            ("estimate", str(time or "")),
        )
        return tuple((name, value) for name, value in rows if value)

    def _launch(self) -> str:
        if not self.block[0]:
            return ""
        grid, block = ("x".join(map(str, _trimmed(d))) for d in (self.grid, self.block))
        shared = f", {self.shared_bytes:,} bytes of shared memory" if self.shared_bytes else ""
        times = f", {self.launches:,} times" if self.launches > 1 else ""
        blocks = "1 block" if grid == "1" else f"{grid if self.grid[0] else 'unknown'} blocks"
        return f"{blocks} of {block} thread{'s' * (block != '1')}{shared}{times}"

    def __str__(self) -> str:
        lines = [self.name, *(f"  {name:<12}  {value}" for name, value in self.facts)]
        held = ", ".join(f".code.{name}" for name, _, _ in self.code.forms)
        return "\n".join([*lines, *([f"  its texts: {held}"] if held else [])])

    def __repr__(self) -> str:
        return f"<GpuKernel {self.name}: {self.estimate or 'no estimate'}>"


def _trimmed(dims: tuple[int, int, int]) -> tuple[int, ...]:
    """Dimensions without trailing ones."""
    return dims if dims[2] != 1 else dims[:2] if dims[1] != 1 else dims[:1]


@dataclass(frozen=True)
class Launch:
    """A thunk in the order of a run.

    `start` and `seconds` are estimates (0 if unknown), for all `times` that a loop runs it; `row`
    is the stream it runs on, "" if it only contains others. A loop with an unknown trip count
    counts as one iteration.
    """

    thunk: Thunk
    row: str = ""
    start: float = 0.0
    seconds: float = 0.0
    times: int = 1
    bound: str = ""
    detail: str = ""
    is_unknown_loop: bool = False


@dataclass(frozen=True, repr=False)
class GpuProgram(Displayable):
    """The kernels and launches of one module.

    `device` is what it was compiled for, None if the dump names no known device; `device_name` is
    its name in the dump.
    """

    name: str
    device_name: str
    device: GpuDevice | None
    kernels: tuple[GpuKernel, ...]
    launches: tuple[Launch, ...] = ()
    note: str = ""

    @cached_property
    def by_name(self) -> dict[str, GpuKernel]:
        """Kernels by their names, and by those of their HLO instructions."""
        found = {i: k for k in self.kernels for i in k.instructions}
        return found | {k.name: k for k in self.kernels}

    def __getitem__(self, name: str) -> GpuKernel:
        """The kernel with a name, its own or an HLO instruction's.

        Raises:
            XlanbError: There is none; the message suggests the nearest.
        """
        found = self.by_name.get(name.removeprefix("%"))
        if found is None:
            raise XlanbError(f"no kernel {name!r} in {self.name!r}{nearest(name, self.by_name)}")
        return found

    @property
    def seconds(self) -> float:
        """The estimated time of a run, until the end of the last launch."""
        return max((x.start + x.seconds for x in self.launches), default=0.0)

    @property
    def unknown_loops(self) -> int:
        """The number of loops with an unknown trip count, counted as one iteration each."""
        return sum(x.is_unknown_loop for x in self.launches)

    def frame(self) -> pd.DataFrame:
        """A row per kernel, by descending total time."""
        import pandas as pd

        return pd.DataFrame([_row(k) for k in by_time(self.kernels)], columns=_COLUMNS)

    @property
    def headline(self) -> str:
        """One line: the device, the number of kernels and launches, the estimated time."""
        once = self.unknown_loops
        rounds = f", one iteration of {counted(once, 'loop')} of unknown length" if once else ""
        time = f", about {duration(self.seconds)} by a roofline{rounds}" if self.seconds else ""
        started = [x for x in self.launches if x.row]
        count = f"{counted(len(self.kernels), 'kernel')}, {counted(len(started), 'launch')}"
        return f"{self.name} on {self.device_name or 'a GPU'}: {count}{time}"

    def __str__(self) -> str:
        return "\n".join([self.headline, *([self.note] if self.note else []), *_table(by_time(self.kernels))])

    def __repr__(self) -> str:
        return f"<GpuProgram {self.headline}>"


def by_time(kernels: Sequence[GpuKernel]) -> list[GpuKernel]:
    """Kernels by descending total time."""
    return sorted(kernels, key=lambda k: -(k.estimate.seconds * max(k.launches, 1) if k.estimate is not None else 0.0))


_COLUMNS = (
    "kernel", "instruction", "emitter", "launches", "blocks", "threads", "shared", "registers", "spills", "occupancy",
    "limited by", "flops", "bytes", "us", "bound", "op_name", "source",
)  # fmt: skip


def _row(k: GpuKernel) -> tuple[object, ...]:
    used, held, cost, time = k.resources, k.occupancy, k.cost, k.estimate
    nan = float("nan")
    return (
        k.name,
        k.instruction,
        str(k.emitter or ""),
        k.launches,
        k.grid[0] * k.grid[1] * k.grid[2],
        k.block[0] * k.block[1] * k.block[2],
        k.shared_bytes,
        used.registers if used is not None else nan,
        used.spill_stores + used.spill_loads if used is not None else nan,
        held.fraction if held is not None else nan,
        held.limited_by if held is not None else "",
        cost.flops if cost is not None else nan,
        cost.bytes if cost is not None else nan,
        time.seconds * 1e6 if time is not None else nan,
        time.bound if time is not None else "",
        k.op_name,
        k.source,
    )


def _table(kernels: Sequence[GpuKernel]) -> list[str]:
    """Kernels as an aligned text table."""
    head = ("kernel", "time", "times", "bound", "regs", "occ.", "blocks x threads", "emitter")
    rows = [head, *(_cells(k) for k in kernels)]
    widths = [max(len(r[c]) for r in rows) for c in range(len(head))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def _cells(k: GpuKernel) -> tuple[str, ...]:
    used, held, time = k.resources, k.occupancy, k.estimate
    return (
        k.name,
        duration(time.seconds) if time is not None else "",
        str(k.launches),
        time.bound if time is not None else "",
        (
            f"{used.registers}{' spills' if used.spills else ''}"
            if used is not None
            else ""
            if not k.refusal
            else "refused"
        ),
        f"{held.fraction:.0%}" if held is not None else "",
        f"{k.grid[0] * k.grid[1] * k.grid[2] or '?'} x {k.block[0] * k.block[1] * k.block[2]}" if k.block[0] else "",
        str(k.emitter or ""),
    )


@named_parts.register
def _kernels(program: GpuProgram) -> dict[str, dict[str, GpuKernel]]:
    return {"": {k.name: k for k in program.kernels}}


@size_text.register
def _program_size(program: GpuProgram) -> str:
    launches = sum(bool(x.row) for x in program.launches)
    return f"{counted(len(program.kernels), 'kernel')}, {counted(launches, 'launch')}"
