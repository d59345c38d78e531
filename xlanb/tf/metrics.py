"""tf.metrics: values accumulated over many runs in local variables (python/ops/metrics_impl.py).

Each function returns (value, update): `update` adds a batch and returns the new value, `value` is
that of all batches so far.
"""

from __future__ import annotations

from typing import Any

from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import ones_like
from xlanb.graph.builders.array_ops import zeros as zeros_of
from xlanb.graph.builders.variable_scope import variable_scope
from xlanb.graph.builders.variables import GraphKeys, Variable
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.tf.losses import squeezed
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest

_Metric = tuple[Tensor, Any]
_METRIC_VARIABLES = "metric_variables"


def _variable(shape: Any, dtype: Any, name: str) -> Any:
    return Variable(
        lambda: zeros_of(shape, dtype), trainable=False, collections=[GraphKeys.LOCAL_VARIABLES, _METRIC_VARIABLES],
        name=name
    )  # fmt: skip


def _kept(metric: Tensor, update: Any, metrics_collections: Any, updates_collections: Any) -> _Metric:
    graph = get_default_graph()
    graph.add_to_collections(metrics_collections or [], metric)
    graph.add_to_collections(updates_collections or [], update)
    return metric, update


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The mean of all values, weighted."""
    with variable_scope(name, "mean", [values, weights]):
        values = math_ops.cast(values, dtypes.float32)
        total, count = _variable([], dtypes.float32, "total"), _variable([], dtypes.float32, "count")
        if weights is None:
            number: Tensor = math_ops.cast(call("Size", values), dtypes.float32)
        else:
            weights = math_ops.cast(weights, dtypes.float32) * ones_like(values)
            values, number = values * weights, math_ops.reduce_sum(weights)
        more = total.assign_add(math_ops.reduce_sum(values))
        with get_default_graph().control_dependencies([values.op]):
            others = count.assign_add(number)
        value = math_ops.div_no_nan(total.value(), count.value(), name="value")
        update = math_ops.div_no_nan(more, others, name="update_op")
        return _kept(value, update, metrics_collections, updates_collections)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The share of predictions that equal the labels."""
    labels, predictions = squeezed(labels, predictions)
    if labels.dtype is not predictions.dtype:
        predictions = math_ops.cast(predictions, labels.dtype)
    right = math_ops.cast(call("Equal", predictions, labels), dtypes.float32)
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The mean of squared differences."""
    squares = call(
        "SquaredDifference", math_ops.cast(predictions, dtypes.float32), math_ops.cast(labels, dtypes.float32)
    )
    return mean(squares, weights, metrics_collections, updates_collections, name or "mean_squared_error")


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The mean of absolute differences."""
    sizes = math_ops.abs(math_ops.cast(predictions, dtypes.float32) - math_ops.cast(labels, dtypes.float32))
    return mean(sizes, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The root of the mean of squared differences."""
    value, update = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return _kept(call("Sqrt", value), call("Sqrt", update), metrics_collections, updates_collections)


def _counted(what: Tensor, weights: Any, name: str) -> tuple[Tensor, Any]:
    held = _variable([], dtypes.float32, name)
    found = math_ops.cast(what, dtypes.float32)
    if weights is not None:
        found = found * math_ops.cast(weights, dtypes.float32)
    return held.value(), held.assign_add(math_ops.reduce_sum(found))


def _bools(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    y, x = squeezed(math_ops.cast(labels, dtypes.bool_), math_ops.cast(predictions, dtypes.bool_))
    return y, x


def true_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """Count the positive predictions that are right."""
    with variable_scope(name, "true_positives", [predictions, labels]):
        y, x = _bools(labels, predictions)
        return _kept(*_counted(call("LogicalAnd", y, x), weights, "count"), metrics_collections, updates_collections)


def false_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """Count the positive predictions that are wrong."""
    with variable_scope(name, "false_positives", [predictions, labels]):
        y, x = _bools(labels, predictions)
        return _kept(
            *_counted(call("LogicalAnd", call("LogicalNot", y), x), weights, "count"),
            metrics_collections,
            updates_collections,
        )


def false_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """Count the negative predictions that are wrong."""
    with variable_scope(name, "false_negatives", [predictions, labels]):
        y, x = _bools(labels, predictions)
        return _kept(
            *_counted(call("LogicalAnd", y, call("LogicalNot", x)), weights, "count"),
            metrics_collections,
            updates_collections,
        )


def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The share of right ones among positive predictions."""
    with variable_scope(name, "precision", [predictions, labels]):
        right = true_positives(labels, predictions, weights)
        wrong = false_positives(labels, predictions, weights)
        value = math_ops.div_no_nan(right[0], right[0] + wrong[0], name="value")
        update = math_ops.div_no_nan(right[1], right[1] + wrong[1], name="update_op")
        return _kept(value, update, metrics_collections, updates_collections)


def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Metric:
    """The share of positive predictions among positive labels."""
    with variable_scope(name, "recall", [predictions, labels]):
        right = true_positives(labels, predictions, weights)
        missed = false_negatives(labels, predictions, weights)
        value = math_ops.div_no_nan(right[0], right[0] + missed[0], name="value")
        update = math_ops.div_no_nan(right[1], right[1] + missed[1], name="update_op")
        return _kept(value, update, metrics_collections, updates_collections)


def mean_tensor(values: Any, name: str | None = None) -> _Metric:
    """The mean of tensors of one shape, element by element."""
    with variable_scope(name, "mean", [values]):
        values = math_ops.cast(convert_to_tensor(values), dtypes.float32)
        total = _variable(values.shape.as_list(), dtypes.float32, "total_tensor")
        count = _variable(values.shape.as_list(), dtypes.float32, "count_tensor")
        more, others = total.assign_add(values), count.assign_add(ones_like(values))
        value = math_ops.div_no_nan(total.value(), count.value(), name="value")
        return value, math_ops.div_no_nan(more, others, name="update_op")


__getattr__ = _naming_the_nearest(__name__)
