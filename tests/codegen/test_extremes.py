"""Machines and vectors that have one instruction for maximum and minimum of floats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xlanb.codegen import jit
from xlanb.codegen.extremes import extreme
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import FLOAT
from xlanb.codegen.values import Value, Vector

_AVX2 = "+avx2"
_AVX512 = "+avx2,+avx512f,+avx512vl,+avx512bw,+avx512dq"


@pytest.mark.parametrize(
    ("features", "lanes", "found"),
    [
        (_AVX2, 16, False),
        (_AVX512, 16, True),
        (_AVX512, 64, True),
        (_AVX512, 4, True),
        (_AVX512, 2, False),
        (_AVX512, 12, False),
        (_AVX512, 0, False),
    ],
)
def test_only_whole_vectors_of_avx512_have_their_own(features: str, lanes: int, found: bool) -> None:
    target = replace(jit.host(), triple="x86_64-unknown-linux-gnu", features=features)
    f = ModuleBuilder("m", target).function("f", [], "", "")
    kind = Vector if lanes else Value
    a, b = (kind(f, FLOAT.times(lanes), name) for name in ("%a", "%b"))
    made = extreme(f, "maximum", a, b)
    assert (made is not None) == found
    assert any("avx512.mask.range" in name for name in f.module.declarations) == found


def test_operands_of_two_types_have_none() -> None:
    target = replace(jit.host(), triple="x86_64-unknown-linux-gnu", features=_AVX512)
    f = ModuleBuilder("m", target).function("f", [], "", "")
    a = Vector(f, FLOAT.times(16), "%a")
    assert extreme(f, "maximum", a, f.const(FLOAT, 1.0)) is None
