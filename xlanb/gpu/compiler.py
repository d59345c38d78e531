"""The GPU compiler: HLO passes, schedule, buffers and kernels, one step at a time."""

from __future__ import annotations

import time

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
from xlanb.lazy_dataclass import dataclass
from xlanb.lazy_logging import logger
from xlanb.stage import Stage, Stages, exhaust
from xlanb.transforms.base import PassResult
from xlanb.transforms.layout.layout_agreement import agree
from xlanb.transforms.pipeline import HloPassPipeline

_LOG = logger("xlanb.gpu")


@dataclass(frozen=True)
class GpuCompileOptions:
    """How to compile for a GPU.

    Attributes:
        device: its name ("a100", "h100") or the device itself.
        passes: the passes to run, by default those of `xlanb.gpu.pipeline(device)`.
        verify: check the rules of HLO after each pass that changed something.
    """

    device: str | GpuDevice = "a100"
    passes: HloPassPipeline | None = None
    verify: bool = False


def compile_steps(module: HloModule, options: GpuCompileOptions | None = None) -> Stages[GpuExecutable]:
    """Compile a module, one stage with each `next()`; the generator returns the GpuExecutable.

    The module itself is not changed.

    Raises:
        XlanbError: a pass or the back end rejects the module, or no device has that name.
    """
    with boundary("compile"):
        return (yield from _stages(module, options or GpuCompileOptions(), recorded=True))


@boundary("compile")
def compile_module(module: HloModule, options: GpuCompileOptions | None = None) -> GpuExecutable:
    """Compile a module without stopping; the module itself is not changed.

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
    """Return a pass's run as a stage; a fixed point's rounds are part of its path."""
    rounds = (f"round {result.iteration + 1}",) if result.iteration else ()
    path = (*result.pipeline, *rounds)
    return Stage("hlo_pass", result.name, result.before, result.after, path, seconds=result.seconds)


def _backend(module: HloModule, target: GpuTarget) -> tuple[BufferAssignment, LaunchProgram]:
    """Assign a schedule, buffers and kernels to the optimized module, which is legalized in place.

    The size of a kernel is known only when it is written. Fusions whose kernels are too large are
    inlined, each once, and the program is written again.

    Raises:
        OutOfMemoryError: there is not enough memory for the emitted code.
        CompilationError: the kernel of a single instruction is too large.
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
