"""tf.losses: weighted mean losses, kept in the collection "losses"
(python/ops/losses/losses_impl.py).
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import loss_ops, math_ops
from xlanb.graph.builders.array_ops import ones_like, rank, shape, size, squeeze, stop_gradient, where, zeros_like
from xlanb.graph.builders.control_ops import no_op
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest


class Reduction:
    """Ways to reduce losses of examples to one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS


_MEAN = Reduction.SUM_BY_NONZERO_WEIGHTS
_KINDS = frozenset({Reduction.NONE, Reduction.SUM, Reduction.SUM_OVER_BATCH_SIZE, Reduction.MEAN, _MEAN})


def _check_weights(weights: Tensor, values: Tensor) -> Any:
    """The check that weights can be spread over the values; shapes known now are checked now."""
    with name_scope(None, "assert_broadcastable", [weights, values]):
        with name_scope(None, "weights", [weights]) as scope:
            weights = convert_to_tensor(weights, name=scope)
            shape(weights, name="shape")
            rank(weights, name="rank")
        with name_scope(None, "values", [values]) as scope:
            values = convert_to_tensor(values, name=scope)
            shape(values, name="shape")
            rank(values, name="rank")
        given, wanted = weights.shape.as_tuple(), values.shape.as_tuple()
        if given == ():
            return no_op("static_scalar_check_success")
        if given is not None and wanted is not None:
            fits = len(given) == len(wanted) and all(
                g is None or w is None or g in {1, w} for g, w in zip(given, wanted, strict=True)
            )
            if not fits:
                raise GraphValueError(
                    f"weights can not be broadcast to values: weights {weights.name!r} have shape "
                    f"{weights.shape}, values {values.name!r} {values.shape}"
                )
        return no_op("static_dims_check_success")


def _count_elements(losses: Tensor) -> Tensor:
    with name_scope(None, "num_elements", [losses]) as scope:
        count: Tensor = math_ops.cast(size(losses, name=scope), losses.dtype)
        return count


def _count_present(losses: Tensor, weights: Tensor) -> Tensor:
    """Count the losses with a nonzero weight."""
    with name_scope(None, "num_present", [losses, weights]) as scope:
        weights = math_ops.cast(weights, dtypes.float32)
        present = where(call("Equal", weights, 0.0), zeros_like(weights), ones_like(weights))
        return math_ops.reduce_sum(_spread(present, losses), name=scope)


def _spread(weights: Tensor, values: Tensor) -> Tensor:
    with name_scope(None, "broadcast_weights", [weights, values]) as scope:
        same = weights.shape.is_fully_defined() and values.shape.is_fully_defined()
        if same and weights.shape.is_compatible_with(values.shape):
            return weights
        with get_default_graph().control_dependencies([_check_weights(weights, values)]):
            return call("Mul", weights, ones_like(values), name=scope)


def _safe_mean(total: Tensor, count: Tensor) -> Tensor:
    return math_ops.div_no_nan(math_ops.reduce_sum(total), count, name="value")


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _MEAN,
) -> Tensor:
    """The losses times the weights, reduced to one number (or not), and added to a collection.

    Raises:
        GraphValueError: an unknown reduction, or weights that do not fit.
    """
    if reduction not in _KINDS:
        raise GraphValueError(f"Invalid Reduction Key {reduction}. Key should be one of {sorted(_KINDS)}.")
    with name_scope(scope, "weighted_loss", [losses, weights]):
        losses = convert_to_tensor(losses)
        check = _check_weights(weights, losses)
        with get_default_graph().control_dependencies([check]):
            kind = losses.dtype
            losses = math_ops.cast(losses, dtypes.float32)
            factor = math_ops.cast(weights, dtypes.float32)
            loss = call("Mul", losses, factor)
            if reduction != Reduction.NONE:
                loss = math_ops.reduce_sum(loss)
            if reduction == Reduction.MEAN:
                loss = _safe_mean(loss, math_ops.reduce_sum(ones_like(losses) * factor))
            elif reduction == _MEAN:
                loss = _safe_mean(loss, _count_present(losses, factor))
            elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
                loss = _safe_mean(loss, _count_elements(losses))
            result: Tensor = math_ops.cast(loss, kind)
            if loss_collection:
                get_default_graph().add_to_collection(loss_collection, result)
            return result


