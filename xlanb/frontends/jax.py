"""Lower anything that JAX compiles to an HloModule, with its calling convention.

That is a function that `jax.jit` takes, a `jax.jit` object, a `Lowered`, a `Compiled`, a
`jax.export.Exported` or its serialized bytes, or a closed jaxpr. JAX does the lowering; it is
imported only when such an object is given.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from xlanb.boundary import filtered_traceback, let_pass
from xlanb.errors import ArgumentError, MissingPeerError, XlanbError
from xlanb.frontends.jax_calling import JaxCalling, JaxResult, Leaf
from xlanb.frontends.jax_effects import with_effects
from xlanb.frontends.jax_wrapped import PreparedFunction, has_static, prepared, unmark_result
from xlanb.frontends.mistakes import check_function, no_program, wrong_call
from xlanb.frontends.stablehlo.source import BYTECODE
from xlanb.hlo import HloModule
from xlanb.hlo.shape_inference.registry import row_major
from xlanb.shape import ArrayShape, Shape, TupleShape

_PACKAGE = str(Path(__file__).parents[1])


def import_jax(name: str = "jax") -> ModuleType:
    """A module of JAX.

    Raises:
        MissingPeerError: JAX is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"jax", "jaxlib"}:
            raise
        raise MissingPeerError("JAX is not installed: pip install jax") from None


def is_jax(x: Any) -> bool:
    """Whether this is a JAX object that holds a program.

    JAX objects come from `jax.jit`, `jax.export`, or a library that wraps them.
    """
    if "jax" not in sys.modules:
        return False
    if isinstance(x, bytes | bytearray):
        return True
    package = type(x).__module__.partition(".")[0]
    if package in {"equinox", "flax"} and callable(x):
        return True
    if package not in {"jax", "jaxlib"}:
        return False
    return _is_stage(x) or _is_closed_jaxpr(x) or hasattr(x, "lower") or hasattr(x, "mlir_module")


def refers_to_jax(function: Any) -> bool:
    """Whether JAX or one of its libraries made a function, or its code names anything of theirs.

    That is a module, a function, an array, or an object whose class derives from one of theirs.
    """
    if "jax" not in sys.modules:
        return False
    return _is_made_by_jax(function) or bool(packages_named_in(function) & _PACKAGES)


def refers_to_tensorflow(function: Any) -> bool:
    """Whether a function's own code names something of TensorFlow, or of Keras on TensorFlow."""
    if "tensorflow" not in sys.modules or not callable(function):
        return False
    packages = packages_named_in(function)
    if packages & _PACKAGES:
        return False
    return "tensorflow" in packages or ("keras" in packages and _keras_backend() == "tensorflow")


def _keras_backend() -> str:
    keras = sys.modules.get("keras")
    return str(keras.config.backend()) if keras is not None else ""


def packages_named_in(function: Any) -> set[str]:
    """The top-level packages of the values that a function's code names."""
    return {name.partition(".")[0] for name in modules_named_in(function)}


def modules_named_in(function: Any) -> set[str]:
    """The modules of the values that a function's code names."""
    return set().union(*(_modules(v) for v in _named_in(function)))


_PACKAGES = {
    "jax", "jaxlib", "blackjax", "chex", "diffrax", "distrax", "equinox", "flax", "haiku", "jaxopt", "jraph", "lineax",
    "numpyro", "optax",
    "optimistix", "penzai",
}  # fmt: skip
"""Libraries whose functions are JAX functions."""


def _is_made_by_jax(function: Any) -> bool:
    """Whether a JAX transformation such as `jax.grad` made the function.

    Such a function has the name and module of the inner function.
    """
    scope = getattr(function, "__globals__", {})
    return str(scope.get("__name__", "")).partition(".")[0] in _PACKAGES


def _modules(value: Any) -> set[str]:
    """Return the names of the modules of a value and of its class's bases.

    A `jax.jit` object has the module of its function.
    """
    names = (
        [value.__name__]
        if isinstance(value, ModuleType)
        else [getattr(value, "__module__", None), *(c.__module__ for c in type(value).__mro__)]
    )
    return {str(n) for n in names if n}


