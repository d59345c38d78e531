"""Hoisting dots with slices of loop-carried arrays preserves the semantics in any form.

Dots for which it does not pay stay.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.transforms import PASSES

NAME = "while-loop-sliced-dot-hoisting"
TEXT = (Path(__file__).parent / "goldens" / NAME / "recurrent.hlo").read_text()
DOT = "a = f32[2,128] dot(now, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def products_in_the_loop(module: HloModule) -> int:
    (loop,) = (i for i in module.entry_computation if i.opcode is Op.WHILE)
    return sum(i.opcode is Op.DOT for i in loop.attributes["body"])


@pytest.mark.parametrize(
    "dot",
    [
        DOT,
        "a = f32[2,128] dot(now, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "a1 = f32[128,2] dot(w, now), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
        "  a = f32[2,128] transpose(a1), dimensions={1,0}",
        "a1 = f32[1,2,128] dot(slice, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n"
        "  a = f32[2,128] reshape(a1)",
        "a1 = f32[128,1,2] dot(w, slice), lhs_contracting_dims={0}, rhs_contracting_dims={2}\n"
        "  a2 = f32[128,2] reshape(a1)\n  a = f32[2,128] transpose(a2), dimensions={1,0}",
        "n1 = f32[2,2,64] reshape(slice)\n  w1 = f32[128,64] slice(w), slice={[0:128], [0:64]}\n"
        "  a0 = f32[2,2,128] dot(n1, w1), lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
        "  a1 = f32[2,1,128] slice(a0), slice={[0:2], [0:1], [0:128]}\n  a = f32[2,128] reshape(a1)",
    ],
    ids=["rows", "transposed weights", "columns", "whole slice", "whole slice on the right", "weights of the body"],
)
def test_forms_of_products(dot: str) -> None:
    text = TEXT.replace(DOT, dot)
    before, after = parse(text), parse(text)
    PASSES[NAME]().run(after)
    after.verify(executable=True)
    assert products_in_the_loop(after) == (2 if "w1" in dot else 1)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((6, 2, 128), (128, 128), (128, 128), (2, 128))]
    np.testing.assert_allclose(evaluate(after, *arrays), evaluate(before, *arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("n = s32[] constant(6)", "n = s32[] constant(4)"),
        ("2,128]", "6,128]"),
        ("tuple(next, d, x, w, u)", "tuple(next, d, x, u, w)"),
        ("dot(now, w)", "dot(now, now2)"),
        ("128", "8"),
    ],
    ids=["slices that no round uses", "many rows", "weights that change", "no weights", "few multiplications"],
)
def test_what_stays(before: str, after: str) -> None:
    text = TEXT.replace(before, after)
    if "now2" in after:
        square = "now2 = f32[128,128] broadcast(s0), dimensions={}\n  " + DOT.replace("w)", "now2)")
        text = TEXT.replace(DOT, "s0 = f32[] convert(i)\n  " + square)
    if "6,128" in after:
        text = text.replace("{1,2,128}", "{1,6,128}")
    module = parse(text)
    result = PASSES[NAME]().run(module)
    assert bool(result.changed) == (before == after)
