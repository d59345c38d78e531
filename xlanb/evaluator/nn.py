"""Batch normalisation and topk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xlanb.evaluator.elementwise import total_order
from xlanb.evaluator.registry import rule
from xlanb.evaluator.sort import order_by_key
from xlanb.evaluator.values import Array, is_floating, narrow, widen
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


def _features(i: HloInstruction, x: Array, *vectors: Array) -> tuple[list[Array], tuple[int, ...]]:
    """Vectors over the features so that they broadcast against x, and the other dimensions."""
    feature = i.attributes["feature_index"]
    others = tuple(d for d in range(x.ndim) if d != feature)
    return [widen(v).reshape([-1 if d == feature else 1 for d in range(x.ndim)]) for v in vectors], others


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and (biased) variance, computed in f64."""
    wide = x.astype(np.float64)
    mean = wide.mean(axis=axes, keepdims=True)
    return mean, np.square(wide - mean).mean(axis=axes, keepdims=True)


@rule("batch-norm-training")
def _batch_norm_training(ev: Evaluator, i: HloInstruction, x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
    (s, o), axes = _features(i, x, scale, offset)
    mean, variance = _moments(widen(x), axes)
    y = (widen(x) - mean) / np.sqrt(variance + i.attributes["epsilon"]) * s + o
    return (
        narrow(y, x.dtype),
        narrow(mean.reshape(-1), scale.dtype),
        narrow(variance.reshape(-1), scale.dtype),
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
    (s, o, m, v), _ = _features(i, x, scale, offset, mean, variance)
    wide = np.result_type(widen(x), s)
    return narrow((widen(x) - m) / np.sqrt(v + wide.type(i.attributes["epsilon"])) * s + o, x.dtype)


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
    (s, m, v), axes = _features(i, x, scale, mean, variance)
    gradient = widen(dy).astype(np.float64)
    inverse = 1.0 / np.sqrt(v.astype(np.float64) + i.attributes["epsilon"])
    centred = (widen(x).astype(np.float64) - m) * inverse
    d_offset = gradient.sum(axis=axes, keepdims=True)
    d_scale = (gradient * centred).sum(axis=axes, keepdims=True)
    count = max(1, gradient.size // max(1, d_scale.size))
    dx = s * inverse * (gradient - d_offset / count - centred * d_scale / count)
    return (
        narrow(dx, x.dtype),
        narrow(d_scale.reshape(-1), scale.dtype),
        narrow(d_offset.reshape(-1), scale.dtype),
    )


def top_k(x: Array, k: int, *, largest: bool) -> tuple[Array, Array]:
    """The k largest (or smallest, in IEEE's total order) of the last dimension, and where they were (s32); of equals the first comes first."""
    order = order_by_key(total_order(np.ascontiguousarray(x)) if is_floating(x) else x, descending=largest)[..., :k]
    return np.take_along_axis(x, order, axis=-1), order.astype(np.int32)


@rule("topk")
def _topk(ev: Evaluator, i: HloInstruction, x: Array) -> tuple[Array, Array]:
    return top_k(x, i.attributes["k"], largest=i.attributes["largest"])
