"""Functions that make, cut and join tensors, with the nodes and names that TensorFlow builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape

_LARGEST_INLINE = 1000  # zeros and ones of fewer elements are one Const, others a Fill


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Make a tensor that is fed at run time. dtype: any; shape: any, None if unknown."""
    return call("Placeholder", dtype=as_dtype(dtype), shape=TensorShape(shape), name=name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Make a tensor that may be fed, by default `input`."""
    return call("PlaceholderWithDefault", input, shape=TensorShape(shape), name=name)


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value as a node of its own."""
    return call("Identity", input, name=name)


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32, optimize: bool = True) -> Tensor:
    """Return the shape as a vector, a constant if it is known statically.

    out_type: int32 or int64, None for whichever fits.
    """
    with name_scope(name, "Shape", [input]) as scope:
        tensor = convert_to_tensor(input)
        if optimize and tensor.shape.is_fully_defined():
            if out_type is None:
                return constant(tensor.shape, name="shape_as_tensor")
            return constant(tensor.shape.as_list(), out_type, name=scope)
        return call("Shape", tensor, out_type=dtypes.int32 if out_type is None else out_type, name=scope)


def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors by one node."""
    return call_n("ShapeN", input, out_type=out_type, name=name)


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the number of elements, a constant if it is known statically."""
    with name_scope(name, "Size", [input]) as scope:
        tensor = convert_to_tensor(input)
        count = tensor.shape.num_elements()
        if count is None and tensor.shape.rank is not None and 0 in tensor.shape.as_list():
            count = 0
        if count is not None:
            return constant(count, out_type, name=scope)
        return call("Size", tensor, out_type=out_type, name=scope)


