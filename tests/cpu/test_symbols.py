"""Kernels' symbols keep clear of the C library's."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb


@pytest.mark.parametrize("name", ["log", "tanh", "memcpy"])
def test_an_instruction_may_be_called_like_a_function_of_the_c_library(name: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  x = f64[3] parameter(0)\n  {name} = f64[3] log(x)\n  ROOT t = f64[3] tanh({name})\n}}\n"
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(xlanb.compile(text)(x), np.tanh(np.log(x)))


def test_two_kernels_of_which_one_is_called_log() -> None:
    text = (
        "HloModule m\n\nadd {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] add(a, b)\n}\n\n"
        "ENTRY e {\n  x = f64[4,4] parameter(0)\n  z = f64[] constant(0)\n  s = f64[4] reduce(x, z), dimensions={1}, to_apply=add\n"
        "  log = f64[4] log(s)\n  ROOT t = f64[] reduce(log, z), dimensions={0}, to_apply=add\n}\n"
    )
    x = np.arange(1.0, 17.0).reshape(4, 4)
    np.testing.assert_allclose(xlanb.compile(text)(x), np.log(x.sum(1)).sum())
