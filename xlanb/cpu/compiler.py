"""The CPU compiler: HLO passes, schedule, buffers, LLVM IR, machine code, one step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from xlanb.boundary import boundary
from xlanb.buffers.buffer_assignment import BufferAssignment, assign_buffers
from xlanb.codegen import jit, llvm
from xlanb.codegen.cpus import code_threads
from xlanb.codegen.deep import deep
from xlanb.codegen.elemental import KernelTooLargeError, UnplannedKernelError
from xlanb.codegen.legalize import legalize
from xlanb.codegen.signature import Signature
from xlanb.codegen.target import Target, has_pool
from xlanb.cpu.codegen.kernel import KernelPolicy, is_kernel
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.executable import Executable
from xlanb.cpu.object_cache import environment_folder
from xlanb.cpu.objects import Ahead
from xlanb.cpu.pipelines import pipeline
from xlanb.cpu.runtime import pool
from xlanb.cpu.shortage import check_ranks, check_sizes
from xlanb.cpu.warm_up import warm_up
from xlanb.errors import CompilationError, HloVerifierError, OutOfMemoryError, UnimplementedError, XlanbError
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.hlo import parse
from xlanb.hlo.device_groups import device_grid
from xlanb.hlo.devices import device_count_of
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.hlo.verifier import verify_layouts
from xlanb.lazy_dataclass import dataclass
from xlanb.lazy_logging import logger
from xlanb.memory import check_addressable, size_text
from xlanb.spmd.optimize import optimize
from xlanb.stage import Deferred, Stage, Stages, exhaust
from xlanb.tracing import is_observed, unobserved
from xlanb.transforms.base import PassResult
from xlanb.transforms.layout.layout_agreement import agree
from xlanb.transforms.layout.layout_assignment import LayoutAssignment
from xlanb.transforms.pipeline import HloPassPipeline
from xlanb.wording import counted

_LOG = logger("xlanb.cpu")
if TYPE_CHECKING:
    from xlanb.cpu.devices import DevicePlacement
    from xlanb.cpu.executable_cache import ExecutableCache
    from xlanb.cpu.object_code import ObjectCode

T = TypeVar("T")


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    `pipeline` is a name in pipelines.PIPELINES or a custom pipeline. `disable_passes` are removed
    from it; if `enable_passes_only` is not empty, only those passes run. `want_text` makes the
    stepped compilation show LLVM IR and assembly; without it those steps have no text and cost
    nothing. `multi_thread` allows more than one thread at run time. With `verify`, the rules of HLO
    are checked after each pass that changed something. `vectors` is "explicit", or "llvm":
    elementwise code and reductions are then emitted for one element, and LLVM's passes vectorize
    them.
    """

    pipeline: str | HloPassPipeline = "default"
    disable_passes: tuple[str, ...] = ()
    enable_passes_only: tuple[str, ...] = ()
    want_text: bool = True
    multi_thread: bool = True
    vectors: str = "explicit"
    verify: bool = False


def chosen_pipeline(options: CompileOptions, module: HloModule | None = None) -> HloPassPipeline:
    """The pipeline that the options select; if the module is partitioned, it begins with that."""
    placement = _placement(module, in_place=False) if module is not None else None
    return _pipeline_for(options, placement.partitions if placement is not None else 1)


def _placement(module: HloModule, *, in_place: bool = True) -> DevicePlacement | None:
    """Follows how the arrays of a module, or of its copy, are distributed; None for one device."""
    if device_grid(module).count == 1 and "frontend_attributes" not in module.header:  # which may name meshes
        return None
    from xlanb.cpu.devices import DevicePlacement

    return DevicePlacement(module if in_place else module.clone())


def _pipeline_for(options: CompileOptions, partitions: int) -> HloPassPipeline:
    passes = (
        pipeline(options.pipeline, partitions=partitions) if isinstance(options.pipeline, str) else options.pipeline
    )
    if options.disable_passes:
        passes = passes.without(*(n for n in options.disable_passes if n in passes.names))
    return passes.only(*options.enable_passes_only) if options.enable_passes_only else passes


