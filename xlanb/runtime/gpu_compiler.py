"""Compile for a GPU: the stages of its backend, each reported to the observers."""

from __future__ import annotations

from xlanb.debug_options import current, in_force
from xlanb.gpu.compiler import GpuCompileOptions, compile_module, compile_steps
from xlanb.gpu.executable import GpuExecutable
from xlanb.gpu.pipelines import pipeline
from xlanb.hlo import HloModule
from xlanb.runtime.compiler import emit_stages, finished, start_compilation
from xlanb.runtime.gpu_report import GpuReport
from xlanb.stage import Deferred, Stage, Stages, exhaust, size_text
from xlanb.tracing import PassesChosen, emit, is_observed, with_everywhere
from xlanb.wording import counted


def gpu_options(target: str) -> GpuCompileOptions:
    """The compile options of the current flags for a device.

    Raises:
        XlanbError: There is no device of that name.
    """
    flags, passes = current(), pipeline(target)
    if flags.xla_disable_hlo_passes:
        passes = passes.without(*(n for n in flags.xla_disable_hlo_passes if n in passes.names))
    if flags.xla_enable_hlo_passes_only:
        passes = passes.only(*flags.xla_enable_hlo_passes_only)
    return GpuCompileOptions(target, passes)


def gpu_stages(module: HloModule, target: str) -> Stages[GpuExecutable]:
    """Compile a module for a GPU: the input module, each HLO pass, buffer assignment, code.

    Raises:
        XlanbError: A pass or the backend rejects the module, or there is no device of that name.
    """
    options = gpu_options(target)
    key = start_compilation(module.name)
    record = module.record()
    yield finished(key, Stage("hlo", "before_optimizations", None, record, summary=size_text(record)))
    return (yield from gpu_hlo_stages(module, key, options))


def gpu_hlo_stages(module: HloModule, key: int, options: GpuCompileOptions) -> Stages[GpuExecutable]:
    """Compile a module, one stage per step.

    The stages: each HLO pass, buffer assignment, LLVM IR, PTX, the launch sequence.

    Raises:
        XlanbError: As for `gpu_stages`. The failed stage is reported first, with the last good
            module.
    """
    if options.passes is not None:
        emit(PassesChosen(key, options.passes))
    return (yield from emit_stages(_with_code(compile_steps(module, options)), key, module.record()))


def _with_code(steps: Stages[GpuExecutable]) -> Stages[GpuExecutable]:
    """The stages of the backend, then the kernels' code in each form and the launch sequence.

    The texts are generated when they are viewed.
    """
    exe = yield from steps
    report = GpuReport(exe)
    buffers = exe.buffer_assignment.record()
    size = sum(len(k.code.ir) for k in exe.kernels)
    llvm, optimized, ptx = (
        Deferred(made, size) for made in (lambda: report.llvm, lambda: report.llvm_optimized, lambda: report.ptx)
    )
    kernels = counted(len(exe.kernels), "kernel")
    yield Stage("llvm_ir", "llvm_ir", buffers, llvm, summary=kernels)
    yield Stage("llvm_ir_optimized", "llvm_ir_optimized", llvm, optimized)
    yield Stage("ptx", "ptx", optimized, ptx, summary=f"for {exe.device.architecture.name}")
    launches = counted(len(exe.launches), "launch")
    yield Stage("gpu_program", "kernels", ptx, Deferred(lambda: report.program, size), summary=f"{kernels}, {launches}")
    return exe


def gpu_compiled(module: HloModule, target: str) -> GpuExecutable:
    """Compile a module for a device without intermediate stages.

    Raises:
        XlanbError: As for `gpu_stages`.
    """
    with in_force(current()), with_everywhere():
        if is_observed():
            return exhaust(gpu_stages(module, target))
        return compile_module(module, gpu_options(target))
