"""Programs that several tests run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb import tf

#: tanh, which has two users, is fused into neither: tests force its fusion.
REFUSED_FUSION = """
HloModule m

ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  t = f32[64,64] tanh(x)
  a = f32[64,64] add(t, y)
  b = f32[64,64] multiply(t, t)
  d = f32[64,64] dot(b, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,64] add(d, t)
  ROOT r = (f32[64,64], f32[64,64]) tuple(a, s)
}
"""


#: cse makes one of two sums.
TWO_SUMS = """HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  total = f32[8] add(a, b)
  again = f32[8] add(a, b)
  ROOT product = f32[8] multiply(total, again)
}
"""


@dataclass
class LineFit:
    """The linear regression of 2017: its graph, its ends, and a hundred points to fit."""

    graph: Any
    weights: Any
    bias: Any
    x: Any
    y: Any
    loss: Any
    train: Any
    init: Any
    points: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

    @property
    def feeds(self) -> dict[Any, Any]:
        return {self.x: self.points[0], self.y: self.points[1]}


def line_fit(*, use_resource: bool = False, count: int = 100) -> LineFit:
    """Build it on a graph of its own."""
    rng = np.random.default_rng(7)
    xs = rng.uniform(-3, 3, count).astype(np.float32)
    ys = (1.7 * xs - 0.6 + rng.normal(0, 0.3, count)).astype(np.float32)
    graph = tf.Graph()
    with graph.as_default():
        weights = tf.get_variable(shape=[], name="weights", use_resource=use_resource)
        bias = tf.get_variable(shape=[], name="bias", use_resource=use_resource)
        x = tf.placeholder(shape=[None], dtype=tf.float32, name="x_observed")
        y = tf.placeholder(shape=[None], dtype=tf.float32, name="y_observed")
        loss = tf.reduce_mean(tf.square(weights * x + bias - y))
        train = tf.train.GradientDescentOptimizer(0.025).minimize(loss)
        init = tf.global_variables_initializer()
    return LineFit(graph, weights, bias, x, y, loss, train, init, (xs, ys))
