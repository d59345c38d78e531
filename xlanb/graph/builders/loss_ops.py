"""Softmax and losses on logits, with the nodes and names that TensorFlow's tf.nn functions
build.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    concat,
    rank,
    reshape,
    shape,
    slice_,
    stop_gradient,
    transpose,
    where,
    zeros_like,
)
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def _over_dimension(op_type: str, logits: Any, axis: int, name: str | None) -> Tensor:
    """An op over the last dimension, applied to any: by exchanging the two before and after."""
    logits = convert_to_tensor(logits)
    dims = logits.shape.rank
    if axis == -1 or (dims is not None and axis == dims - 1):
        return call(op_type, logits, name=name)
    if dims is None or not -dims <= axis < dims:
        raise GraphValueError(
            f"{op_type} does not support dimension {axis} of {logits.name!r} with shape {logits.shape}"
        )
    count = rank(logits)
    axis %= dims
    swapped = _swap(logits, axis, call("Sub", count, 1))
    return _swap(call(op_type, swapped), axis, call("Sub", count, 1), name)


def _swap(x: Tensor, axis: int, last: Tensor, name: str | None = None) -> Tensor:
    order = concat([math_ops.range(axis), [last], math_ops.range(axis + 1, last), [axis]], 0)
    return transpose(x, order, name=name)


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension, the last by default."""
    axis = dim if axis is None else axis
    return _over_dimension("Softmax", logits, -1 if axis is None else axis, name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """log(softmax(x)) along a dimension, the last by default."""
    axis = dim if axis is None else axis
    return _over_dimension("LogSoftmax", logits, -1 if axis is None else axis, name)


def _flatten_outer(logits: Tensor) -> Tensor:
    """Merge all dimensions but the last."""
    count = rank(logits)
    last = slice_(shape(logits), [call("Sub", count, 1)], [1])
    result = reshape(logits, concat([[-1], last], 0))
    dims = logits.shape.as_tuple()
    if dims is not None and None not in dims[:-1]:
        result.set_shape([int(np.prod([d for d in dims[:-1] if d is not None])), dims[-1]])
    return result


def softmax_cross_entropy_with_logits_v2(
    labels: Any = None, logits: Any = None, axis: int | None = None, name: str | None = None, dim: Any = None
) -> Tensor:
    """-sum(labels * log(softmax(logits))) along a dimension; gradients flow to both.

    labels, logits: floating point, of one shape; the result has that dimension less.
    """
    axis = dim if axis is None else axis
    axis = -1 if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels")
        narrow = logits.dtype.name in {"float16", "bfloat16"}
        precise = math_ops.cast(logits, dtypes.float32) if narrow else logits
        labels = math_ops.cast(labels, precise.dtype)
        count = rank(precise)
        if axis != -1:
            precise, labels = (_to_end(t, axis, count) for t in (precise, labels))
        outer = shape(precise)
        flat, flat_labels = _flatten_outer(precise), _flatten_outer(labels)
        cost = call("SoftmaxCrossEntropyWithLogits", flat, flat_labels, name=scope)
        cost = reshape(cost, slice_(outer, [0], [call("Sub", count, 1)]))
        dims = logits.shape.as_tuple()
        if dims is not None:
            cost.set_shape([d for i, d in enumerate(dims) if i != axis % len(dims)])
        result: Tensor = math_ops.cast(cost, logits.dtype) if narrow else cost
        return result


def _to_end(x: Tensor, axis: int, count: Tensor) -> Tensor:
    return transpose(x, concat([math_ops.range(axis), math_ops.range(axis + 1, count), [axis]], 0))


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """As the second version, but no gradient flows to the labels.

    Raises:
        GraphTypeError: labels and logits are not given by name.
    """
    _check_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = stop_gradient(labels, name="labels_stop_gradient")
    return softmax_cross_entropy_with_logits_v2(
        labels=labels, logits=logits, axis=dim if axis is None else axis, name=scope
    )


def _check_named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None or labels is None or logits is None:
        raise GraphTypeError(f"{function} takes its arguments by name: labels=..., logits=...")


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Cross entropy with classes given by index. labels: int32 or int64, one rank less than
    logits.
    """
    _check_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels, logits = convert_to_tensor(labels), convert_to_tensor(logits)
        precise = math_ops.cast(logits, dtypes.float32) if logits.dtype is dtypes.float16 else logits
        labels_shape = shape(labels)
        if logits.shape.rank == 2:
            cost = call("SparseSoftmaxCrossEntropyWithLogits", precise, labels, name=name)
        else:
            classes = shape(logits)[rank(logits) - 1]
            flat, flat_labels = reshape(precise, [-1, classes]), reshape(labels, [-1])
            cost = reshape(call("SparseSoftmaxCrossEntropyWithLogits", flat, flat_labels, name=name), labels_shape)
            cost.set_shape(labels.shape)
        result: Tensor = math_ops.cast(cost, dtypes.float16) if logits.dtype is dtypes.float16 else cost
        return result


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """max(x, 0) - x * z + log(1 + exp(-|x|)), elementwise, for logits x and labels z."""
    _check_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits, labels = convert_to_tensor(logits, name="logits"), convert_to_tensor(labels, name="labels")
        if not labels.shape.is_compatible_with(logits.shape):
            raise GraphValueError(f"logits and labels must have the same shape, got {logits.shape} and {labels.shape}")
        nothing = zeros_like(logits, logits.dtype)
        positive = logits >= nothing
        relu_logits = where(positive, logits, nothing)
        negative = where(positive, -logits, logits)
        return call("AddV2", relu_logits - logits * labels, call("Log1p", call("Exp", negative)), name=scope)
