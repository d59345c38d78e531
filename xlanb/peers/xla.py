"""The real XLA:CPU through JAX, if installed: its compilation of a module, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, overload

import numpy as np

from xlanb.errors import ArgumentError, MissingPeerError, XlanbError
from xlanb.explorer.dump_trace import dump_trace
from xlanb.explorer.failing import Way, real_xla
from xlanb.frontends.jax import from_jax, import_jax, jax_module  # noqa: F401, from_jax is offered here too
from xlanb.hlo import HloModule, parse
from xlanb.hlo.records import ModuleRecord
from xlanb.peers.child import RealTrace, compile_in_child, execution_stage
from xlanb.peers.targets.trace import TargetTrace, trace_target
from xlanb.transforms.base import HloPass


def check_installed() -> None:
    """Raise MissingPeerError where JAX, which brings the real XLA, is not installed."""
    import_jax()


def canonical_text(text: str) -> str:
    """HLO text as the real parser and printer give it back.

    Raises:
        XlanbError: the real parser refuses it, with its message.
    """
    hlo = import_jax("jaxlib._hlo")
    try:
        canonical: str = hlo.hlo_module_from_text(text).to_string()
    except Exception as error:  # the extension raises its own kinds
        raise XlanbError(f"the real XLA rejects the text: {error}") from error
    return canonical


class RealExecutable:
    """A module compiled by the real XLA:CPU, called with arrays.

    `optimized_text` is its HLO after all passes.
    """

    def __init__(self, module: HloModule | str) -> None:
        hlo, jaxlib = import_jax("jaxlib._hlo"), import_jax("jaxlib._jax")
        text = str(module)
        if "_python_cpu_callback" in text:  # run without the functions that it names, it would end the process
            raise XlanbError(
                "the module calls Python functions, which the real XLA only accepts from JAX: pass the JAX "
                "function instead"
            )
        proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        mlir = jaxlib.mlir.xla_computation_to_mlir_module(hlo.XlaComputation(proto))
        client = import_jax("jax").devices("cpu")[0].client
        devices = jaxlib.DeviceList((client.local_devices()[0],))
        self._client = client
        self._loaded = client.compile_and_load(mlir, devices, jaxlib.CompileOptions())

    @property
    def optimized_text(self) -> str:
        """The module after the real pipeline."""
        text: str = self._loaded.hlo_modules()[0].to_string()
        return text

    def __call__(self, *args: Any) -> list[np.ndarray[Any, Any]]:
        """Run; the leaves of the result, in order."""
        return [np.asarray(r) for r in self.run(self.put(args))]

    @property
    def name(self) -> str:
        """The module's name."""
        name: str = self._loaded.hlo_modules()[0].name
        return name

    def put(self, args: Sequence[Any]) -> list[Any]:
        """Put arrays on the device as JAX arrays; 64-bit types are kept whatever JAX's setting."""
        jax = import_jax("jax")
        device = self._client.local_devices()[0]
        with jax.enable_x64(True):
            return [jax.device_put(np.asarray(a), device) for a in args]

    def run(self, buffers: list[Any]) -> list[Any]:
        """Run on arrays that are JAX's already; results that are JAX's, ready to read."""
        results = self._loaded.execute_sharded(buffers).disassemble_into_single_device_arrays()
        ready: list[Any] = import_jax("jax").block_until_ready([r[0] for r in results])
        return ready

    @property
    def temp_bytes(self) -> int:
        """Bytes of temporaries that XLA's buffer assignment needs."""
        size: int = self._loaded.get_compiled_memory_stats().temp_size_in_bytes
        return size


real = Way("the real XLA", lambda module, arrays: RealExecutable(module)(*arrays), is_real=True)
"""Compute a module with the real XLA:CPU, for `xlanb.explorer.failing.differs`."""


@real_xla.implement
def _real_xla() -> Way:
    """The real XLA:CPU.

    Raises:
        MissingPeerError: JAX is not installed.
    """
    check_installed()
    return real


