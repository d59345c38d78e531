"""--xla_hlo_profile: print the time of each kernel after each run.

The layout is that of XLA's HumanReadableProfileBuilder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from xlanb.cpu.executable import Executable
from xlanb.cpu.machine import limits
from xlanb.cpu.profile import is_blurred, kernel_times, seconds_per_cycle
from xlanb.cpu.records import KernelTime
from xlanb.transforms.side_effects import certain_effects

_MORE_RUNS: Final = 200
_TOO_SHORT: Final = "< grain "


def profile_each_run(executable: Executable) -> None:
    """Make every call of an executable print the profile of another run, timed by kernel."""
    call = executable.__call__

    def profiled(*arrays: Any) -> Any:
        results = call(*arrays)
        print(profile_text(executable, arrays))  # noqa: T201 - what the flag is for
        return results

    executable.__call__ = profiled


def profile_text(executable: Executable, arrays: Sequence[Any]) -> str:
    """The profile of one run: a line for the whole, then one for each kernel, the slowest first.

    Cycles are those of the processor's time stamp counter. Bytes are those of a kernel's operands
    and results, flops by the cost analysis. "optimal" is the least possible time on this machine;
    the last column is the fraction of that limit reached, and which limit it is. If a kernel takes
    too few of the clock's grains, the times are the mean of more runs; kernels too short even then
    show "< grain" instead of rates and fractions.
    """
    machine = limits(executable.target.threads)
    times, calls = kernel_times(executable, tuple(arrays), 1, machine=machine)
    if is_blurred(times) and not certain_effects(executable.hlo_module):
        times, calls = kernel_times(executable, tuple(arrays), _MORE_RUNS, warm=False, machine=machine)
    return "\n".join(_lines(executable, times, calls))


def _lines(executable: Executable, times: Sequence[KernelTime], calls: Sequence[int]) -> Iterator[str]:
    total = sum(t.seconds for t in times)
    name = executable.hlo_module.name
    frequency = 1e-9 / seconds_per_cycle()
    yield f"Execution profile for {name}: ({total * 1e6:.3g} us @ {frequency:.3g} GHz)"
    flops, traffic = sum(t.flops for t in times), sum(t.bytes_accessed for t in times)
    best = sum(t.limit for t in times)
    yield _line(
        KernelTime("", "", total, traffic, flops, limit=best, grain=sum(t.grain for t in times)),
        total,
        total,
        "[total] [entry]",
    )
    opcodes = {i.name: i.opcode for i in executable.hlo_module.instructions()}
    so_far = 0.0
    for t, count in sorted(zip(times, calls, strict=True), key=lambda pair: -pair[0].seconds):
        so_far += t.seconds
        often = f" x {count}" if count != 1 else ""
        text = f"%{t.instruction} = {opcodes[t.instruction]}{often}"
        yield _line(t, total, so_far, text)


def _line(t: KernelTime, total: float, so_far: float, text: str) -> str:
    seconds, flops, traffic = t.seconds, t.flops, t.bytes_accessed
    share = 100 * seconds / total if total else 0.0
    running = 100 * so_far / total if total else 0.0
    cycles = round(seconds / seconds_per_cycle())
    is_measured = t.is_measured
    share_of_limit = f"{100 * (t.of_limit or 0.0):>3.0f}% of {t.bound or 'limits'}"
    columns = (
        f"{cycles:>15} cycles ({share:6.2f}% {running:4.0f}Σ)",
        f"{seconds * 1e6:>12.3f} usec ({t.limit * 1e6:>12.3f} optimal)",
        f"{flops:>12} flops",
        f"{_rate(flops, seconds) if is_measured else _TOO_SHORT:>12}FLOP/s",
        f"{traffic:>12} bytes",
        f"{_rate(traffic, seconds) if is_measured else _TOO_SHORT:>12}B/s",
        f"{traffic / cycles:>8.2f}B/cycle" if is_measured else f"{_TOO_SHORT:>8}B/cycle",
        share_of_limit if is_measured else f"{_TOO_SHORT}of the clock",
        text + (f', metadata={{op_name="{t.op_name}"}}' if t.op_name else ""),
    )
    return " :: ".join(columns)


def _rate(amount: float, seconds: float) -> str:
    if not amount or not seconds:
        return "0 "
    value = amount / seconds
    for unit in ("", "K", "M", "G"):
        if value < 1000:
            return f"{value:.2f} {unit}"
        value /= 1000
    return f"{value:.2f} T"
