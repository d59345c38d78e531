"""Attribute values between Python and AttrValue messages, tensors between NumPy and TensorProto."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from xlanb.errors import GraphError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.dtypes import BY_NUMBER, DType
from xlanb.graph.functions import FunctionRef
from xlanb.graph.graphdef.schema import message_class
from xlanb.graph.limits import LARGEST_EXPANSION, check_bytes, stored
from xlanb.graph.tensor_shape import TensorShape
from xlanb.graph.texts import encoded
from xlanb.protos import extend_floats, floats_of

# TensorProto's field for values of a type; half and bfloat16 hold their bits in 16 of 32.
_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val", "int16": "int_val",
    "int8": "int_val",
    "uint16": "int_val", "int64": "int64_val", "bool": "bool_val", "uint32": "uint32_val", "uint64": "uint64_val",
    "float16": "half_val",
    "bfloat16": "half_val", "complex64": "scomplex_val", "complex128": "dcomplex_val", "qint8": "int_val",
    "quint8": "int_val",
    "qint32": "int_val", "qint16": "int_val", "quint16": "int_val", "int4": "int_val", "uint4": "int_val",
    "int2": "int_val", "uint2": "int_val",
}  # fmt: skip

_FLOATS = {"float32": np.float32, "float64": np.float64, "complex64": np.float32, "complex128": np.float64}
"""The numbers that the field of a floating or complex type holds."""

_MOST_DIMENSIONS = 64  # of a NumPy array


def data_type(number: int) -> DType:
    """Return the dtype of a number of types.proto. Raises GraphValueError if there is none."""
    found = BY_NUMBER.get(number)
    if found is None:
        raise GraphValueError(f"unknown data type {number}")
    return found


def shape_from_proto(proto: Any) -> TensorShape:
    """The shape of a TensorShapeProto. Raises GraphValueError for sizes below -1."""
    if proto.unknown_rank:
        return TensorShape(None)
    sizes = [d.size for d in proto.dim]
    if any(s < -1 for s in sizes):
        raise GraphValueError(f"invalid shape with the sizes {sizes}")
    return TensorShape(sizes)


def shape_to_proto(shape: TensorShape, proto: Any) -> None:
    """Fill a TensorShapeProto."""
    proto.SetInParent()
    dims = shape.as_tuple()
    if dims is None:
        proto.unknown_rank = True
        return
    for d in dims:
        proto.dim.add(size=-1 if d is None else d)


def tensor_from_proto(proto: Any) -> np.ndarray[Any, Any]:
    """Read a TensorProto as a read-only array; strings as an object array of bytes.

    If the list of values is shorter than the shape, its last one is repeated, as in TensorFlow. A
    single value becomes a broadcast view.

    Raises:
        GraphValueError: the content does not fit the shape, the type has no values, or it is too
            large.
    """
    dtype = data_type(proto.dtype)
    shape = shape_from_proto(proto.tensor_shape)
    if not shape.is_fully_defined():
        raise GraphValueError(f"a tensor value has the partially known shape {shape}")
    sizes = tuple(int(d) for d in shape)
    count = math.prod(sizes)
    check_bytes("a tensor", sizes, dtype.size)
    if dtype is dtypes.string:
        values: Any = _from_texts(list(proto.string_val) or [b""], sizes)
    elif dtype.is_ref_dtype or not dtype.has_numpy_dtype:
        raise GraphValueError(f"values of type {dtype.name} are not supported")
    elif proto.tensor_content:
        values = _from_content(proto.tensor_content, dtype, count)
    else:
        values = _from_values(proto, dtype, sizes)
    if len(sizes) > _MOST_DIMENSIONS:
        raise GraphValueError(f"a tensor has {len(sizes)} dimensions, more than the limit of {_MOST_DIMENSIONS}")
    result: np.ndarray[Any, Any] = np.broadcast_to(values, sizes) if values.ndim == 0 else values.reshape(sizes)
    result.flags.writeable = False
    return result


def _from_texts(texts: list[bytes], sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = math.prod(sizes)
    if len(texts) > count > 0:
        raise GraphValueError(f"a tensor of {count} elements has {len(texts)} values")
    if len(texts) > 1:
        check_bytes("a list of texts that is filled up", sizes, dtypes.string.size, LARGEST_EXPANSION)
        texts = (texts + texts[-1:] * (count - len(texts)))[:count]
    values = np.empty(len(texts), np.object_)
    values[:] = texts
    return values if len(texts) == count else values[:1].reshape(())


def _from_content(content: bytes, dtype: DType, count: int) -> np.ndarray[Any, Any]:
    if len(content) != count * dtype.size:
        raise GraphValueError(f"a tensor of {count} elements of type {dtype.name} has {len(content)} bytes")
    return np.frombuffer(
        content,
        dtype.numpy_dtype.newbyteorder("<") if dtype.size > 1 and dtype.name != "bfloat16" else dtype.numpy_dtype,
    ).astype(dtype.numpy_dtype)


def _from_values(proto: Any, dtype: DType, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Read the typed values field: as many values as elements, or one for all, as a scalar."""
    count = math.prod(sizes)
    if dtype.name.startswith("float8"):
        bits = np.frombuffer(proto.float8_val, np.uint8)
    elif dtype.name in _FLOATS:
        bits = floats_of(proto, _FIELDS[dtype.name], _FLOATS[dtype.name])
    else:
        bits = np.asarray(list(getattr(proto, _FIELDS[dtype.name])))
    if dtype.is_complex:
        bits = bits[: len(bits) // 2 * 2].view(dtype.numpy_dtype)
    elif _FIELDS.get(dtype.name) == "half_val":
        bits = bits.astype(np.uint16).view(dtype.numpy_dtype)
    elif dtype.name.startswith("float8"):
        bits = bits.view(dtype.numpy_dtype)
    if len(bits) > count:
        raise GraphValueError(f"a tensor of {count} elements has {len(bits)} values")
    with np.errstate(all="ignore"):
        values = bits.astype(dtype.numpy_dtype)
    if not len(values):
        return np.zeros((), dtype.numpy_dtype)
    if len(values) == 1:
        return values.reshape(())
    if len(values) < count:
        check_bytes("a list of values that is filled up", sizes, dtype.size, LARGEST_EXPANSION)
        values = np.concatenate([values, np.broadcast_to(values[-1], count - len(values))])
    return values


def tensor_to_proto(value: np.ndarray[Any, Any], dtype: DType, proto: Any) -> None:
    """Fill a TensorProto: single elements in the field of their type, arrays as bytes."""
    proto.dtype = dtype.as_datatype_enum
    shape_to_proto(TensorShape(value.shape), proto.tensor_shape)
    if dtype is dtypes.string:
        proto.string_val.extend(v if isinstance(v, bytes) else encoded(str(v)) for v in stored(value).ravel())
        return
    flat = np.ascontiguousarray(stored(value) if dtype.name in _FIELDS else value, dtype.numpy_dtype).ravel()
    if flat.size != 1 or dtype.name not in _FIELDS:
        proto.tensor_content = flat.tobytes()
        return
    field = getattr(proto, _FIELDS[dtype.name])
    if dtype.name in _FLOATS:
        extend_floats(proto, _FIELDS[dtype.name], flat.view(_FLOATS[dtype.name]))
    elif _FIELDS[dtype.name] == "half_val":
        field.append(int(flat.view(np.uint16)[0]))
    else:
        field.append(flat[0].item() if dtype.size > 1 or dtype.is_bool else int(flat[0]))


def attr_from_proto(proto: Any) -> Any:
    """Return the Python value of an AttrValue; None if empty.

    Raises GraphError if it is malformed.
    """
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        found = next(
            (f for f in ("s", "i", "f", "b", "type", "shape", "tensor", "func") if len(getattr(proto.list, f))), None
        )
        return () if found is None else tuple(_from(found, v) for v in getattr(proto.list, found))
    return _from(kind, getattr(proto, kind))


def _from(kind: str, value: Any) -> Any:
    if kind == "s":
        return _text(value)
    if kind == "type":
        return data_type(value) if value else None
    if kind == "shape":
        return shape_from_proto(value)
    if kind == "tensor":
        return tensor_from_proto(value)
    if kind == "func":
        return FunctionRef(value.name, {k: attr_from_proto(v) for k, v in value.attr.items()})
    return value


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def attr_to_proto(value: Any, proto: Any, dtype: DType | None = None) -> None:
    """Fill an AttrValue. `dtype` is that of tensors: NumPy has no quantized types and strings.

    Raises:
        GraphError: no attribute has a value of this kind.
    """
    if value is None:
        return
    if isinstance(value, tuple | list):
        proto.list.SetInParent()
        for item in value:
            _add(proto.list, item, dtype)
        return
    kind = _kind(value)
    if kind in {"shape", "tensor", "func"}:
        _fill(kind, value, getattr(proto, kind), dtype)
    else:
        setattr(proto, kind, _scalar(kind, value))


def _kind(value: Any) -> str:
    for kind, types in _KINDS:
        if isinstance(value, types):
            return kind
    raise GraphError(f"an attribute of a node cannot have a value of type {type(value).__name__}: {value!r}")


_KINDS: tuple[tuple[str, Any], ...] = (
    ("b", bool | np.bool_), ("i", int | np.integer), ("f", float | np.floating), ("s", str | bytes), ("type", DType),
    ("shape", TensorShape),
    ("tensor", np.ndarray), ("func", FunctionRef),
)  # fmt: skip


def _scalar(kind: str, value: Any) -> Any:
    if kind == "s":
        return value if isinstance(value, bytes) else encoded(value)
    if kind == "type":
        return value.as_datatype_enum
    return {"b": bool, "i": int, "f": float}[kind](value)


def _add(target: Any, item: Any, dtype: DType | None) -> None:
    kind = _kind(item)
    field = getattr(target, kind)
    if kind in {"shape", "tensor", "func"}:
        _fill(kind, item, field.add(), dtype)
    else:
        field.append(_scalar(kind, item))


def _fill(kind: str, value: Any, proto: Any, dtype: DType | None) -> None:
    if kind == "shape":
        shape_to_proto(value, proto)
    elif kind == "tensor":
        tensor_to_proto(value, dtype or dtypes.as_dtype(value.dtype), proto)
    else:
        proto.name = value.name
        fill_attrs(value.attrs, proto.attr)


def fill_attrs(attrs: Mapping[str, Any], target: Any) -> None:
    """Fill a map of AttrValues."""
    for name in sorted(attrs):
        target[name].SetInParent()
        attr_to_proto(attrs[name], target[name])


def new_message(name: str) -> Any:
    """An empty message."""
    return message_class(name)()
