"""Where vectors begin that hold every so many elements."""

from __future__ import annotations

import pytest

from xlanb.codegen.memory import _strided_runs


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("step", range(2, 9))
def test_strided_vectors_hold_every_lane_and_end_with_the_last(step: int, width: int) -> None:
    begins = _strided_runs(step, width)
    lanes = {step * lane for lane in range(width)}
    held = {at + k for at in begins for k in range(width)}
    assert lanes <= held
    assert max(held) == max(lanes)
    assert min(held) == 0
    assert len(begins) <= step
