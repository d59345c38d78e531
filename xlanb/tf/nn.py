"""tf.nn: the building blocks of layers."""

# ruff: noqa: F401 - names for programs to use

from __future__ import annotations

from xlanb.graph.builders.array_ops import gather
from xlanb.graph.builders.loss_ops import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from xlanb.graph.builders.math_ops import log_sigmoid, sigmoid
from xlanb.graph.builders.nn_ops import (
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
    max_pool,
    moments,
    relu6,
    relu_layer,
    swish,
    top_k,
    xw_plus_b,
)
from xlanb.tf import rnn_cell
from xlanb.tf.generated import ARRAY, NN, function_of, functions
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest
from xlanb.tf.nn_impl import (
    atrous_conv2d,
    batch_norm_with_global_normalization,
    conv1d,
    convolution,
    crelu,
    log_poisson_loss,
    normalize_moments,
    pool,
    separable_conv2d,
    sufficient_statistics,
    weighted_cross_entropy_with_logits,
    weighted_moments,
    zero_fraction,
)
from xlanb.tf.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    raw_rnn,
    static_bidirectional_rnn,
    static_rnn,
)
from xlanb.tf.sampling import (
    compute_accidental_hits,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    nce_loss,
    sampled_softmax_loss,
    uniform_candidate_sampler,
)
from xlanb.tf.sparse import embedding_lookup_sparse

silu = swish
max_pool2d, avg_pool2d = max_pool, avg_pool
tanh = function_of("Tanh", "tanh")
globals().update(functions(NN))
space_to_depth, depth_to_space, space_to_batch = (
    functions(ARRAY)[n] for n in ("space_to_depth", "depth_to_space", "space_to_batch_nd")
)
__getattr__ = _naming_the_nearest(__name__)
