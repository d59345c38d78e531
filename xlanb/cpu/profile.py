"""Time per kernel: run a variant of the program that reads the cycle counter around kernels."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.analysis.cost import cost
from xlanb.codegen import jit, llvm
from xlanb.codegen.deep import deep
from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeModule
from xlanb.codegen.places import Place
from xlanb.codegen.types import I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.machine import MachineLimits, Roof, limits
from xlanb.cpu.objects import compile_units
from xlanb.cpu.records import KernelTime
from xlanb.cpu.traffic import traffic
from xlanb.hlo.attributes import OpMetadata
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.python_lines import place_text
from xlanb.shape import ArrayShape

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.cpu.executable import Executable


def _timed_program(exe: Executable) -> tuple[Program, int]:
    """The program that reads the counter around kernel calls, and its address; created once."""
    kept = exe.__dict__.get("_timed_program")
    if kept is None:
        program = deep(lambda: emit_program(exe.buffer_assignment, exe.target, profile=True))
        kept = exe.__dict__["_timed_program"] = program, exe.load(program)
    return kept[0], kept[1].run


def kernel_times(
    exe: Executable,
    arrays: tuple[Any, ...],
    runs: int = 10,
    *,
    warm: bool = True,
    machine: MachineLimits | None = None,
) -> tuple[list[KernelTime], list[int]]:
    """Each kernel's time in one run (the mean of `runs`), and its number of calls.

    With `warm`, a first run is not counted. With a `machine`, its limits are included. On several
    devices these are device 0's; a collective's time includes waiting for the others.

    Raises:
        MissingLibraryError: llvmlite is not installed.
    """
    if not exe.is_native:
        raise llvm.missing("measuring kernels")
    program, function = _timed_program(exe)
    counters = np.zeros((max(len(program.calls), 1), 2), np.uint64)
    given = exe.source_module.flat_arguments(arrays)

    def run() -> None:
        if exe.devices is not None:
            exe.devices.run_timed(given, function, counters)
        else:
            exe.calls.run_with(function, exe.calls.signature.flatten(given), counters.ctypes.data)

    if warm:
        run()
        counters[:] = 0
    cycle = seconds_per_cycle()
    for _ in range(runs):
        run()
    by_name = {i.name: i for i in exe.hlo_module.instructions()}
    times, calls = [], []
    for name, (count, cycles) in zip(program.calls, counters.tolist(), strict=False):
        i = by_name[program.kernels[name]]
        made_for = _metadata(i)
        per_run = round(count / runs)
        size, flops = traffic(i, exe.buffer_assignment), operations(i)
        roof = machine.roof(size, flops, _item_bytes(i)) if machine is not None else Roof(0.0, "")
        times.append(
            KernelTime(
                name,
                i.name,
                cycles * cycle / runs,
                size * per_run,
                flops * per_run,
                made_for.op_name,
                place_text(*made_for.python_line) if made_for.python_line[1] else "",
                roof.seconds * per_run,
                roof.bound,
                _GRAINS * clock_grain() * cycle * per_run,
            )
        )
        calls.append(per_run)
    return times, calls


def _item_bytes(i: HloInstruction) -> int:
    """Bytes of an element of the result."""
    return max(
        (s.as_array().element_type.bits // 8 for _, s in i.shape.leaves() if isinstance(s, ArrayShape)), default=4
    )


def _metadata(i: HloInstruction) -> OpMetadata:
    """A kernel's metadata, or that of the last instruction fused into it that has any."""
    if i.metadata.op_name or i.opcode is not Op.FUSION:
        return i.metadata
    inside = [j.metadata for j in i.fused_computation.post_order() if j.metadata.op_name]
    return inside[-1] if inside else i.metadata