def _named_in(function: Any) -> list[Any]:
    """Return the values of a function's global and closed-over names, and a method's object."""
    function = inspect.unwrap(function) if callable(function) else function
    if isinstance(function, functools.partial):
        function = function.func
    owner = (
        function if callable(function) and not hasattr(function, "__code__") else getattr(function, "__self__", None)
    )
    if owner is function:
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    if code is None:
        return [owner]
    scope = getattr(function, "__globals__", {})
    cells = [c.cell_contents for c in getattr(function, "__closure__", None) or () if _is_filled(c)]
    names = set(code.co_names)
    for constant in code.co_consts:
        names |= set(getattr(constant, "co_names", ()))
    return [owner, *cells, *(scope[n] for n in names if n in scope)]


def _is_filled(cell: Any) -> bool:
    with contextlib.suppress(ValueError):
        return cell.cell_contents is not None
    return False


@filtered_traceback()
def from_jax(x: Any, /, *args: Any, **named: Any) -> HloModule:
    """Return the HLO of a JAX program as JAX passes it to XLA, before any pass.

    `x` is a function or a `jax.jit` object with example arguments, a `Lowered`, a `Compiled` (then
    it is the HLO after XLA's passes), a `jax.export.Exported` or its serialized bytes, a closed
    jaxpr, or StableHLO text or bytecode. The module takes flat arrays, one for each array that the
    function uses, and returns flat arrays.

    Python functions that it calls (jax.pure_callback, io_callback, jax.debug.print) are the
    module's `host_callbacks`. The tokens with which JAX orders effects between calls are not
    parameters or results here.

    Raises:
        MissingPeerError: JAX is not installed.
        XlanbError: `x` is none of these, or JAX rejects it.
    """
    module = jax_module(x, *args, **named)
    module.calling = None
    return module


def jax_module(x: Any, /, *args: Any, **named: Any) -> HloModule:
    """Return the module of `from_jax`, with a function's calling convention in `module.calling`.

    Raises:
        MissingPeerError: JAX is not installed.
        XlanbError: JAX cannot compile `x`, or rejects it.
    """
    if isinstance(x, str):
        return _of_stablehlo(x)
    jax = import_jax()
    if isinstance(x, bytes | bytearray):
        return _of_bytes(bytes(x), args, named)
    if _is_stage(x):
        return _of_stage(x)
    if _is_closed_jaxpr(x):
        return _of_jaxpr(x)
    if hasattr(x, "mlir_module") and hasattr(x, "in_avals"):
        return _of_exported(x, args, named)
    if not callable(x):
        raise no_program(x)
    # a Python line is the user's: these frames are not
    import_jax("jax.extend.source_info_util").register_exclusion(_PACKAGE)
    if type(x).__module__.partition(".")[0] in {"jax", "jaxlib"} and hasattr(x, "lower"):
        return _of_stage(_lowered(x, x, args, named), functools.partial(without_static, x))
    check_function(x)
    call = prepared(x, args, named)
    # all arguments remain parameters, so that code is called like the function
    lowered = _lowered(jax.jit(call.function, keep_unused=True), x, call.args, call.named)
    return _of_stage(lowered, call.prepare, call)


