"""Gradients of ops that move, cut and join elements (nodes of TensorFlow's
python/ops/array_grad.py).
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    concat,
    expand_dims,
    gather,
    rank,
    reshape,
    shape,
    shape_n,
    size,
    slice_,
    split,
    squeeze,
    stack,
    transpose,
    unstack,
    zeros_like,
)
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.constant_value import constant_value
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor

not_differentiable(
    "Const", "ConcatOffset", "ZerosLike", "OnesLike", "StopGradient", "InvertPermutation", "Shape", "ShapeN", "Rank",
    "Size",
    "BroadcastGradientArgs", "OneHot", "Where", "Unique", "UniqueV2", "ListDiff", "Placeholder", "BroadcastArgs",
)  # fmt: skip

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_MANY = 16  # so many gradients of a concat are cut out one by one; more by one Split


def dense(grad: Any) -> Tensor:
    """The gradient as a tensor, slices by UnsortedSegmentSum."""
    return grad.as_tensor() if isinstance(grad, IndexedSlices) else grad


@register_gradient("Identity", "RefIdentity", "PlaceholderWithDefault", "EnsureShape", "_EagerConst")
def _identity(_: Operation, grad: Any) -> Any:
    return grad


@register_gradient("IdentityN")
def _identity_n(_: Operation, *grads: Any) -> Any:
    return list(grads)


@register_gradient("Pack")
def _pack(op: Operation, grad: Tensor) -> Any:
    return unstack(grad, num=op.get_attr("N"), axis=op.get_attr("axis"))


@register_gradient("Unpack")
def _unpack(op: Operation, *grads: Tensor) -> Any:
    return stack(list(grads), axis=op.get_attr("axis"))


@register_gradient("Reshape")
def _reshape(op: Operation, grad: Any) -> Any:
    dims = op.inputs[0].shape.as_tuple()
    if dims is not None and dims.count(None) == 1 and 0 not in dims:
        # One unknown size: a wildcard, which needs no shape when the graph runs.
        return reshape(dense(grad), [-1 if d is None else d for d in dims]), None
    return _to_input(op, grad), None


def _to_input(op: Operation, grad: Any) -> Tensor:
    flat = dense(grad)
    return reshape(flat, shape(op.inputs[0]))


@register_gradient("ExpandDims")
def _expand_dims(op: Operation, grad: Any) -> Any:
    return _to_input(op, grad), None


@register_gradient("Squeeze")
def _squeeze(op: Operation, grad: Any) -> Any:
    return _to_input(op, grad)


@register_gradient("Transpose")
def _transpose(op: Operation, grad: Tensor) -> Any:
    return transpose(grad, call("InvertPermutation", op.inputs[1])), None


@register_gradient("ConjugateTranspose")
def _conjugate_transpose(op: Operation, grad: Tensor) -> Any:
    return transpose(grad, call("InvertPermutation", op.inputs[1]), conjugate=True), None


@register_gradient("Concat")
def _concat(op: Operation, grad: Any) -> Any:
    parts = _concat_parts(op, grad, op.inputs[0], op.inputs[1:])
    return [None, *parts]


@register_gradient("ConcatV2")
def _concat_v2(op: Operation, grad: Any) -> Any:
    return [*_concat_parts(op, grad, op.inputs[-1], op.inputs[:-1]), None]


def _concat_parts(op: Operation, grad: Any, axis: Tensor, values: tuple[Tensor, ...]) -> list[Tensor]:
    """The part of the gradient that each value contributed."""
    if len(values) == 1:
        return [grad]
    grad = dense(grad)
    positive = axis % rank(values[0])
    sizes: list[Tensor] = []
    for value in values:
        found = shape(value)
        if found.op.type != "Const":
            sizes = shape_n(list(values))
            break
        sizes.append(found)
    if len(sizes) > _MANY:
        along = squeeze(slice_(stack(sizes, axis=1), [positive, 0], [1, -1]))
        return split(grad, along, positive, num=len(sizes))
    offsets = call_n("ConcatOffset", positive, sizes)
    return [slice_(grad, begin, extent) for begin, extent in zip(offsets, sizes, strict=True)]


@register_gradient("Split")
def _split(op: Operation, *grads: Tensor) -> Any:
    return None, concat(list(grads), op.inputs[0])


@register_gradient("SplitV")
def _split_v(op: Operation, *grads: Tensor) -> Any:
    return concat(list(grads), op.inputs[2]), None, None


@register_gradient("Slice")
def _slice(op: Operation, grad: Tensor) -> Any:
    """Pad by the size of the removed parts: begin before, the rest after."""
    x, begin, _ = op.inputs
    x_rank = rank(x)
    extent = shape(op.outputs[0], out_type=begin.dtype)
    column = stack([x_rank, 1])
    before = reshape(begin, column)
    after = reshape(shape(x, out_type=begin.dtype) - extent - begin, column)
    return call("Pad", grad, concat([before, after], 1)), None, None


@register_gradient("StridedSlice")
def _strided_slice(op: Operation, grad: Tensor) -> Any:
    begin = op.inputs[1]
    target = shape(op.inputs[0], out_type=begin.dtype)
    bounds = [_static(t) for t in (target, *op.inputs[1:])]
    return call("StridedSliceGrad", *bounds, grad, **{m: op.get_attr(m) for m in _MASKS}), None, None, None


def _static(tensor: Tensor) -> Any:
    """Return a statically known value as a new constant."""
    value = constant_value(tensor)
    return tensor if value is None else value


@register_gradient("StridedSliceGrad")
def _strided_slice_grad(op: Operation, grad: Tensor) -> Any:
    cut = call("StridedSlice", grad, *op.inputs[1:4], **{m: op.get_attr(m) for m in _MASKS})
    return None, None, None, None, cut


@register_gradient("Fill")
def _fill(_: Operation, grad: Tensor) -> Any:
    return None, math_ops.reduce_sum(grad)


@register_gradient("Tile")
def _tile(op: Operation, grad: Any) -> Any:
    """Sum over the repetitions: [a*n, b*m] -> [a, n, b, m] -> sum over a and b."""
    x, multiples = op.inputs
    extent = shape(x, out_type=multiples.dtype)
    interleaved = reshape(transpose(stack([multiples, extent])), [-1])
    axes = math_ops.range(0, size(interleaved), 2)
    result = math_ops.reduce_sum(reshape(dense(grad), interleaved), axes)
    result.set_shape(x.shape)
    return result, None


@register_gradient("BroadcastTo")
def _broadcast_to(op: Operation, grad: Tensor) -> Any:
    x_shape = shape(op.inputs[0])
    _, axes = call_n("BroadcastGradientArgs", shape(op.outputs[0]), x_shape)
    return reshape(math_ops.reduce_sum(grad, axes, keepdims=True), x_shape), None


@register_gradient("Pad")
def _pad(op: Operation, grad: Tensor) -> Any:
    return _unpadded(op, grad), None


@register_gradient("PadV2")
def _pad_v2(op: Operation, grad: Tensor) -> Any:
    return _unpadded(op, grad), None, None


def _unpadded(op: Operation, grad: Tensor) -> Tensor:
    x, paddings = op.inputs[:2]
    first = slice_(paddings, [0, 0], stack([rank(x), 1]))
    begin = reshape(first, [-1])
    return slice_(grad, begin, shape(x, out_type=begin.dtype))


@register_gradient("MirrorPad")
def _mirror_pad(op: Operation, grad: Tensor) -> Any:
    return call("MirrorPadGrad", grad, op.inputs[1], mode=op.get_attr("mode")), None


@register_gradient("MirrorPadGrad")
def _mirror_pad_grad(op: Operation, grad: Tensor) -> Any:
    return call("MirrorPad", grad, op.inputs[1], mode=op.get_attr("mode")), None


@register_gradient("ReverseV2")
def _reverse(op: Operation, grad: Tensor) -> Any:
    return call("ReverseV2", grad, op.inputs[1]), None


@register_gradient("ReverseSequence")
def _reverse_sequence(op: Operation, grad: Tensor) -> Any:
    attrs = {a: op.get_attr(a) for a in ("batch_dim", "seq_dim")}
    return call("ReverseSequence", grad, op.inputs[1], **attrs), None


@register_gradient("SpaceToBatchND")
def _space_to_batch(op: Operation, grad: Tensor) -> Any:
    return call("BatchToSpaceND", grad, *op.inputs[1:]), None, None


@register_gradient("BatchToSpaceND")
def _batch_to_space(op: Operation, grad: Tensor) -> Any:
    return call("SpaceToBatchND", grad, *op.inputs[1:]), None, None


@register_gradient("SpaceToDepth")
def _space_to_depth(op: Operation, grad: Tensor) -> Any:
    return call("DepthToSpace", grad, block_size=op.get_attr("block_size"), data_format=op.get_attr("data_format"))


@register_gradient("DepthToSpace")
def _depth_to_space(op: Operation, grad: Tensor) -> Any:
    return call("SpaceToDepth", grad, block_size=op.get_attr("block_size"), data_format=op.get_attr("data_format"))


@register_gradient("Diag")
def _diag(_: Operation, grad: Tensor) -> Any:
    return call("DiagPart", grad)


@register_gradient("DiagPart")
def _diag_part(_: Operation, grad: Tensor) -> Any:
    return call("Diag", grad)


@register_gradient("MatrixBandPart")
def _matrix_band_part(op: Operation, grad: Tensor) -> Any:
    return call("MatrixBandPart", grad, *op.inputs[1:]), None, None


@register_gradient("CheckNumerics")
def _check_numerics(op: Operation, grad: Tensor) -> Any:
    message = f"Not a number (NaN) or infinity (Inf) values detected in gradient. {op.get_attr('message')}"
    return call("CheckNumerics", grad, message=message)


def _rows(op: Operation, grad: Any, params_shape: Tensor, indices: Tensor, count: Tensor) -> IndexedSlices:
    """The gradient of taking rows: these rows, at these indices."""
    wanted = concat([count, params_shape[1:]], 0)
    values = reshape(dense(grad), wanted)
    return IndexedSlices(values, reshape(indices, count), params_shape)


@register_gradient("Gather")
def _gather(op: Operation, grad: Any) -> Any:
    params, indices = op.inputs
    with get_default_graph().colocate_with(params):
        params_shape = shape(params)
    count = expand_dims(size(indices), 0)
    return _rows(op, grad, params_shape, indices, count), None


@register_gradient("GatherV2")
def _gather_v2(op: Operation, grad: Any) -> Any:
    """Return IndexedSlices for axis 0; else transpose the axis to the front, add by index,
    transpose back.
    """
    params, indices, axis = op.inputs
    with get_default_graph().colocate_with(params):
        params_shape = shape(params)
    count = expand_dims(size(indices), 0)
    known = constant_value(axis)
    batch_dims = int(op.get_attr("batch_dims"))
    if known is not None and int(known) == 0:
        return _rows(op, grad, params_shape, indices, count), None, None
    if batch_dims:
        raise UnimplementedError(
            f"the gradient of GatherV2 with batch_dims={batch_dims} is not implemented: {op.describe()}"
        )
    outer, inner = params_shape[:axis], params_shape[axis:][1:]
    flat_shape = concat([outer, [-1], inner], 0)
    values_rank, axis_rank = size(flat_shape), size(outer)
    batch, before = math_ops.range(0), math_ops.range(0, axis_rank)
    behind = math_ops.range(axis_rank + 1, values_rank)
    values = reshape(dense(grad), flat_shape)
    order = concat([batch, [axis_rank], before, behind], 0)
    moved = transpose(values, order)
    gather(params_shape, order)
    rows = params_shape[axis]
    number = expand_dims(size(indices), 0)
    summed = call("UnsortedSegmentSum", moved, reshape(indices, number), rows)
    back = concat([batch, before + 1, [0], behind], 0)
    result = transpose(summed, back)
    return reshape(result, shape(params)), None, None


@register_gradient("GatherNd")
def _gather_nd(op: Operation, grad: Tensor) -> Any:
    params, indices = op.inputs
    params_shape = shape(params, out_type=indices.dtype)
    dims = indices.shape.as_tuple()
    if dims is not None and len(dims) == 2 and dims[-1] == 1:
        return IndexedSlices(grad, squeeze(indices, axis=-1), params_shape), None
    return call("ScatterNd", indices, grad, params_shape), None


@register_gradient("ScatterNd")
def _scatter_nd(op: Operation, grad: Tensor) -> Any:
    return None, call("GatherNd", grad, op.inputs[0]), None


@register_gradient("TensorScatterUpdate")
def _tensor_scatter_update(op: Operation, grad: Tensor) -> Any:
    indices, updates = op.inputs[1:]
    by_updates = call("GatherNd", grad, indices)
    return (
        call("TensorScatterUpdate", call("Identity", grad), indices, zeros_like(updates, grad.dtype)),
        None,
        by_updates,
    )


@register_gradient("TensorScatterAdd")
def _tensor_scatter_add(op: Operation, grad: Tensor) -> Any:
    by_updates = call("GatherNd", grad, op.inputs[1])
    return call("Identity", grad), None, by_updates
