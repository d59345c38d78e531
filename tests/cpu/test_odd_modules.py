"""Modules that no front end makes, but a text may hold: each is refused with a message or runs, and none reads beyond its arrays."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.cpu.compiler import CompileOptions, compile_module
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


DYNAMIC = """HloModule m

gt {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT
}

ENTRY e {
  a = s32[5] parameter(0)
  n = s32[] parameter(1)
  d = s32[<=5] set-dimension-size(a, n), dimensions={0}
  %s
}
"""


@pytest.mark.parametrize(
    "last",
    [
        "ROOT s = s32[<=5] sort(d), dimensions={0}, to_apply=gt",
        "ROOT s = s32[<=5] reverse(d), dimensions={0}",
        "ROOT s = s32[<=5] negate(d)",
        "k = s32[<=5] negate(d)\n  ROOT s = s32[<=5] multiply(k, d)",
        "ROOT s = s32[<=5] copy(d)",
    ],
)
@pytest.mark.parametrize("without", [(), ("dynamic_padder",)])
def test_what_needs_the_elements_of_a_dynamic_array_together_reads_no_more_than_there_are(last, without):
    module = xlanb.hlo.parse(DYNAMIC % last)
    a = np.array([-1, -9, -3, 7, 8], np.int32)
    for n in (0, 3, 5):
        want = np.asarray(xlanb.evaluate(module, a, np.int32(n)))
        exe = compile_module(module, CompileOptions(disable_passes=without))
        np.testing.assert_array_equal(exe(a, np.int32(n)), want)