def _lowered(jitted: Any, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the `Lowered` of a `jax.jit` object of a function.

    Raises:
        ArgumentTypeError: the arguments do not match the function's signature.
        Exception: any that the function raises, or JAX because of it.
    """
    try:
        return jitted.lower(*args, **named)
    except Exception as error:
        wrong = wrong_call(function, args, named, error)
        if wrong is not None:
            raise wrong from None
        let_pass(error)
        if isinstance(error, import_jax().errors.TracerArrayConversionError):
            error.add_note("A NumPy function cannot compute with JAX's traced arrays: use the one of jax.numpy.")
        raise


def lowered_for(
    platform: str, function: Any, body: Any, args: tuple[Any, ...], named: dict[str, Any], out_shardings: Any = None
) -> Any:
    """Return the `Lowered` of a function for an absent platform ("cuda", "tpu").

    `body` is its part whose arguments and results are arrays.

    Raises:
        ArgumentTypeError: the arguments do not match the function's signature.
        Exception: any that the function raises, or JAX because of it.
    """
    jax = import_jax()
    import_jax("jax.extend.source_info_util").register_exclusion(_PACKAGE)
    is_jitted = type(function).__module__.partition(".")[0] in {"jax", "jaxlib"} and hasattr(function, "lower")
    if is_jitted and out_shardings is None:
        jitted = function
    else:
        check_function(function)
        jitted = jax.jit(body) if out_shardings is None else jax.jit(body, out_shardings=out_shardings)
    return _lowered(_ForPlatform(jitted, platform), function, args, named)


class _ForPlatform:
    """A `jax.jit` object that lowers for one platform."""

    def __init__(self, jitted: Any, platform: str) -> None:
        self._jitted = jitted
        self._platform = platform

    def lower(self, *args: Any, **named: Any) -> Any:
        """Its `Lowered`."""
        return self._jitted.trace(*args, **named).lower(lowering_platforms=(self._platform,))


Call = tuple[tuple[Any, ...], dict[str, Any]]


def has_static_arguments(function: Any) -> bool:
    """Whether a function is a `jax.jit` object that has some arguments for static."""
    info = getattr(function, "_jit_info", None)
    return info is not None and bool(info.static_argnums or info.static_argnames)


def static_arguments(
    function: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Call, list[tuple[int | str, Any]]]:
    """Split a call's arguments into those that are traced and the static ones of a `jax.jit`
    object.

    The static ones come with their numbers or names.
    """
    if not has_static_arguments(function):
        return (args, named), []
    info = function._jit_info  # noqa: SLF001 - JAX gives it no public name
    numbers = {n % len(args) if n < 0 and args else n for n in info.static_argnums}
    names = set(info.static_argnames)
    static: list[tuple[int | str, Any]] = [(n, a) for n, a in enumerate(args) if n in numbers]
    static += [(k, v) for k, v in named.items() if k in names]
    kept = tuple(a for n, a in enumerate(args) if n not in numbers)
    return (kept, {k: v for k, v in named.items() if k not in names}), static


def without_static(jitted: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Call:
    """Return the array arguments of a call of a `jax.jit` object, as JAX's compiled functions take
    them.
    """
    return static_arguments(jitted, args, named)[0]


def jitted_with_static(function: Any, numbers: Sequence[int], names: Sequence[str]) -> Any:
    """`jax.jit(function)` with some of its arguments static, and none dropped."""
    return import_jax().jit(
        function, static_argnums=tuple(numbers) or None, static_argnames=tuple(names) or None, keep_unused=True
    )


def trace_context() -> tuple[Any, ...]:
    """The JAX settings that affect a program besides its arguments: x64, the precision of products,
    meshes and others; () if JAX is not loaded.
    """
    if "jax" not in sys.modules:
        return ()
    values: tuple[Any, ...] = _context_reader()[0]()
    return values


def trace_context_names() -> tuple[str, ...]:
    """Return JAX's names of these settings."""
    return _context_reader()[1]


_PUBLIC_SETTINGS = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
    "jax_default_device", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_disable_jit",
)  # fmt: skip


@functools.cache
def _context_reader() -> tuple[Callable[[], tuple[Any, ...]], tuple[str, ...]]:
    """Return a function that reads JAX's settings, and the settings' names.

    They are JAX's own, which are part of the cache key of `jax.jit`, or the public ones if a
    version lacks that function.
    """
    config = import_jax("jax._src.config")
    read, names = getattr(config, "trace_context", None), getattr(config, "trace_context_names", None)
    if read is not None and names is not None:
        return read, tuple(names())
    public = import_jax().config
    return lambda: tuple(getattr(public, name, None) for name in _PUBLIC_SETTINGS), _PUBLIC_SETTINGS


