"""Convert Python values to tensors: constants, packed lists, and tensor-like objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from xlanb.boundary import array_of
from xlanb.errors import GraphError, GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.limits import check_bytes
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import Dimension, TensorShape
from xlanb.graph.texts import encoded
from xlanb.hooks import Hook

pack_tensors: Final[Hook[[Any, DType | None, str | None], Tensor]] = Hook("graph.pack_tensors")
"""Pack a list with tensors into one tensor, given element type and name.

op_library.py implements it.
"""


@runtime_checkable
class TensorLike(Protocol):
    """An object that converts to a tensor: a variable, or slices."""

    def as_tensor(self, dtype: DType | None, name: str | None, as_ref: bool) -> Tensor:
        """Convert to a tensor; `as_ref` returns the reference itself, if there is one."""


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Make a Const node. With `shape`, the value has as many elements as the shape, or one to
    repeat.

    Raises:
        GraphTypeError: the value does not fit the dtype.
        GraphValueError: the value does not fit the shape, is a ragged list, or the shape is too
            large.
    """
    array, element_type = make_array(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        array = _reshape_or_repeat(array, TensorShape(shape), f"constant {name or 'Const'!r}")
    op = get_default_graph().create_op(
        "Const", (), [element_type], {"dtype": element_type, "value": array}, name or "Const"
    )
    return op.outputs[0]


def _reshape_or_repeat(array: np.ndarray[Any, Any], shape: TensorShape, what: str) -> np.ndarray[Any, Any]:
    """Reshape an array; repeat a single element by strides of zero, without allocating memory."""
    if not shape.is_fully_defined():
        raise GraphValueError(f"a constant needs a fully defined shape, not {shape}")
    sizes = tuple(int(d) for d in shape)
    if array.size == 1:
        check_bytes(what, sizes, array.itemsize)
        splat: np.ndarray[Any, Any] = np.broadcast_to(array.reshape(()), sizes)
        return splat
    if array.size != shape.num_elements():
        raise GraphValueError(f"a constant of {array.size} elements cannot fill the shape {shape}")
    return array.reshape(sizes)


def make_array(value: Any, dtype: DType | None = None) -> tuple[np.ndarray[Any, Any], DType]:
    """Convert a constant by TensorFlow's defaults: floats are float32, ints int32 if they fit.

    Raises:
        GraphTypeError: a Python value that the dtype cannot hold without a change of kind (1.5 as
            int32).
        GraphValueError: no array has this value.
    """
    if isinstance(value, TensorShape):
        if not value.is_fully_defined():
            raise GraphValueError(f"cannot create a tensor from the partially known shape {value}")
        value = np.array([int(d) for d in value], np.int32)
    value = _as_numbers(value)
    is_numpy = isinstance(value, np.ndarray | np.generic)
    # Texts as objects: NumPy's fixed-width strings drop trailing zeros and do not mix with bytes.
    has_text = isinstance(value, list) and any(isinstance(v, str | bytes) for v in _leaves(value))
    array = array_of(
        value,
        lambda error: GraphValueError(f"cannot convert {_short(value)} to a tensor: {error}"),
        np.object_ if has_text else None,
    )
    if array.dtype.kind == "O" and not _is_text(array):
        raise GraphValueError(f"cannot convert {_short(value)} to a tensor: its parts differ in length or type")
    if array.dtype.kind in "SUO":
        return _strings(array, value, dtype)
    if dtype is None:
        dtype = as_dtype(array.dtype) if is_numpy else _default_type(array)
    elif not is_numpy or array.dtype.kind in "bc":
        _check_kind(array, dtype, value)
    return _as_type(array, dtype, value), dtype.base_dtype


def _as_numbers(value: Any) -> Any:
    """Dimensions as numbers, inside lists too."""
    if isinstance(value, Dimension):
        return int(value)
    if isinstance(value, list | tuple):
        return [_as_numbers(v) for v in value]
    return value


def _default_type(array: np.ndarray[Any, Any]) -> DType:
    if array.dtype == np.float64:
        return dtypes.float32
    if array.dtype == np.int64 and (not array.size or (array.min() >= -(2**31) and array.max() < 2**31)):
        return dtypes.int32
    return as_dtype(array.dtype)


def _check_kind(array: np.ndarray[Any, Any], dtype: DType, value: Any) -> None:
    kind = array.dtype.kind
    fits = {
        "b": dtype.is_bool,
        "i": dtype.is_numeric or dtype.is_quantized,
        "u": dtype.is_numeric or dtype.is_quantized,
        "f": dtype.is_floating or dtype.is_complex or not array.size,
        "c": dtype.is_complex,
    }.get(kind, dtype.is_floating or dtype.is_complex)
    if not fits:
        raise GraphTypeError(f"expected {dtype.name}, got {_short(value)} of type {type(value).__name__}")


def _as_type(array: np.ndarray[Any, Any], dtype: DType, value: Any) -> np.ndarray[Any, Any]:
    if dtype is dtypes.string or not dtype.has_numpy_dtype:
        raise GraphTypeError(f"expected {dtype.name}, got {_short(value)} of type {type(value).__name__}")
    if (
        dtype.is_integer
        and array.dtype.kind in "iu"
        and array.size
        and (int(array.min()) < int(dtype.min) or int(array.max()) > int(dtype.max))
    ):
        raise GraphTypeError(f"{_short(value)} does not fit {dtype.name}: its range is {dtype.min} to {dtype.max}")
    with np.errstate(all="ignore"):
        result = np.array(array, dtype.numpy_dtype, order="C")
    result.flags.writeable = False
    return result


def _is_text(array: np.ndarray[Any, Any]) -> bool:
    return all(isinstance(v, str | bytes) for v in array.flat)


def _strings(array: np.ndarray[Any, Any], value: Any, dtype: DType | None) -> tuple[np.ndarray[Any, Any], DType]:
    if dtype is not None and dtype.base_dtype is not dtypes.string:
        raise GraphTypeError(f"expected {dtype.name}, got {_short(value)} of type {type(value).__name__}")
    result = np.empty(array.shape, np.object_)
    flat = [value] if isinstance(value, str | bytes) else array.astype(np.object_).ravel()
    result.ravel()[:] = [encoded(v) if isinstance(v, str) else bytes(v) for v in flat]
    result.flags.writeable = False
    return result, dtypes.string


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, list) else [value]


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, as_ref: bool = False
) -> Tensor:
    """Convert a tensor, a variable, a list with tensors (Pack), or a Python value (Const named
    `name`).

    If the value allows several types, `preferred_dtype` is tried first.

    Raises:
        GraphTypeError, GraphValueError: the value does not fit.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        return _checked(value, wanted)
    if isinstance(value, TensorLike):
        return _checked(value.as_tensor(wanted, name, as_ref), wanted)
    if wanted is None and preferred_dtype is not None:
        try:
            return convert_to_tensor(value, preferred_dtype, name)
        except (GraphTypeError, GraphValueError):
            return convert_to_tensor(value, None, name)
    if isinstance(value, list | tuple) and has_tensor(value):
        return pack_tensors(value, wanted, name)
    if isinstance(
        value,
        np.ndarray | np.generic | bool | int | float | complex | str | bytes | list | tuple | TensorShape | Dimension,
    ) or hasattr(value, "__array__"):
        return constant(value, wanted, name=name or "Const")
    raise GraphTypeError(f"cannot convert {_short(value)} of type {type(value).__name__} to a tensor")


def _checked(tensor: Tensor, wanted: DType | None) -> Tensor:
    if wanted is not None and not wanted.is_compatible_with(tensor.dtype):
        raise GraphTypeError(f"tensor {tensor.name!r} has the dtype {tensor.dtype.name}, expected {wanted.name}")
    return tensor


def has_tensor(values: Iterable[Any]) -> bool:
    """Whether a tensor is among the values, or in lists among them."""
    return any(isinstance(v, Tensor | TensorLike) or (isinstance(v, list | tuple) and has_tensor(v)) for v in values)


def first_type(values: Iterable[Any]) -> DType | None:
    """Return the element type of the first tensor among the values, or None."""
    for v in values:
        found: Any = None
        if isinstance(v, Tensor | TensorLike):
            found = getattr(v, "dtype").base_dtype  # noqa: B009 - a TensorLike may have a dtype, its type does not say so
        elif isinstance(v, list | tuple):
            found = first_type(v)
        if isinstance(found, DType):
            return found
    return None


def convert_n_to_tensor(
    values: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, as_ref: bool = False
) -> list[Tensor]:
    """A list of tensors of a list of values; constants are called name_0, name_1, ...

    Raises:
        GraphTypeError: not a list, or an element that does not fit.
    """
    if not isinstance(values, list | tuple):
        raise GraphTypeError(f"expected a list of tensors, got {_short(values)}")
    return [
        convert_to_tensor(v, dtype, None if name is None else f"{name}_{i}", preferred_dtype, as_ref)
        for i, v in enumerate(values)
    ]


def graph_of(values: Iterable[Any]) -> Any:
    """Return the graph of the tensors among `values`; the default graph if there are none.

    Raises:
        GraphError: they belong to different graphs.
    """
    graph = None
    for v in values:
        own = getattr(v, "graph", None)
        if own is None:
            continue
        if graph is not None and own is not graph:
            raise GraphError(f"{v!r} belongs to a different graph than the preceding tensors")
        graph = own
    return graph or get_default_graph()
