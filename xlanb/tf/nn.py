"""tf.nn."""

from __future__ import annotations

from typing import Any

from xlanb.graph.array_ops import gather
from xlanb.graph.math_ops import log_sigmoid, sigmoid
from xlanb.graph.nn_ops import (
    avg_pool,
    batch_normalization,
    bias_add,
    conv2d,
    conv2d_transpose,
    depthwise_conv2d,
    depthwise_conv2d_native,
    dropout,
    embedding_lookup,
    fused_batch_norm,
    in_top_k,
    l2_normalize,
    leaky_relu,
    log_softmax,
    max_pool,
    moments,
    relu6,
    relu_layer,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    swish,
    top_k,
    xw_plus_b,
)
from xlanb.tf.generated import NN, function_of, functions

tanh = function_of("Tanh", "tanh")
globals().update(functions(NN))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"xlanb.tf.nn has no {name!r}")


__all__ = [
    "avg_pool", "batch_normalization", "bias_add", "conv2d", "conv2d_transpose", "depthwise_conv2d", "depthwise_conv2d_native", "dropout",
    "embedding_lookup", "fused_batch_norm", "gather", "in_top_k", "l2_normalize", "leaky_relu", "log_sigmoid", "log_softmax", "max_pool", "moments",
    "relu6", "relu_layer", "sigmoid", "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "sparse_softmax_cross_entropy_with_logits", "swish", "tanh", "top_k", "xw_plus_b", *NN,
]  # fmt: skip
