"""Lower a JAX function for a platform and devices that need not be present."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from xlanb.errors import ArgumentError
from xlanb.frontends.jax import import_jax, lowered_for
from xlanb.frontends.jax_wrapped import prepared
from xlanb.lazy_dataclass import dataclass

_WEEKS_12 = "WEEK_12"


@dataclass(frozen=True)
class JaxProgram:
    """A program for another process to compile: StableHLO (bytecode, or a portable artifact) or HLO
    text.

    Other versions can read portable artifacts. It also has the number of devices. The flags say for
    each parameter and each result whether the partitioner may choose its sharding.
    """

    name: str
    data: bytes
    identity: bytes
    """A key, equal for the same program lowered again, even from another line or cell."""

    is_hlo: bool = False
    partitions: int = 1
    replicas: int = 1
    propagate_to_parameters: tuple[bool, ...] = ()
    propagate_to_output: tuple[bool, ...] = ()


def lower_for(
    platform: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any] | None = None,
    *,
    shardings: Any = None,
    out_shardings: Any = None,
    mesh: Any = None,
    device_count: int = 1,
    portable: bool = False,
) -> JaxProgram:
    """Lower a function for "cuda", "rocm", "oneapi" or "tpu".

    `args` are arrays or ShapeDtypeStructs, with shardings of their own or those of `shardings`: a
    tree of NamedShardings or PartitionSpecs whose structure is that of `args` or a prefix of it.
    PartitionSpecs are over `mesh`: a JAX mesh, or the sizes of its axes by name, `{"data": 2,
    "model": 4}`; with one axis it may be omitted, and has all `device_count` devices. With
    `portable` another version of JAX can read the program.

    Raises:
        MissingPeerError: JAX is not installed.
        ArgumentError: the shardings do not fit the arguments, or there is no mesh for them.
        XlanbError: JAX rejects the function.
    """
    made = _Shardings(mesh, device_count)
    call = prepared(function, args, dict(named or {}))
    given = made.on_arguments(shardings, call.args)
    lowered = lowered_for(platform, function, call.function, given, call.named, made.tree(out_shardings))
    return _program(lowered, portable=portable)


def _program(lowered: Any, *, portable: bool) -> JaxProgram:
    module = lowered.compiler_ir("stablehlo")
    data: bytes = import_jax("jax._src.interpreters.mlir").module_to_bytecode(module)
    if portable:
        dialect = import_jax("jaxlib.mlir.dialects.stablehlo")
        version = dialect.get_version_from_compatibility_requirement(
            getattr(dialect.StablehloCompatibilityRequirement, _WEEKS_12)
        )
        data = import_jax("jaxlib._jax").mlir.serialize_portable_artifact(data, version)
    attributes = module.operation.attributes
    counts = [int(attributes[n].value) if n in attributes else 1 for n in ("mhlo.num_partitions", "mhlo.num_replicas")]
    compile_args = getattr(getattr(lowered, "_lowering", None), "compile_args", {})
    flags = [tuple(map(bool, compile_args.get(n) or ())) for n in ("allow_prop_to_inputs", "allow_prop_to_outputs")]
    name = str(attributes["sym_name"].value) if "sym_name" in attributes else "program"
    identity = _without_callers(module.operation.get_asm(enable_debug_info=True)).encode()
    return JaxProgram(name, data, identity, False, counts[0], counts[1], flags[0], flags[1])


_DEFINITION = re.compile(r"^#loc(\d*) = loc\((.*)\)\n?", re.MULTILINE)
_CALL_SITE = re.compile(r"callsite\(#loc(\d*) at .*\)")
_NAMED = re.compile(r'("(?:[^"\\]|\\.)*")\(#loc(\d*)\)')
_KERNEL_FOLDER = re.compile(r"ipykernel_\d+")
_REFERENCE = re.compile(r"#loc(\d*)")


def _place(name: str, place: str) -> str:
    return name if name.startswith('"jit(') and "/" not in name else f"{name} {place}"


def _without_callers(text: str) -> str:
    """Return a module's text with operation locations, but without those of callers.

    JAX's own operations around the function have only the function's name and the caller's line. A
    notebook's cells are in a folder named after the process, which is removed too.
    """
    bodies = dict(_DEFINITION.findall(text))
    short: dict[str, str] = {}

    def resolved(number: str) -> str:
        if number not in short:
            body = bodies.get(number, "")
            site, named = _CALL_SITE.fullmatch(body), _NAMED.fullmatch(body)
            if site is not None:
                short[number] = resolved(site[1])
            else:
                short[number] = body if named is None else _place(named[1], resolved(named[2]))
        return short[number]

    program = _KERNEL_FOLDER.sub("", _DEFINITION.sub("", text).rstrip("\n"))
    return _REFERENCE.sub(lambda m: _KERNEL_FOLDER.sub("", resolved(m[1])), program)


@dataclass
class _Shardings:
    """Makes shardings over meshes without devices.

    Those that the program is compiled for are known to the other process alone.
    """

    mesh: Any
    device_count: int

    def on_arguments(self, shardings: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as ShapeDtypeStructs with their shardings."""
        jax = import_jax()
        if shardings is None:
            return tuple(jax.tree_util.tree_map(self._abstracted, args))
        tree = shardings if isinstance(shardings, tuple | list) and not self._is_leaf(shardings) else (shardings,)
        if len(tree) > len(args):
            raise ArgumentError(f"shardings: {len(tree)} for {len(args)} arguments")
        padded = (*tree, *(None for _ in args[len(tree) :]))
        try:
            made = jax.tree_util.tree_map(
                lambda s, sub: jax.tree_util.tree_map(lambda leaf: self._placed(leaf, s), sub),
                padded,
                args,
                is_leaf=self._is_leaf,
            )
        except ValueError as error:
            raise ArgumentError(f"the structure of the shardings is not a prefix of the arguments': {error}") from error
        return tuple(made)

    def tree(self, shardings: Any) -> Any:
        """Return a tree of shardings for results, or None."""
        if shardings is None:
            return None
        return import_jax().tree_util.tree_map(self._sharding, shardings, is_leaf=self._is_leaf)

    def _is_leaf(self, value: Any) -> bool:
        sharding = import_jax("jax.sharding")
        return value is None or isinstance(value, sharding.PartitionSpec | sharding.Sharding)

    def _abstracted(self, leaf: Any) -> Any:
        """Move an argument's own sharding, if over a mesh, to the mesh without devices."""
        own = getattr(leaf, "sharding", None)
        if own is None or not hasattr(own, "mesh") or math.prod(own.mesh.shape.values()) == 1:
            return leaf
        return self._placed(leaf, own)

    def _placed(self, leaf: Any, sharding: Any) -> Any:
        if sharding is None:
            return self._abstracted(leaf)
        jax = import_jax()
        if not hasattr(leaf, "shape"):
            leaf = jax.numpy.asarray(leaf)
        try:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._sharding(sharding))
        except ValueError as error:
            raise ArgumentError(f"shardings: {error}") from error

    def _sharding(self, value: Any) -> Any:
        sharding = import_jax("jax.sharding")
        if value is None:
            return None
        if isinstance(value, sharding.PartitionSpec):
            return sharding.NamedSharding(self._mesh_for(value), value)
        if isinstance(value, sharding.NamedSharding):
            mesh = value.mesh
            return sharding.NamedSharding(getattr(mesh, "abstract_mesh", mesh), value.spec)
        raise ArgumentError(f"expected a NamedSharding or a PartitionSpec as the sharding, got {type(value).__name__}")

    def _mesh_for(self, spec: Any) -> Any:
        sharding = import_jax("jax.sharding")
        if self.mesh is None:
            axes = {a for part in spec if part is not None for a in (part if isinstance(part, tuple) else (part,))}
            if len(axes) > 1:
                raise ArgumentError(f'{spec}: give the sizes of its axes, as in mesh={{"{min(axes)}": 2, ...}}')
            self.mesh = {next(iter(axes), "devices"): self.device_count}
        if isinstance(self.mesh, Mapping):
            types = (sharding.AxisType.Auto,) * len(self.mesh)
            self.mesh = sharding.AbstractMesh(tuple(self.mesh.values()), tuple(self.mesh), axis_types=types)
        return getattr(self.mesh, "abstract_mesh", self.mesh)
