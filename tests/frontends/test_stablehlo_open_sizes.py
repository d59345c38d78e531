"""StableHLO with open sizes in the entry, `tensor<?x4xf32>`: they are those of the arguments."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, UnimplementedError

TEXT = """
module @m {
  func.func public @main(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> tensor<?x4xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %rows = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %sizes = stablehlo.concatenate %rows, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %b = stablehlo.dynamic_broadcast_in_dim %y, %sizes, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
    %r = func.call @sum(%x, %b) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %r : tensor<?x4xf32>
  }
  func.func private @sum(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %s = stablehlo.add %a, %b : tensor<?x4xf32>
    return %s : tensor<?x4xf32>
  }
}
"""


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_open_sizes_are_those_of_the_arguments(rng, rows):
    x, y = rng.standard_normal((rows, 4)).astype(np.float32), np.arange(4, dtype=np.float32)
    executable = xlanb.compile(TEXT, x, y)
    np.testing.assert_array_equal(executable(x, y), x + y)
    np.testing.assert_array_equal(xlanb.evaluate(TEXT, x, y), x + y)
    module = xlanb.from_stablehlo(TEXT, arguments=(x, y))
    assert [str(p.shape) for p in module.entry_computation.parameters] == [f"f32[{rows},4]{{1,0}}", "f32[4]{0}"]


def test_without_arguments_the_error_says_what_is_missing():
    with pytest.raises(UnimplementedError, match=r"3:\d+: .*sizes of tensor<\?x4xf32> are unknown: give arguments"):
        xlanb.compile(TEXT)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 5), (4,)), r"argument 0: expected sizes that match tensor<\?x4xf32>, got \[3, 5\]"),
        (((3,), (4,)), r"argument 0: expected sizes that match tensor<\?x4xf32>, got \[3\]"),
        (((3, 4),), "expected 2 arguments, not 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ArgumentError, match=message):
        xlanb.from_stablehlo(TEXT, arguments=[np.zeros(s, np.float32) for s in shapes])


def test_a_bound_needs_no_argument():
    text = """func.func @main(%x: tensor<?xf32, #stablehlo.bounds<8>>) -> tensor<?xf32, #stablehlo.bounds<8>> {
      %r = stablehlo.negate %x : tensor<?xf32, #stablehlo.bounds<8>>
      return %r : tensor<?xf32, #stablehlo.bounds<8>>
    }"""
    assert str(xlanb.from_stablehlo(text).entry_computation.parameters[0].shape) == "f32[<=8]{0}"
