"""Attributes that XLA prints since JAX 0.12: read, kept, and printed in each release's spelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloParseError, HloVerifierError
from xlanb.hlo import HloModule, parse

ARGUMENTS = """
  a = f32[4,8]{1,0} parameter(0)
  b = f32[8,4]{1,0} parameter(1)
  n = s32[4,8]{1,0} convert(a)
  z = s32[] constant(0)"""


def module(line: str) -> HloModule:
    return parse(f"HloModule m\n\nENTRY e {{{ARGUMENTS}\n  ROOT r = {line}\n}}\n")


def root(text: str) -> str:
    return next(line for line in text.splitlines() if "ROOT" in line).partition(" = ")[2]


DOT = "f32[4,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
SPARSE = f"{DOT}, sparsity_config={{rhs={{sparsity=1x4 dimension=0 stride=1"
SCALED = f"{DOT}, block_scaling_config={{lhs={{scale_idx=2}}}}"
TOPK = "(f32[4,2]{1,0}, s32[4,2]{1,0}) topk(%a), k=2, largest=true"
SENT = "f32[4,8]{1,0} collective-broadcast(%a), replica_groups={}"
ROOTED = "f32[4,8]{1,0} collective-broadcast(%a, %z), replica_groups={}, has_dynamic_root=true"
COMPARED = "pred[4,8]{1,0} compare(%a, %a), direction=LT"
COUNTED = "pred[4,8]{1,0} compare(%n, %n), direction=LT"


@pytest.mark.parametrize(
    ("read", "older", "newer"),
    [
        (f"{COMPARED}, order=TOTAL", f"{COMPARED}, type=TOTALORDER", f"{COMPARED}, order=TOTAL"),
        (f"{COMPARED}, type=TOTALORDER", f"{COMPARED}, type=TOTALORDER", f"{COMPARED}, order=TOTAL"),
        (f"{COMPARED}, order=PARTIAL", COMPARED, COMPARED),
        (f"{COUNTED}, order=TOTAL", COUNTED, COUNTED),
        (TOPK, TOPK, f"{TOPK}, is_stable=true"),
        (f"{TOPK}, is_stable=false", f"{TOPK}, is_stable=false", f"{TOPK}, is_stable=false"),
        (SENT, SENT, f"{SENT}, has_dynamic_root=false"),
        (ROOTED, ROOTED, ROOTED),
        (f"{SPARSE}}}}}", f"{SPARSE}}}}}", f"{SPARSE} idx=0}}}}"),
        (f"{SPARSE} idx=0}}}}", f"{SPARSE}}}}}", f"{SPARSE} idx=0}}}}"),
        (f"{SPARSE} idx=3}}}}", f"{SPARSE} idx=3}}}}", f"{SPARSE} idx=3}}}}"),
        (SCALED, SCALED, SCALED),
        (f"{DOT}, block_scaling_config={{}}", DOT, DOT),
    ],
)
def test_each_release_has_its_spelling(read: str, older: str, newer: str) -> None:
    made = module(read)
    assert root(str(made)) == older
    assert root(made.to_string("0.12")) == newer
    assert root(str(parse(made.to_string("0.12")))) == older
    assert root(str(HloModule.from_proto(made.to_proto()))) == older.replace(", is_stable=false", "")


def test_type_and_order_exclude_each_other() -> None:
    with pytest.raises(HloParseError, match="type or order, not both"):
        module(f"{COMPARED}, type=FLOAT, order=PARTIAL")


@pytest.mark.parametrize("line", [f"{SPARSE}}}}}", SCALED])
def test_operands_in_another_form_are_refused(line: str) -> None:
    with pytest.raises(HloVerifierError, match="stored in another form"):
        xlanb.compile(str(module(line)))


def test_the_root_of_one_participant_is_itself(rng: Any) -> None:
    a, b = rng.standard_normal((4, 8)).astype(np.float32), np.zeros((8, 4), np.float32)
    text = str(module(ROOTED))
    np.testing.assert_array_equal(xlanb.compile(text)(a, b), a)
    with pytest.raises(HloVerifierError):
        parse(text.replace("(%a, %z)", "(%z)")).verify()


def test_a_shuffle_keeps_its_shifts_in_text_and_proto() -> None:
    made = module("f32[4,8]{1,0} shuffle(a), shifts={3,-2}, mode=rotate, dimensions={0,1}")
    made.verify()
    text = "f32[4,8]{1,0} shuffle(%a), dimensions={0,1}, mode=rotate, shifts={3,-2}"
    assert root(str(made)) == text
    assert root(str(HloModule.from_proto(made.to_proto()))) == text
    with pytest.raises(HloVerifierError, match="one shift per distinct dimension"):
        module("f32[4,8]{1,0} shuffle(a), shifts={3}, mode=rotate, dimensions={0,1}").verify()


LOGGED = """HloModule m, entry_computation_layout={(f32[])->f32[]},
debug_attributes={
  {"a"}:({log_mode=default,callback_id=123,partitioned=true},{log_mode=fusion_debugger}),
  {"b" {0}}:({op_id=2})
}