def flat_call(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of a call's arguments and their structure."""
    leaves, tree = _tree_flatten()((args, named))
    return leaves, tree


@functools.cache
def _tree_flatten() -> Callable[[Any], tuple[list[Any], Any]]:
    flatten: Callable[[Any], tuple[list[Any], Any]] = import_jax("jax.tree_util").tree_flatten
    return flatten


def is_traced(value: Any) -> bool:
    """Whether a leaf is a tracer of `jax.jit`, `jax.grad` and the like."""
    return isinstance(value, import_jax().core.Tracer)


def is_array(value: Any) -> bool:
    """Whether a leaf is a jax.Array, with values or (`is_traced`) without."""
    return isinstance(value, import_jax().Array)


def names_of_leaves(roots: Sequence[tuple[str, Any]]) -> list[str]:
    """The names of the leaves of a call's arguments, as in `params['w']`."""
    tree = import_jax("jax.tree_util")
    return [f"{root}{tree.keystr(path)}" for root, value in roots for path, _ in tree.tree_flatten_with_path(value)[0]]


def _is_stage(x: Any) -> bool:
    stages = import_jax("jax.stages")
    return isinstance(x, stages.Lowered | stages.Compiled)


def _is_closed_jaxpr(x: Any) -> bool:
    return hasattr(x, "jaxpr") and hasattr(x, "in_avals") and hasattr(x, "consts")


def _of_stage(
    stage: Any, prepare: Callable[..., Any] | None = None, call: PreparedFunction | None = None, *, refine: bool = False
) -> HloModule:
    """Return the module of a `Lowered` or `Compiled`, from its proto.

    JAX's text lacks operation names, Python lines and the values of large constants.
    """
    module = HloModule.from_proto(_refined(stage) if refine else _proto_of(stage))
    if isinstance(stage, import_jax("jax.stages").Lowered):
        _lay_results_out(module, _layout_modes(stage))
    module = with_effects(module, stage)
    module.calling = _calling(stage, module, prepare, call)
    return module


def _lay_results_out(module: HloModule, modes: Sequence[str] = ()) -> None:
    """Give results the layouts of XLA's runtime (PJRT): row-major if `modes` requests none.

    jaxlib's HLO of StableHLO has the layouts of the last operations: the result of a transpose
    would need another copy.
    """
    if module.entry_layout is None:
        return
    parameters, result = module.entry_layout
    given = result.shapes if isinstance(result, TupleShape) else (result,)
    asked = [*modes, *[""] * (len(given) - len(modes))]
    parts = tuple(_laid_out(shape, mode) for shape, mode in zip(given, asked, strict=True))
    module.entry_layout = parameters, TupleShape(parts) if isinstance(result, TupleShape) else parts[0]


def _laid_out(shape: Shape, mode: str) -> Shape:
    """A result by its `mhlo.layout_mode`: "{0,1}", "auto" (any) or "default"."""
    if mode == "auto":
        return shape
    if mode.startswith("{") and isinstance(shape, ArrayShape):
        return shape.with_layout([int(d) for d in mode.strip("{}").partition(":")[0].split(",") if d])
    return row_major(shape)


def _layout_modes(lowered: Any) -> list[str]:
    for function in lowered.compiler_ir("stablehlo").body.operations:
        attributes = function.operation.attributes
        if "sym_name" in attributes and attributes["sym_name"].value == "main" and "res_attrs" in attributes:
            return [r["mhlo.layout_mode"].value if "mhlo.layout_mode" in r else "" for r in attributes["res_attrs"]]
    return []


def _refined(lowered: Any) -> bytes:
    """The HLO of a module for symbolic shapes, which the arguments' shapes have been put into."""
    text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)
    refine = import_jax("jaxlib._jax").mlir.refine_polymorphic_shapes
    made = refine(text.encode(), enable_shape_assertions=True, validate_static_shapes=True)
    proto: bytes = import_jax("jaxlib._jax").mlir.mlir_module_to_xla_computation(made).as_serialized_hlo_module_proto()
    return proto


def _proto_of(stage: Any) -> bytes:
    try:
        hlo = stage.compiler_ir("hlo") if hasattr(stage, "compiler_ir") else stage.runtime_executable().hlo_modules()[0]
    except RuntimeError as error:  # of JAX's extension, such as for an array of more elements than 64 bits count
        raise XlanbError(f"JAX cannot lower the function to HLO: {error}") from error
    proto: bytes = hlo.as_serialized_hlo_module_proto()
    return proto


def _calling(stage: Any, module: HloModule, prepare: Any, call: PreparedFunction | None) -> JaxCalling | None:
    """Return the calling convention; None if this JAX version does not say which arguments are
    kept.
    """
    jax = import_jax()
    parameters = module.entry_computation.parameters
    paths, in_tree = jax.tree_util.tree_flatten_with_path(stage.args_info)
    kept = _kept(stage, len(paths))
    if len(kept) != len(parameters):
        return None
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    for k, p in zip(kept, parameters, strict=True):
        names[k] = _name_of(p) or names[k]
    leaves = tuple(Leaf(name, info.dtype, tuple(info.shape)) for name, (_, info) in zip(names, paths, strict=True))
    results = tuple(JaxResult(v.dtype, tuple(v.shape), bool(getattr(v, "weak_type", False))) for v in _out_avals(stage))
    finish = call.finish if call is not None else None
    if finish is None and has_static(stage.out_tree):
        finish = unmark_result
    return JaxCalling(leaves, kept, in_tree, stage.out_tree, results, prepare, finish)


