"""async_start and async_done of StableHLO: an async-start of HLO that calls the region."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloVerifierError

TEXT = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.async_start"(%x) ({
  ^bb0(%a: tensor<4x4xf32>):
    %1 = "stablehlo.all_reduce"(%a) ({
    ^bb1(%p: tensor<f32>, %q: tensor<f32>):
      %2 = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) {replica_groups = dense<0> : tensor<1x1xi64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    stablehlo.return %1 : tensor<4x4xf32>
  }) : (tensor<4x4xf32>) -> !stablehlo.future<tensor<4x4xf32>>
  %3 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4x4xf32>>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
"""


def test_an_asynchronous_reduction_runs(rng):
    module = xlanb.from_stablehlo(TEXT)
    module.verify()
    assert [i.opcode.text for i in module.entry_computation] == ["parameter", "async-start", "async-done"]
    assert str(xlanb.hlo.parse(str(module))) == str(module)
    x = rng.standard_normal((4, 4)).astype(np.float32)
    np.testing.assert_array_equal(xlanb.evaluate(TEXT, x), x)
    np.testing.assert_array_equal(xlanb.compile(TEXT)(x), x)


def test_a_future_of_other_types_is_refused():
    text = TEXT.replace("!stablehlo.future<tensor<4x4xf32>>", "!stablehlo.future<tensor<2xf32>>")
    with pytest.raises(HloVerifierError, match=r"its type is !stablehlo.future<tensor<2xf32>>"):
        xlanb.from_stablehlo(text)


def test_only_what_was_started_is_waited_for():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.async_done"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(HloVerifierError, match="expected the result of an async_start"):
        xlanb.from_stablehlo(text)
