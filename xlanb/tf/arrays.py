"""Tensor functions of several nodes: eye, linspace, meshgrid, norm, sort, roll and similar ones.

Source: python/ops/{array_ops,linalg_ops,sort_ops}.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    concat,
    expand_dims,
    fill,
    gather,
    ones,
    reshape,
    shape,
    stack,
    tile,
    transpose,
    zeros,
    zeros_like,
)
from xlanb.graph.builders.clip_ops import clip_by_value
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.random_ops import get_seed, random_uniform
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.dtypes import as_dtype, float32, int32, int64
from xlanb.graph.gradients import gradients
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The identity matrix, or a batch of them."""
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        columns = num_rows if num_columns is None else num_columns
        batch = [] if batch_shape is None else batch_shape
        small = (
            call("Minimum", num_rows, columns)
            if isinstance(num_rows, Tensor) or isinstance(columns, Tensor)
            else min(num_rows, columns)
        )
        sizes = concat([convert_to_tensor(batch, int32), convert_to_tensor([small], int32)], 0)
        diagonal = fill(sizes, constant(1, as_dtype(dtype)))
        if num_columns is None or num_columns is num_rows:
            return call("MatrixDiag", diagonal)
        whole = zeros(
            concat([convert_to_tensor(batch, int32), convert_to_tensor([num_rows, columns], int32)], 0), dtype
        )
        return call("MatrixSetDiag", whole, diagonal)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """`num` numbers from start to stop, both included."""
    return call("LinSpace", start, stop, num, name=name)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Coordinates of a grid: each vector spread over all others' dimensions."""
    if indexing not in {"xy", "ij"}:
        raise GraphValueError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    with name_scope(name, "meshgrid", list(args)):
        vectors = [convert_to_tensor(a) for a in args]
        count = len(vectors)
        spread = [reshape(v, [1] * i + [-1] + [1] * (count - i - 1)) for i, v in enumerate(vectors)]
        sizes = [math_ops.cast(call("Size", v), int32) for v in vectors]
        if indexing == "xy" and count > 1:
            spread[0] = reshape(vectors[0], [1, -1] + [1] * (count - 2))
            spread[1] = reshape(vectors[1], [-1, 1] + [1] * (count - 2))
            sizes[0], sizes[1] = sizes[1], sizes[0]
        whole = fill(stack(sizes), constant(1, vectors[0].dtype)) if sizes else None
        return [s * math_ops.cast(whole, s.dtype) for s in spread]


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Norm of a vector of order 1, 2, inf or another positive number, or of a matrix.

    For a matrix `ord` is "euclidean" or "fro".
    """
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if ord in {"fro", "euclidean", 2}:
            if isinstance(axis, list | tuple) and len(axis) == 2 and ord == 2:
                raise GraphValueError(
                    "norm: for the 2-norm of matrices take tf.reduce_max(tf.svd(x, compute_uv=False), axis=-1)"
                )
            return call("Sqrt", math_ops.reduce_sum(x * math_ops.conj(x), axis, keepdims=True if keep else None))
        size = math_ops.abs(x)
        if ord == 1:
            return math_ops.reduce_sum(size, axis, keepdims=keep)
        if ord == float("inf"):
            return math_ops.reduce_max(size, axis, keepdims=keep)
        if isinstance(ord, str) or ord <= 0:
            raise GraphValueError(f"norm: 'ord' must be a supported norm, not {ord!r}")
        return math_ops.pow(math_ops.reduce_sum(math_ops.pow(size, ord), axis, keepdims=keep), 1.0 / ord)


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of each matrix's diagonal."""
    with name_scope(name, "Trace", [x]) as scope:
        return math_ops.reduce_sum(call("MatrixDiagPart", convert_to_tensor(x, name="x")), [-1], name=scope)


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """A sum over products of tensors, written as NumPy writes it."""
    return call("Einsum", list(inputs), equation=equation.replace(" ", ""), name=name)


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Shift elements along dimensions, with wrap-around."""
    return call("Roll", input, shift, axis, name=name)


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """The elements in order along a dimension."""
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction)[0]


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """The indices that put the elements in order along a dimension."""
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction)[1]


def _sorted(values: Any, axis: int, direction: str) -> tuple[Tensor, Tensor]:
    if direction not in {"ASCENDING", "DESCENDING"}:
        raise GraphValueError(f"direction must be ASCENDING or DESCENDING, got {direction!r}")
    x = convert_to_tensor(values, name="values")
    count = x.shape.rank
    if count is None:
        raise GraphValueError(f"sort needs a tensor of known rank, got {x!r}")
    order = list(range(count))
    axis %= count
    order[axis], order[-1] = order[-1], order[axis]
    turned = x if axis == count - 1 else transpose(x, order)
    ascending = direction == "ASCENDING"
    size = shape(turned)[count - 1]
    found, where_ = call_n("TopKV2", -turned if ascending else turned, size, sorted=True)
    found = -found if ascending else found
    return (found, where_) if axis == count - 1 else (transpose(found, order), transpose(where_, order))


def count_nonzero(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = None, dtype: Any = int64, name: str | None = None,
    reduction_indices: Any = None, keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """Count the nonzero elements."""
    with name_scope(name, "count_nonzero", [input_tensor]):
        x = convert_to_tensor(input_tensor, name="input")
        some = math_ops.cast(call("NotEqual", x, constant(0, x.dtype.base_dtype)), int64)
        keep = bool(keepdims if keepdims is not None else keep_dims)
        total = math_ops.reduce_sum(some, reduction_indices if axis is None else axis, keepdims=keep)
        result: Tensor = math_ops.cast(total, dtype)
        return result


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """As another type, kept within its range."""
    wanted = as_dtype(dtype)
    with name_scope(name, "saturate_cast", [value]) as scope:
        x = convert_to_tensor(value, name="value")
        if float(x.dtype.min) < float(wanted.min) or float(x.dtype.max) > float(wanted.max):
            x = clip_by_value(x, convert_to_tensor(wanted.min, x.dtype), convert_to_tensor(wanted.max, x.dtype))
        result: Tensor = math_ops.cast(x, wanted, name=scope)
        return result


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Elements along the last dimension of the indices, batch by batch."""
    indices = convert_to_tensor(indices, name="indices")
    count = (indices.shape.rank or 1) - 1
    return gather(params, indices, axis=count, batch_dims=count, name=name)


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A part of that size, from a random place."""
    with name_scope(name, "random_crop", [value, size]):
        x, wanted = convert_to_tensor(value, name="value"), convert_to_tensor(size, int32, "size")
        room = shape(x) - wanted + 1
        drawn = random_uniform(shape(room), dtype=wanted.dtype, maxval=int(wanted.dtype.max), seed=seed)
        return call("Slice", x, drawn % room, wanted, name="Slice")


def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = int64
) -> Tensor:
    """Numbers of classes, drawn by their logits: [batch, num_samples]."""
    with name_scope(name, "multinomial", [logits]):
        first, second = get_seed(seed)
        return call(
            "Multinomial",
            convert_to_tensor(logits, name="logits"),
            num_samples,
            seed=first,
            seed2=second,
            output_dtype=as_dtype(output_dtype),
        )


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """As `multinomial`."""
    return multinomial(logits, num_samples, seed, name, int64 if dtype is None else dtype)


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """Count how often a label (row) was predicted as a class (column)."""
    with name_scope(name, "confusion_matrix", [labels, predictions]):
        rows, columns = (math_ops.cast(convert_to_tensor(v), int64) for v in (labels, predictions))
        if num_classes is None:
            num_classes = call("Maximum", math_ops.reduce_max(rows), math_ops.reduce_max(columns)) + 1
        count = math_ops.cast(convert_to_tensor(num_classes), int64)
        values = ones(shape(columns), dtype) if weights is None else math_ops.cast(weights, dtype)
        return call("ScatterNd", stack([rows, columns], axis=1), values, stack([count, count]))


def hessians(ys: Any, xs: Any, name: str = "hessians") -> list[Tensor]:
    """Return matrices of second derivatives of sum(ys), one for each x, a vector of known size."""
    sources = list(xs) if isinstance(xs, list | tuple) else [xs]
    found = []
    for index, x in enumerate(sources):
        with name_scope(name if index == 0 else f"{name}_{index}"):
            (slope,) = gradients(ys, x)
            size = convert_to_tensor(x).shape.as_list()
            if len(size) != 1 or size[0] is None:
                raise GraphValueError(f"hessians needs vectors of known size, got {x!r}")
            rows = [gradients(slope[i], x)[0] for i in range(size[0])]
            found.append(stack([zeros_like(convert_to_tensor(x)) if r is None else r for r in rows]))
    return found


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """Broadcast two static shapes. Raises GraphValueError if they are incompatible."""
    a, b = shape_x.as_tuple(), shape_y.as_tuple()
    if a is None or b is None:
        return TensorShape(None)
    width = max(len(a), len(b))
    pairs = zip((1,) * (width - len(a)) + a, (1,) * (width - len(b)) + b, strict=True)
    dims: list[int | None] = []
    for x, y in pairs:
        known = {x, y} - {1, None}
        if len(known) > 1:
            raise GraphValueError(f"Incompatible shapes for broadcasting: {shape_x} and {shape_y}.")
        dims.append(known.pop() if known else None if None in {x, y} else 1)
    return TensorShape(dims)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """The same tensors through one node."""
    return call_n("IdentityN", list(input), name=name)


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """The parts of the data that belong to each number."""
    return call_n("DynamicPartition", data, partitions, num_partitions=num_partitions, name=name)


def accumulate_n(inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """The sum of tensors of one shape."""
    return math_ops.add_n(inputs, name=name)


def repeat(input: Any, repeats: int, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each element (along a dimension) so many times, a number that is the same for all."""
    with name_scope(name, "repeat", [input]):
        x = convert_to_tensor(input)
        if axis is None:
            x, axis = reshape(x, [-1]), 0
        count = x.shape.rank or 1
        axis %= count
        wide = tile(expand_dims(x, axis + 1), [1] * (axis + 1) + [repeats] + [1] * (count - axis - 1))
        sizes = shape(x)
        return reshape(wide, concat([sizes[:axis], [sizes[axis] * repeats], sizes[axis + 1 :]], 0))


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = int32, name: str | None = None
) -> Tensor:
    """Return the insertion indices of values in sequences sorted along their last dimension."""
    op_type = {"left": "LowerBound", "right": "UpperBound"}.get(side)
    if op_type is None:
        raise GraphValueError(f"side must be 'left' or 'right', got {side!r}")
    with name_scope(name, "searchsorted"):
        s, v = convert_to_tensor(sorted_sequence), convert_to_tensor(values)
        last = s.shape.as_list()[-1], v.shape.as_list()[-1]
        flat_s = reshape(s, [-1, shape(s)[-1] if last[0] is None else last[0]])
        flat_v = reshape(v, [-1, shape(v)[-1] if last[1] is None else last[1]])
        return reshape(call(op_type, flat_s, flat_v, out_type=as_dtype(out_type)), shape(v))


def matrix_diag_of(function: str, op_type: str) -> Callable[..., Tensor]:
    """tf.matrix_diag and its kin: one op each."""

    def apply(*inputs: Any, name: str | None = None) -> Tensor:
        return call(op_type, *inputs, name=name)

    apply.__name__ = apply.__qualname__ = function
    apply.__doc__ = f"The op {op_type}."
    return apply


matrix_diag = matrix_diag_of("matrix_diag", "MatrixDiag")
matrix_diag_part = matrix_diag_of("matrix_diag_part", "MatrixDiagPart")
matrix_set_diag = matrix_diag_of("matrix_set_diag", "MatrixSetDiag")


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    """As tf.stack."""
    return stack(list(values), name=name)


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Places in a flat array as places in one of these dimensions."""
    return call("UnravelIndex", indices, dims, name=name)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Return the shape to which two shapes broadcast."""
    return call("BroadcastArgs", shape_x, shape_y)