ENTRY %e (p: f32[]) -> f32[] {
  ROOT %p = f32[] parameter(0)
}

"""


def test_debug_attributes_are_kept_in_text_and_proto() -> None:
    assert str(parse(LOGGED)) == LOGGED
    assert str(HloModule.from_proto(parse(LOGGED).to_proto())) == LOGGED
    shorter = LOGGED.replace(":({op_id=2})", ":{op_id=2,callback_id=0}").replace("{\n  {", "{{", 1)
    assert str(parse(shorter)) == LOGGED


RECOVERED = """HloModule m, entry_computation_layout={(f32[])->f32[]}, origin_recovery_table={
  {"a"} : {"b"},
  "
    HloModule r, entry_computation_layout={(f32[])->f32[]}, frontend_attributes={foo="bar"}

    ENTRY %e (p: f32[]) -> f32[] {
      ROOT %p = f32[] parameter(0), metadata={op_name="a\\"b"}
    }


  "
}


ENTRY %e (p: f32[]) -> f32[] {
  ROOT %p = f32[] parameter(0), metadata={op_name="c"}
}

"""


def test_quotes_within_a_recovery_module_are_escaped_from_0_12_on() -> None:
    inside = RECOVERED.partition('  "\n')[2].partition('  "\n')[0]
    newer = RECOVERED.replace(inside, inside.replace("\\", "\\\\").replace('"', '\\"'))
    for text in (RECOVERED, newer):
        made = parse(text)
        assert str(made) == RECOVERED
        assert made.to_string("0.12") == newer
        assert str(HloModule.from_proto(made.to_proto())) == RECOVERED


def test_a_recovery_module_has_the_parameters_of_its_entry_layout() -> None:
    wrong = RECOVERED.replace(
        "HloModule r, entry_computation_layout={(f32[])", "HloModule r, entry_computation_layout={()"
    )
    with pytest.raises(HloParseError, match="entry_computation_layout has 0 parameters, e 1"):
        parse(wrong)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("unreduced=max", "unreduced=max"),
        ("unreduced=max{'x'}", "[], unreduced=max{'x'}"),
        ("unreduced=sum{'x'}", "[], unreduced={'x'}"),
        ("[], unreduced=min{'x','y'}", "unreduced=min"),
        ("[{}, {}], unreduced=max{'x'}", "[{}, {}], unreduced=max{'x'}"),
        ("[{}, {}], unreduced=sum{'x'}", "[{}, {}], unreduced={'x'}"),
        ("unreduced", "unreduced"),
    ],
)
def test_an_unreduced_sharding_says_how_its_parts_are_put_together(read: str, written: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  ROOT p = f32[4,8] parameter(0), sharding={{mesh['x'=2,'y'=2], {read}}}\n}}\n"
    made = parse(text)
    assert root(str(made)).endswith(f"sharding={{mesh['x'=2,'y'=2], {written}}}")
    assert root(str(HloModule.from_proto(made.to_proto()))) == root(str(made))
    with pytest.raises(HloParseError, match="expected sum, max, or min"):
        parse(text.replace(read, "unreduced=product"))


def test_the_metadata_of_a_sparse_convolution_is_an_operand_more() -> None:
    text = "f32[1,1]{1,0} convolution(%x, %k, %s), dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1 idx=2}}"
    given = "HloModule m\nENTRY e {\n  x = f32[1,4] parameter(0)\n  k = f32[1,1] parameter(1)\n  s = s32[1,1] parameter(2)\n  ROOT r = "
    assert root(str(parse(f"{given}{text.replace('%', '')}\n}}\n"))) == text
    with pytest.raises(HloParseError, match="at least 2 operands"):
        parse(f"{given}f32[1,1] convolution(x), dim_labels=bf_io->bf\n}}\n")
