"""Read the files of a module that XLA:GPU compiled together.

Shows which kernel belongs to which HLO instruction, its resources and its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xlanb.dump.gpu.backend import KernelBackend, emitter_of, read_config
from xlanb.dump.gpu.ptx import PtxKernel, parse_ptx
from xlanb.dump.gpu.ptxas import KernelResources, parse_ptxas, refusal
from xlanb.dump.gpu.sass import SassKernel, parse_sass
from xlanb.dump.gpu.thunks import Thunk, parse_thunks
from xlanb.dump.reader import DumpFile, ModuleFiles
from xlanb.errors import XlanbError
from xlanb.gpu.described import described_device, device_name
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.kernel_cost import KernelCost, kernel_cost
from xlanb.gpu.occupancy import occupancy
from xlanb.gpu.roofline import Estimate, estimate
from xlanb.hlo.module import HloModule
from xlanb.hlo.python_lines import place_text
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.hlo.text.printer import computation_text
from xlanb.runtime.gpu_program import GpuKernel, GpuProgram, KernelCode, Launch
from xlanb.shape.primitive_type import BY_TEXT
from xlanb.wording import counted

MOST_COMPUTATIONS = 60
"""The kinds of stages that show the HLO of one kernel."""

_DEFINE = re.compile(r'^define\b[^@\n]*@("[^"\n]*"|[\w.$-]+)', re.MULTILINE)
MLIR_FUNCTION = re.compile(r"^\s*(?:xtile\.entry_func|tt\.func public|func\.func)\s+@([\w.$-]{1,400})", re.MULTILINE)
"""The definition of a kernel in Triton's input MLIR."""

_KERNEL = re.compile(r"^define\b[^@\n]*\b(?:amdgpu|spir|ptx)_kernel\b", re.MULTILINE)
_MATRIX = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)[\w.:]*")
_UNITS = (
    ("tf32", "tf32"), ("bf16", "bf16"), ("e4m3", "f8e4m3fn"), ("e5m2", "f8e5m2"), ("e2m1", "f4e2m1fn"), ("s8", "s8"),
    ("u8", "u8"), ("f64", "f64"), ("f16", "f16"),
)  # fmt: skip
"""Substrings of the names of tensor-core products, with the dtype that they multiply."""

_STREAM = re.compile(r"\bstream=([^,\s]{1,80})")
_ASYNC_ID = re.compile(r"\basync_id=(\d{1,9})")

MAIN_ROW = "stream 0"
COLLECTIVE_ROW = "collectives"


def is_gpu(module: ModuleFiles) -> bool:
    """Whether XLA:GPU made a dump: it names a GPU, or has PTX."""
    return bool(module.fixed("gpu_target_config")) or any("ptx" in files for files in module.kernels.values())


@dataclass(frozen=True)
class _Files:
    """The files of one kernel, found by its name in their text."""

    ptx: PtxKernel
    code: KernelCode
    resources: KernelResources | None
    refusal: str


