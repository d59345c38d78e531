"""StableHLO programs inside graphs, and gradients of functions as nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError, GraphValueError, XlanbError
from xlanb.graph.builders.functional_control import Traced
from xlanb.graph.op_library import call, call_n
from xlanb.runtime.graph_program import extract_module

X = np.arange(6, dtype=np.float32).reshape(2, 3)
F32 = [tf.float32]

FIXED = """
module @program {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = call @scale(%arg0, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %1, %2 : tensor<2x3xf32>, tensor<2xf32>
  }
  func.func private @scale(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""
OPEN = """
module @open {
  func.func public @main(%arg0: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %0 = stablehlo.negate %arg0 : tensor<?x3xf32>
    return %0 : tensor<?x3xf32>
  }
}
"""
PLATFORMS = """
module @platforms {
  func.func public @main(%arg0: tensor<i32> {jax.global_constant = "_platform_index"}, %arg1: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = "stablehlo.case"(%arg0) ({
      %1 = stablehlo.sine %arg1 : tensor<2x3xf32>
      stablehlo.return %1 : tensor<2x3xf32>
    }, {
      %1 = stablehlo.cosine %arg1 : tensor<2x3xf32>
      stablehlo.return %1 : tensor<2x3xf32>
    }) : (tensor<i32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""


def _called(text: str, *arrays: Any, results: int = 1, **attrs: Any) -> list[Any]:
    with tf.Graph().as_default():
        given = [tf.placeholder(tf.as_dtype(a.dtype), a.shape) for a in arrays]
        made = call_n(
            "XlaCallModule", given, module=text.encode(), version=9, Sout=[[]] * results, Tout=F32 * results, **attrs
        )
        return list(xlanb.evaluate(extract_module(made), *arrays))


def test_a_module_is_called() -> None:
    scale = np.float32([1, 10, 100])
    product, total = _called(FIXED, X, scale, results=2)
    np.testing.assert_array_equal(product, X * scale)
    np.testing.assert_array_equal(total, (X * scale).sum(1))


def test_open_sizes_are_those_of_the_arguments() -> None:
    np.testing.assert_array_equal(_called(OPEN, X)[0], -X)
    np.testing.assert_array_equal(_called(OPEN, X[:1])[0], -X[:1])


@pytest.mark.parametrize(("platforms", "expected"), [(["CPU", "CUDA"], np.sin(X)), (["CUDA", "CPU"], np.cos(X))])
def test_the_platform_is_passed(platforms: list[str], expected: Any) -> None:
    np.testing.assert_allclose(_called(PLATFORMS, X, platforms=platforms)[0], expected, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("text", "arrays", "attrs", "message"),
    [
        (OPEN, [X], {"platforms": ["CUDA"]}, "platform CPU is not among the platforms required by the module"),
        (OPEN, [X, X], {}, "expected 1 arguments, not 2"),
        (FIXED, [X, X], {}, r"argument 1 of the StableHLO module is f32\[3\].*, not f32\[2,3\]"),
        (OPEN, [X], {"has_token_input_output": True}, "tokens of host callbacks"),
        ("module {", [X], {}, "."),
    ],
)
def test_what_does_not_fit_says_so(text: str, arrays: list[Any], attrs: Any, message: str) -> None:
    with pytest.raises(XlanbError, match=message):
        _called(text, *arrays, **attrs)


def test_other_platforms_are_accepted_where_the_check_is_off() -> None:
    made = _called(OPEN, X, platforms=["CUDA"], disabled_checks=["platform"])
    np.testing.assert_array_equal(made[0], -X)


# --------------------------------------------------------------------------------- SymbolicGradient


def _with_gradient(function: Any, x: Any) -> Any:
    """A graph's SymbolicGradient of a function of one tensor."""
    traced = Traced(x.graph, lambda: [function(x)], (), None)
    ref = traced.move("f", [x], traced.results)
    traced.drop()
    return call("SymbolicGradient", [x, tf.ones_like(x) * 2.0], Tout=F32, f=ref)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_symbolic_gradient(is_compiled: bool) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, X.shape)
        by_x = _with_gradient(lambda v: tf.sin(v) * v, x)
        config = tf.ConfigProto()
        if is_compiled:
            config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        with tf.Session(graph=graph, config=config) as session:
            found = session.run(by_x, {x: X})
    np.testing.assert_allclose(found, 2 * (np.cos(X) * X + np.sin(X)), 1e-5, 1e-6)


def test_a_symbolic_gradient_of_what_has_none_says_so() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, X.shape)
        with pytest.raises(GraphError, match="no gradient is defined for op type 'AdjustHue'"):
            extract_module([_with_gradient(lambda v: call("AdjustHue", v, 0.5), x)])


def test_a_symbolic_gradient_needs_gradients_of_the_results() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, X.shape)
        traced = Traced(x.graph, lambda: [x * x], (), None)
        ref = traced.move("f", [x], traced.results)
        traced.drop()
        with pytest.raises((GraphValueError, GraphError), match="needs 2 inputs and 1 outputs"):
            extract_module([call("SymbolicGradient", [x], Tout=F32, f=ref)])
