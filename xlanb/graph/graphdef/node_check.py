"""Check a NodeDef against the op table, as TensorFlow's ValidateNodeDef and importer do.

Attributes must be present, of the right kind and allowed; inputs must have the right number and
types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xlanb.errors import GraphValueError
from xlanb.graph.dtypes import DType
from xlanb.graph.graphdef.attr_values import data_type
from xlanb.graph.op_library import arg_types
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import AttrDef, OpDef, find_op

MOST_TENSORS: Final = 1 << 16
"""Inputs, or outputs, of one node: a file with more is damaged or malicious."""

# Of an AttrValue, where a field is not called as the kind.
_FIELDS: Final = {"string": "s", "int": "i", "float": "f", "bool": "b"}
_KINDS: Final = {field: kind for kind, field in _FIELDS.items()}
_LISTED: Final = ("s", "i", "f", "b", "type", "shape", "tensor", "func")
_LEFT_OUT: Final = frozenset({"bad_color"})  # of ImageSummary: the table cannot write the default of a tensor
_SHOWN: Final = 8
# Attributes that any op may have, and that passes read.
_OF_ALL: Final = {
    name: AttrDef(name, kind)
    for kind, names in {
        "list(string)": ("_class",),
        "list(shape)": ("_output_shapes",),
        "string": ("_gradient_op_type", "_XlaCluster", "_XlaScope", "_XlaInternalScope", "_xla_why_not"),
        "bool": (
            "_XlaCompile",
            "_XlaMustCompile",
            "_XlaSeparateCompiledGradients",
            "_XlaHasReferenceVars",
            "_noinline",
        ),
    }.items()
    for name in names
}


def check_kind(proto: Any, key: str, message: Any, definition: AttrDef | None) -> None:
    """Raise GraphValueError if an attribute's AttrValue is not of the kind that the op type
    declares.
    """
    found = message.WhichOneof("value")
    definition = definition or _OF_ALL.get(key)
    if definition is None:
        return
    if found == "placeholder":
        raise GraphValueError(
            f"node {proto.name!r} (op {proto.op}): attribute {key!r}, a {definition.kind}, is a placeholder for "
            f"the attribute {message.placeholder!r} of a function: only TensorFlow can fill it in; instantiate "
            "the function there"
        )
    is_list = definition.kind.startswith("list(")
    wanted = "list" if is_list else _FIELDS.get(definition.kind, definition.kind)
    if found == wanted and is_list:
        element = definition.kind[5:-1]
        others = [f for f in _LISTED if f != _FIELDS.get(element, element) and len(getattr(message.list, f))]
        shown = f"list({_KINDS.get(others[0], others[0])})" if others else ""
    else:
        shown = "" if found == wanted else _KINDS.get(found, found) or "value"
    if shown:
        raise GraphValueError(
            f"node {proto.name!r} (op {proto.op}): attribute {key!r} is a {definition.kind}, not a {shown}"
        )


def complete_attrs(op_def: OpDef, attrs: dict[str, Any], where: str) -> list[str]:
    """Fill missing attributes with their defaults; return their names.

    Input types may be missing: `check_inputs` infers them.

    Raises:
        GraphValueError: one without a default is missing, or has a value that the op type forbids.
    """
    filled = []
    inferred = {a.type_attr for a in op_def.inputs} - {a.type_attr for a in op_def.outputs}
    for definition in op_def.attrs:
        if definition.name not in attrs:
            if definition.has_default:
                attrs[definition.name] = definition.default
                filled.append(definition.name)
            elif definition.name not in inferred | _LEFT_OUT:
                raise GraphValueError(f"{where} lacks the attribute {definition.name!r}, a {definition.kind}")
        else:
            _check_value(definition, attrs[definition.name], where)
    return filled


def _check_value(definition: AttrDef, value: Any, where: str) -> None:
    """Raise GraphValueError where a value is not one that the table allows."""
    items = value if isinstance(value, tuple) else (value,)
    if definition.kind in {"type", "list(type)"} and not all(
        isinstance(v, DType) and not v.is_ref_dtype for v in items
    ):
        raise GraphValueError(f"{where}: attribute {definition.name!r} is no valid type, or a reference")
    bad = next((v for v in items if definition.allowed and v not in definition.allowed), None)
    if bad is not None:
        names = ", ".join(v.name if isinstance(v, DType) else repr(v) for v in definition.allowed)
        shown = bad.name if isinstance(bad, DType) else repr(bad)
        raise GraphValueError(f"{where}: attribute {definition.name!r} cannot be {shown}; allowed: {names}")
    size = len(value) if isinstance(value, tuple) else value
    if definition.minimum is not None and isinstance(size, int) and size < definition.minimum:
        what = f"has {size} elements" if isinstance(value, tuple) else f"is {value}"
        raise GraphValueError(f"{where}: attribute {definition.name!r} {what}, less than {definition.minimum}")


def check_constant(proto: Any, where: str) -> None:
    """Raise GraphValueError if a Const's tensor has another type than `dtype`, as TensorFlow's
    kernel does.
    """
    if proto.op != "Const" or "value" not in proto.attr or "dtype" not in proto.attr:
        return
    held, stated = proto.attr["value"].tensor.dtype, proto.attr["dtype"].type
    if held != stated:
        raise GraphValueError(
            f"{where}: attribute 'value' is a tensor of type {data_type(held).name}, attribute 'dtype' is "
            f"{data_type(stated).name}"
        )


def check_count(op_def: OpDef, attrs: Mapping[str, Any], where: str) -> None:
    """Raise GraphValueError if an attribute requires more inputs or outputs than the limit."""
    for arg in (*op_def.inputs, *op_def.outputs):
        count = attrs.get(arg.number_attr, 0) if arg.number_attr else 0
        if isinstance(count, int) and not 0 <= count <= MOST_TENSORS:
            raise GraphValueError(
                f"{where}: attribute {arg.number_attr!r} requires {count} tensors, more than {MOST_TENSORS}"
                if count > 0
                else f"{where}: attribute {arg.number_attr!r} is {count}"
            )


def check_inputs(op: Operation) -> None:
    """Raise GraphValueError if the number or types of a node's inputs are wrong for its op or
    function.

    A type that the node does not state is that of the first input of this type.
    """
    wanted = _wanted(op)
    if wanted is None:
        return
    where = f"node {op.name!r} (op {op.type})"
    if len(wanted) != len(op.inputs):
        names = [n for n, _ in wanted][:_SHOWN]
        shown = f" ({', '.join(names)}{', ...' if len(wanted) > _SHOWN else ''})" if wanted else ""
        raise GraphValueError(f"{where} takes {len(wanted)} inputs{shown}, not {len(op.inputs)}")
    for (name, dtype), tensor in zip(wanted, op.inputs, strict=True):
        if _is_known(tensor) and not _fits(tensor.dtype, dtype):
            raise GraphValueError(
                f"{where}: input {name!r} is {tensor.name!r} of type {tensor.dtype.name}, not {dtype.name}"
            )


def _wanted(op: Operation) -> list[tuple[str, DType]] | None:
    """Name and type of every input; None for an op type that is not known."""
    function = op.graph.functions.get(op.type)
    if function is not None:
        return [(a.name, a.dtype) for a in function.inputs]
    op_def = find_op(op.type)
    if op_def is None:
        return None
    where, wanted = f"node {op.name!r} (op {op.type})", list[tuple[str, DType]]()
    for arg in op_def.inputs:
        if arg.type_attr and arg.type_attr not in op.attrs and len(wanted) < len(op.inputs):
            _state(op, arg.type_attr, op.inputs[len(wanted)].dtype.base_dtype)
        wanted += [(arg.name, t) for t in arg_types(arg, op.attrs, where, op_def)]
    return wanted


def _state(op: Operation, attribute: str, found: DType) -> None:
    """Give a node the type of its input; it is not written into a GraphDef again."""
    op.attrs[attribute] = found
    op.raw_attrs = {**(op.raw_attrs or {}), attribute: (found, None)}


def _is_known(tensor: Tensor) -> bool:
    """Whether a tensor's type is known; for op types outside the table it is a guess."""
    return find_op(tensor.op.type) is not None or tensor.op.type in tensor.graph.functions


def _fits(found: DType, wanted: DType) -> bool:
    """Whether a tensor can be read as this type: a reference also as its value."""
    return found is wanted or (found.is_ref_dtype and found.base_dtype is wanted)