@overload
def trace(
    x: Any, *arrays: Any, target: Literal["cpu"] = "cpu", all_passes: bool = False, runs: int = 20, flags: str = ""
) -> RealTrace: ...
@overload
def trace(
    x: Any, *arrays: Any, target: str, all_passes: bool = False, flags: str = "", **options: Any
) -> RealTrace | TargetTrace: ...
def trace(
    x: Any, *arrays: Any, target: str = "cpu", all_passes: bool = False, runs: int = 20, flags: str = "", **options: Any
) -> RealTrace | TargetTrace:
    """Compile `x` with the real XLA, and return a Trace of its passes, kernels and buffers.

    `x` is an HloModule, HLO text, or any argument of `xlanb.compile`, with `arrays` as its example
    arguments. XLA reads its flags once per process, so a child process compiles. Passes that
    changed something are recorded, with `all_passes` every one; `flags` are additional XLA_FLAGS.

    For the CPU the program is also run on `arrays`, `runs` times: the trace (a RealTrace) has the
    `results`, leaf by leaf, and the time of a run.

    Another `target` may be absent hardware: "h100", "a100:8" (eight in one host), "tpu v5e:2x2",
    the path of a GpuTargetConfigProto (.txtpb); `xlanb.targets()` lists them. Then `arrays` may be
    ShapeDtypeStructs, the trace is a TargetTrace, and there are more options:

    - `devices`: the number of GPUs, if the target does not state it;
    - `shardings`, `out_shardings`: NamedShardings or PartitionSpecs, in the structure of the
      arguments (or a prefix of it) and of the results; `mesh`: a JAX mesh for PartitionSpecs, or
      the sizes of its axes, `{"data": 2, "model": 4}`. A mesh over local devices is replaced by one
      with the same axes over the target's;
    - `python`: the interpreter of another environment, to compile with its version of XLA;
    - `timeout` in seconds, and `progress`, a function that is called with progress texts.

    Compilations for a target are cached on disk, by program, target, flags and versions (see
    XLANB_CACHE_DIR and XLANB_CACHE_BYTES).

    Raises:
        MissingPeerError: JAX, or the target's compiler, is not installed; the message has the
            command.
        ArgumentError: the target's name is unknown; or an option is for another target.
        XlanbError: the real XLA rejects the program, with its own message; it crashes, or takes
            longer than `timeout`.
    """
    if target.strip().lower() != "cpu":
        return trace_target(x, arrays, target, all_passes=all_passes, flags=flags, **options)
    given = [n for n, v in options.items() if v is not None and v != 1]
    if given:
        raise ArgumentError(f"{', '.join(given)}: only valid for targets other than the CPU")
    return _cpu_trace(x, *arrays, all_passes=all_passes, runs=runs, flags=flags)


def _cpu_trace(x: Any, *arrays: Any, all_passes: bool, runs: int, flags: str) -> RealTrace:
    import_jax("jaxlib")
    module = as_module(x, *arrays)
    flat = module.flat_arguments(arrays) if arrays else ()
    made = compile_in_child(str(module), flat, all_passes=all_passes, runs=runs, flags=flags)
    found = RealTrace(f"XLA:CPU: {module.name}", dump_trace(made.files).stages, made)
    if made.seconds:
        found.inputs = flat
        found.stages.append(execution_stage(len(found.stages), made))
        found.runs.extend(made.seconds)
    return found


def as_module(x: Any, *arrays: Any) -> HloModule:
    """Return the module of an argument of `trace`.

    Raises:
        XlanbError: it is none of these, or malformed.
    """
    return x if isinstance(x, HloModule) else parse(x) if _is_hlo(x) else jax_module(x, *arrays)


def _is_hlo(x: Any) -> bool:
    return isinstance(x, str) and "ENTRY" in x


@contextmanager
def using(hlo_pass: HloPass | Callable[[HloModule], Any], *, after_scheduling: bool = False) -> Iterator[list[Edited]]:
    """Make the real XLA:CPU run a pass of xlanb in its pipeline, within the block.

    It yields a list of the pass's changes, one entry per module. `hlo_pass` is a pass, or a
    function that rewrites a module in place. If a pass fails, the module is unchanged, and the
    error is raised at the end of the block. Functions that JAX compiled before are compiled anew.

    Raises:
        MissingPeerError: JAX is not installed, or older than 0.10.2.
        XlanbError: the pass's error.
    """
    jax = import_jax("jax")
    try:
        extension = import_module("jax.extend.xla")
    except ModuleNotFoundError:
        raise MissingPeerError(
            "tracing passes inside XLA needs JAX 0.10.2 or newer: pip install 'xlanb[peers]'"
        ) from None
    stage = extension.PipelineStage.POST_SCHEDULER if after_scheduling else extension.PipelineStage.PRE_SCHEDULER
    name = str(getattr(hlo_pass, "name", "") or getattr(hlo_pass, "__name__", "xlanb-pass"))
    call = _InsideXla(hlo_pass, name)
    jax.clear_caches()
    extension.register_hlo_module_transformation(call, name=name, stage=stage, platforms="cpu")
    try:
        yield call.edited
    finally:
        extension.clear_hlo_module_transformation(name, stage=stage, platforms="cpu")
        jax.clear_caches()
    if call.errors:
        raise call.errors[0]


@dataclass(frozen=True)
class Edited:
    """A pass's change to one module in the real XLA: records before and after, the same if
    unchanged.
    """

    module: str
    before: ModuleRecord
    after: ModuleRecord


class _InsideXla:
    """The callback: protocol buffers in and out."""

    def __init__(self, hlo_pass: Any, name: str) -> None:
        self.hlo_pass = hlo_pass
        self.name = name
        self.edited: list[Edited] = []
        self.errors: list[XlanbError] = []

    def __call__(self, data: bytes) -> bytes | None:
        try:
            module = HloModule.from_proto(data)
            before = module.record()
            (self.hlo_pass.run if hasattr(self.hlo_pass, "run") else self.hlo_pass)(module)
            module.verify()
            after = module.record()
        except XlanbError as error:
            self.errors.append(error)
            return None
        except Exception as error:  # noqa: BLE001 - it must not fly through the compiler, and is raised at the end of the block
            self.errors.append(XlanbError(f"pass {self.name} failed inside XLA: {type(error).__name__}: {error}"))
            return None
        self.edited.append(Edited(module.name, before, after))
        return None if after is before or after == before else module.to_proto()
