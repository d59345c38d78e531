"""Modules that no front end makes, but a text may hold: each is refused with a message or runs, and none reads beyond its arrays."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError, HloVerifierError


def test_a_bitcast_to_more_bits_is_refused():
    text = "HloModule m\n\nENTRY e {\n  a = f32[2,3] parameter(0)\n  n = f32[2,3] negate(a)\n  ROOT b = f32[7] bitcast(n)\n}\n"
    with pytest.raises(HloVerifierError, match=r"%b: cannot be compiled.*f32\[2,3\].*f32\[7\]"):
        xlanb.compile(text)


def test_a_parameter_that_should_wait_waits_for_nothing():
    text = (
        "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  n = f32[4] negate(a)\n"
        "  b = f32[4] parameter(1), control-predecessors={n}\n  ROOT s = f32[4] add(n, b)\n}\n"
    )
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(xlanb.compile(text)(a, b), b - a)


@pytest.mark.parametrize("size", [-1, 5, 1 << 30])
def test_a_dynamic_size_beyond_its_bound_is_refused(size):
    text = (
        "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  n = s32[] parameter(1)\n"
        '  ROOT d = f32[<=4] custom-call(a, n), custom_call_target="SliceToDynamic"\n}\n'
    )
    exe = xlanb.compile(text)
    with pytest.raises(EvaluationError, match=rf"size {size} for a dimension of at most 4"):
        exe(np.ones(4, np.float32), np.int32(size))
    assert exe(np.ones(4, np.float32), np.int32(3)).shape == (3,)