class GpuDump:
    """The contents of a module's files, each read on first use."""

    def __init__(self, module: ModuleFiles) -> None:
        self.module = module

    def files(self, kind: str) -> list[DumpFile]:
        """Return the files of a kind, one per kernel, by kernel number."""
        found = ((name, f[kind]) for name, f in self.module.kernels.items() if kind in f)
        return [f for _, f in sorted(found, key=lambda item: (not item[0].isdigit(), len(item[0]), item[0]))]

    @cached_property
    def device_name(self) -> str:
        """The GPU's name in the dump, or ""."""
        return device_name(self._target)

    @cached_property
    def device(self) -> GpuDevice | None:
        """The GPU that was compiled for, or None if the table has none like it."""
        return described_device(self._target)

    @cached_property
    def _target(self) -> str:
        found = self.module.fixed("gpu_target_config")
        return text_of(found[0]) if found else ""

    @cached_property
    def hlo(self) -> HloModule | None:
        """The final module, or None if it cannot be read."""
        step = self.module.hlo("after_optimizations")
        try:
            return step.readable.read_hlo() if step is not None and step.readable is not None else None
        except XlanbError:
            return None

    @cached_property
    def record(self) -> ModuleRecord | None:
        """The record of the final module."""
        return self.hlo.record() if self.hlo is not None else None

    @cached_property
    def instructions(self) -> dict[str, InstructionRecord]:
        """The final instructions by name."""
        return {} if self.record is None else {i.name: i for c in self.record.computations for i in c.instructions}

    @cached_property
    def thunks(self) -> tuple[Thunk, ...]:
        """The launches in order, after the passes over them if that was dumped.

        None if they cannot be read.
        """
        metadata = self.module.fixed("thunk_metadata")
        for file in self.thunk_files:
            try:
                return parse_thunks(file.read_text(), text_of(metadata[0]) if metadata else "")
            except XlanbError:
                continue
        return ()

    @property
    def thunk_files(self) -> list[DumpFile]:
        """The dumps of the launches, last one first."""
        return [*self.module.fixed("thunk_sequence_after_thunk_passes"), *self.module.fixed("thunk_sequence")]

    @cached_property
    def kernel_instructions(self) -> dict[str, tuple[str, ...]]:
        """The HLO instructions that each kernel is launched for.

        Found by the thunks, else by names, in which PTX has no dots.
        """
        found: dict[str, dict[str, None]] = {}
        for t in self.thunks:
            if t.is_kernel and t.instruction:
                found.setdefault(t.name, {})[t.instruction] = None
        by_name: dict[str, str] = {}
        for name in self.instructions:
            by_name.setdefault(re.sub(r"\W", "_", name), name)
        for name in self._kernel_names:
            plain = name if name in by_name else name.removesuffix("_fusion")  # as for a Triton collective
            if name not in found and plain in by_name:
                found[name] = {by_name[plain]: None}
        return {name: tuple(names) for name, names in found.items()}

    @cached_property
    def _kernel_names(self) -> list[str]:
        return [k.ptx.name for k in self._kernel_files]

    @cached_property
    def _kernel_files(self) -> list[_Files]:
        llvm, optimized = (self._by_function(kind) for kind in ("llvm_ir", "llvm_ir_optimized"))
        triton = self._by_function("triton_ir", MLIR_FUNCTION)
        ptx_files = {name: f for name, f in self.module.kernels.items() if "ptx" in f}
        found = []
        for file in self.files("ptx"):
            text = text_of(file)
            around = ptx_files[file.name.kernel]
            report = text_of(around["ptxas"]) if "ptxas" in around else ""
            resources = {r.name: r for r in parse_ptxas(report)}
            sass = {k.name: k for k in parse_sass(text_of(around["sass"]))} if "sass" in around else {}
            for k in parse_ptx(text):
                code = _code(k, text, llvm.get(k.name, ""), optimized.get(k.name, ""), sass.get(k.name))
                code = replace(code, triton=triton.get(k.name, ""))
                found.append(_Files(k, code, resources.get(k.name), refusal(report)))
        return found or self._llvm_kernels(llvm, optimized)

    @staticmethod
    def _llvm_kernels(llvm: Mapping[str, str], optimized: Mapping[str, str]) -> list[_Files]:
        """Return the kernels of a non-NVIDIA GPU, defined in LLVM IR."""
        texts = {name: text for name, text in {**llvm, **optimized}.items() if _KERNEL.search(text)}
        return [
            _Files(PtxKernel(name, "", ""), KernelCode("", llvm.get(name, ""), optimized.get(name, "")), None, "")
            for name in texts
        ]

    def _by_function(self, kind: str, defined: re.Pattern[str] = _DEFINE) -> dict[str, str]:
        """Return the text of each LLVM or MLIR module by the functions that it defines."""
        texts = [text_of(f) for f in self.files(kind)]
        return {name.strip('"'): text for text in texts for name in defined.findall(text)}

    def program(self) -> GpuProgram:
        """Kernels and launches."""
        launched: dict[str, list[Thunk]] = {}
        for t in self.thunks:
            launched.setdefault(t.name, []).append(t)
        times = self._times()
        count = {name: sum(times[id(t)] for t in ts) for name, ts in launched.items()}
        kernels = tuple(
            self._kernel(k, next(iter(launched.get(k.ptx.name, ())), None), count.get(k.ptx.name, 0))
            for k in self._kernel_files
        )
        launches = self._launches({k.name: k for k in kernels}, times)
        return GpuProgram(self.module.name, self.device_name, self.device, kernels, launches, self._note(kernels))

    def _note(self, kernels: Sequence[GpuKernel]) -> str:
        """Caveats of the figures."""
        notes = []
        if self.device is None:
            notes.append(f"{self.device_name or 'the GPU'} is not in the table of GPUs: no times, no occupancy.")
        measured = self.module.fixed("autotune_results")
        tiled = any(k.emitter is not None and k.emitter.tiles for k in kernels)
        if tiled and measured and "results" not in text_of(measured[0]):
            notes.append("Autotuning had no device: tiles and algorithms are XLA's defaults, not the fastest.")
        return " ".join(notes)

    def _kernel(self, files: _Files, thunk: Thunk | None, launches: int) -> GpuKernel:
        name = files.ptx.name
        instructions = self.kernel_instructions.get(name, ())
        first = self.instructions.get(instructions[0]) if instructions else None
        grid = thunk.grid if thunk is not None else (0, 0, 0)
        block = thunk.block if thunk is not None and thunk.threads else files.ptx.required_threads
        used = files.resources
        # Static shared memory is in ptxas' report, dynamic memory in the launch.
        shared = max(
            thunk.shared_bytes if thunk is not None else 0, files.ptx.shared_bytes, used.shared_bytes if used else 0
        )
        threads, blocks = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
        held = (
            occupancy(self.device, threads, used.registers, shared, blocks)
            if self.device is not None and used is not None
            else None
        )
        work = self._costs.get(instructions[0]) if instructions else None
        unit = _unit(files.code.ptx)
        emitter = emitter_of(first, self._fused(first)) if first is not None else None
        again = _tile_bytes(emitter, work) if unit and emitter is not None and work is not None else 0.0
        time = (
            estimate(self.device, work, blocks, threads, held, unit, again)
            if self.device is not None and work is not None and blocks
            else None
        )
        meta = first.metadata if first is not None else None
        return GpuKernel(
            name,
            instructions,
            emitter,
            grid,
            block,
            shared,
            launches,
            used,
            held,
            work,
            time,
            unit,
            meta.op_name if meta is not None else "",
            place_text(*meta.python_line) if meta is not None else "",
            files.refusal,
            self._with_hlo(files.code, first),
        )

    def _fused(self, i: InstructionRecord) -> dict[str, InstructionRecord]:
        if self.record is None:
            return {}
        return {j.name: j for name in i.called_computations for j in self.record.by_name[name].instructions}

    def _with_hlo(self, code: KernelCode, i: InstructionRecord | None) -> KernelCode:
        """Add the HLO to the texts: the instruction, and what it calls."""
        if i is None or self.record is None:
            return code
        called = _called(self.record, i)
        hlo = "\n\n".join([i.text, *(computation_text(c) for c in called)])
        return replace(code, hlo=hlo)

    @cached_property
    def _costs(self) -> Mapping[str, KernelCost]:
        """The cost of each instruction with a thunk or kernel."""
        wanted = {t.instruction for t in self.thunks} | {
            i for names in self.kernel_instructions.values() for i in names
        }
        if self.hlo is None:
            return {}
        return {i.name: kernel_cost(i) for c in self.hlo.computations for i in c if i.name in wanted}

    def _times(self) -> dict[int, int]:
        """Return how often a run reaches each thunk, by identity.

        Loops count by their trip count, or once if unknown.
        """
        times: list[int] = []
        for t in self.thunks:
            around = times[t.parent] * (self._trips(self.thunks[t.parent]) or 1) if t.parent >= 0 else 1
            times.append(min(around, 1 << 40))
        return {id(t): n for t, n in zip(self.thunks, times, strict=True)}

    def _trips(self, t: Thunk) -> int | None:
        """The trip count of a loop, None if unknown; 1 for other instructions."""
        if t.kind != "kWhile":
            return 1
        i = self.instructions.get(t.instruction)
        known = read_config(i.backend_config).get("known_trip_count") if i is not None else None
        count = str(known.get("n", "")) if isinstance(known, dict) else ""
        return int(count) if re.fullmatch(r"\d{1,9}", count) else None

    def _launches(self, kernels: Mapping[str, GpuKernel], times: Mapping[int, int]) -> tuple[Launch, ...]:
        """Return the thunks with their times, sequential on each stream.

        Containers span their contents.
        """
        clock = {MAIN_ROW: 0.0}
        ends: dict[str, float] = {}
        launches: list[Launch] = []
        for t in self.thunks:
            row, token = self._stream(t)
            if t.kind == "kAsyncDone":
                clock[MAIN_ROW] = max(clock[MAIN_ROW], ends.get(token, 0.0))
            elif t.kind.endswith("Done"):
                clock[MAIN_ROW] = max(clock.values())
            # Another stream begins no earlier than the main one has got to.
            start = clock[row] = max(clock.get(row, 0.0), clock[MAIN_ROW] if row != MAIN_ROW else 0.0)
            n = times[id(t)]
            time = self._estimate(t, kernels) if t.engine != "control" else None
            seconds = time.seconds * n if time is not None else 0.0
            shown = row if t.engine != "control" else ""
            bound = time.bound if time else ""
            launches.append(Launch(t, shown, start, seconds, n, bound, self._detail(t), self._trips(t) is None))
            ends[token] = clock[row] = start + seconds
        return _spanning(launches)

    def _stream(self, t: Thunk) -> tuple[str, str]:
        """Return a thunk's stream, and the number by which its end is waited for.

        They are those of the enclosing asynchronous step.
        """
        around = t
        while around.kind not in ("kAsyncStart", "kAsyncDone") and around.parent >= 0:
            around = self.thunks[around.parent]
        number = _ASYNC_ID.search(around.detail)
        stream = _STREAM.search(around.detail)
        if stream is not None and around.kind == "kAsyncStart":
            return stream[1], number[1] if number is not None else ""
        return self._old_stream(t), number[1] if number is not None else ""

    def _old_stream(self, t: Thunk) -> str:
        """Return a stream if thunks do not name it: asynchronous collectives have their own."""
        i = self.instructions.get(t.instruction) if t.engine == "NCCL" and t.kind.endswith("Start") else None
        config = read_config(i.backend_config).get("collective_backend_config") if i is not None else None
        return COLLECTIVE_ROW if isinstance(config, dict) and config.get("is_sync") is False else MAIN_ROW

    def _estimate(self, t: Thunk, kernels: Mapping[str, GpuKernel]) -> Estimate | None:
        if t.is_kernel and t.name in kernels:
            return kernels[t.name].estimate
        work = self._costs.get(t.instruction) if not t.kind.endswith("Done") else None
        return estimate(self.device, work) if self.device is not None and work is not None else None

    def _detail(self, t: Thunk) -> str:
        if t.kind == "kWhile":
            trips = self._trips(t)
            return (
                counted(trips, "iteration")
                if trips is not None
                else "the trip count is unknown: one iteration is counted"
            )
        i = self.instructions.get(t.instruction)
        if i is None or t.is_kernel or not (t.engine and t.engine not in ("control", "memory")):
            return t.detail
        return str(emitter_of(i)) if i.opcode.text == "custom-call" else t.detail


