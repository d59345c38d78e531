"""GraphDefs of one random op: inputs of valid types and any shapes, valid attribute kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.graphdef.attr_values import new_message, tensor_to_proto
from xlanb.graph.ops.op_def import ArgDef, AttrDef, OpDef
from xlanb.graph.ops.table import get_op, op_names

_SHAPES = (
    (),
    (1,),
    (2,),
    (3,),
    (4,),
    (0,),
    (2, 3),
    (3, 3),
    (2, 2),
    (1, 4),
    (2, 3, 4),
    (2, 3, 3),
    (1, 4, 4, 2),
    (2, 4, 4, 3),
    (1, 2, 4, 4, 2),
)
_INTS = (0, 1, 1, 2, 2, 3, 4, -1, 7, 100)
_COUNTS = (1, 2, 2, 3)
_TEXTS = (b"", b"a", b"abc", b"1", b"ij,jk->ik", b"%d", b"\xff", b"a\0b", "é".encode())
_WORDS = (*_TEXTS, b"NHWC", b"SAME", b"VALID", b"float32")
_PLAIN = (
    "float32",
    "int32",
    "float64",
    "int64",
    "bool",
    "string",
    "complex64",
    "bfloat16",
    "float16",
    "uint8",
    "resource",
    "variant",
)
_PLACEHOLDER, _LEFT_OUT = 0.5, 0.6


def op_graph(rng: np.random.Generator) -> Any:
    """A GraphDef message: one op, named y, and a node for each of its inputs."""
    names = op_names()
    op = get_op(names[int(rng.integers(len(names)))])
    graph = new_message("GraphDef")
    graph.versions.producer = 2474
    node = new_message("NodeDef")
    node.name, node.op = "y", op.name
    for attr in op.attrs:
        if not (attr.has_default and rng.random() < _LEFT_OUT):
            _fill(node.attr[attr.name], attr, rng)
    shape = _pick(_SHAPES, rng)
    for argument in op.inputs:
        for dtype in _types_of(argument, node.attr, op):
            _add_input(graph, dtype, shape if rng.random() < 0.5 else _pick(_SHAPES, rng), rng)
    node.input.extend(n.name for n in graph.node)
    graph.node.add().CopyFrom(node)
    return graph


def _pick(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


def _fill(value: Any, attr: AttrDef, rng: np.random.Generator) -> None:
    if attr.kind.startswith("list("):
        kind = attr.kind[5:-1]
        value.list.SetInParent()
        for _ in range(_pick(_COUNTS, rng) if rng.random() < 0.8 else 4):
            _append(getattr(value.list, _FIELDS[kind]), kind, attr, rng)
    elif attr.kind == "shape":
        _fill_shape(value.shape, rng)
    elif attr.kind == "tensor":
        dtype = as_dtype(_pick(_PLAIN[:5], rng))
        tensor_to_proto(_array(dtype, _pick(_SHAPES, rng), rng), dtype, value.tensor)
    elif attr.kind == "func":
        value.func.name = "nothing"
    elif attr.kind in _FIELDS:
        setattr(value, _FIELDS[attr.kind], _scalar(attr, rng))


_FIELDS = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "string": "s",
    "type": "type",
    "shape": "shape",
    "func": "func",
    "tensor": "tensor",
}


def _append(field: Any, kind: str, attr: AttrDef, rng: np.random.Generator) -> None:
    if kind == "shape":
        _fill_shape(field.add(), rng)
    elif kind == "func":
        field.add().name = "nothing"
    elif kind == "tensor":
        tensor_to_proto(np.ones((), np.float32), as_dtype("float32"), field.add())
    else:
        field.append(_scalar(AttrDef(attr.name, kind, allowed=attr.allowed, minimum=attr.minimum), rng))


def _scalar(attr: AttrDef, rng: np.random.Generator) -> Any:
    if attr.kind == "type":
        found = as_dtype(_pick(attr.allowed or [as_dtype(n) for n in _PLAIN], rng))
        return found.as_datatype_enum
    if attr.kind == "string":
        found = _pick(attr.allowed or _WORDS, rng)
        return found.encode() if isinstance(found, str) else found
    if attr.kind == "float":
        return float(_pick((0.0, 1.0, -1.0, 0.5, 1e-3, 10.0), rng))
    if attr.kind == "bool":
        return bool(rng.integers(2))
    return max(_pick(_INTS, rng), attr.minimum or -1)


def _fill_shape(shape: Any, rng: np.random.Generator) -> None:
    if rng.random() < 0.1:
        shape.unknown_rank = True
        return
    shape.SetInParent()
    for size in _pick(_SHAPES, rng):
        shape.dim.add(size=-1 if rng.random() < 0.1 else size)


def _types_of(argument: ArgDef, attrs: Any, op: OpDef) -> list[DType]:
    """The types of an argument's tensors, given a node's attributes; missing ones have defaults."""

    def value(name: str, field: str) -> Any:
        return getattr(attrs[name], field) if name in attrs else op.attr_defs[name].default

    if argument.type_list_attr:
        name = argument.type_list_attr
        found = list(attrs[name].list.type) if name in attrs else op.attr_defs[name].default or ()
        return [as_dtype(t) for t in found]
    dtype = argument.type if argument.type is not None else as_dtype(value(argument.type_attr, "type") or "float32")
    dtype = dtype.ref_dtype if argument.is_ref else dtype
    return [dtype] * (min(max(value(argument.number_attr, "i") or 1, 1), 4) if argument.number_attr else 1)


def _add_input(graph: Any, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    base = dtype.base_dtype
    node = graph.node.add(name=f"x{len(graph.node)}", op="Placeholder" if rng.random() < _PLACEHOLDER else "Const")
    node.attr["dtype"].type = base.as_datatype_enum
    if dtype.is_ref_dtype:
        node.op = "VariableV2"
        for size in shape:
            node.attr["shape"].shape.dim.add(size=size)
    elif base.name in ("resource", "variant"):
        node.op = "VarHandleOp" if base.name == "resource" else "Placeholder"
        node.attr["dtype"].type = as_dtype("float32" if base.name == "resource" else "variant").as_datatype_enum
        _fill_shape(node.attr["shape"].shape, rng)
    elif node.op == "Const":
        tensor_to_proto(_array(base, shape, rng), base, node.attr["value"].tensor)
    else:
        for size in shape:
            node.attr["shape"].shape.dim.add(size=-1 if rng.random() < 0.1 else size)
        if rng.random() < 0.1:
            node.attr["shape"].shape.Clear()
            node.attr["shape"].shape.unknown_rank = True


def _array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype.name == "string":
        found = np.empty(shape, object)
        for k in np.ndindex(shape):
            found[k] = _pick(_TEXTS, rng)
        return found
    low = 0 if dtype.is_bool or dtype.short_name.startswith("u") else -2
    return np.asarray(rng.integers(low, 2 if dtype.is_bool else 5, shape)).astype(dtype.numpy_dtype)
