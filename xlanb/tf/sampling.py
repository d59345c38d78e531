"""Candidate sampling: samplers and the losses that use them
(python/ops/{candidate_sampling_ops,nn_impl}.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import (
    concat,
    expand_dims,
    ones,
    ones_like,
    reshape,
    shape,
    slice_,
    stack,
    stop_gradient,
    zeros_like,
)
from xlanb.graph.builders.loss_ops import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits_v2
from xlanb.graph.builders.math_ops import cast, matmul
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.nn_ops import embedding_lookup
from xlanb.graph.builders.random_ops import get_seed
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Tensor

Sampled = tuple[Tensor, Tensor, Tensor]


def _sampler(op_type: str) -> Callable[..., Sampled]:
    def sample(
        true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
        name: str | None = None
    ) -> Sampled:  # fmt: skip
        first, second = get_seed(seed)
        made = call_op(
            op_type, true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max,
            seed=first or 0,
            seed2=second or 0, name=name,
        )  # fmt: skip
        candidates, true, sampled = made.outputs
        return candidates, true, sampled

    sample.__doc__ = f"Candidates, and the expected counts of the true classes and of the candidates ({op_type})."
    return sample


uniform_candidate_sampler = _sampler("UniformCandidateSampler")
log_uniform_candidate_sampler = _sampler("LogUniformCandidateSampler")
learned_unigram_candidate_sampler = _sampler("LearnedUnigramCandidateSampler")


def fixed_unigram_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0, num_shards: int = 1, shard: int = 0, unigrams: Any = (), seed: int | None = None,
    name: str | None = None,
) -> Sampled:  # fmt: skip
    """As the others, classes drawn by the weights in `unigrams`."""
    first, second = get_seed(seed)
    made = call_op(
        "FixedUnigramCandidateSampler", true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique,
        range_max=range_max,
        vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids, num_shards=num_shards,
        shard=shard,
        unigrams=[float(u) for u in unigrams], seed=first or 0, seed2=second or 0, name=name,
    )  # fmt: skip
    candidates, true, sampled = made.outputs
    return candidates, true, sampled


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> Sampled:
    """Return row, candidate index and weight of each candidate that is a true class."""
    first, second = get_seed(seed)
    made = call_op(
        "ComputeAccidentalHits", true_classes, sampled_candidates, num_true=num_true, seed=first or 0,
        seed2=second or 0, name=name
    )  # fmt: skip
    indices, ids, weights = made.outputs
    return indices, ids, weights


def _sum_rows(x: Tensor) -> Tensor:
    columns = shape(x)[1]
    column = ones(stack([columns, 1]), x.dtype)
    return reshape(matmul(x, column), [-1])


def _logits_and_labels(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int,
    sampled_values: Any,
    subtract_log_q: bool, remove_accidental_hits: bool, name: str | None, seed: int | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Logits of the true classes and the candidates, and their labels: 1 / num_true and 0."""
    tables = list(weights) if isinstance(weights, list | tuple) else [weights]
    with name_scope(name, "compute_sampled_logits", [*tables, biases, inputs, labels]):
        targets = convert_to_tensor(labels, name="labels")
        if targets.dtype.base_dtype is not dtypes.int64:
            targets = cast(targets, dtypes.int64)
        flat = reshape(targets, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(targets, num_true, num_sampled, True, num_classes, seed)
        sampled, true_count, sampled_count = (stop_gradient(s) for s in sampled_values)
        sampled = cast(sampled, dtypes.int64)
        all_ids = concat([flat, sampled], 0)
        rows = embedding_lookup(weights, all_ids)
        true_w = slice_(rows, [0, 0], stack([shape(flat)[0], -1]))
        sampled_w = slice_(rows, stack([shape(flat)[0], 0]), [-1, -1])
        sampled_logits = matmul(inputs, sampled_w, transpose_b=True)
        all_b = embedding_lookup(biases, all_ids)
        true_b = slice_(all_b, [0], shape(flat))
        sampled_b = slice_(all_b, shape(flat), [-1])
        dim = shape(true_w)[1:2]
        dots = call("Mul", expand_dims(inputs, 1), reshape(true_w, concat([[-1, num_true], dim], 0)))
        true_logits = reshape(_sum_rows(reshape(dots, concat([[-1], dim], 0))), [-1, num_true])
        true_logits = true_logits + reshape(true_b, [-1, num_true])
        sampled_logits = sampled_logits + sampled_b
        if remove_accidental_hits:
            sampled_logits = sampled_logits + _hits(targets, sampled, sampled_logits, num_sampled, num_true)
        if subtract_log_q:
            true_logits = true_logits - call("Log", true_count)
            sampled_logits = sampled_logits - call("Log", sampled_count)
        out_logits = concat([true_logits, sampled_logits], 1, name="out_logits")
        out_labels = concat([ones_like(true_logits) / num_true, zeros_like(sampled_logits)], 1, name="out_labels")
        return out_logits, out_labels


def _hits(targets: Tensor, sampled: Tensor, logits: Tensor, num_sampled: int, num_true: int) -> Tensor:
    """Return logit corrections that exclude candidates which are true classes of their row."""
    rows, places, weights = compute_accidental_hits(targets, sampled, num_true)
    indices = concat([reshape(rows, [-1, 1]), cast(reshape(places, [-1, 1]), dtypes.int32)], 1, "sparse_indices")
    size = concat([shape(targets)[:1], expand_dims(num_sampled, 0)], 0)
    dense = call("SparseToDense", indices, size, cast(weights, logits.dtype), 0.0, validate_indices=False)
    dense.set_shape(logits.shape)
    return dense


def nce_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False, partition_strategy: str = "mod", name: str = "nce_loss",
) -> Tensor:  # fmt: skip
    """Noise-contrastive estimation (Gutmann and Hyvärinen 2010): a loss for each row."""
    logits, targets = _logits_and_labels(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
        remove_accidental_hits, name, None
    )  # fmt: skip
    losses = sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name="sampled_losses")
    return _sum_rows(losses)


def sampled_softmax_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True, partition_strategy: str = "mod", name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:  # fmt: skip
    """Softmax cross entropy over true classes and sampled candidates (Jean et al. 2014), per
    row.
    """
    logits, targets = _logits_and_labels(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
        remove_accidental_hits, name, seed
    )  # fmt: skip
    return softmax_cross_entropy_with_logits_v2(
        labels=stop_gradient(targets, name="labels_stop_gradient"), logits=logits
    )
