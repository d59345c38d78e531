"""Candidate samplers (core/kernels/{candidate_sampler_ops,range_sampler}.cc).

They draw classes for sampled losses, and return their expected counts. Candidates come from the
session's generator of the node, so that they differ from TensorFlow's; the expected counts are the
same function of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.operation import Operation
from xlanb.runtime.host.ops import HostState, host

Array = np.ndarray[Any, Any]
_Draw = Callable[[np.random.Generator, int, int], Array]
_MOST = 2**24  # candidates of one run; four times as many tries to find distinct ones


def _uniform(generator: np.random.Generator, limit: int, count: int) -> Array:
    return generator.integers(limit, size=count)


def _log_uniform(generator: np.random.Generator, limit: int, count: int) -> Array:
    """Class k with probability log((k + 2) / (k + 1)) / log(limit + 1); small k are frequent."""
    drawn = np.exp(generator.random(count) * math.log1p(limit)).astype(np.int64) - 1
    return np.asarray(np.minimum(drawn, limit - 1))


def _log_probability(classes: np.ndarray[Any, Any], limit: int) -> np.ndarray[Any, Any]:
    return np.asarray(np.log((classes + 2.0) / (classes + 1.0)) / math.log1p(limit))


@host("UniformCandidateSampler", "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler")
def _uniform_sampler(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """All classes equally; also for the learned unigram sampler, which does not learn here."""
    return _sampled(op, inputs[0], state, _uniform, lambda c, limit: np.full(c.shape, 1.0 / limit))


@host("LogUniformCandidateSampler")
def _log_uniform_sampler(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return _sampled(op, inputs[0], state, _log_uniform, _log_probability)


@host("AllCandidateSampler")
def _all(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    count = int(op.attrs["num_sampled"])
    return [
        np.arange(count, dtype=np.int64),
        np.ones(np.shape(inputs[0]), np.float32),
        np.ones(count, np.float32),
    ]


@host("FixedUnigramCandidateSampler")
def _fixed(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """Classes by given weights, raised to a power; ids below num_reserved_ids are never drawn."""
    if op.attrs.get("vocab_file"):
        raise GraphError(f"node {op.name!r} ({op.type}): vocab_file is not supported; pass unigrams")
    reserved = int(op.attrs.get("num_reserved_ids", 0))
    weights = np.asarray(op.attrs.get("unigrams") or (), np.float64) ** float(op.attrs.get("distortion", 1.0))
    weights = np.concatenate([np.zeros(reserved), weights])
    limit = int(op.attrs["range_max"])
    if len(weights) != limit or weights.sum() <= 0:
        raise GraphError(
            f"node {op.name!r} ({op.type}): {len(weights)} weights (including reserved ids) do not match {limit} "
            "classes"
        )
    chances = weights / weights.sum()
    return _sampled(
        op, inputs[0], state, lambda g, n, count: g.choice(n, count, p=chances), lambda c, _limit: chances[c]
    )


def _sampled(
    op: Operation,
    true_classes: Any,
    state: HostState,
    draw: _Draw,
    probability: Callable[[np.ndarray[Any, Any], int], np.ndarray[Any, Any]],
) -> list[Any]:
    """The candidates, and the expected counts of the true classes and of the candidates."""
    count, limit = int(op.attrs["num_sampled"]), int(op.attrs["range_max"])
    true = np.asarray(true_classes, np.int64)
    if true.size and not (true.min() >= 0 and true.max() < limit):
        raise GraphError(f"node {op.name!r} ({op.type}): true_classes are not all in [0, {limit})")
    if not 0 <= count <= _MOST or limit < 1:
        raise GraphError(f"node {op.name!r} ({op.type}): cannot draw {count} of {limit} classes")
    if op.attrs.get("unique", True):
        drawn, tries = _different(op, draw, state.generator(op), count, limit)
    else:
        drawn, tries = np.asarray(draw(state.generator(op), limit, count), np.int64), count

    def expected(classes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        chance = probability(classes, limit)
        counts = chance * tries if tries == count else -np.expm1(tries * np.log1p(-np.minimum(chance, 1 - 1e-12)))
        return np.asarray(counts, np.float32)

    return [drawn, expected(true), expected(drawn)]


def _different(op: Operation, draw: _Draw, generator: np.random.Generator, count: int, limit: int) -> tuple[Array, int]:
    """Distinct candidates, and the number of draws needed to find them."""
    if count > limit:
        raise GraphError(f"node {op.name!r} ({op.type}): cannot draw {count} distinct candidates from {limit} classes")
    found: dict[int, None] = {}
    tries = 0
    while len(found) < count:
        if tries > 4 * _MOST:
            raise GraphError(
                f"node {op.name!r} ({op.type}): {tries} tries gave {len(found)} distinct candidates, expected {count}"
            )
        for candidate in draw(generator, limit, max(count, 64)).tolist():
            tries += 1
            found[candidate] = None
            if len(found) == count:
                break
    return np.fromiter(found, np.int64, len(found)), tries


@host("ComputeAccidentalHits")
def _accidental_hits(op: Operation, inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """Candidates that are a true class of a row: the row, the candidate's index, a weight.

    The weight is the lowest float.
    """
    true, drawn = np.asarray(inputs[0], np.int64), np.asarray(inputs[1], np.int64)
    rows, places = np.nonzero((true[:, :, None] == drawn[None, None, :]).any(axis=1))
    return [
        rows.astype(np.int32),
        places.astype(np.int64),
        np.full(rows.shape, -np.finfo(np.float32).max, np.float32),
    ]
