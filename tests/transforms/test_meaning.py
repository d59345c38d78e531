"""The semantics check catches faults that small integers as inputs cannot reveal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.verdicts import is_proved, of_ours, pass_row
from tests.transforms.meaning import Allowed, assert_kept, drawn, quarters
from tests.transforms.test_goldens import WITHOUT_TEXT
from xlanb.evaluator import evaluate
from xlanb.hlo import HloComputation, HloInstruction, HloModule, HloOpcode, parse
from xlanb.shape import PrimitiveType
from xlanb.transforms import PASSES
from xlanb.transforms.builder import Builder
from xlanb.transforms.verdict import EXACT, OTHER_NUMBERS, REAL, Loss

Formula = Callable[[Builder, HloInstruction], HloInstruction]

BF16 = """HloModule m

ENTRY main {
  a = bf16[8] parameter(0)
  b = bf16[8] parameter(1)
  s = bf16[8] add(a, b)
  ROOT p = bf16[8] multiply(s, b)
}
"""


def narrowed_too_late(module: HloModule) -> None:
    """Run float-normalization-bf16 without the rounding between two steps."""
    PASSES["float-normalization-bf16"]().run(module)
    e = module.entry_computation
    for i in list(e):
        is_widened = i.opcode is HloOpcode.CONVERT and i.shape.element_type is PrimitiveType.F32
        if is_widened and i.operands[0].opcode is HloOpcode.CONVERT:
            e.replace(i, i.operands[0].operands[0])


def each(opcode: HloOpcode, formula: Formula) -> Callable[[HloModule], None]:
    """A pass that replaces each instruction of an opcode by formula(b, i)."""

    def rewrite(module: HloModule) -> None:
        e: HloComputation = module.entry_computation
        for i in [i for i in e if i.opcode is opcode]:
            e.replace(i, formula(Builder(i), i))

    return rewrite


def of(opcode: str, kind: str, operands: int = 1, *, to: str = "", attributes: str = "") -> str:
    names = [f"x{n}" for n in range(operands)]
    parameters = "".join(f"  {x} = {kind}[32] parameter({n})\n" for n, x in enumerate(names))
    return f"HloModule m\nENTRY main {{\n{parameters}  ROOT r = {to or kind}[32] {opcode}({', '.join(names)}){attributes}\n}}"


def less_zero(b: Builder, i: HloInstruction) -> HloInstruction:
    return b.binary(HloOpcode.SUBTRACT, b.full(0, i.array_shape), i.operands[0])


def by_select(b: Builder, i: HloInstruction) -> HloInstruction:
    x, y = i.operands
    return b.select(b.compare(x, "GE", y), x, y)


def itself(b: Builder, i: HloInstruction) -> HloInstruction:
    return i.operands[0]


def times_inverse(b: Builder, i: HloInstruction) -> HloInstruction:
    x, y = i.operands
    return b.binary(HloOpcode.MULTIPLY, x, b.binary(HloOpcode.DIVIDE, b.full(1, y.array_shape), y))


def flushed(b: Builder, i: HloInstruction) -> HloInstruction:
    x = i.operands[0]
    tiny = b.full(np.finfo(np.float32).tiny, x.array_shape)
    size = b.unary(HloOpcode.ABS, x)
    return b.select(b.compare(size, "LT", tiny), b.full(0, x.array_shape), size)


FAULTS: dict[str, tuple[str, Callable[[HloModule], Any]]] = {
    "a rounding to bf16 dropped": (BF16, narrowed_too_late),
    "f32 -> bf16 -> f32 taken out": (
        "HloModule m\nENTRY main {\n  x = f32[32] parameter(0)\n  n = bf16[32] convert(x)\n  ROOT r = f32[32] convert(n)\n}",
        lambda m: m.entry_computation.set_root(m.entry_computation.parameters[0]),
    ),
    "reduce-precision taken out": (
        of("reduce-precision", "f32", attributes=", exponent_bits=8, mantissa_bits=10"),
        each(HloOpcode.REDUCE_PRECISION, itself),
    ),
    "a signed zero lost": (of("negate", "f32"), each(HloOpcode.NEGATE, less_zero)),
    "NaN lost": (of("maximum", "f16", 2), each(HloOpcode.MAXIMUM, by_select)),
    "a reciprocal": (of("divide", "f32", 2), each(HloOpcode.DIVIDE, times_inverse)),
    "x - x as 0": (
        "HloModule m\nENTRY main {\n  x = f32[32] parameter(0)\n  ROOT r = f32[32] subtract(x, x)\n}",
        each(HloOpcode.SUBTRACT, lambda b, i: b.full(0, i.array_shape)),
    ),
    "denormals flushed": (of("abs", "f32"), each(HloOpcode.ABS, flushed)),
    "an overflow of integers": (
        of("compare", "s8", 2, to="pred", attributes=", direction=LT"),
        each(
            HloOpcode.COMPARE,
            lambda b, i: b.compare(
                b.binary(HloOpcode.SUBTRACT, *i.operands), "LT", b.full(0, i.operands[0].array_shape)
            ),
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, keeps_meaning: Callable[..., HloModule]) -> None:
    text, rewrite = FAULTS[fault]
    with pytest.raises(AssertionError):
        keeps_meaning(text, rewrite)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in ("a reciprocal", "a signed zero lost")])
def test_quarters_alone_do_not_catch_it(fault: str) -> None:
    text, rewrite = FAULTS[fault]
    before, after = parse(text), parse(text)
    rewrite(after)
    for seed in range(3):
        arguments = [drawn(p.shape, np.random.default_rng(seed), quarters) for p in before.entry_computation.parameters]
        wanted, got = evaluate(before, *arguments), evaluate(after, *arguments)
        assert_kept(wanted, got, Allowed(), in_range=True, integers_count=True)


def test_a_pass_says_what_it_keeps() -> None:
    ours = [p for p in PASSES.values() if p.__module__.startswith("xlanb.")]
    assert PASSES["fusion"].keeps == EXACT
    assert PASSES["rng-expander"].keeps == OTHER_NUMBERS
    for made in ours:
        assert not made.ulps or made.keeps == REAL, f"{made.name}: what is exact is not off"
        assert made.keeps != REAL or made.ulps or made.name == "algsimp", f"{made.name}: how far are floats off?"


def test_groups_of_a_convolution_that_meet_in_one_kernel() -> None:
    """XLA's converter multiplies other groups by zero: infinities become NaN, as in its verdict."""
    text = """HloModule m
ENTRY e {
  x = f64[1,4,4] parameter(0)
  k = f64[2,2,4] parameter(1)
  ROOT c = f64[1,3,4] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2
}"""
    before, after, hlo_pass = parse(text), parse(text), PASSES["convolution-group-converter"]()
    hlo_pass.run(after)
    x = np.random.default_rng(0).standard_normal((1, 4, 4))
    x[0, 0, 0] = np.inf
    was, now = (np.asarray(evaluate(m, x, np.ones((2, 2, 4)))) for m in (before, after))
    assert not np.isnan(was).any()
    assert np.isnan(now).sum() == 2
    assert Loss.NAN in hlo_pass.keeps.floats
    np.testing.assert_array_equal(now[~np.isnan(now)], was[~np.isnan(now)])


def test_the_benchmark_establishes_what_a_pass_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    row = pass_row("dot_dimension_merger")
    assert str(row["established"]).startswith(("proved", "sampled"))
    assert int(str(row["elements"])) > 0
    assert row["contradicted by"] == ""
    assert pass_row("sort-iota-fusion")["established"] != "never run", "examples of XLA:GPU's passes count"
    monkeypatch.setattr(PASSES["logistic-expander"], "keeps", EXACT)
    assert "ROUNDING" in str(pass_row("logistic-expander")["contradicted by"])
    assert set(of_ours()) >= {n for n, p in PASSES.items() if p.__module__.startswith("xlanb.")} - WITHOUT_TEXT - {
        "algsimp"
    }


def test_the_same_terms_are_proved_for_all_inputs() -> None:
    text = (
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  ROOT r = f32[4] add(x, y)\n}"
    )
    turned = parse(text.replace("add(x, y)", "add(y, x)"))
    assert is_proved(parse(text), turned, EXACT)
    assert not is_proved(parse(text), parse(text.replace("add(", "subtract(")), REAL)
