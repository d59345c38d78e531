"""The text of constants: floats by the bits that NumPy rounds them to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.codegen.types import DOUBLE, FLOAT, HALF, I1, I64, PTR
from xlanb.codegen.values import text_of


@given(st.floats())
def test_a_float_constant_has_the_bits_of_the_rounded_number(number: float) -> None:
    with np.errstate(all="ignore"):
        wide, near = np.float64(np.float32(number)), np.float16(number)
    assert text_of(DOUBLE, number) == f"0x{np.float64(number).view(np.uint64):016X}"
    assert text_of(FLOAT, number) == f"0x{wide.view(np.uint64):016X}"
    assert text_of(HALF, number) == f"0xH{near.view(np.uint16):04X}"


@pytest.mark.parametrize(
    ("type_", "number", "text"),
    [(I1, True, "true"), (I1, 0, "false"), (I64, -3, "-3"), (I64, True, "1"), (PTR, 0, "null")],
)
def test_other_constants(type_, number, text) -> None:
    assert text_of(type_, number) == text
