"""Run compiled code for graph nodes: XlaLaunch of a cluster, and single ops.

Each is compiled once per signature and cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from xlanb.clustering.encapsulate_subgraphs import ClusterFunction
from xlanb.cpu.executable import Executable
from xlanb.cpu.pipelines import joined
from xlanb.cpu.records import CacheRecord, ExecutionRecord
from xlanb.debug_options import current
from xlanb.errors import CancelledError, GraphError
from xlanb.graph.operation import Operation, Tensor
from xlanb.lazy_dataclass import dataclass
from xlanb.logs import VLog
from xlanb.runtime.claims import watched
from xlanb.runtime.compilation_cache import (
    ASYNC,
    CompilationCache,
    CompilationEntry,
    Signature,
    describe,
    mode_in_force,
    signature_of,
)
from xlanb.runtime.compiler import finished, hlo_stages, start_compilation
from xlanb.runtime.emulated import emulated_stages, is_on_gpu
from xlanb.runtime.function_content import attributes, content
from xlanb.runtime.graph_dumps import dump_compiled
from xlanb.runtime.hlo_profile import profile_each_run
from xlanb.runtime.step_stats import collecting
from xlanb.runtime.variables import Transaction, VariableHandle
from xlanb.shape.shape import of_array
from xlanb.stage import Stage, Stages, exhaust
from xlanb.tf2xla.compiler import Argument, CompilationResult, argument_of, lower
from xlanb.tf2xla.const_analysis import constant_inputs
from xlanb.tracing import Executed, emit, is_observed, unobserved

_LAUNCH_LOG = VLog("runtime", "executor")
_CACHE_LOG = VLog("runtime", "xla_compilation_cache")
_COMPILER_LOG = VLog("runtime", "xla_compiler")
_SERVICE_LOG = VLog("runtime", "service")
_Seen = dict[str, Any]  # a snapshot of variables, None for those without a value
_LONGEST_RESULT = 6  # values shown of a result


@dataclass(frozen=True)
class ClusterCall:
    """A call to run.

    A name, the tensors of its arguments, its results, and a text that identifies the computation;
    `function` is the cluster, None for a single op.
    """

    name: str
    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    constants: frozenset[int]
    fingerprint: str
    function: ClusterFunction | None = None

    @property
    def is_single(self) -> bool:
        """Whether it is a single op."""
        return self.function is None

    @staticmethod
    def of_cluster(function: ClusterFunction) -> ClusterCall:
        """The call of a cluster."""
        return ClusterCall(
            function.name,
            function.arguments,
            function.results,
            tuple(function.targets),
            function.constant_arguments,
            content(function.body),
            function,
        )

    @staticmethod
    def of_op(op: Operation) -> ClusterCall:
        """The call of a single op, without results that are references to variables."""
        feeds = tuple(dict.fromkeys(op.inputs))
        constants = frozenset(feeds.index(op.inputs[c]) for c in constant_inputs(op))
        fetches = tuple(t for t in op.outputs if not t.dtype.is_ref_dtype and t.dtype.name != "resource")
        where = [feeds.index(t) for t in op.inputs]
        return ClusterCall(
            op.type,
            feeds,
            fetches,
            (op,),
            constants,
            f"{op.type}{where}{attributes(op)}",
        )


def run_cluster(
    call: ClusterCall,
    inputs: Sequence[Any],
    variables: Transaction,
    cache: CompilationCache,
    parent: int | None,
) -> Stages[list[Any] | None]:
    """Run a cluster, compiled at its first run for each signature.

    Observers see every stage of the compilation, the first run, and the first cache hit. None if it
    should not be compiled now (see compilation_cache): run its nodes one by one.
    """
    is_first = cache.register_execution(call.fingerprint, call.name)
    while True:
        arguments, seen = _arguments(call, inputs, variables)
        signature = (*signature_of(call.fingerprint, arguments), _flags_key())
        entry = cache.find(signature)
        is_hit = entry is not None
        if entry is None:
            entry = yield from _compiled(call, arguments, signature, cache, parent, is_first=is_first)
            if entry is None:
                return None
        _LAUNCH_LOG.vlog(1, "Process node: %s = _XlaLaunch: %s", call.name, entry.arguments)
        ran = _execute(entry, inputs, seen, variables)
        if ran is not None:
            break
    values, outputs, begin, seconds = ran
    cache.count_run(entry, seconds)
    collector = collecting()
    if collector is not None and isinstance(entry.executable, Executable):
        collector.ran(call.name, entry.executable, values, begin, seconds)
    if is_observed():
        emit(Executed(entry.compilation, seconds, is_hit, inputs=tuple(values)))
        if not is_hit:
            yield _executed(entry, seconds, outputs)
        elif entry.hits == 1:
            yield _hit_stage(entry, cache)
    return outputs


def _hit_stage(entry: CompilationEntry, cache: CompilationCache) -> Stage:
    record = CacheRecord(entry.arguments, True, cache.hits, cache.misses, len(cache), entry.seconds)
    summary = f"hit for {entry.arguments}: {entry.seconds * 1e3:.0f} ms of compilation saved"
    name = "XlaCompilationCache"
    stage = Stage("compilation_cache", name, None, record, summary=summary)
    return finished(entry.compilation, stage)


def _compiled(
    call: ClusterCall,
    arguments: list[Argument],
    signature: Signature,
    cache: CompilationCache,
    parent: int | None,
    *,
    is_first: bool,
) -> Stages[CompilationEntry | None]:
    """The entry of a signature that is not in the cache; None if it should not be compiled now."""
    text = describe(call.name, arguments)
    mode = mode_in_force()
    _CACHE_LOG.vlog(1, "XlaCompilationCache::Compile %s", text)
    if not cache.wants(signature, text, is_first=is_first, mode=mode):
        return None
    if mode == ASYNC:

        def work() -> CompilationEntry:
            with unobserved():
                found: CompilationEntry = exhaust(_compile(call, arguments, parent))
            return found

        cache.compile_later(signature, work)
        return None
    with cache.claim(signature) as claim:
        if isinstance(claim, CompilationEntry):
            return claim
        entry = yield from watched(
            claim, _compile(call, arguments, parent, is_again=cache.was_compiled(call.fingerprint))
        )
        cache.store(signature, entry)
    return entry


def run_op(call: ClusterCall, inputs: Sequence[Any], variables: Transaction, cache: CompilationCache) -> list[Any]:
    """Run one op, compiled alone by the same lowering, without observers."""
    (op,) = call.targets
    by_tensor = dict(zip(op.inputs, inputs, strict=True))
    values = [by_tensor[t] for t in call.feeds]
    while True:
        arguments, seen = _arguments(call, values, variables)
        signature = (*signature_of(call.fingerprint, arguments), _flags_key())
        entry = cache.find(signature) or _compiled_alone(call, arguments, signature, cache)
        ran = _execute(entry, values, seen, variables)
        if ran is not None:
            break
    cache.count_run(entry)
    results = iter(ran.outputs)
    found = [_handle(op, inputs) if t.dtype.is_ref_dtype else next(results, None) for t in op.outputs]
    if any(v is None for v in found):
        raise GraphError(f"{op.describe()}: its lowering returns fewer results than its {len(op.outputs)} outputs")
    return found


def _compiled_alone(
    call: ClusterCall, arguments: list[Argument], signature: Signature, cache: CompilationCache
) -> CompilationEntry:
    """The entry of a single op's signature that is not in the cache."""
    with cache.claim(signature) as claim:
        if isinstance(claim, CompilationEntry):
            return claim
        with unobserved():
            entry: CompilationEntry = exhaust(_compile(call, arguments, None))
        cache.store(signature, entry)
    return entry


