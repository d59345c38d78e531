"""Batch normalization and topk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xlanb.analysis.mixed_precision import WIDER
from xlanb.evaluator.elementwise import check_order, total_order
from xlanb.evaluator.registry import rule
from xlanb.evaluator.sort import order_by_key
from xlanb.evaluator.values import Array, is_floating, narrow, primitive_type
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


class _RoundedBatchNorm:
    """The arithmetic of a batch normalization, each step rounded to the type that XLA:CPU uses."""

    def __init__(self, i: HloInstruction, x: Array) -> None:
        feature = i.attributes["feature_index"]
        self.shape = [-1 if d == feature else 1 for d in range(x.ndim)]
        self.axes = tuple(d for d in range(x.ndim) if d != feature)
        kind = primitive_type(x)
        self.dtype = WIDER.get(kind, kind).dtype
        self.x = narrow(x, self.dtype)
        self.count = self.dtype.type(x.size // max(1, x.shape[feature]))
        self.epsilon = self.dtype.type(i.attributes["epsilon"])

    def vectors(self, *vectors: Array) -> list[Array]:
        """Vectors over the features, reshaped to broadcast against x."""
        return [narrow(v, self.dtype).reshape(self.shape) for v in vectors]

    def total(self, v: Array) -> Array:
        """The sum over all but the features, rounded once."""
        return narrow(v.sum(axis=self.axes, keepdims=True, dtype=np.float64), self.dtype)

    def mean(self, v: Array) -> Array:
        """The mean over all but the features."""
        return np.asarray(self.total(v) / self.count)

    def inverse_deviation(self, variance: Array) -> Array:
        """1 / sqrt(variance + epsilon)."""
        wide = np.float32 if self.dtype == np.float16 else self.dtype
        return np.asarray((1 / np.sqrt((variance + self.epsilon).astype(wide))).astype(self.dtype))


@rule("batch-norm-training")
def _batch_norm_training(ev: Evaluator, i: HloInstruction, x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
    n = _RoundedBatchNorm(i, x)
    s, o = n.vectors(scale, offset)
    mean = n.mean(n.x)
    variance = n.mean(n.x * n.x) - mean * mean
    y = (n.x - mean) * n.inverse_deviation(variance) * s + o
    return (
        narrow(y, x.dtype),
        *(
            narrow(v.reshape(-1), shape.as_array().dtype)
            for v, (_, shape) in zip((mean, variance), [*i.shape.leaves()][1:], strict=True)
        ),
    )


@rule("batch-norm-inference")
def _batch_norm_inference(
    ev: Evaluator,
    i: HloInstruction,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
) -> Array:
    n = _RoundedBatchNorm(i, x)
    s, o, m, v = n.vectors(scale, offset, mean, variance)
    factor = s * n.inverse_deviation(v)
    return narrow(n.x * factor + (o - m * factor), x.dtype)


@rule("batch-norm-grad")
def _batch_norm_grad(
    ev: Evaluator,
    i: HloInstruction,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    dy: Array,
) -> tuple[Array, ...]:
    """The derivatives by operand, scale and offset (Ioffe and Szegedy 2015, section 3)."""
    n = _RoundedBatchNorm(i, x)
    s, m, v = n.vectors(scale, mean, variance)
    gradient, centred, inverse = narrow(dy, n.dtype), n.x - m, n.inverse_deviation(v)
    product, d_offset = n.total(gradient * centred), n.total(gradient)
    pull = product * centred / (v + n.epsilon)
    dx = s * inverse / n.count * (n.count * gradient - d_offset - pull)
    return (
        narrow(dx, x.dtype),
        narrow((product * inverse).reshape(-1), scale.dtype),
        narrow(d_offset.reshape(-1), scale.dtype),
    )


def top_k(x: Array, k: int, *, largest: bool) -> tuple[Array, Array]:
    """The k largest (or smallest) of the last dimension, and their indices (s32).

    Floats are compared in IEEE's total order. Of equal elements the first comes first.
    """
    check_order(x)
    order = order_by_key(total_order(np.ascontiguousarray(x)) if is_floating(x) else x, descending=largest)[..., :k]
    return np.take_along_axis(x, order, axis=-1), order.astype(np.int32)


@rule("topk")
def _topk(ev: Evaluator, i: HloInstruction, x: Array) -> tuple[Array, Array]:
    return top_k(x, i.attributes["k"], largest=i.attributes["largest"])
