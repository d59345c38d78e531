"""The reader of Shardy's tests (benchmarks/_shardy_cases.py), on our own cases."""

from __future__ import annotations

from pathlib import Path

from benchmarks import shardy
from benchmarks._shardy_cases import cases, read_case
from xlanb.spmd.shardy.program import ValueKind

_CASES = """
sdy.mesh @m = <["a"=2, "b"=2]>

// CHECK-LABEL: func @pointwise
// CHECK-SAME: %arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {"b", ?}]>}
func.func @pointwise(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {?}]>},
                     %arg1: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {"b"}]>}) -> tensor<4x8xf32> {
  // CHECK-NEXT: stablehlo.multiply {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a", ?}, {"b", ?}]>]>}
  %0 = stablehlo.multiply %arg0, %arg1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func @barrier
func.func @barrier(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>}) -> tensor<4xf32> {
  %0 = sdy.propagation_barrier %arg0 allowed_direction=BACKWARD : tensor<4xf32>
  // CHECK: stablehlo.negate {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a", ?}]>]>}
  %1 = stablehlo.negate %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def test_cases_are_read_with_what_they_expect() -> None:
    pointwise, barrier = cases(_CASES)
    assert pointwise.shardings == ['<@m, [{"a"}, {"b", ?}]>', '<@m, [{"a", ?}, {"b", ?}]>']
    program = read_case(pointwise)
    assert [op.hlo.opcode.text for op in program.walk()] == ["multiply"]
    assert [op.kind for op in read_case(barrier).walk()] == [ValueKind.BARRIER, ValueKind.HLO]


def test_table_counts_what_agrees(tmp_path: Path) -> None:
    for name in (*shardy.FILES, shardy.RULES):
        (tmp_path / f"{name}.mlir").write_text(_CASES if name == "basic_propagation" else "")
    made = shardy.table(str(tmp_path))
    row = made.iloc[0]
    assert (row["cases"], row["expressible"], row["same"], row["others"]) == (2, 2, 1, "barrier")
    assert made.iloc[-1]["cases"] == 2
