"""The edits of StableHLO: programs change, and some remain valid."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import stablehlo_text
from xlanb.errors import XlanbError

SMALL = """module @small {
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4x4xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.reverse"(%1) <{dimensions = array<i64: 0>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}
"""


def _is_read(text: str) -> bool:
    try:
        stablehlo_text._read(text).verify()
    except XlanbError:
        return False
    return True


@pytest.mark.parametrize("edit", dict.fromkeys(stablehlo_text._CHANGES))
def test_every_edit_changes_programs(edit):
    made = [edit(SMALL, np.random.default_rng(k)) for k in range(20)]
    assert made == [edit(SMALL, np.random.default_rng(k)) for k in range(20)]
    assert len(set(made)) >= 5


def test_some_mutants_are_programs(monkeypatch):
    monkeypatch.setattr(stablehlo_text, "seeds", lambda: (SMALL,))
    made = stablehlo_text.mutants(np.random.default_rng(1))
    assert 5 <= sum(_is_read(next(made)) for _ in range(100)) <= 95