def compile_steps(module: HloModule, options: CompileOptions | None = None) -> Stages[Executable]:
    """Compile a module, one stage per `next()`; the generator returns the Executable.

    The module is not changed.

    Raises:
        XlanbError: A pass or the backend rejects the module.
    """
    with boundary("compile"):
        return (yield from _stages(module, options or CompileOptions(), recorded=True))


@boundary("compile")
def compile_module(
    module: HloModule, options: CompileOptions | None = None, read: Callable[[], HloModule] | None = None
) -> Executable:
    """Compile a module without intermediate stages; the module is not changed.

    A module whose executable is in XLANB_CACHE_DIR is not compiled again. If `read` is given, it
    reads the module again when somebody asks for it; then the module may be changed, which saves a
    copy.

    Raises:
        XlanbError: A pass or the backend rejects the module.
    """
    options = options or CompileOptions()
    kept = _cache(options) if not is_observed() else None
    if kept is None:
        return _compile(module, options, read)
    text = str(module)
    found = kept.get(text)
    if found is not None:
        return Executable.restored(module, found, lambda: _compile(parse(text), options))
    exe = _compile(module, options)
    kept.put(text, exe)
    return exe


def restore(text: str, read: Callable[[], HloModule], options: CompileOptions) -> Executable | None:
    """Look up the executable of a text in XLANB_CACHE_DIR.

    `read` parses the text, only if the module is needed.

    Raises:
        FlagError: XLANB_CACHE_BYTES is not a whole number.
    """
    kept = _cache(options)
    found = kept.get_of(text) if kept is not None else None
    return Executable.restored(read, found, lambda: _compile(read(), options)) if found is not None else None


def remember(text: str, module: HloModule, options: CompileOptions) -> None:
    """Record that a text yields this module, if XLANB_CACHE_DIR has the module's executable.

    Raises:
        FlagError: XLANB_CACHE_BYTES is not a whole number.
    """
    kept = _cache(options)
    if kept is not None:
        kept.put_words(text, str(module))


def _cache(options: CompileOptions) -> ExecutableCache | None:
    """The cache of executables that the environment specifies, if any."""
    if environment_folder() is None or not llvm.is_installed():
        return None
    from xlanb.cpu.executable_cache import ExecutableCache

    return ExecutableCache.of_environment(_target(options), options)


@boundary("compile")
def _compile(module: HloModule, options: CompileOptions, read: Callable[[], HloModule] | None = None) -> Executable:
    with raised_gc_thresholds():
        return exhaust(_stages(module, options, read, recorded=False))


@boundary("compile")
def object_for(module: HloModule, target: Target, name: str, options: CompileOptions | None = None) -> ObjectCode:
    """Compile a module to an object file for a `standalone` target; the module is not changed.

    Raises:
        XlanbError: A pass or the backend rejects the module, or it needs several devices.
    """
    from xlanb.cpu.object_code import check_name, object_code

    options = options or CompileOptions()
    check_name(name)
    check_ranks(module)
    made = module.clone()
    if device_count_of(made) > 1:
        raise UnimplementedError(
            f"{made.name} runs on {device_count_of(made)} devices: an object file can hold only a program "
            "for one device"
        )
    with raised_gc_thresholds():
        ran = [r.name for r in _pipeline_for(options, 1).steps(made, verify=options.verify)]
        _settle_layouts(made, ran)
        assignment, program = deep(lambda: _backend(made, target))
        return object_code(
            program,
            Signature.of(made, [p.name for p in module.entry_computation.parameters]),
            assignment.temp_size,
            name,
        )


@optimize.implement
def _optimized(module: HloModule) -> HloModule:
    return compile_module(module).hlo_module


