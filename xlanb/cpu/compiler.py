"""The CPU compiler: HLO passes, schedule, buffers, LLVM IR, machine code, one step at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from xlanb.boundary import boundary
from xlanb.buffers.buffer_assignment import BufferAssignment, assign_buffers
from xlanb.codegen.elemental import KernelTooLargeError, OverwrittenError
from xlanb.cpu import jit
from xlanb.cpu.codegen.kernel import KernelPolicy
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.deep import deep
from xlanb.cpu.executable import Executable
from xlanb.cpu.legalize import legalize
from xlanb.cpu.pipelines import pipeline
from xlanb.cpu.shortage import check_ranks, check_sizes
from xlanb.cpu.target import Target
from xlanb.errors import CompilationError, HloVerifierError, OutOfMemoryError
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.hlo.verifier import verify_layouts
from xlanb.memory import check_addressable
from xlanb.transforms.collector import seldom
from xlanb.transforms.layout.layout_agreement import agree
from xlanb.transforms.layout.layout_assignment import LayoutAssignment
from xlanb.transforms.pipeline import HloPassPipeline

_LOG = logging.getLogger("xlanb.cpu")


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    `pipeline` is a name of pipelines.PIPELINES or a pipeline of one's own. `disable_passes` are left out of it; of `enable_passes_only`, where it is not empty, only those run.
    `want_text` makes the stepped compilation show LLVM IR and assembly; without it those steps have no text and cost nothing. `multi_thread` allows more than one thread at run time.
    With `verify` the rules of HLO are checked after each pass that changed something.
    `vectors` is "explicit", or "llvm": elementwise code and reductions are then written for one element, for LLVM's passes to find the vectors.
    """

    pipeline: str | HloPassPipeline = "default"
    disable_passes: tuple[str, ...] = ()
    enable_passes_only: tuple[str, ...] = ()
    want_text: bool = True
    multi_thread: bool = True
    vectors: str = "explicit"
    verify: bool = False


@dataclass(frozen=True)
class CompileStep:
    """One step: `kind` is hlo_pass, schedule, buffer_assignment, llvm_ir, llvm_ir_optimized or assembly.

    `before` and `after` are records, the same object where nothing changed; `pipeline` names the pipelines around, outermost first; `seconds` is wall time.
    """

    kind: str
    name: str
    pipeline: tuple[str, ...]
    before: Any
    after: Any
    seconds: float
    summary: str = ""


Steps = Generator[CompileStep, None, Executable]


def chosen_pipeline(options: CompileOptions) -> HloPassPipeline:
    """The pipeline that the options ask for."""
    passes = pipeline(options.pipeline) if isinstance(options.pipeline, str) else options.pipeline
    if options.disable_passes:
        passes = passes.without(*options.disable_passes)
    return passes.only(*options.enable_passes_only) if options.enable_passes_only else passes


def compile_steps(module: HloModule, options: CompileOptions | None = None) -> Steps:
    """Compile a module, which is not changed, one step with each `next()`; the generator returns the Executable.

    Raises:
        XlanbError: a pass or the backend refuses the module.
    """
    with boundary("compile"):
        return (yield from _compile_steps(module, options or CompileOptions()))


def _compile_steps(module: HloModule, options: CompileOptions) -> Steps:
    check_ranks(module)
    source, module = module, module.clone()
    ran: list[str] = []
    for result in chosen_pipeline(options).steps(module, verify=options.verify):
        ran.append(result.name)
        rounds = f"round {result.iteration + 1}" if result.iteration else ""
        yield CompileStep("hlo_pass", result.name, result.pipeline, result.before, result.after, result.seconds, rounds)
    before = module.record()
    start = time.perf_counter()
    with seldom():
        _settle_layouts(module, ran)
        assignment, program = deep(lambda: _backend(module, _target(options)))
    whole = time.perf_counter() - start
    yield from _backend_steps(module, before, assignment)
    start = time.perf_counter()
    exe = Executable(module, source, assignment, program)
    if options.want_text:
        yield from _text_steps(exe, whole)
    return exe


def _backend_steps(module: HloModule, before: ModuleRecord, assignment: BufferAssignment) -> Iterable[CompileStep]:
    """The schedule and the buffers, as records."""
    start = time.perf_counter()
    after = _scheduled(module, assignment)
    count = sum(len(order) for order in assignment.orders.values())
    yield CompileStep(
        "schedule", "schedule", (), before, after, time.perf_counter() - start, f"{count} instructions in order"
    )
    start = time.perf_counter()
    record = assignment.record()
    saved = sum(v.size for v in assignment.dataflow.values if v.kind == "value")
    summary = f"{record.temp_bytes} bytes of temporaries, {record.peak_bytes} at the peak; values need {saved}"
    yield CompileStep("buffer_assignment", "buffer_assignment", (), after, record, time.perf_counter() - start, summary)