def add_loss(loss: Tensor, loss_collection: str = GraphKeys.LOSSES) -> None:
    """Keep a loss that was made elsewhere."""
    get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """The losses kept so far."""
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """The losses of regularizers."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """Their sum."""
    found = get_regularization_losses(scope)
    return math_ops.add_n(found, name=name) if found else convert_to_tensor(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """The sum of the losses, those of regularizers included."""
    found = get_losses(scope=scope)
    return math_ops.add_n(found + (get_regularization_losses(scope) if add_regularization_losses else []), name=name)


def _both(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    if predictions is None or labels is None:
        raise GraphValueError("a loss needs labels and predictions")
    x, y = math_ops.cast(predictions, dtypes.float32), math_ops.cast(labels, dtypes.float32)
    if not x.shape.is_compatible_with(y.shape):
        raise GraphValueError(f"Shapes {x.shape} and {y.shape} are incompatible")
    return x, y


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """The mean of (prediction - label)^2."""
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as name:
        x, y = _both(predictions, labels)
        return compute_weighted_loss(call("SquaredDifference", x, y), weights, name, loss_collection, reduction)


def absolute_difference(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """The mean of |prediction - label|."""
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as name:
        x, y = _both(predictions, labels)
        return compute_weighted_loss(math_ops.abs(call("Sub", x, y)), weights, name, loss_collection, reduction)


def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """Half the squared error up to `delta`, linear beyond."""
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as name:
        x, y = _both(predictions, labels)
        error = math_ops.abs(call("Sub", x, y))
        quadratic = call("Minimum", error, delta)
        linear = call("Sub", error, quadratic)
        half = convert_to_tensor(0.5, quadratic.dtype)
        losses = math_ops.add(call("Mul", half, call("Mul", quadratic, quadratic)), call("Mul", delta, linear))
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def log_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """-label * log(prediction) - (1 - label) * log(1 - prediction)."""
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as name:
        x, y = _both(predictions, labels)
        losses = -call("Mul", y, call("Log", x + epsilon)) - call("Mul", 1 - y, call("Log", 1 - x + epsilon))
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def hinge_loss(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """max(0, 1 - logit * (2 * label - 1))."""
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as name:
        x, y = _both(logits, labels)
        one = ones_like(y)
        signs = call("Sub", 2 * y, one)
        losses = call("Relu", call("Sub", one, call("Mul", signs, x)))
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def cosine_distance(
    labels: Any, predictions: Any, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _MEAN, dim: int | None = None,
) -> Tensor:  # fmt: skip
    """1 - the sum of prediction * label along `axis`; both are taken to be of length 1."""
    axis = dim if axis is None else axis
    if axis is None:
        raise GraphValueError("cosine_distance needs axis")
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as name:
        x, y = _both(predictions, labels)
        losses = 1 - math_ops.reduce_sum(call("Mul", x, y), axis=(axis,), keepdims=True)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """Cross entropy with labels in [0, 1], for each class independently."""
    with name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels, weights]) as name:
        logits = convert_to_tensor(logits)
        labels = math_ops.cast(multi_class_labels, logits.dtype)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = loss_ops.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """Cross entropy of distributions over classes."""
    with name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as name:
        logits = convert_to_tensor(logits)
        labels = math_ops.cast(onehot_labels, logits.dtype)
        if label_smoothing > 0:
            classes = math_ops.cast(shape(labels)[-1], logits.dtype)
            low = label_smoothing / classes
            labels = labels * (1.0 - label_smoothing) + low
        labels = stop_gradient(labels, name="labels_stop_gradient")
        losses = loss_ops.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _MEAN,
) -> Tensor:  # fmt: skip
    """Cross entropy with class numbers as labels; their last dimension is dropped if it is 1."""
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as name:
        labels, logits = squeezed(labels, logits, 1)
        weights = convert_to_tensor(weights)
        if None not in {weights.shape.rank, labels.shape.rank} and weights.shape.rank == labels.shape.rank + 1:
            weights = squeeze(weights, [-1])
        losses = loss_ops.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def squeezed(labels: Any, predictions: Any, difference: int = 0) -> tuple[Tensor, Tensor]:
    """Drop the last dimension of 1 from labels or predictions to make their ranks match.

    Their ranks should differ by `difference`.
    """
    with name_scope(None, "remove_squeezable_dimensions", [labels, predictions]):
        predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
        ranks = predictions.shape.rank, labels.shape.rank
        if ranks[0] is None or ranks[1] is None:
            return labels, predictions
        found = ranks[0] - ranks[1]
        if found == difference + 1 and predictions.shape.as_list()[-1] in {1, None}:
            predictions = squeeze(predictions, [-1])
        elif found == difference - 1 and labels.shape.as_list()[-1] in {1, None}:
            labels = squeeze(labels, [-1])
        return labels, predictions


__getattr__ = _naming_the_nearest(__name__)
