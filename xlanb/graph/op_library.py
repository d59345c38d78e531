"""Make nodes by op type: convert inputs, infer and check attributes, as TensorFlow's op library
does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.convert import convert_n_to_tensor, convert_to_tensor, first_type, has_tensor, pack_tensors
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import ArgDef, AttrDef, OpDef, find_op, get_op
from xlanb.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph


def output_dtypes(
    op_type: str, attrs: Mapping[str, Any], inputs: Sequence[Tensor], name: str, graph: Graph | None = None
) -> list[DType]:
    """Return the outputs' element types by the op table and attributes, or a function's signature.

    Raises:
        UnknownOpError: the op type is neither in the table nor in the graph's library.
        GraphValueError: an attribute that gives a type or a number is missing.
    """
    if graph is not None and op_type in graph.functions:
        return graph.functions[op_type].output_dtypes
    op_def = get_op(op_type)
    return [t for arg in op_def.outputs for t in arg_types(arg, attrs, f"node {name!r} (op {op_type})", op_def)]


def arg_types(arg: ArgDef, attrs: Mapping[str, Any], where: str, op_def: OpDef) -> list[DType]:
    """Return the types of the tensors of one input or output.

    Raises:
        GraphValueError: an attribute that gives them is missing or malformed.
    """

    def attr(key: str) -> Any:
        if key in attrs:
            return attrs[key]
        definition = op_def.attr_defs.get(key)
        if definition is not None and definition.has_default:
            return definition.default
        raise GraphValueError(f"{where} lacks the attribute {key!r}")

    if arg.type_list_attr:
        types: list[Any] = list(attr(arg.type_list_attr))
    else:
        types = [arg.type or attr(arg.type_attr)] * (int(attr(arg.number_attr)) if arg.number_attr else 1)
    if not all(isinstance(t, DType) for t in types):
        raise GraphValueError(f"{where} has a malformed attribute for the type of {arg.name!r}")
    return [t.ref_dtype if arg.is_ref else t for t in types]


@dataclass
class _OpCall:
    """A node under construction: the attributes found so far, and the inputs that determined
    them.
    """

    op_def: OpDef
    name: str
    attrs: dict[str, Any]
    inputs: list[Tensor] = field(default_factory=list)
    said_by: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"node {self.name!r} (op {self.op_def.name})"


def apply_op(op_type: str, name: str | None = None, /, **keywords: Any) -> Operation:
    """Make a node in the default graph; `keywords` are its inputs and attributes by name.

    Python values become Const nodes called "name/input". Attributes that the inputs determine may
    be left out, others take their default. The node's types, attribute values and shapes (by the
    registered shape function) are checked. After an error the graph is unchanged.

    Raises:
        UnknownOpError: the table has no such op type.
        GraphTypeError: mismatched element types; the message names the node and both inputs.
        GraphValueError: invalid shapes or attribute values.
    """
    op_def = get_op(op_type)
    graph = _graph_of(keywords)
    with graph.as_default(), graph.undone_on_error(), graph.name_scope(name or op_type) as scope:
        call = _OpCall(op_def, scope.removesuffix("/"), _given_attrs(op_def, keywords, scope))
        for arg in op_def.inputs:
            if arg.name not in keywords:
                raise GraphTypeError(f"{call.where} lacks the input {arg.name!r}")
            _take_input(call, arg, keywords[arg.name])
        _fill_defaults(call)
        types = [t for arg in op_def.outputs for t in arg_types(arg, call.attrs, call.where, op_def)]
        with ExitStack() as stack:
            for arg, tensor in zip(op_def.inputs, call.inputs, strict=False):
                if arg.is_ref:  # what writes a variable is placed with it
                    stack.enter_context(graph.colocate_with(tensor))
            op = graph.create_op(op_type, call.inputs, types, call.attrs, scope)
        for tensor in op.outputs[:1]:
            tensor.shape  # noqa: B018 - an op whose inputs do not fit is refused here, where it is written
        return op


def _graph_of(keywords: Mapping[str, Any]) -> Graph:
    for value in keywords.values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Tensor):
                return item.graph
    return get_default_graph()


def _given_attrs(op_def: OpDef, keywords: Mapping[str, Any], scope: str) -> dict[str, Any]:
    inputs = {arg.name for arg in op_def.inputs}
    found: dict[str, Any] = {}
    for key, value in keywords.items():
        if key in inputs or value is None:
            continue
        definition = op_def.attr_defs.get(key)
        if definition is None:
            raise GraphTypeError(
                f"node {scope.removesuffix('/')!r} (op {op_def.name}) has no input or attribute {key!r}"
            )
        found[key] = _attr_value(definition, value, f"node {scope.removesuffix('/')!r} (op {op_def.name})")
    return found


def _take_input(call: _OpCall, arg: ArgDef, value: Any) -> None:
    wanted = arg.type or call.attrs.get(arg.type_attr)
    preferred = None
    if wanted is None and arg.type_attr:
        definition = call.op_def.attr_defs[arg.type_attr]
        preferred = definition.default if definition.has_default else None
    try:
        if arg.type_list_attr:
            tensors = convert_n_to_tensor(value, None, arg.name)
        elif arg.number_attr:
            tensors = _convert_same(value, wanted or preferred, arg, strict=wanted is not None)
        else:
            tensors = [
                convert_to_tensor(value, None if isinstance(value, Tensor) else wanted, arg.name, preferred, arg.is_ref)
            ]
    except (GraphTypeError, GraphValueError) as error:
        raise type(error)(f"{call.where}: input {arg.name!r}: {error}") from error
    for tensor in tensors:
        _check_input(call, arg, tensor)
    if arg.number_attr:
        _infer(call, arg.number_attr, len(tensors), arg.name)
    if arg.type_list_attr:
        _infer(call, arg.type_list_attr, tuple(t.dtype.base_dtype for t in tensors), arg.name)
    call.inputs += tensors


def _convert_same(value: Any, dtype: DType | None, arg: ArgDef, *, strict: bool) -> list[Tensor]:
    """Convert a list of tensors to one type, by default that of the first tensor among them."""
    if not strict and isinstance(value, list | tuple):
        dtype = next((v.dtype.base_dtype for v in value if isinstance(v, Tensor)), dtype)
    items = list(value) if isinstance(value, list | tuple) else value
    if isinstance(items, list) and any(isinstance(v, Tensor) for v in items):
        return [
            v if isinstance(v, Tensor) else convert_to_tensor(v, dtype, f"{arg.name}_{i}") for i, v in enumerate(items)
        ]
    return convert_n_to_tensor(items, dtype, arg.name)


def _check_input(call: _OpCall, arg: ArgDef, tensor: Tensor) -> None:
    base = tensor.dtype.base_dtype
    if arg.is_ref and not tensor.dtype.is_ref_dtype:
        raise GraphTypeError(
            f"{call.where}: input {arg.name!r} must be a reference variable, not {tensor.name!r} of type {base.name}"
        )
    if arg.type is not None and base is not arg.type:
        raise GraphTypeError(
            f"{call.where}: input {arg.name!r} is {tensor.name!r} of type {base.name}, not {arg.type.name}"
        )
    if arg.type_attr:
        _infer(call, arg.type_attr, base, arg.name, tensor)
        allowed = call.op_def.attr_defs[arg.type_attr].allowed
        if allowed and base not in allowed:
            names = ", ".join(t.name for t in allowed)
            raise GraphTypeError(
                f"{call.where}: input {arg.name!r} is {tensor.name!r} of type {base.name}; allowed: {names}"
            )


def _infer(call: _OpCall, attr: str, value: Any, arg_name: str, tensor: Tensor | None = None) -> None:
    known = call.attrs.setdefault(attr, value)
    if known == value:
        call.said_by.setdefault(attr, arg_name)
        return
    what = f"is {tensor.name!r} of type {value.name}" if tensor is not None else f"gives {attr} = {value}"
    other = call.said_by.get(attr)
    shown = known.name if isinstance(known, DType) else known
    reason = f"input {other!r} has {shown}" if other else f"{attr} is {shown}"
    error = GraphTypeError if tensor is not None else GraphValueError
    raise error(f"{call.where}: input {arg_name!r} {what}, but {reason}; they must be the same")


def _fill_defaults(call: _OpCall) -> None:
    for definition in call.op_def.attrs:
        if definition.name in call.attrs:
            continue
        if not definition.has_default:
            raise GraphTypeError(f"{call.where} lacks the attribute {definition.name!r}")
        call.attrs[definition.name] = definition.default


def _attr_value(definition: AttrDef, value: Any, where: str) -> Any:
    """The value of an attribute in its canonical form, checked."""
    try:
        found = _canonical(definition.kind, value)
    except (TypeError, ValueError, GraphTypeError) as error:
        raise GraphTypeError(f"{where}: attribute {definition.name!r} is a {definition.kind}, not {value!r}") from error
    items = found if isinstance(found, tuple) else (found,)
    bad = [v for v in items if definition.allowed and v not in definition.allowed]
    if bad:
        names = ", ".join(v.name if isinstance(v, DType) else str(v) for v in definition.allowed)
        raise GraphValueError(f"{where}: attribute {definition.name!r} cannot be {bad[0]}; allowed: {names}")
    size = len(found) if isinstance(found, tuple) else found
    if definition.minimum is not None and isinstance(size, int) and size < definition.minimum:
        raise GraphValueError(f"{where}: attribute {definition.name!r} is {found}, less than {definition.minimum}")
    return found


def _canonical(kind: str, value: Any) -> Any:
    if kind.startswith("list("):
        if isinstance(value, str | bytes):
            raise TypeError
        return tuple(_canonical(kind[5:-1], v) for v in value)
    if kind == "int":
        if isinstance(value, bool) or int(value) != value:
            raise TypeError
        return int(value)
    if kind == "bool":
        if not isinstance(value, bool | int) or value not in {0, 1}:
            raise TypeError
        return bool(value)
    if kind == "string" and isinstance(value, str | bytes):
        return value.decode() if isinstance(value, bytes) and value.isascii() else value
    if kind == "string":
        raise TypeError
    convert: dict[str, Any] = {"float": float, "type": as_dtype, "shape": TensorShape}
    return convert.get(kind, lambda v: v)(value)


def call(op_type: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Tensor:
    """Make a node; return its first output.

    `inputs` follow the op table. Errors as for `apply_op`.
    """
    return call_op(op_type, *inputs, name=name, **attrs).outputs[0]


def call_n(op_type: str, *inputs: Any, name: str | None = None, **attrs: Any) -> list[Tensor]:
    """Make a node; return all outputs. `inputs` follow the op table. Errors as for `apply_op`."""
    return call_op(op_type, *inputs, name=name, **attrs).outputs


def call_op(op_type: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Operation:
    """A new node; `inputs` are in the order of the op table. Errors as for `apply_op`."""
    names = [arg.name for arg in get_op(op_type).inputs]
    if len(inputs) > len(names):
        raise GraphTypeError(f"op {op_type} takes {len(names)} inputs ({', '.join(names)}), not {len(inputs)}")
    return apply_op(op_type, name, **dict(zip(names, inputs, strict=False)), **attrs)


def op_has_side_effects(op: Operation) -> bool:
    """Whether the op is stateful or unknown; such nodes are not folded, merged or removed."""
    op_def = find_op(op.type)
    return op_def is None or op_def.is_stateful


@pack_tensors.implement
def _pack(values: Any, dtype: DType | None, name: str | None) -> Tensor:
    element_type = dtype or first_type(values)
    graph = get_default_graph()
    with graph.name_scope(name or "packed") as scope:
        parts = [
            _pack(v, element_type, str(i))
            if isinstance(v, list | tuple) and has_tensor(v)
            else convert_to_tensor(v, element_type, str(i))
            for i, v in enumerate(values)
        ]
        return apply_op("Pack", scope, values=parts).outputs[0]