def rank(input: Any, name: str | None = None) -> Tensor:
    """Return the number of dimensions, int32, a constant if it is known statically."""
    with name_scope(name, "Rank", [input]) as scope:
        tensor = convert_to_tensor(input)
        if tensor.shape.rank is not None:
            return constant(tensor.shape.rank, dtypes.int32, name=scope)
        return call("Rank", tensor, name=scope)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` with `value` everywhere."""
    return call("Fill", dims, value, name=name)


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Zeros (False, empty strings) of a shape."""
    return _filled(0, "zeros", shape, as_dtype(dtype).base_dtype, name)


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Ones (True) of a shape."""
    return _filled(1, "ones", shape, as_dtype(dtype).base_dtype, name)


def _filled(number: int, default_name: str, shape: Any, dtype: DType, name: str | None) -> Tensor:
    value: Any = bool(number) if dtype.is_bool else "" if dtype is dtypes.string else number
    with name_scope(name, default_name, [shape]) as scope:
        if not isinstance(shape, Tensor):
            known = _known_sizes(shape)
            if known is not None and int(np.prod(known)) < _LARGEST_INLINE:
                return constant(value, dtype, known, scope)
            shape = (
                convert_to_tensor(shape, dtypes.int32)
                if known is None
                else constant(known, dtypes.int32, name="shape_as_tensor")
            )
        if shape.shape.rank == 0:
            shape = reshape(shape, [-1])
        return fill(shape, constant(value, dtype), scope)


def _known_sizes(shape: Any) -> list[int] | None:
    try:
        found = TensorShape(shape)
    except (TypeError, ValueError, GraphTypeError):
        return None
    return [int(d) for d in found] if found.is_fully_defined() else None


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Return zeros of the same shape and, by default, the same dtype."""
    with name_scope(name, "zeros_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        wanted = tensor.dtype.base_dtype if dtype is None else as_dtype(dtype)
        if optimize and tensor.shape.is_fully_defined() and tensor.dtype is not dtypes.variant:
            return zeros(tensor.shape, wanted, scope)
        if wanted is not tensor.dtype.base_dtype:
            return zeros(shape(tensor, out_type=None), wanted, scope)
        return call("ZerosLike", tensor, name=scope)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return ones of the same shape and, by default, the same dtype."""
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name="tensor")
        result = ones(shape(tensor, out_type=None), tensor.dtype.base_dtype if dtype is None else dtype, scope)
        result.set_shape(tensor.shape)
        return result


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in row-major order in another shape; one size may be -1."""
    return call("Reshape", tensor, shape, name=name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """A new dimension of size 1 at `axis`."""
    axis = dim if axis is None else axis
    if axis is None:
        raise GraphValueError("expand_dims needs an axis")
    return call("ExpandDims", input, axis, name=name)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Without the dimensions of size 1, or without those named."""
    axis = squeeze_dims if axis is None else axis
    axis = [axis] if isinstance(axis, int) else list(axis or [])
    return call("Squeeze", input, squeeze_dims=axis, name=name)


def transpose(a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False) -> Tensor:
    """Permute dimensions by `perm`; reverse them by default."""
    with name_scope(name, "transpose", [a]) as scope:
        a = convert_to_tensor(a, name="a")
        op_type = "ConjugateTranspose" if conjugate and a.dtype.is_complex else "Transpose"
        if perm is None:
            if a.shape.rank is None:
                perm = call("Range", call("Rank", a) - 1, -1, -1)
            else:
                perm = np.arange(a.shape.rank - 1, -1, -1, dtype=np.int32)
        return call(op_type, a, perm, name=scope)


def matrix_transpose(a: Any, name: str | None = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two dimensions exchanged."""
    with name_scope(name, "matrix_transpose", [a]):
        a = convert_to_tensor(a, name="a")
        if a.shape.rank is None or a.shape.rank < 2:
            raise GraphValueError(f"matrix_transpose needs a known rank of at least 2, not {a.shape} of {a.name!r}")
        last = a.shape.rank - 1
        return transpose(a, [*range(last - 1), last, last - 1], conjugate=conjugate)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Tensors joined along a dimension that they have."""
    values = list(values) if isinstance(values, list | tuple) else [values]
    if len(values) == 1:
        with name_scope(name):
            convert_to_tensor(axis, dtypes.int32, "concat_dim")
            return identity(values[0], name)
    return call("ConcatV2", values, axis, name=name)


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name)
        except (GraphTypeError, GraphValueError):
            pass  # values of mixed kinds: Pack decides
    return call("Pack", list(values), axis=axis, name=name)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """The slices along a dimension, without that dimension.

    Raises:
        GraphValueError: `num` is not given and the size of the dimension is not known.
    """
    if num is None:
        value = convert_to_tensor(value)
        dims = value.shape.as_tuple()
        num = None if dims is None or not -len(dims) <= axis < len(dims) else dims[axis]
        if num is None:
            raise GraphValueError(
                f"unstack needs a known size of axis {axis} of {value.name!r} with shape {value.shape}"
            )
    return call_n("Unpack", value, num=num, axis=axis, name=name)


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Pieces along a dimension: a number of equal ones, or the given sizes."""
    if isinstance(num_or_size_splits, int):
        return call_n("Split", axis, value, num_split=num_or_size_splits, name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    dims = sizes.shape.as_tuple()
    count = num if num is not None else dims[0] if dims else None
    if count is None:
        raise GraphValueError(f"split cannot infer the number of pieces from sizes of shape {sizes.shape}")
    return call_n("SplitV", value, sizes, axis, num_split=count, name=name)


def slice_(input: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """A block: from `begin`, of `size` (-1: to the end)."""
    return call("Slice", input, begin, size, name=name)


def strided_slice(
    input: Any, begin: Any, end: Any, strides: Any = None, name: str | None = None, **masks: int
) -> Tensor:
    """Every `strides`-th element from `begin` to `end`, with StridedSlice's masks."""
    return call("StridedSlice", input, begin, end, ones_like(begin) if strides is None else strides, name=name, **masks)


def gather(params: Any, indices: Any, axis: Any = None, name: str | None = None, batch_dims: int = 0) -> Tensor:
    """Gather rows of `params` at `indices` along `axis`.

    Of a resource variable only these rows are read.
    """
    axis = batch_dims if axis is None else axis
    read = getattr(params, "sparse_read", None)
    known = constant_value(axis)
    if read is not None and known is not None and int(known) == 0:
        rows: Tensor = read(indices, name=name)
        return rows
    return call("GatherV2", params, indices, axis, batch_dims=batch_dims, name=name)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Select x where the condition holds, else y (Select); without both, indices of true
    elements.
    """
    return _where("Select", condition, x, y, name)


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """As `where`, with broadcasting (SelectV2)."""
    return _where("SelectV2", condition, x, y, name)


def _where(op_type: str, condition: Any, x: Any, y: Any, name: str | None) -> Tensor:
    if (x is None) != (y is None):
        raise GraphValueError("where needs both x and y, or neither")
    if x is None:
        with name_scope(name, "Where", [condition]) as scope:
            return call(
                "Where", convert_to_tensor(condition, name="condition", preferred_dtype=dtypes.bool_), name=scope
            )
    return call(op_type, condition, x, y, name=name)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return `on_value` (1) at each index along a new dimension of size `depth`, else `off_value`
    (0).
    """
    with name_scope(name, "one_hot", [indices]) as scope:
        given = [convert_to_tensor(v, preferred_dtype=dtype) if v is not None else None for v in (on_value, off_value)]
        known = next((v.dtype.base_dtype for v in given if v is not None), None)
        element_type = as_dtype(dtype) if dtype is not None else known or dtypes.float32
        on = given[0] if given[0] is not None else convert_to_tensor(1, element_type, "on_value")
        off = given[1] if given[1] is not None else convert_to_tensor(0, element_type, "off_value")
        return call(
            "OneHot",
            convert_to_tensor(indices, name="indices"),
            depth,
            on,
            off,
            axis=-1 if axis is None else axis,
            name=scope,
        )


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """Pad a tensor with a constant, or with its own elements reflected or mirrored at the
    border.
    """
    mode = mode.upper()
    if mode in {"REFLECT", "SYMMETRIC"}:
        return call("MirrorPad", tensor, paddings, mode=mode, name=name)
    if mode != "CONSTANT":
        raise GraphValueError(f"pad supports the modes CONSTANT, REFLECT and SYMMETRIC, not {mode!r}")
    if not isinstance(constant_values, Tensor) and np.ndim(constant_values) == 0 and constant_values == 0:
        return call("Pad", tensor, paddings, name=name)
    return call("PadV2", tensor, paddings, constant_values, name=name)


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """The tensor repeated along each dimension."""
    return call("Tile", input, multiples, name=name)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """The tensor broadcast to a shape."""
    return call("BroadcastTo", input, shape, name=name)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, through which no gradient flows."""
    return call("StopGradient", input, name=name)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """The order of elements along these dimensions reversed."""
    return call("ReverseV2", tensor, axis, name=name)


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int = 0) -> Tensor:
    """The elements (rows) at which the mask holds; the result's size is known only when it runs."""
    with name_scope(name, "boolean_mask", [tensor, mask]):
        tensor, mask = convert_to_tensor(tensor, name="tensor"), convert_to_tensor(mask, name="mask")
        if not mask.shape.rank:
            raise GraphValueError(
                f"boolean_mask needs a mask of known rank of at least 1, not {mask.shape} of {mask.name!r}"
            )
        end = axis + mask.shape.rank
        leading = call("Prod", shape(tensor)[axis:end], [0])
        flat = reshape(tensor, concat([shape(tensor)[:axis], [leading], shape(tensor)[end:]], 0))
        indices = squeeze(where_v2(reshape(mask, [-1])), axis=[1])
        return gather(flat, indices, axis=axis)
