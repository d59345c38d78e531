"""Run a compiled program on given or random inputs.

Measures the time of each kernel, TensorFlow node and Python line.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlanb.cpu.machine import MachineLimits, limits
from xlanb.cpu.profile import kernel_times
from xlanb.cpu.records import ExecutionRecord
from xlanb.errors import XlanbError
from xlanb.explorer.numbers import leaves_of, time_text
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.runtime.opt import arguments_for

if TYPE_CHECKING:
    from xlanb.cpu.executable import Executable

_PROFILED = 10
_SECONDS = 1.0
_LONGEST = 6


def program_of(trace: Trace) -> Executable:
    """Return the program of a compilation.

    Raises:
        XlanbError: it did not get that far, or is not ours.
    """
    if trace.program is None:
        raise XlanbError(f"{trace.name!r} holds no program: it was not compiled to completion here")
    return trace.program


def inputs_for(trace: Trace, given: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the given arrays, else the last run's or the example ones, else random ones."""
    program = program_of(trace)
    if given:
        return program.source_module.flat_arguments(given)
    if len(trace.inputs) == len(program.hlo_module.entry_computation.parameters):
        return trace.inputs
    return tuple(arguments_for(program.source_module, None))


def run_traced(trace: Trace, inputs: Sequence[Any] = (), *, at_most: int = _PROFILED) -> Any:
    """Run the program and return its result; then run it with a timer around each kernel.

    The timed runs are repeated up to `at_most` times within a second. The run becomes a stage of
    the trace, with the time of one run and kernels' mean times.

    Raises:
        XlanbError: there is no program, or the inputs do not match.
    """
    program = program_of(trace)
    arrays = inputs_for(trace, inputs)
    begin = time.perf_counter()
    result = program.flat(*arrays)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    result = program.flat(*arrays)  # the first run has cold caches
    seconds = min(seconds, time.perf_counter() - begin)
    runs = max(1, min(at_most, int(_SECONDS / max(seconds, 1e-9))))
    if program.is_native:
        machine = limits(program.target.threads)
        kernels, _ = kernel_times(program, arrays, runs, machine=machine)
    else:
        machine, kernels = MachineLimits(1, {4: 0.0, 8: 0.0}, ()), []
    # the kernels were timed in other runs: a run takes at least its kernels' time
    seconds = max(seconds, sum(k.seconds for k in kernels))
    results = tuple((f"{v.dtype}{list(v.shape)}", _short(v)) for v in leaves_of(result))
    record = ExecutionRecord(seconds, tuple(kernels), results, runs, machine.flops[4], machine.bandwidth)
    known = "the last inputs" if trace.runs else "the example arguments"
    whose = "given inputs" if len(inputs) else known if arrays is trace.inputs else "random inputs"
    summary = f"{time_text(seconds)} on {whose}, {len(kernels):,} kernels"
    trace.runs.append(seconds)
    trace.inputs = arrays
    trace.stages.append(
        Stage("execution", "execution", None, record, (), (), (), seconds, summary, index=len(trace.stages))
    )
    return result


def _short(value: Any) -> str:
    shown = value.ravel()[:_LONGEST]
    text = " ".join(f"{v:.6g}" if value.dtype.kind in "fc" else str(v) for v in shown)
    return text + (" ..." if value.size > _LONGEST else "")
