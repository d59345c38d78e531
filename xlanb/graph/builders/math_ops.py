"""Arithmetic, reductions and products, with the nodes and names that TensorFlow builds."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import (
    ones,
    rank,
    reshape,
    shape,
    size,
    stop_gradient,
    transpose,
    zeros_like,
)
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import apply_op, call
from xlanb.graph.operation import Tensor


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Convert values to another type; return the same object if it has the type already.

    Of IndexedSlices, the values are converted.
    """
    wanted = as_dtype(dtype).base_dtype
    if getattr(x, "dtype", None) is wanted:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, IndexedSlices):
            return IndexedSlices(cast(x.values, wanted, scope), x.indices, x.dense_shape)
        x = convert_to_tensor(x, name="x")
        return x if x.dtype.base_dtype is wanted else call("Cast", x, DstT=wanted, name=scope)


def abs(x: Any, name: str | None = None) -> Tensor:
    """Absolute value; of complex numbers the magnitude, as a real number."""
    with name_scope(name, "Abs", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return call("ComplexAbs", x, Tout=x.dtype.real_dtype, name=scope)
        return call("Abs", x, name=scope)


def conj(x: Any, name: str | None = None) -> Tensor:
    """Complex conjugate; of real numbers the same tensor."""
    if isinstance(x, Tensor) and not x.dtype.is_complex:
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return call("Conj", x, name=scope) if x.dtype.is_complex else x


def real(input: Any, name: str | None = None) -> Tensor:
    """Real part."""
    with name_scope(name, "Real", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        return call("Real", input, Tout=input.dtype.real_dtype, name=scope) if input.dtype.is_complex else input


def imag(input: Any, name: str | None = None) -> Tensor:
    """Imaginary part; of real numbers zeros."""
    with name_scope(name, "Imag", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        return (
            call("Imag", input, Tout=input.dtype.real_dtype, name=scope)
            if input.dtype.is_complex
            else zeros_like(input)
        )


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Complex numbers of real and imaginary parts. float32 -> complex64, float64 -> complex128."""
    with name_scope(name, "Complex", [real, imag]) as scope:
        real, imag = convert_to_tensor(real, name="real"), convert_to_tensor(imag, name="imag")
        wanted = dtypes.complex128 if real.dtype.base_dtype is dtypes.float64 else dtypes.complex64
        return call("Complex", real, imag, Tout=wanted, name=scope)


def sign(x: Any, name: str | None = None) -> Tensor:
    """-1, 0 or 1."""
    return call("Sign", convert_to_tensor(x), name=name)


def round(x: Any, name: str | None = None) -> Tensor:
    """Round to the nearest integer, halves to even; integers are unchanged."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else call("Round", x, name=name)


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x to the power of y, with broadcasting."""
    with name_scope(name, "Pow", [x]) as scope:
        return call("Pow", x, y, name=scope)


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    with name_scope(name, "Sigmoid", [x]) as scope:
        return call("Sigmoid", convert_to_tensor(x, name="x"), name=scope)


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), by way of softplus."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return call("Neg", call("Softplus", -x), name=scope)


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python divides."""
    if name is not None:
        return truediv(x, y, name)
    if not isinstance(x, Tensor):
        x = convert_to_tensor(x, y.dtype.base_dtype if isinstance(y, Tensor) else None)
    result: Tensor = x / y
    return result


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 2 divides: integers by floor."""
    with name_scope(name, "div", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype)
        return call("RealDiv" if x.dtype.is_floating or x.dtype.is_complex else "FloorDiv", x, y, name=scope)


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        return call("DivNoNan", x, convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype), name=scope)


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The floor of x / y."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return call("FloorDiv", x, y, name=scope)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """x times a scalar; slices stay slices."""
    scalar = convert_to_tensor(scalar, x.dtype.base_dtype, "scalar")
    if scalar.shape.rank != 0:
        raise GraphValueError(f"scalar_mul expects a scalar, got {scalar.name!r} of shape {scalar.shape}")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(call("Mul", scalar, x.values, name=name), x.indices, x.dense_shape)
    return call("Mul", scalar, x, name=name)


def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Tensor:
    """Exactly one of the two."""
    either = call("LogicalOr", x, y)
    return call("LogicalAnd", either, call("LogicalNot", call("LogicalAnd", x, y)), name=name)


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y, with broadcasting; strings are joined."""
    with name_scope(name, "Add", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype)
        return call("Add" if x.dtype.base_dtype is dtypes.string else "AddV2", x, y, name=scope)


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of tensors of one shape."""
    if not inputs:
        raise GraphValueError("add_n needs at least one tensor")
    tensors = [convert_to_tensor(i) for i in inputs]
    if len(tensors) == 1:
        return call("Identity", tensors[0], name=name) if name else tensors[0]
    return call("AddN", tensors, name=name)


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """start, start + delta, ... up to but without limit."""
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        named = (("start", start), ("limit", limit), ("delta", delta))
        parts = [v if isinstance(v, Tensor) else convert_to_tensor(v, dtype, n) for n, v in named]
        order = [dtypes.int32, dtypes.int64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
        odd = next((p for p in parts if p.dtype.base_dtype not in order), None)
        if odd is not None:
            raise GraphTypeError(f"range expects int32, int64 or floating-point numbers, got {odd.dtype.name}")
        wanted = as_dtype(dtype) if dtype is not None else max((p.dtype.base_dtype for p in parts), key=order.index)
        return call("Range", *(cast(p, wanted) for p in parts), name=scope)


# --------------------------------------------------------------------------------------- reductions


def reduction_dims(x: Any, axis: Any) -> Any:
    """The dimensions to reduce: those given, or all."""
    if axis is not None:
        return axis
    known = x.shape.rank if isinstance(x, Tensor) else getattr(getattr(x, "shape", None), "rank", None)
    if known:
        return constant(np.arange(known, dtype=np.int32))
    return range(0, rank(x))


def _reduce(
    op_type: str,
    x: Any,
    axis: Any,
    keepdims: Any,
    name: str | None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    axis = reduction_indices if axis is None else axis
    keep = bool(keepdims if keepdims is not None else keep_dims)
    return call(op_type, x, reduction_dims(x, axis), keep_dims=keep, name=name)


def reduce_sum(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Sum over the dimensions `axis` (None: all)."""
    return _reduce("Sum", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_mean(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Mean over the dimensions `axis` (None: all); an integer for integers."""
    return _reduce("Mean", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_max(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Largest element over the dimensions `axis` (None: all)."""
    return _reduce("Max", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_min(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Smallest element over the dimensions `axis` (None: all)."""
    return _reduce("Min", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_prod(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Product over the dimensions `axis` (None: all)."""
    return _reduce("Prod", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_all(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Whether all are true over the dimensions `axis` (None: all)."""
    return _reduce("All", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_any(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Whether any is true over the dimensions `axis` (None: all)."""
    return _reduce("Any", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


def reduce_logsumexp(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """log(sum(exp(x))), with the maximum taken out first."""
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        raw = reduce_max(input_tensor, axis, keepdims=True)
        largest = stop_gradient(call("SelectV2", call("IsFinite", raw), raw, 0))
        total = call("Log", reduce_sum(call("Exp", call("Sub", input_tensor, largest)), axis, keepdims))
        if not keepdims:
            largest = reshape(largest, call("Shape", total))
        return call("AddV2" if total.dtype is not dtypes.string else "Add", total, largest, name=scope)


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean squared deviation from the mean."""
    with name_scope(name or "reduce_variance"):
        x = convert_to_tensor(input_tensor)
        difference = x - reduce_mean(x, axis, keepdims=True)
        return reduce_mean(call("Square", difference), axis, keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Square root of the variance."""
    with name_scope(name or "reduce_std"):
        return call("Sqrt", reduce_variance(convert_to_tensor(input_tensor), axis, keepdims))


def argmax(
    input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = dtypes.int64
) -> Tensor:
    """Index of the largest element along a dimension (0 by default), the first of equal ones."""
    axis = dimension if axis is None else axis
    return call("ArgMax", input, 0 if axis is None else axis, output_type=output_type, name=name)


def argmin(
    input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = dtypes.int64
) -> Tensor:
    """Index of the smallest element along a dimension (0 by default), the first of equal ones."""
    axis = dimension if axis is None else axis
    return call("ArgMin", input, 0 if axis is None else axis, output_type=output_type, name=name)


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sum along a dimension."""
    with name_scope(name, "Cumsum", [x]) as scope:
        return call("Cumsum", convert_to_tensor(x, name="x"), axis, exclusive=exclusive, reverse=reverse, name=scope)


def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running product along a dimension."""
    with name_scope(name, "Cumprod", [x]) as scope:
        return call("Cumprod", convert_to_tensor(x, name="x"), axis, exclusive=exclusive, reverse=reverse, name=scope)


def reduced_shape(input_shape: Any, axes: Any) -> Any:
    """Return the shape with 1 for the reduced dimensions: an array if known statically, else a
    tensor.
    """
    known_shape, known_axes = constant_value(input_shape), constant_value(axes)
    if known_shape is not None and known_axes is not None:
        result = np.array(known_shape, np.int32)
        result[np.asarray(known_axes, np.int32)] = 1
        return result
    axes = convert_to_tensor(axes)
    count = size(input_shape, out_type=axes.dtype)
    axes = (axes + count) % count
    axes_shape = shape(axes)
    return call("DynamicStitch", [range(count), axes], [input_shape, ones(axes_shape, input_shape.dtype)])


# ----------------------------------------------------------------------------------------- products


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
    grad_a: bool = False,
    grad_b: bool = False,
) -> Tensor:
    """Matrix product: MatMul of two matrices, BatchMatMulV2 if a rank is greater than 2 or unknown.

    Raises:
        GraphValueError: both transposed and adjoint.
    """
    with name_scope(name, "MatMul", [a, b]) as scope:
        if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
            raise GraphValueError(
                f"matmul {scope.removesuffix('/')!r}: a matrix can be transposed or adjoint, not both"
            )
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, name="b", preferred_dtype=a.dtype.base_dtype)
        batched = any(t.shape.rank is None or t.shape.rank > 2 for t in (a, b))
        if batched and not a_is_sparse and not b_is_sparse:
            a, adjoint_a = (conj(a), True) if transpose_a else (a, adjoint_a)
            b, adjoint_b = (conj(b), True) if transpose_b else (b, adjoint_b)
            return call(
                "BatchMatMulV2", a, b, adj_x=adjoint_a, adj_y=adjoint_b, grad_x=grad_a, grad_y=grad_b, name=scope
            )
        a, transpose_a = (conj(a), True) if adjoint_a else (a, transpose_a)
        b, transpose_b = (conj(b), True) if adjoint_b else (b, transpose_b)
        return call(
            "MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b, grad_a=grad_a, grad_b=grad_b, name=scope
        )


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sum of products over pairs of dimensions: by reshaping both to matrices.

    Raises:
        GraphValueError: a rank is not known while the graph is built, or the axes do not fit.
    """
    with name_scope(name, "Tensordot", [a, b]) as scope:
        a, b = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
        if a.shape.rank is None or b.shape.rank is None:
            raise GraphValueError(f"tensordot needs known ranks, got {a.shape} and {b.shape}")
        left, right = _axes(a, b, axes)
        if not (a.shape.is_fully_defined() and b.shape.is_fully_defined()):
            return _open_tensordot(a, b, left, right, scope)
        a_matrix, a_free = _as_matrix(a, left, flipped=False)
        b_matrix, b_free = _as_matrix(b, right, flipped=True)
        product = matmul(a_matrix, b_matrix)
        wanted = a_free + b_free
        return product if product.shape == wanted else reshape(product, wanted, scope)


def _open_tensordot(a: Tensor, b: Tensor, left: list[int], right: list[int], scope: str) -> Tensor:
    """`tensordot` where sizes are known only when it runs."""
    a_free = [i for i in builtins.range(a.shape.rank or 0) if i not in left]
    b_free = [i for i in builtins.range(b.shape.rank or 0) if i not in right]
    a_sizes, b_sizes = call("Shape", a), call("Shape", b)
    a_kept, b_kept = (call("GatherV2", s, f, 0) for s, f in ((a_sizes, a_free), (b_sizes, b_free)))
    summed = call("Prod", call("GatherV2", a_sizes, left, 0), [0])
    rows = call("Pack", [call("Prod", a_kept, [0]), summed])
    columns = call("Pack", [summed, call("Prod", b_kept, [0])])
    a_matrix = reshape(call("Transpose", a, [*a_free, *left]), rows)
    b_matrix = reshape(call("Transpose", b, [*right, *b_free]), columns)
    made = reshape(matmul(a_matrix, b_matrix), call("ConcatV2", [a_kept, b_kept], 0), scope)
    known = [a.shape.as_list()[i] for i in a_free] + [b.shape.as_list()[i] for i in b_free]
    made.set_shape(known)
    return made


def _axes(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    ranks = len(a.shape), len(b.shape)
    if isinstance(axes, int):
        left, right = list(builtins.range(ranks[0] - axes, ranks[0])), list(builtins.range(axes))
    else:
        left, right = ([x] if isinstance(x, int) else list(x) for x in axes)
    left, right = [x % ranks[0] for x in left], [x % ranks[1] for x in right]
    if len(left) != len(right):
        raise GraphValueError(f"tensordot: {left} and {right} differ in length")
    return left, right


def _as_matrix(x: Tensor, axes: list[int], *, flipped: bool) -> tuple[Tensor, list[int]]:
    sizes = [int(d) for d in x.shape]
    free = [i for i in builtins.range(len(sizes)) if i not in axes]
    rows, columns = (axes, free) if flipped else (free, axes)
    order = [*rows, *columns]
    wanted = [int(np.prod([sizes[i] for i in part])) for part in (rows, columns)]
    moved = x if order == sorted(order) else transpose(x, order)
    return (moved if moved.shape == wanted else reshape(moved, wanted)), [sizes[i] for i in free]


_TRUEDIV_TYPES = {"uint8": dtypes.float32, "int8": dtypes.float32, "uint16": dtypes.float32, "int16": dtypes.float32,
                  "uint32": dtypes.float64, "int32": dtypes.float64, "uint64": dtypes.float64,
                  "int64": dtypes.float64}  # fmt: skip


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 divides: integers become floats first."""
    with name_scope(name, "truediv", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype)
        if x.dtype.base_dtype is not y.dtype.base_dtype:
            raise GraphTypeError(
                f"node {scope.removesuffix('/')!r}: x has the type {x.dtype.base_dtype.name}, y "
                f"{y.dtype.base_dtype.name}; they must be the same"
            )
        target = _TRUEDIV_TYPES.get(x.dtype.base_dtype.name)
        if target is not None:
            x, y = cast(x, target), cast(y, target)
        return apply_op("RealDiv", scope, x=x, y=y).outputs[0]
