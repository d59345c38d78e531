"""Shardy's operations, as JAX prints them: read, and run where the mesh has one device."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloParseError, HloVerifierError, UnimplementedError

TEXT = """module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=1, "y"=1]> {stablehlo.mesh = {axes = [{name = "x", size = 1 : i64}]}}
  sdy.mesh @other = <["y"=4], device_ids=[3, 2, 1, 0]>
  func.func public @main(%arg0: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x3xf32> {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {?}]> : tensor<4x3xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%arg1: tensor<4x3xf32>) {
      %2 = stablehlo.multiply %arg1, %arg0 : tensor<4x3xf32>
      sdy.return %2 : tensor<4x3xf32>
    } : (tensor<4x3xf32>) -> tensor<4x3xf32>
    return %1 : tensor<4x3xf32>
  }
}
"""


def test_a_manual_computation_of_one_device_runs_in_place(rng):
    x = rng.standard_normal((4, 3)).astype(np.float32)
    np.testing.assert_array_equal(xlanb.compile(TEXT)(x), x * x)
    assert [i.opcode.text for i in xlanb.from_stablehlo(TEXT).entry_computation] == ["parameter", "multiply"]


def test_one_of_several_devices_is_refused_by_its_line():
    text = TEXT.replace("in_shardings=[<@mesh", "in_shardings=[<@other")
    with pytest.raises(UnimplementedError, match=r"6:\d+: sdy.manual_computation: runs per device on 4 devices"):
        xlanb.from_stablehlo(text)
    with pytest.raises(HloVerifierError, match="no mesh @missing"):
        xlanb.from_stablehlo(TEXT.replace("in_shardings=[<@mesh", "in_shardings=[<@missing"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('= <["y"=4]', '= ["y"=4)', "brackets that do not match"),
        ('@other = <["y"=4], device_ids=[3, 2, 1, 0]>', "@other = 4", "expects '<'"),
        ("manual_axes=", "manual=", "manual_axes"),
    ],
)
def test_what_is_not_well_formed_is_refused(old, new, message):
    with pytest.raises(HloParseError, match=message):
        xlanb.from_stablehlo(TEXT.replace(old, new))