def _handle(op: Operation, inputs: Sequence[Any]) -> Any:
    """The reference that an op on a ref variable passes on. Raises GraphError if it has none."""
    found = next((v for v in inputs if isinstance(v, VariableHandle)), None)
    if found is None:
        raise GraphError(f"{op.describe()}: it returns a reference to a variable, but none of its inputs is a variable")
    return found


def _flags_key() -> tuple[Any, ...]:
    flags = current()
    return (
        flags.xla_disable_hlo_passes,
        flags.xla_enable_hlo_passes_only,
        flags.xla_hlo_profile,
        flags.xlanb_generation,
        flags.xlanb_gpu,
        joined(),
    )


def _arguments(call: ClusterCall, inputs: Sequence[Any], variables: Transaction) -> tuple[list[Argument], _Seen]:
    """The cache key's arguments, and the values of variables that they depend on."""
    seen = variables.get([v.name for v in inputs if isinstance(v, VariableHandle)])
    arguments = []
    for index, (tensor, value) in enumerate(zip(call.feeds, inputs, strict=True)):
        if isinstance(value, VariableHandle):
            found = seen[value.name]
            arguments.append(Argument("variable", None if found is None else of_array(found), None, value.node))
        else:
            arguments.append(
                argument_of(value, kind="constant" if index in call.constants else "parameter", name=tensor.op.name)
            )
    return arguments, seen


