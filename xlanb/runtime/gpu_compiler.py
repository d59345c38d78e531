"""Compile for a GPU: the stages of its back end, each told to the observers."""

from __future__ import annotations

from xlanb.debug_options import current, in_force
from xlanb.gpu.compiler import GpuCompileOptions, compile_module, compile_steps
from xlanb.gpu.executable import GpuExecutable
from xlanb.gpu.pipelines import pipeline
from xlanb.hlo import HloModule
from xlanb.runtime.compiler import finished, start_compilation, told
from xlanb.stage import Stage, Stages, exhaust, size_text
from xlanb.tracing import PassesChosen, emit, is_observed, with_everywhere


def gpu_options(target: str) -> GpuCompileOptions:
    """How the flags in force have modules compiled for a device.

    Raises:
        XlanbError: no device has that name.
    """
    flags, passes = current(), pipeline(target)
    if flags.xla_disable_hlo_passes:
        passes = passes.without(*(n for n in flags.xla_disable_hlo_passes if n in passes.names))
    if flags.xla_enable_hlo_passes_only:
        passes = passes.only(*flags.xla_enable_hlo_passes_only)
    return GpuCompileOptions(target, passes)


def gpu_stages(module: HloModule, target: str) -> Stages[GpuExecutable]:
    """Compile a module from its start: what was handed in is the first stage, then each HLO pass and the buffer assignment.

    Raises:
        XlanbError: a pass or the back end refuses the module, or no device has that name.
    """
    options = gpu_options(target)
    key = start_compilation(module.name)
    record = module.record()
    yield finished(key, Stage("hlo", "before_optimizations", None, record, summary=size_text(record)))
    if options.passes is not None:
        emit(PassesChosen(key, options.passes))
    return (yield from told(compile_steps(module, options), key, record))


def gpu_compiled(module: HloModule, target: str) -> GpuExecutable:
    """Compile a module for a device without a stop.

    Raises:
        XlanbError: as `gpu_stages`.
    """
    with in_force(current()), with_everywhere():
        if is_observed():
            return exhaust(gpu_stages(module, target))
        return compile_module(module, gpu_options(target))