def _out_avals(stage: Any) -> Sequence[Any]:
    """Return the types of the results.

    The public name does not say which are weak, and fails for a `Compiled` with effects.
    """
    lowering = getattr(stage, "_lowering", None)
    avals: Sequence[Any] | None = getattr(lowering, "compile_args", {}).get("global_out_avals")
    if avals is None:
        avals = getattr(getattr(stage, "_executable", None), "out_avals", None)
    if avals is not None:
        return avals
    return list(import_jax().tree_util.tree_leaves(stage.out_info))


def _name_of(parameter: Any) -> str:
    metadata = parameter.metadata
    return str(metadata.op_name) if metadata is not None and metadata.op_name else ""


def _kept(stage: Any, count: int) -> tuple[int, ...]:
    """Return the numbers of the arguments that are parameters of the module; JAX has no public
    name.
    """
    lowering = getattr(stage, "_lowering", None)
    kept = (
        lowering.compile_args.get("kept_var_idx")
        if lowering is not None
        else getattr(getattr(stage, "_executable", None), "_kept_var_idx", None)
    )
    return tuple(sorted(kept)) if kept is not None else tuple(range(count))


def _of_jaxpr(closed: Any) -> HloModule:
    jax = import_jax()
    as_function = getattr(jax.core, "jaxpr_as_fun", None) or import_jax("jax.extend.core").jaxpr_as_fun
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in closed.in_avals]
    return _of_stage(jax.jit(as_function(closed), keep_unused=True).lower(*shapes))


def _of_exported(exported: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> HloModule:
    """Return the module of a `jax.export.Exported`, for given arguments or those of its export."""
    jax = import_jax()
    if not args and not named:
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals]
        if any(not isinstance(n, int) for s in shapes for n in s.shape):
            raise ArgumentError(f"{exported.fun_name} was exported for symbolic shapes: give example arguments")
        args, named = jax.tree_util.tree_unflatten(exported.in_tree, shapes)
    try:
        lowered = jax.jit(exported.call, keep_unused=True).lower(*args, **named)
    except ValueError as error:
        raise XlanbError(f"{exported.fun_name}, exported for {', '.join(exported.platforms)}: {error}") from error
    return _of_stage(lowered, refine=any(not isinstance(n, int) for a in exported.in_avals for n in a.shape))


def _of_bytes(data: bytes, args: tuple[Any, ...], named: Mapping[str, Any]) -> HloModule:
    """Return the module of StableHLO bytecode, or of a serialized `jax.export.Exported`."""
    if data.startswith(BYTECODE):
        return _of_stablehlo(data)
    export = import_jax("jax.export")
    try:
        exported = export.deserialize(bytearray(data))
    except ImportError as error:
        raise MissingPeerError(
            f"JAX needs flatbuffers to read serialized exports: pip install flatbuffers ({error})"
        ) from error
    except Exception as error:  # flatbuffers may raise anything on malformed bytes
        raise XlanbError(
            f"the {len(data)} bytes are neither StableHLO bytecode nor a serialized jax.export.Exported: {error}"
        ) from error
    return _of_exported(exported, args, named)


def _of_stablehlo(text: str | bytes) -> HloModule:
    extension = import_jax("jaxlib._jax")
    try:
        computation = extension.mlir.mlir_module_to_xla_computation(text)
    except Exception as error:  # the extension raises its own kinds
        raise XlanbError(f"the real XLA rejects the StableHLO: {error}") from error
    module = HloModule.from_proto(computation.as_serialized_hlo_module_proto())
    _lay_results_out(module)
    return module


def text_of_bytecode(data: bytes) -> str:
    """StableHLO bytecode (a portable artifact) as text, by jaxlib.

    Raises:
        MissingPeerError: JAX is not installed.
        XlanbError: jaxlib cannot read it; the message is jaxlib's.
    """
    interpreters = import_jax("jax._src.interpreters.mlir")
    dialect = import_jax("jaxlib.mlir.dialects.stablehlo")
    try:
        with interpreters.make_ir_context() as context:
            return str(dialect.deserialize_portable_artifact(context, data))
    except Exception as error:  # the extension raises its own kinds
        raise XlanbError(f"the {len(data)} bytes are no StableHLO bytecode that jaxlib reads: {error}") from error


__all__ = [
    "flat_call",
    "from_jax",
    "has_static_arguments",
    "import_jax",
    "is_array",
    "is_jax",
    "is_traced",
    "jax_module",
    "jitted_with_static",
    "lowered_for",
    "modules_named_in",
    "names_of_leaves",
    "refers_to_jax",
    "refers_to_tensorflow",
    "static_arguments",
    "text_of_bytecode",
    "trace_context",
    "trace_context_names",
]
