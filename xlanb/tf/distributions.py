"""tf.distributions: Normal, Bernoulli, Categorical, Uniform and diagonal multivariate normals.

Source: python/ops/distributions.
"""

from __future__ import annotations

import math
from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import concat, one_hot, shape
from xlanb.graph.builders.loss_ops import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    sparse_softmax_cross_entropy_with_logits,
)
from xlanb.graph.builders.random_ops import random_normal, random_uniform
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def _sizes(sample_shape: Any, of: Tensor) -> Tensor:
    lead = [sample_shape] if isinstance(sample_shape, int) else list(sample_shape)
    return concat([lead, shape(of)], 0) if lead else shape(of)


class Normal:
    """Normal distributions, one for each element of loc and scale."""

    def __init__(self, loc: Any, scale: Any, name: str = "Normal", **_ignored: Any) -> None:
        self.loc = convert_to_tensor(loc, preferred_dtype=dtypes.float32)
        self.scale = convert_to_tensor(scale, self.loc.dtype.base_dtype)
        self.name = name

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Values, [*sample_shape, *shape]; gradients flow to loc and scale."""
        both = self.loc + self.scale * 0
        return self.loc + self.scale * random_normal(_sizes(sample_shape, both), dtype=self.loc.dtype, seed=seed)

    def log_prob(self, value: Any, name: str = "log_prob") -> Any:
        """Logarithms of the density."""
        return -0.5 * call("Square", (value - self.loc) / self.scale) - (_HALF_LOG_TAU + call("Log", self.scale))

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """The density."""
        return call("Exp", self.log_prob(value))

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        return self.loc

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation."""
        return self.scale

    def entropy(self, name: str = "entropy") -> Any:
        """Differential entropy, in nats."""
        return 0.5 + _HALF_LOG_TAU + call("Log", self.scale + self.loc * 0)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Any:
        """Return the Kullback-Leibler divergence from another one, in nats."""
        return kl_divergence(self, other)


class Uniform:
    """Uniform distributions on [low, high)."""

    def __init__(self, low: Any = 0.0, high: Any = 1.0, name: str = "Uniform", **_ignored: Any) -> None:
        self.low, self.high = convert_to_tensor(low, dtypes.float32), convert_to_tensor(high, dtypes.float32)
        self.name = name

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Values, [*sample_shape, *shape]."""
        both = self.low + self.high * 0
        return self.low + (self.high - self.low) * random_uniform(_sizes(sample_shape, both), seed=seed)


class Bernoulli:
    """True or not, by logits or probabilities."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = dtypes.int32, name: str = "Bernoulli", **_ignored: Any
    ) -> None:
        self.dtype, self.name = dtype, name
        if logits is not None:
            self.logits = convert_to_tensor(logits)
            self.probs = math_ops.sigmoid(self.logits)
        else:
            self.probs = convert_to_tensor(probs)
            self.logits = call("Log", self.probs) - call("Log1p", -self.probs)

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """0s and 1s, [*sample_shape, *shape]."""
        return math_ops.cast(random_uniform(_sizes(sample_shape, self.probs), seed=seed) < self.probs, self.dtype)

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """Logarithms of the probabilities."""
        return -sigmoid_cross_entropy_with_logits(labels=math_ops.cast(value, self.logits.dtype), logits=self.logits)

    def mean(self, name: str = "mean") -> Tensor:
        """The probabilities."""
        return self.probs

    def entropy(self, name: str = "entropy") -> Tensor:
        """In nats."""
        return sigmoid_cross_entropy_with_logits(labels=self.probs, logits=self.logits)


class Categorical:
    """Classes, by logits or probabilities over the last dimension."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        name: str = "Categorical",
        **_ignored: Any,
    ) -> None:
        self.dtype, self.name = dtype, name
        self.logits = convert_to_tensor(logits) if logits is not None else call("Log", convert_to_tensor(probs))
        self.probs = softmax(self.logits)

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Tensor:
        """Classes, [*sample_shape, *shape without the last dimension]."""
        noise = random_uniform(_sizes(sample_shape, self.logits), 1e-20, 1.0, seed=seed)
        return math_ops.argmax(self.logits - call("Log", -call("Log", noise)), -1, output_type=self.dtype)

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """Logarithms of the classes' probabilities."""
        return -sparse_softmax_cross_entropy_with_logits(labels=value, logits=self.logits)

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """The classes' probabilities."""
        return call("Exp", self.log_prob(value))

    def entropy(self, name: str = "entropy") -> Tensor:
        """In nats."""
        return -math_ops.reduce_sum(self.probs * log_softmax(self.logits), -1)

    def mode(self, name: str = "mode") -> Tensor:
        """The likeliest class."""
        return math_ops.argmax(self.logits, -1, output_type=self.dtype)

    def one_hot(self, value: Any) -> Tensor:
        """Classes as rows with one 1."""
        return one_hot(value, int(self.logits.shape.as_list()[-1] or 0))


class MultivariateNormalDiag:
    """Vectors with independent normal components."""

    def __init__(self, loc: Any, scale_diag: Any, name: str = "MultivariateNormalDiag", **_ignored: Any) -> None:
        self.parts = Normal(loc, scale_diag)
        self.name = name

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Vectors."""
        return self.parts.sample(sample_shape, seed)

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """Logarithms of the density of each vector."""
        return math_ops.reduce_sum(self.parts.log_prob(value), -1)

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        return self.parts.loc

    def entropy(self, name: str = "entropy") -> Any:
        """Return the entropy of each vector, in nats."""
        return math_ops.reduce_sum(self.parts.entropy(), -1)


def kl_divergence(
    distribution_a: Any, distribution_b: Any, allow_nan_stats: bool = True, name: str | None = None
) -> Any:
    """Kullback-Leibler divergence of two distributions of one kind, in nats.

    Raises:
        UnimplementedError: another pair of kinds.
    """
    a, b = distribution_a, distribution_b
    if isinstance(a, Normal) and isinstance(b, Normal):
        ratio = call("Square", a.scale / b.scale)
        return 0.5 * (call("Square", (a.loc - b.loc) / b.scale) + ratio - 1.0 - call("Log", ratio))
    if isinstance(a, MultivariateNormalDiag) and isinstance(b, MultivariateNormalDiag):
        return math_ops.reduce_sum(kl_divergence(a.parts, b.parts), -1)
    if isinstance(a, Categorical) and isinstance(b, Categorical):
        return math_ops.reduce_sum(a.probs * (log_softmax(a.logits) - log_softmax(b.logits)), -1)
    if isinstance(a, Bernoulli) and isinstance(b, Bernoulli):
        return sigmoid_cross_entropy_with_logits(labels=a.probs, logits=b.logits) - a.entropy()
    raise UnimplementedError(f"the KL divergence of {type(a).__name__} from {type(b).__name__} is not implemented")
