"""The stages from HLO to machine code, each reported to the observers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from xlanb.cpu.compiler import CompileOptions, chosen_pipeline, compile_module, compile_steps, remember, restore
from xlanb.cpu.executable import Executable
from xlanb.cpu.warm_up import warm_up
from xlanb.debug_options import DebugOptions, current, in_force
from xlanb.errors import InternalError, PassError, XlanbError
from xlanb.hlo import HloModule
from xlanb.logs import VLog
from xlanb.stage import Stage, Stages, exhaust, size_text
from xlanb.tracing import (
    CompilationStarted,
    Compiled,
    PassesChosen,
    StageFinished,
    emit,
    is_observed,
    with_everywhere,
)

_PIPELINE_LOG = VLog("runtime", "hlo_pass_pipeline")

_KEYS = count(1)
Made = TypeVar("Made")


def start_compilation(name: str, parent: int | None = None) -> int:
    """Report the start of a compilation to the observers; return the key of its stages."""
    key = next(_KEYS)
    if is_observed():
        emit(CompilationStarted(key, name, parent))
    return key


def finished(key: int, stage: Stage) -> Stage:
    """Report a stage of a compilation to the observers; return it."""
    if is_observed():
        emit(StageFinished(key, stage))
    return stage


def hlo_stages(
    module: HloModule,
    key: int,
    options: CompileOptions | None = None,
    read: Callable[[], HloModule] | None = None,
) -> Stages[Executable]:
    """Compile a module, one stage per step: each HLO pass, buffer assignment, LLVM IR, assembly.

    `options` default to those of the current flags. The module is not changed. Without observers
    there are no steps, texts for display are not generated, and `read` is used as in
    `compile_module`.

    Raises:
        XlanbError: A pass or the backend rejects the module. The failed stage is reported first,
            with the last good module.
    """
    options = options or options_in_force()
    _PIPELINE_LOG.vlog(1, "Running HLO pass pipeline optimization on module %s", module.name)
    if not is_observed() and not _PIPELINE_LOG.is_on(2):
        return compile_module(module, options, read)
    passes = chosen_pipeline(options, module)
    options = replace(options, pipeline=passes, disable_passes=(), enable_passes_only=())
    emit(PassesChosen(key, passes))
    return (yield from emit_stages(compile_steps(module, options), key, module.record()))


def emit_stages(steps: Stages[Made], key: int, before: Any) -> Stages[Made]:
    """The stages of a backend, reported to the observers; returns the executable.

    `before` is the module's record.

    Raises:
        XlanbError: A pass or the backend rejects the module; the failed stage is reported first.
    """
    while True:
        try:
            stage = next(steps)
        except StopIteration as end:
            executable: Made = end.value
            emit(Compiled(key, executable))
            return executable
        except Exception as error:
            yield finished(key, _failed(before, error))
            raise
        before = stage.given_after
        if stage.kind == "hlo_pass":
            _PIPELINE_LOG.vlog(2, "  HLO pass %s in %s", stage.name, " > ".join(stage.pipeline))
        yield finished(key, stage)


def _failed(before: Any, error: Exception) -> Stage:
    """The stage at which a compilation failed: the pass, if known, and the last good module."""
    path = error.path if isinstance(error, PassError | InternalError) else ()
    name = path[-1] if path else "compilation"
    message = str(error) if isinstance(error, XlanbError) else f"{type(error).__name__}: {error}"
    notes = "\n".join(getattr(error, "__notes__", ()))
    return Stage("hlo_pass", name, before, before, path[:-1], error=f"{message}\n{notes}".rstrip())


def module_stages(
    module: HloModule, options: CompileOptions | None = None, read: Callable[[], HloModule] | None = None
) -> Stages[Executable]:
    """Compile a module; its first stage is the input module, followed by those of `hlo_stages`.

    Raises:
        XlanbError: As for `hlo_stages`.
    """
    key = start_compilation(module.name)
    if is_observed():
        record = module.record()
        yield finished(key, Stage("hlo", "before_optimizations", None, record, summary=size_text(record)))
    return (yield from hlo_stages(module, key, options, read))


def _profile(executable: Executable) -> None:
    from xlanb.runtime.hlo_profile import profile_each_run

    profile_each_run(executable)


def compiled(module: HloModule, read: Callable[[], HloModule] | None = None) -> Executable:
    """Compile a module without intermediate stages; writes dumps if the current flags say so.

    `read` as in `compile_module`.

    Raises:
        XlanbError: As for `hlo_stages`.
    """
    options = current()
    with in_force(options), with_everywhere(), _dumping(options):
        executable = exhaust(module_stages(module, read=read))
    if options.xla_hlo_profile:
        _profile(executable)
    return executable


def compiled_text(text: str, read: Callable[[], HloModule]) -> Executable:
    """The same for HLO text, which `read` parses.

    A text found in XLANB_CACHE_DIR is not parsed unless there are observers.

    Raises:
        XlanbError: As for `hlo_stages`, or the text is rejected.
    """
    flags = current()
    with in_force(flags), with_everywhere():
        options, watched = options_in_force(), is_observed() or flags.writes_dumps
        found = restore(text, read, options) if not watched else None
    if found is None:
        warm_up()
        module = read()
        executable = compiled(module, None if watched else read)
        if not watched:
            remember(text, module, options)
        return executable
    if flags.xla_hlo_profile:
        _profile(found)
    return found


def _dumping(options: DebugOptions) -> AbstractContextManager[object]:
    """Dump compilations in the block if the flags say so."""
    if not options.writes_dumps:
        return nullcontext()
    from xlanb.dump.writer import dumping  # not loaded unless there are dumps

    return dumping(options)


def options_in_force() -> CompileOptions:
    """The compile options of the current flags."""
    flags = current()
    return CompileOptions(
        disable_passes=flags.xla_disable_hlo_passes,
        enable_passes_only=flags.xla_enable_hlo_passes_only,
        multi_thread=flags.xla_cpu_multi_thread_eigen,
    )
