from __future__ import annotations

import numpy as np
import pytest

from xlanb.analysis.cost import Cost, cost
from xlanb.hlo import parse

SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"


def of(body: str, before: str = "") -> Cost:
    return cost(parse(f"HloModule m\n{before}ENTRY main {{\n{body}\n}}\n").entry_computation.root)


def test_elementwise():
    assert of("x = f32[3,4] parameter(0)\nROOT r = f32[3,4] add(x, x)") == Cost(12, 96, 0)
    assert of("x = f32[3,4] parameter(0)\nROOT r = f32[3,4] exponential(x)") == Cost(0, 96, 12)


def test_dot_counts_multiply_and_add():
    got = of(
        "x = f32[3,4] parameter(0)\ny = f32[4,5] parameter(1)\nROOT r = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert got == Cost(2 * 3 * 4 * 5, 4 * (12 + 20 + 15), 0)


def test_reduce_counts_the_folds():
    got = of(
        "x = f32[3,4] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=sum",
        SUM,
    )
    assert got == Cost(9, 4 * (12 + 1 + 3), 0)


def test_a_fusion_touches_only_its_operands_and_result():
    fused = "f { p = f32[8] parameter(0)  e = f32[8] exponential(p)  ROOT r = f32[8] multiply(e, p) }\n"
    assert of("x = f32[8] parameter(0)\nROOT r = f32[8] fusion(x), kind=kLoop, calls=f", fused) == Cost(8, 64, 8)


def test_a_slice_reads_what_it_takes():
    assert of("x = f32[1000] parameter(0)\nROOT r = f32[10] slice(x), slice={[0:10]}").bytes_accessed == 80


@pytest.mark.parametrize(
    "window", ["size=3", "size=3 stride=2 pad=1_1", "size=3 pad=2_2 rhs_dilate=2", "size=2 pad=1_1 lhs_dilate=2"]
)
def test_convolution_counts_taps_that_meet_elements(window):
    # one feature, ones everywhere: the sum of the result is the number of taps
    text = f"x = f32[1,8,1] parameter(0)\nk = f32[{window[5]},1,1] parameter(1)\nROOT r = f32[1,{{n}},1] convolution(x, k), window={{{{{window}}}}}, dim_labels=b0f_0io->b0f"
    from xlanb.evaluator import evaluate

    n = {
        "size=3": 6,
        "size=3 stride=2 pad=1_1": 4,
        "size=3 pad=2_2 rhs_dilate=2": 8,
        "size=2 pad=1_1 lhs_dilate=2": 16,
    }[window]
    module = parse("HloModule m\nENTRY main {\n" + text.format(n=n) + "\n}\n")
    taps = evaluate(module, np.ones((1, 8, 1), np.float32), np.ones((int(window[5]), 1, 1), np.float32)).sum()
    assert cost(module).flops == 2 * taps


def test_a_loop_counts_as_often_as_it_is_known_to_run():
    loop = (
        "body { p = (f32[4]) parameter(0)  x = f32[4] get-tuple-element(p), index=0  n = f32[4] negate(x)  ROOT t = (f32[4]) tuple(n) }\n"
        "cond { p = (f32[4]) parameter(0)  ROOT c = pred[] constant(false) }\n"
    )
    text = "x = f32[4] parameter(0)\nt = (f32[4]) tuple(x)\nROOT w = (f32[4]) while(t), condition=cond, body=body"
    assert of(text, loop).flops == 4
    assert of(text + ', backend_config={"known_trip_count":{"n":"5"}}', loop).flops == 20


def test_costs_add_up():
    assert Cost(1, 2, 3) + Cost(1, 1, 1) == Cost(2, 3, 4)
    assert Cost(1, 2, 3) * 2 == Cost(2, 4, 6)
    assert Cost(6, 2).intensity == 3