def _spanning(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Return the launches, with containers as long as their contents."""
    place = {id(x.thunk): k for k, x in enumerate(launches)}
    ends = [x.start + x.seconds for x in launches]
    thunks = [x.thunk for x in launches]
    for k in range(len(launches) - 1, -1, -1):
        parent = thunks[k].parent
        if parent >= 0:
            ends[parent] = max(ends[parent], ends[k])
    return tuple(replace(x, seconds=ends[place[id(x.thunk)]] - x.start) for x in launches)


def _code(k: PtxKernel, text: str, llvm: str, optimized: str, sass: SassKernel | None) -> KernelCode:
    """Return a kernel's texts; for a PTX file with several kernels, its own lines."""
    lines = text.splitlines()
    alone = text.count(".entry") == 1
    shown, before = (lines, 0) if alone else (lines[k.line - 1 : k.end], k.line - 1)
    places = tuple(max(n - before, 0) for n in sass.ptx_lines) if sass is not None else ()
    return KernelCode("", llvm, optimized, "\n".join(shown), sass.text if sass is not None else "", places)


def _called(module: ModuleRecord, i: InstructionRecord) -> Iterable[ComputationRecord]:
    """Return the computations that an instruction calls, followed by those that they call."""
    pending = list(i.called_computations)
    found: dict[str, ComputationRecord] = {}
    while pending and len(found) < MOST_COMPUTATIONS:
        name = pending.pop(0)
        if name not in found and name in module.by_name:
            found[name] = module.by_name[name]
            pending += [n for j in found[name].instructions for n in j.called_computations]
    return found.values()


def _unit(ptx: str) -> str:
    """Return the dtype that a kernel's tensor cores multiply, or ""."""
    found = _MATRIX.search(ptx)
    return "" if found is None else next((dtype for part, dtype in _UNITS if part in found[0]), "")


def _tile_bytes(emitter: KernelBackend, work: KernelCost) -> float:
    """Return the operand bytes that all blocks of a matrix product read.

    Each tile reads its rows and its columns.
    """
    tile = emitter.tiles[0][-2:] if emitter.tiles else ()
    if len(tile) < 2 or not all(tile):
        return 0.0
    bits = BY_TEXT[work.dtype].bits if work.dtype in BY_TEXT else 32
    return work.flops / 2 * (1 / tile[0] + 1 / tile[1]) * bits / 8


def text_of(file: DumpFile) -> str:
    """Return a file's text, or why it cannot be read."""
    try:
        return file.read_text()
    except XlanbError as error:
        return str(error)
