"""Kernels' symbols do not collide with the C library's."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb


@pytest.mark.parametrize("name", ["log", "memcpy"])
def test_an_instruction_may_be_called_like_a_function_of_the_c_library(name: str) -> None:
    x = np.array([1.0, 2.0, 3.0])
    text = f"HloModule m\n\nENTRY e {{\n  x = f64[3] parameter(0)\n  ROOT {name} = f64[3] log(x)\n}}\n"
    np.testing.assert_allclose(xlanb.compile(text)(x), np.log(x))
