"""What constant folding leaves unfolded: the cost is estimated before anything is computed."""

from __future__ import annotations

import pytest

from xlanb import evaluator
from xlanb.hlo import parse
from xlanb.hlo.module import HloModule
from xlanb.transforms import PASSES
from xlanb.transforms.simplifiers.hlo_constant_folding import operations

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }\n"
ONES = " c = f32[] constant(1)\n z = f32[] constant(0)\n b = f32[%s] broadcast(c), dimensions={}\n"


def reduce_of(dimensions: str) -> str:
    axes = ",".join(str(k) for k in range(dimensions.count(",") + 1))
    return f"{ADD}ENTRY e {{\n{ONES % dimensions} ROOT r = f32[] reduce(b, z), dimensions={{{axes}}}, to_apply=add\n}}"


LARGE = {
    "reduce": reduce_of("32,999,40,512"),
    "reduce-of-terabytes": reduce_of("1000000000000"),
    "dot": f"ENTRY e {{\n{ONES % '16,100000000'} ROOT r = f32[16,16] dot(b, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n}}",
    "reduce-window": f"{ADD}ENTRY e {{\n{ONES % '100000'} ROOT r = f32[100000] reduce-window(b, z), window={{size=50000 pad=49999_0}}, to_apply=add\n}}",
    "convolution": f"ENTRY e {{\n{ONES % '1,1024,1024,1'} k = f32[129,129,1,1] broadcast(c), dimensions={{}}\n"
    " ROOT r = f32[1,1024,1024,1] convolution(b, k), window={size=129x129 pad=64_64x64_64}, dim_labels=b01f_01io->b01f\n}",
    "sort": f"{LESS}ENTRY e {{\n{ONES % '40000000'} ROOT r = f32[40000000] sort(b), dimensions={{0}}, to_apply=less\n}}",
    "cholesky": f"ENTRY e {{\n{ONES % '2000,2000'} ROOT r = f32[2000,2000] cholesky(b), lower=true\n}}",
}


def folded(text: str) -> HloModule:
    module = parse("HloModule m\n" + text)
    PASSES["constant_folding"]().run(module)
    return module


@pytest.mark.parametrize("name", LARGE)
def test_a_long_computation_stays(name):
    module = parse("HloModule m\n" + LARGE[name])
    before = str(module)
    PASSES["constant_folding"]().run(module)
    assert str(module) == before


def test_a_short_one_is_folded():
    root = folded(reduce_of("32,40,40")).entry_computation.root
    assert (root.opcode.text, float(root.literal.array)) == ("constant", 51200.0)


def test_a_broadcast_operand_is_no_copy(monkeypatch):
    seen = []

    def watched(i, operands, **limits):
        seen.extend(operands)
        return original(i, operands, **limits)

    original = evaluator.evaluate_instruction
    monkeypatch.setattr(evaluator, "evaluate_instruction", watched)
    folded(reduce_of("1000,1000"))
    assert seen[0].shape == (1000, 1000)
    assert seen[0].strides == (0, 0)


def test_one_run_has_a_budget():
    sums = "".join(
        f" r{k} = f32[] reduce(b, z), dimensions={{0}}, to_apply=add\n sum{k} = f32[] add({f'sum{k - 1}' if k else 'p'}, r{k})\n"
        for k in range(40)
    )
    text = f"HloModule m\n{ADD}ENTRY e {{\n p = f32[] parameter(0)\n{ONES % '5000000'}{sums} ROOT r = f32[] negate(sum39)\n}}"
    module = parse(text)
    PASSES["constant_folding"]().run(module)
    left = [i for i in module.entry_computation if i.opcode.text == "reduce"]
    assert 0 < len(left) < 40
    PASSES["constant_folding"]().run(module)
    assert len([i for i in module.entry_computation if i.opcode.text == "reduce"]) < len(left)


def test_operations_count_what_is_applied():
    def of(text: str) -> float:
        return operations(parse("HloModule m\n" + text).entry_computation.root)

    assert of(reduce_of("1000")) == pytest.approx(3 * 1002 + 999)
    assert of(LARGE["reduce-window"]) > 1e9
    assert of(LARGE["cholesky"]) > 2e9