def _compile(
    call: ClusterCall, arguments: list[Argument], parent: int | None, *, is_again: bool = False
) -> Stages[CompilationEntry]:
    """Compile for a signature; later compilations of a cluster are named by their signature."""
    text = describe(call.name, arguments)
    key = start_compilation(text if is_again else call.name, parent)
    if call.function is not None:
        dump_compiled(call.function)
    is_for_gpu = call.function is not None and is_on_gpu(call.function.device)
    _log_service("CUDA" if is_for_gpu else "Host")
    _COMPILER_LOG.vlog(1, "XlaCompiler::CompileFunction %s", call.name)
    begin = perf_counter()
    with unobserved():  # instructions name their nodes: recording edits would add nothing
        result: CompilationResult = lower(
            call.name,
            list(zip(call.feeds, arguments, strict=True)),
            call.fetches,
            call.targets,
            follow_control=not call.is_single,
        )
    if is_observed():
        record = result.module.record()
        summary = f"{record.instruction_count} HLO instructions for {text}"
        seconds = perf_counter() - begin
        yield finished(key, Stage("tf2xla", "tf2xla", None, record, seconds=seconds, summary=summary))
    executable: Any
    if is_for_gpu:
        executable = yield from emulated_stages(result.module, key)
    else:
        executable = yield from hlo_stages(result.module, key)
    seconds = perf_counter() - begin
    if call.function is not None:
        _COMPILER_LOG.vlog(1, "Compiled cluster using XLA: %s in %.0f ms", text, seconds * 1e3)
    if current().xla_hlo_profile and not call.is_single and isinstance(executable, Executable):
        profile_each_run(executable)
    return CompilationEntry(result, executable, key, seconds, 0, call.name, text, not call.is_single)


_logged_platforms: set[str] = set()


def _log_service(platform: str) -> None:
    """Log what TensorFlow logs when it compiles for a platform first: the service, its device."""
    if platform in _logged_platforms or not _SERVICE_LOG.is_on(1):
        return
    _logged_platforms.add(platform)
    device = "Host, Default Version" if platform == "Host" else current().xlanb_gpu
    _SERVICE_LOG.vlog(
        1, "XLA service %#x initialized for platform %s (this does not guarantee that XLA will be used). Devices:",
        id(_logged_platforms), platform,
    )  # fmt: skip
    _SERVICE_LOG.vlog(1, "  StreamExecutor device (0): %s", device)


class _Ran(NamedTuple):
    """One run: its argument values, its outputs, when it began, and how long it took."""

    values: list[Any]
    outputs: list[Any]
    begin: float
    seconds: float


def _execute(entry: CompilationEntry, inputs: Sequence[Any], seen: _Seen, variables: Transaction) -> _Ran | None:
    """Run a program; None, without running it, if a variable's shape is no longer the compiled one.

    A program that updates variables holds all of its variables from before the first read until
    after the last write, as XlaLaunch does: to other threads, all its effects are one step.
    """
    if not entry.result.updates:
        return _run_on(entry, inputs, seen, variables)

    def step() -> _Ran | None:
        now = variables.get(seen)
        if not all(_is_alike(seen[name], value) for name, value in now.items()):
            return None
        return _run_on(entry, inputs, now, variables)

    return variables.exclusively(seen, step)


def _run_on(entry: CompilationEntry, inputs: Sequence[Any], held: _Seen, variables: Transaction) -> _Ran:
    """Run a program on its variables' values, and write those that it updates."""
    values = [
        (variables.read(v) if (found := held[v.name]) is None else found) if isinstance(v, VariableHandle) else v
        for v in (inputs[i] for i in entry.result.parameters)
    ]
    if entry.is_cancelled:
        raise CancelledError(f"{entry.name} was cancelled before it ran: the session is closed")
    begin = perf_counter()
    results = entry.executable(*values)
    count = entry.result.fetch_count
    updates = entry.result.updates
    if updates:
        variables.write({inputs[a].name: value for a, value in zip(updates, results[count:], strict=True)})
    return _Ran(values, list(results[:count]), begin, perf_counter() - begin)


def _is_alike(first: Any, second: Any) -> bool:
    """Whether code compiled for one of these values fits the other."""
    if first is second or first is None or second is None:
        return first is second
    return bool(first.dtype == second.dtype and first.shape == second.shape)


def _executed(entry: CompilationEntry, seconds: float, outputs: Sequence[Any]) -> Stage:
    record = ExecutionRecord(seconds, (), tuple((str(of_array(o)), _short(o)) for o in outputs))
    summary = f"first run in {seconds * 1e6:.0f} us"
    stage = Stage("execution", "execution", None, record, seconds=seconds, summary=summary)
    return finished(entry.compilation, stage)


def _short(value: Any) -> str:
    array = np.asarray(value)
    text = " ".join(f"{v:.6g}" if array.dtype.kind in "fc" else str(v) for v in array.ravel()[:_LONGEST_RESULT])
    return text + (" ..." if array.size > _LONGEST_RESULT else "")
