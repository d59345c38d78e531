"""Convert a StableHLO program to an HloModule, as XLA's xla/hlo/translate/mhlo_to_hlo does.

There is a computation for each called function and for each region.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import ArgumentError, HloVerifierError, UnimplementedError
from xlanb.frontends.stablehlo import (  # noqa: F401 - importing a file of rules registers them
    chlo,
    collectives,
    constraints,
    control,
    data,
    dynamic,
    elementwise,
    linalg,
    reductions,
    shardy,
    special,
)
from xlanb.frontends.stablehlo.ir import FunctionType, Opaque, StablehloOperation, StablehloType
from xlanb.frontends.stablehlo.parser import Parser
from xlanb.frontends.stablehlo.scope import RegionScope, StablehloProgram
from xlanb.frontends.stablehlo.shapes import closed, is_open
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.module import HloModule
from xlanb.hlo.names import sanitized
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_sharding import parse_sharding
from xlanb.shape import Shape


def module_of(text: str, entry: str = "", arguments: Sequence[Any] = ()) -> HloModule:
    """Convert StableHLO text to HLO.

    `entry` is the entry function, by default `main` or the only public one. `arguments` have the
    sizes that the text leaves open.

    Raises:
        ArgumentError: the arguments do not fit the parameters' types.
        HloParseError: the text is malformed.
        HloVerifierError: operands, types or attributes do not fit an operation.
        UnimplementedError: an operation, a type or an unknown size that has no lowering here.
        LiteralError: elements do not fit their type.
    """
    parser = Parser(text)
    top = parser.program()
    functions: dict[str, StablehloOperation] = {}
    module_op = _collect(top, "", functions)
    start = functions[_entry(functions, entry)]
    name = str(module_op.attributes.get("sym_name") or start.attributes.get("sym_name"))
    module = HloModule(sanitized(name) or "main")
    builder = HloBuilder(_name(start), module)
    program = StablehloProgram(text, module, builder, parser.locations, functions, _meshes(module_op))
    _lower_entry(program, builder, start, arguments)
    _set_header(module, module_op, start)
    module.remove_unused_computations()
    return module


def _collect(top: StablehloOperation, prefix: str, functions: dict[str, StablehloOperation]) -> StablehloOperation:
    """Collect the functions of a module and its inner modules by name; return the module with
    functions.
    """
    found = top
    for region in top.regions:
        for op in region.operations:
            if op.name == "func.func":
                name = prefix + _name(op)
                if name in functions:
                    raise HloVerifierError(f"the function @{name} is defined twice")
                functions[name] = op
            elif op.name == "builtin.module":
                inner = op.attributes.get("sym_name")
                found = _collect(op, f"{prefix}{inner}::" if prefix or _has_functions(top) else "", functions)
            elif not op.name.startswith(("sdy.", "builtin.")):
                raise UnimplementedError(f"{op.name} outside of a function is not supported")
    return top if _has_functions(top) else found


def _meshes(module: StablehloOperation) -> dict[str, str]:
    """The meshes that a module defines: their texts by name."""
    found = {}
    for op in (o for region in module.regions for o in region.operations if o.name == "sdy.mesh"):
        mesh = op.attributes.get("mesh")
        found[str(op.attributes.get("sym_name"))] = mesh.text if isinstance(mesh, Opaque) else str(mesh)
    return found


def _has_functions(top: StablehloOperation) -> bool:
    return any(op.name == "func.func" for region in top.regions for op in region.operations)


def _name(function: StablehloOperation) -> str:
    name = function.attributes.get("sym_name")
    if not isinstance(name, str) or not name:
        raise HloVerifierError("the function has no name")
    return name


def _entry(functions: dict[str, StablehloOperation], wanted: str) -> str:
    if wanted:
        if wanted in functions:
            return wanted
    elif "main" in functions:
        return "main"
    else:
        public = [n for n, f in functions.items() if f.attributes.get("sym_visibility", "public") == "public"]
        if len(public) == 1:
            return public[0]
    names = ", ".join(f"@{n}" for n in functions) or "none"
    raise HloVerifierError(f"the program has no entry function @{wanted or 'main'}; it has {names}")


def _lower_entry(
    program: StablehloProgram, builder: HloBuilder, function: StablehloOperation, given: Sequence[Any] = ()
) -> None:
    scope = RegionScope(program, builder)
    type_ = function.attributes.get("function_type")
    if not function.regions or not isinstance(type_, FunctionType):
        program.fail(HloVerifierError, function, f"@{_name(function)} has no body")
    block = function.regions[0]
    shardings = _listed(function, "arg_attrs")
    shapes = _parameter_shapes(scope, function, [a.type for a in block.arguments], given)
    for n, (argument, shape) in enumerate(zip(block.arguments, shapes, strict=True)):
        made = scope.parameter(n, shape, argument)
        if n < len(shardings):
            made.sharding = _sharding(shardings[n])
        scope.bind(argument, made)
    results = scope.lower_block(block)
    if len(results) != len(type_.results):
        program.fail(
            HloVerifierError, function, f"returns {len(results)} values, its type specifies {len(type_.results)}"
        )
    builder.build(scope.packed(results))


def _parameter_shapes(
    scope: RegionScope, function: StablehloOperation, types: list[StablehloType], given: Sequence[Any]
) -> list[Shape]:
    """Return the shapes of the entry's parameters; open sizes are those of the arguments."""
    if not any(map(is_open, types)):
        return [scope.shape(function, t) for t in types]
    if not given:
        listed = ", ".join(str(t) for t in types if is_open(t))
        scope.refuse(function, f"the sizes of {listed} are unknown: give arguments with the intended shapes")
    if len(given) != len(types):
        scope.program.fail(ArgumentError, function, f"expected {len(types)} arguments, not {len(given)}")
    shapes = []
    for n, (type_, argument) in enumerate(zip(types, given, strict=True)):
        try:
            shapes.append(closed(type_, argument))
        except ArgumentError as error:
            scope.program.fail(ArgumentError, function, f"argument {n}: {error}")
    return shapes


def _listed(function: StablehloOperation, name: str) -> tuple[dict[str, Any], ...]:
    value = function.attributes.get(name, ())
    return tuple(v if isinstance(v, dict) else {} for v in value) if isinstance(value, tuple) else ()


def _sharding(attributes: dict[str, Any]) -> str:
    text = attributes.get("mhlo.sharding")
    return parse_sharding(Cursor(text)) if isinstance(text, str) and text.startswith("{") else ""


def _set_header(module: HloModule, top: StablehloOperation, function: StablehloOperation) -> None:
    """The module and function attributes that XLA keeps: the number of replicas and partitions, and
    aliases of results and arguments.
    """
    for name, attribute in (("replica_count", "mhlo.num_replicas"), ("num_partitions", "mhlo.num_partitions")):
        count = top.attributes.get(attribute, 1)
        if isinstance(count, int) and count > 1:
            module.header[name] = str(count)
    single = not module.entry_computation.root.shape.is_tuple
    arguments = _listed(function, "arg_attrs")
    aliases = []
    for n, attributes in enumerate(arguments):
        output = attributes.get("tf.aliasing_output")
        if isinstance(output, int):
            index = "{}" if single else f"{{{output}}}"
            aliases.append(f"{index}: ({n}, {{}}, may-alias)")
    if aliases:
        module.header["input_output_alias"] = "{ " + ", ".join(aliases) + " }"
    donors = [n for n, a in enumerate(arguments) if a.get("jax.buffer_donor") is True]
    if donors:
        module.header["buffer_donor"] = "{ " + ", ".join(f"({n}, {{}})" for n in donors) + " }"