def _text_steps(exe: Executable, emitted: float) -> Iterable[CompileStep]:
    """LLVM IR as emitted and optimised, and assembly, as records."""
    first, seconds = _timed(lambda: exe.llvm_record)
    summary = f"{len(first.kernels)} kernels, {first.text.count(chr(10))} lines"
    yield CompileStep("llvm_ir", "llvm_ir", (), exe.buffer_assignment.record(), first, emitted, summary)
    second, seconds = _timed(lambda: exe.optimized_record)
    yield CompileStep(
        "llvm_ir_optimized", "llvm_ir_optimized", (), first, second, seconds, f"{second.text.count(chr(10))} lines"
    )
    third, seconds = _timed(lambda: exe.assembly_record)
    yield CompileStep(
        "assembly", "assembly", (), second, third, seconds, f"{third.text.count(chr(10))} lines for {jit.host().cpu}"
    )


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


@boundary("compile")
def compile_module(module: HloModule, options: CompileOptions | None = None) -> Executable:
    """Compile a module, which is not changed, without a stop.

    Raises:
        XlanbError: a pass or the backend refuses the module.
    """
    options = options or CompileOptions()
    check_ranks(module)
    with seldom():
        source, module = module, module.clone()
        ran = [result.name for result in chosen_pipeline(options).run(module, verify=options.verify)]
        _settle_layouts(module, ran)
        assignment, program = deep(lambda: _backend(module, _target(options)))
        _scheduled(module, assignment, record=False)
        return Executable(module, source, assignment, program)


def _settle_layouts(module: HloModule, ran: Sequence[str]) -> None:
    """Make sure that code reads each value in the layout in which other code wrote it: by copies where layout-assignment is not among the passes that ran.

    Raises:
        CompilationError: a pass after layout-assignment lets a value be read in another layout.
    """
    if LayoutAssignment.name not in ran:
        agree(module)
        return
    try:
        verify_layouts(module)
    except HloVerifierError as error:
        raise CompilationError(
            f"a pass after {LayoutAssignment.name} left a value to be read in the wrong layout; "
            f"CompileOptions(verify=True), or bisect(...) on the trace of a Compilation, names the pass:\n{error}"
        ) from error


def _target(options: CompileOptions) -> Target:
    """The host, with one thread where the options allow no more, and without explicit vectors where LLVM is to find them."""
    if options.vectors not in ("explicit", "llvm"):
        raise CompilationError(f"vectors are 'explicit' or 'llvm', not {options.vectors!r}")
    return _target_of(jit.host(), options.multi_thread, options.vectors == "explicit")


@cache
def _target_of(host: Target, multi_thread: bool, explicit: bool) -> Target:
    """The same object each time: a target knows what it has computed of its features."""
    threads = host.threads if multi_thread else 1
    return replace(host, threads=threads, explicit_vectors=host.explicit_vectors and explicit, polls=True)


def _backend(module: HloModule, target: Target) -> tuple[BufferAssignment, Program]:
    """Schedule, buffers and code of a module that the HLO passes have left, legalised in place.

    Raises:
        OutOfMemoryError: there is not enough memory for what is emitted, or a value is larger than any memory.
    """
    check_sizes(module)
    try:
        return _emitted(module, target)
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"code generation ran out of memory over {module.name}: {error}") from error


def _emitted(module: HloModule, target: Target) -> tuple[BufferAssignment, Program]:
    """Legalise in place, schedule, assign buffers and emit; fusions that grow out of hand are opened, those that cannot be written in place are not, and it starts over."""
    too_large: set[str] = set()
    apart: set[str] = set()
    _tell_elided(module)
    while True:
        legalize(module, too_large)
        assignment = assign_buffers(module, KernelPolicy(target.threads, apart))
        check_addressable(f"{module.name}: the arena of temporaries", assignment.temp_size)
        try:
            return assignment, emit_program(assignment, target)
        except OverwrittenError as error:
            _LOG.info("%s: %s", module.name, error)
            apart.add(error.instruction.name)
        except KernelTooLargeError as error:
            name = error.instruction.name  # type: ignore[attr-defined]
            if name in too_large:
                raise CompilationError(f"the kernel of {name} is too large even by itself") from error
            too_large.add(name)


def _tell_elided(module: HloModule) -> None:
    """Log which constants have no values, as the real compiler, which goes on with some of its own, does not."""
    names = [i.name for i in module.instructions() if i.opcode is HloOpcode.CONSTANT and i.literal.is_elided]
    if names:
        _LOG.warning(
            "%s: the values of %s were elided from the text ({...}); zeros stand in their place",
            module.name,
            ", ".join(names),
        )


def _scheduled(module: HloModule, assignment: BufferAssignment, *, record: bool = True) -> Any:
    """Write the schedule into the module."""
    for c, order in assignment.orders.items():
        module.set_schedule(c, order)
    module.header["is_scheduled"] = "true"
    return module.record() if record else None