def _stages(
    module: HloModule, options: CompileOptions, read: Callable[[], HloModule] | None = None, *, recorded: bool
) -> Stages[Executable]:
    """Compile: HLO passes, schedule, buffers, LLVM IR, machine code.

    Unless `recorded`, no stages are made, and the caller disables garbage collection.
    """
    check_ranks(module)
    warm_up()
    names = module.calling.names if module.calling is not None else None
    if names is None:
        names = tuple(p.name for p in module.entry_computation.parameters)
    source = read or module
    if read is None:
        module = module.clone()
    ran: list[str] = []
    placement = _placement(module)
    passes = _pipeline_for(options, placement.partitions if placement is not None else 1)

    def passed(name: str) -> None:
        ran.append(name)
        if placement is not None:
            placement.passed(name, module)

    if recorded or options.verify or is_observed():
        for result in passes.steps(module, verify=options.verify, records=recorded):
            passed(result.name)
            if recorded:
                yield _stage_of(result)
    else:
        passes.run_unwatched(module, passed)
    before = module.record() if recorded else None
    start = time.perf_counter()
    with raised_gc_thresholds():
        _settle_layouts(module, ran)
        target = _target(options)
        ahead = Ahead(target) if llvm.is_installed() and not recorded else None
        assignment, program = deep(lambda: _backend(module, target, ahead))
    emitted = time.perf_counter() - start
    start = time.perf_counter()
    _schedule(module, assignment)
    if before is not None:
        yield _schedule_stage(module, before, assignment, start)
        yield _buffers_stage(module, assignment)
    distribution = placement.distribution() if placement is not None else None
    merge = partial(_merged, placement, options) if placement is not None and distribution is not None else None
    start = time.perf_counter()
    exe = Executable(module, source, names, assignment, program, distribution, merge, ahead)
    if recorded and options.want_text:
        yield from _code_stages(exe, emitted, time.perf_counter() - start)
    return exe


def _merged(placement: DevicePlacement, options: CompileOptions) -> Executable | None:
    """Compile the programs of all devices as one; None if they cannot be merged."""
    from xlanb.spmd.devices.not_merged import NotMergedError

    try:
        with unobserved():
            return _compile(placement.merged(), options)
    except NotMergedError as error:
        _LOG.info("each device runs its own program: %s", error)
    except XlanbError:
        _LOG.warning("each device runs its own program: they could not be compiled as one", exc_info=True)
    return None


def _stage_of(result: PassResult) -> Stage:
    """A run of a pass as a stage; iterations of a fixed point are nested in the path."""
    rounds = (f"round {result.iteration + 1}",) if result.iteration else ()
    path = (*result.pipeline, *rounds)
    return Stage("hlo_pass", result.name, result.before, result.after, path, seconds=result.seconds)


def _schedule_stage(module: HloModule, before: ModuleRecord, assignment: BufferAssignment, start: float) -> Stage:
    after = module.record()
    count = sum(len(order) for order in assignment.orders.values())
    seconds, summary = time.perf_counter() - start, f"{count:,} instructions in order"
    return Stage("schedule", "schedule", before, after, seconds=seconds, summary=summary)


def _buffers_stage(module: HloModule, assignment: BufferAssignment) -> Stage:
    record, seconds = _timed(assignment.record)
    needed = sum(v.size for v in assignment.live.values if v.kind == "value")
    temp, peak, values = (size_text(n) for n in (record.temp_bytes, record.peak_bytes, needed))
    summary = f"{temp} of temporaries, {peak} at the peak; values need {values}"
    name = "buffer_assignment"
    return Stage(name, name, module.record(), record, seconds=seconds, summary=summary)


_BYTES_PER_LINE = 60


def _code_stages(exe: Executable, emitted: float, loaded: float) -> Iterable[Stage]:
    """Yield LLVM IR as emitted and optimized, and assembly; only the first without llvmlite.

    The texts are generated when they are read; their sizes are guesses. `emitted` and `loaded` are
    the seconds of emitting the program, and of compiling and linking it by LLVM.
    """
    size = _BYTES_PER_LINE * sum(f.size for f in exe.program.module.functions)
    first = Deferred(lambda: exe.llvm_record, size)
    words = counted(len(exe.program.kernels), "kernel")
    yield Stage("llvm_ir", "llvm_ir", exe.buffer_assignment.record(), first, seconds=emitted, summary=words)
    if not exe.is_native:
        return
    second, third = Deferred(lambda: exe.optimized_record, size), Deferred(lambda: exe.assembly_record, size)
    name, words = "llvm_ir_optimized", f"for {jit.host().cpu}"
    yield Stage(name, name, first, second, summary=words)
    yield Stage("assembly", "assembly", second, third, seconds=loaded, summary=words)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


