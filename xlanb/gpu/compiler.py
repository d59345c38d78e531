"""The GPU compiler: HLO passes, schedule, buffers, kernels, one step at a time."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from xlanb.boundary import boundary
from xlanb.buffers.buffer_assignment import BufferAssignment, assign_buffers
from xlanb.codegen.deep import deep
from xlanb.codegen.elemental import UnplannedKernelError
from xlanb.codegen.legalize import legalize
from xlanb.errors import CompilationError, OutOfMemoryError
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.executable import GpuExecutable
from xlanb.gpu.expansion import expand
from xlanb.gpu.libraries import lower_library_calls
from xlanb.gpu.pipelines import pipeline
from xlanb.gpu.policy import GpuPolicy, is_kernel
from xlanb.gpu.program import LaunchProgram, emit_program
from xlanb.gpu.target import GpuTarget
from xlanb.hlo.module import HloModule
from xlanb.stage import Stage, Stages, exhaust
from xlanb.transforms.base import PassResult
from xlanb.transforms.layout.layout_agreement import agree
from xlanb.transforms.pipeline import HloPassPipeline

_LOG = logging.getLogger("xlanb.gpu")


@dataclass(frozen=True)
class GpuCompileOptions:
    """How to compile for a GPU: `device` by its name ("a100", "h100") or itself; `passes` are run on the module, by default those of `xlanb.gpu.pipeline(device)`.

    With `verify` the rules of HLO are checked after each pass that changed something.
    """

    device: str | GpuDevice = "a100"
    passes: HloPassPipeline | None = None
    verify: bool = False


def compile_steps(module: HloModule, options: GpuCompileOptions | None = None) -> Stages[GpuExecutable]:
    """Compile a module, which is not changed, one stage with each `next()`; the generator returns the GpuExecutable.

    Raises:
        XlanbError: a pass or the back end refuses the module, or no device has that name.
    """
    with boundary("compile"):
        return (yield from _stages(module, options or GpuCompileOptions(), recorded=True))


@boundary("compile")
def compile_module(module: HloModule, options: GpuCompileOptions | None = None) -> GpuExecutable:
    """Compile a module, which is not changed, without a stop.

    Raises:
        XlanbError: as `compile_steps`.
    """
    with raised_gc_thresholds():
        return exhaust(_stages(module, options or GpuCompileOptions(), recorded=False))


def _stages(module: HloModule, options: GpuCompileOptions, *, recorded: bool) -> Stages[GpuExecutable]:
    device = gpu_device(options.device) if isinstance(options.device, str) else options.device
    target = GpuTarget(device)
    source, module = module, module.clone()
    passes = options.passes if options.passes is not None else pipeline(device)
    for result in passes.steps(module, verify=options.verify, records=recorded):
        if recorded:
            yield _stage_of(result)
    start = time.perf_counter()
    with raised_gc_thresholds():
        agree(module)
        assignment, program = deep(lambda: _backend(module, target))
    for c, order in assignment.orders.items():
        module.set_schedule(c, order)
    module.header["is_scheduled"] = "true"
    exe = GpuExecutable(module, source, assignment, program)
    if recorded:
        name, seconds = "buffer_assignment", time.perf_counter() - start
        yield Stage(name, name, module.record(), assignment.record(), seconds=seconds)
    return exe


def _stage_of(result: PassResult) -> Stage:
    """A run of a pass as a stage; the rounds of a fixed point stand in the path, one below the other."""
    rounds = (f"round {result.iteration + 1}",) if result.iteration else ()
    path = (*result.pipeline, *rounds)
    return Stage("hlo_pass", result.name, result.before, result.after, path, seconds=result.seconds)


def _backend(module: HloModule, target: GpuTarget) -> tuple[BufferAssignment, LaunchProgram]:
    """Schedule, buffers and kernels of a module that the HLO passes have left, legalised in place.

    Only writing a kernel shows how large it grows: fusions that are too large are opened, each once, and the program is written anew.

    Raises:
        OutOfMemoryError: there is not enough memory for what is emitted.
        CompilationError: an instruction's kernel does not fit though it is by itself.
    """
    opened: set[str] = set()
    lower_library_calls(module)
    expand(module)
    try:
        while True:
            legalize(module, is_kernel, opened)
            assignment = assign_buffers(module, GpuPolicy())
            try:
                return assignment, emit_program(assignment, target)
            except UnplannedKernelError as error:
                name = error.instruction.name
                if name in opened:
                    raise CompilationError(f"{error}, even by itself:\n  {error.instruction}") from error
                _LOG.info("%s: %s", module.name, error)
                opened.add(name)
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"code generation ran out of memory for {module.name}: {error}") from error


__all__ = ["GpuCompileOptions", "compile_module", "compile_steps"]
