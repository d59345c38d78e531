"""Offsets of vectors for strided elements, and elements that are read in reverse."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.codegen.memory import _strided_runs
from xlanb.codegen.nest import Nest
from xlanb.cpu.executable import Executable


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


@pytest.mark.parametrize("n", [7, 64, 1003])
@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_complex_numbers_are_read_backwards_in_vectors(dtype: str, n: int) -> None:
    text = (
        f"HloModule m\nENTRY e {{ x = {dtype}[{n}] parameter(0) ROOT y = {dtype}[{n}] reverse(x), dimensions={{0}} }}"
    )
    exe = xlanb.compile(text)
    assert isinstance(exe, Executable)
    nests = [s for plan in exe.plans.values() for s in plan.steps if isinstance(s, Nest)]
    assert any(nest.vectors is not None for nest in nests)
    x = (np.arange(n) - 1j * np.arange(n)).astype(np.complex64 if dtype == "c64" else np.complex128)
    np.testing.assert_array_equal(exe(x), x[::-1])