def profile(exe: Executable, arrays: tuple[Any, ...], runs: int) -> pd.DataFrame:
    """See Executable.profile."""
    import pandas as pd

    if not exe.is_native:
        return pd.DataFrame(_unmeasured(exe), columns=COLUMNS)
    times, calls = kernel_times(exe, arrays, runs, machine=limits(exe.target.threads))
    total = sum(t.seconds for t in times) or 1.0
    rows = [
        (
            t.name, t.instruction, t.op_name, n, t.seconds, t.seconds / total, t.bytes_accessed, t.flops,
            t.bytes_accessed / t.seconds / 1e9 if t.seconds else math.nan,
            t.flops / t.seconds / 1e9 if t.seconds else math.nan,
            math.nan if t.of_limit is None else t.of_limit, t.bound,
        )
        for t, n in zip(times, calls, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS).sort_values("seconds", ascending=False, ignore_index=True)


COLUMNS = (
    "kernel", "instruction", "op_name", "calls", "seconds", "share", "bytes", "flops",
    "gbytes_per_second", "gflops_per_second",
    "of_limit", "bound",
)  # fmt: skip


def _unmeasured(exe: Executable) -> list[tuple[Any, ...]]:
    """The rows of a program without machine code: bytes and operations of one call, no times.

    Raises:
        MissingLibraryError: The program has loops, so that only a run could count kernel calls.
    """
    if exe.program.loops:
        raise llvm.missing("counting the calls of kernels in loops")
    by_name = {i.name: i for i in exe.hlo_module.instructions()}
    kernels = [(name, by_name[instruction]) for name, instruction in exe.program.kernels.items()]
    return [
        (name, i.name, _metadata(i).op_name, 1, math.nan, math.nan, traffic(i, exe.buffer_assignment), operations(i),
         math.nan, math.nan, math.nan, "")
        for name, i in kernels
    ]  # fmt: skip


def is_blurred(times: Sequence[KernelTime]) -> bool:
    """Whether a kernel took so few clock grains that more runs would give a better mean."""
    return any(t.seconds < _CLEAR_GRAINS / _GRAINS * t.grain for t in times)


@cache
def seconds_per_cycle() -> float:
    """Seconds per cycle of the counter, measured against the clock over some milliseconds."""
    code = _counter_code()
    read = code.function("read", 1)
    value = np.zeros(1, np.uint64)
    read(value.ctypes.data)
    first, start = int(value[0]), time.perf_counter()
    while time.perf_counter() - start < 0.005:
        pass
    read(value.ctypes.data)
    return (time.perf_counter() - start) / max(int(value[0]) - first, 1)


@cache
def clock_grain() -> int:
    """Median difference, in cycles, of consecutive readings of the cycle counter.

    It is the cost of a reading, or the processor's counting step.
    """
    pair = _counter_code().function("pair", 1)
    value = np.zeros(1, np.uint64)
    found = []
    for _ in range(1001):
        pair(value.ctypes.data)
        found.append(int(value[0]))
    return max(sorted(found)[len(found) // 2], min((n for n in found if n), default=1))


@cache
def _counter_code() -> jit.LoadedCode:
    """Functions that read the cycle counter: once, and twice for the difference."""
    target = jit.host()
    m = NativeModule("xlanb.counter", target)

    def counter(f: Function) -> Value:
        return f.call(I64, "llvm.readcyclecounter")

    @m.define("read", VOID, exported=True, out=PTR)
    def read(f: Function, out: Value) -> None:
        Place(out, I64).store(counter(f))

    @m.define("pair", VOID, exported=True, out=PTR)
    def pair(f: Function, out: Value) -> None:
        first = counter(f)
        Place(out, I64).store(counter(f) - first)

    return jit.LoadedCode(compile_units([Unit(m.text(), ready=True, weight=0)], target), ["read", "pair"])


_GRAINS, _CLEAR_GRAINS = 2, 20
"""Clock grains that a call must take to be measured by a mean of many runs, and by one run."""


def operations(i: HloInstruction) -> int:
    """Arithmetic operations of an instruction, at most 2**62.

    A transcendental function counts as one.
    """
    counts = cost(i)
    return int(min(counts.flops + counts.transcendentals, 1 << 62))
