"""Programs with many random instructions."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.hlo import parse
from xlanb.transforms import PASSES


def chain(count: int) -> str:
    """Each instruction takes the state that the previous one returned."""
    lines = ["s0x = u64[2] parameter(0)"]
    for k in range(1, count + 1):
        lines += [f"t{k} = (u64[2], u32[8]) rng-bit-generator(s{k - 1}x), algorithm=rng_philox"]
        lines += [f"s{k}x = u64[2] get-tuple-element(t{k}), index=0"]
    bits = f"ROOT r = u32[8] get-tuple-element(t{count}), index=1"
    return "HloModule m\nENTRY e {\n" + "\n".join([*lines, bits]) + "\n}\n"


def test_any_number_of_them_is_inlined():
    """Some 320 instructions each: sharing one computation, 100 would exceed the expansion limit."""
    module = parse(chain(100))
    for name in ("rng-bit-generator-expander", "call-inliner"):
        PASSES[name]().run(module)
    assert module.instruction_count > 20_000
    small = parse(chain(20))
    state = np.array([3, 7], np.uint64)
    np.testing.assert_array_equal(xlanb.compile(small)(state), xlanb.evaluate(small, state))


@pytest.mark.parametrize("algorithm", ["rng_default", "rng_philox", "rng_three_fry"])
def test_random_bits_make_no_complex_numbers(algorithm):
    text = f"HloModule m\nENTRY e {{\n s = u64[2] parameter(0)\n ROOT r = (u64[2], c128[5]) rng-bit-generator(s), algorithm={algorithm}\n}}"
    state = np.array([1, 2], np.uint64)
    with pytest.raises(xlanb.errors.XlanbError, match="not for c128"):
        xlanb.evaluate(text, state)
    with pytest.raises(xlanb.errors.XlanbError, match="not for c128"):
        xlanb.compile(text)(state)