def _settle_layouts(module: HloModule, ran: Sequence[str]) -> None:
    """Ensure that each value is read in the layout in which it was written.

    Inserts copies if layout-assignment is not among the passes that ran.

    Raises:
        CompilationError: A pass after layout-assignment reads a value in another layout.
    """
    if LayoutAssignment.name not in ran:
        agree(module)
        return
    try:
        verify_layouts(module)
    except HloVerifierError as error:
        raise CompilationError(
            f"a pass after {LayoutAssignment.name} left an operand in the wrong layout; "
            f"CompileOptions(verify=True), or bisect(...) on the trace of a Compilation, names the pass:\n{error}"
        ) from error


def _target(options: CompileOptions) -> Target:
    """The host as target: with one thread, or without explicit vectors, if the options say so."""
    if options.vectors not in ("explicit", "llvm"):
        raise CompilationError(f"vectors must be 'explicit' or 'llvm', not {options.vectors!r}")
    pool.update_limit()  # XLANB_THREADS may have changed
    threads = code_threads() if options.multi_thread else 1
    return _target_of(jit.host(), threads, options.vectors == "explicit")


@cache
def _target_of(host: Target, threads: int, explicit: bool) -> Target:
    """The target, the same object each time: it caches what it computes from its features."""
    threads = threads if has_pool(host.triple) else 1
    return replace(host, threads=threads, explicit_vectors=host.explicit_vectors and explicit, polls=True)


def _backend(module: HloModule, target: Target, ahead: Ahead | None = None) -> tuple[BufferAssignment, Program]:
    """Schedule, buffers and code of a module after the HLO passes, legalized in place.

    Raises:
        OutOfMemoryError: There is not enough memory for the emitted code, or a value is larger than
            any memory.
    """
    check_sizes(module)
    try:
        return _emitted(module, target, ahead)
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"code generation ran out of memory for {module.name}: {error}") from error


def _emitted(module: HloModule, target: Target, ahead: Ahead | None) -> tuple[BufferAssignment, Program]:
    """Legalize in place, schedule, assign buffers and emit the program.

    Only emitting a kernel shows how large it gets when producers are inlined at each of their uses,
    and in which order it reads and writes an array that is both operand and result. So the program
    is emitted again until all kernels fit: each time, one more fusion is split (`opened`) or one
    more result is kept out of its operands' memory (`apart`). No instruction is chosen twice, which
    bounds the number of rounds; almost always there is one.

    Raises:
        CompilationError: An instruction's kernel does not fit although it was chosen before.
    """
    opened: set[str] = set()
    apart: set[str] = set()
    _log_elided(module)
    if HloOpcode.PAD in module.opcodes:
        from xlanb.cpu.codegen.merged_pads import merge_pads

        merge_pads(module)
    while True:
        legalize(module, is_kernel, opened)
        assignment = assign_buffers(module, KernelPolicy(target.threads, apart))
        check_addressable(f"{module.name}: the arena of temporaries", assignment.temp_size)
        try:
            return assignment, emit_program(assignment, target, ahead=ahead.start if ahead is not None else None)
        except UnplannedKernelError as error:
            name = error.instruction.name
            chosen = opened if isinstance(error, KernelTooLargeError) else apart
            if name in chosen:
                raise CompilationError(f"{error}, even as a kernel of its own:\n  {error.instruction}") from error
            _LOG.info("%s: %s", module.name, error)
            chosen.add(name)


def _log_elided(module: HloModule) -> None:
    """Log the constants without values; XLA silently makes up values of its own."""
    names = [i.name for i in module.instructions() if i.opcode is HloOpcode.CONSTANT and i.literal.is_elided]
    if names:
        _LOG.warning(
            "%s: the values of %s were elided from the text ({...}); zeros are used instead",
            module.name,
            ", ".join(names),
        )


def _schedule(module: HloModule, assignment: BufferAssignment) -> None:
    """Write the schedule into the module."""
    for c, order in assignment.orders.items():
        module.set_schedule(c, order)
    module.header["is_scheduled"] = "true"
