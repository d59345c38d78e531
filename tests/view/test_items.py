"""The labels of a graph's boxes."""

from __future__ import annotations

import pytest

import xlanb
from xlanb.graph.records import NodeRecord
from xlanb.hlo import parse
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.view.parts.families import hlo_family, tf_family
from xlanb.view.parts.items import instruction_item, label, node_item


def said(metadata: str, shape: str = "f32[3,4]") -> tuple[str, str, str]:
    text = f"HloModule m\nENTRY e {{\n  ROOT params__w__.1 = {shape} parameter(0){metadata}\n}}\n"
    record = xlanb.hlo.parse(text).record()
    return label(instruction_item(record.entry_computation.instructions[0]))


def test_parameters_are_called_what_the_function_calls_them():
    assert said(", metadata={op_name=\"params['w']\"}") == ("parameter", " 0", "params['w'] f32[3,4]")
    assert said(", metadata={op_name=\"params['linear/~/w']\"}")[2] == "params['linear/~/w'] f32[3,4]"


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        ', metadata={op_name="jit(f)/mul"}',
        ', metadata={op_name="jit(f)"}',
        ', metadata={op_type="Placeholder" op_name="x"}',
    ],
)
def test_other_parameters_keep_their_names(metadata):
    assert said(metadata)[2] == "params__w__.1 f32[3,4]"


def test_long_names_are_shortened_in_the_middle():
    below = said(", metadata={op_name=\"params['encoder']['layers'][0]['kernel']\"}")[2]
    assert len(below) <= 34
    assert below.startswith("params['encode")
    assert below.endswith("f32[3,4]")


def _constants(*lines):
    text = "HloModule m\n\nENTRY e {\n" + "\n".join(f"  {x}" for x in lines) + "\n}\n"
    return [instruction_item(i) for i in parse(text).record().by_name["e"].instructions]


def test_a_constant_is_known_by_its_value_where_that_is_short_and_whole_else_by_its_shape():
    few, many, last = _constants(
        "few = s32[3] constant({1, 2, 3})",
        "many = f32[8] constant({0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1})",
        "ROOT last = (s32[3], f32[8]) tuple(few, many)",
    )
    assert (few["v"], many["v"], "v" in last) == ("{1,2,3}", "f32[8]", False)
    nodes = [NodeRecord("axes", "Const", (), {"value": "[0 1]"}, ("s32[2]",))]
    nodes.append(NodeRecord("kernel", "Const", (), {"value": "float32[3,3,8,8] {-0.1, 0.2, ...}"}, ("f32[3,3,8,8]",)))
    assert [node_item(n)["v"] for n in nodes] == ["[0 1]", "f32[3,3,8,8]"]


@pytest.mark.parametrize(
    ("op", "family"),
    [
        ("Conv2DBackpropFilter", "matrix"),
        ("MatMul", "matrix"),
        ("MaxPoolGrad", "reduce"),
        ("AvgPool", "reduce"),
        ("FusedBatchNormV3", "norm"),
        ("LRN", "norm"),
        ("Relu", "element"),
    ],
)
def test_pooling_and_normalization_are_no_products(op, family):
    assert tf_family(op) == f"tf-{family}"


def test_instructions_have_families_alike():
    codes = (O.CONVOLUTION, O.DOT, O.REDUCE_WINDOW, O.BATCH_NORM_TRAINING)
    assert [hlo_family(c) for c in codes] == ["matrix", "matrix", "reduce", "norm"]


def test_a_long_shape_is_shortened_without_the_note_of_what_is_left_out():
    shape = f"({', '.join(['f32[128,128]'] * 60)})"
    (item,) = _constants(f"ROOT p = {shape} parameter(0)")
    assert item["s"].endswith("more characters)")
    while_label = label({**item, "o": "while", "n": "while.1"})
    assert while_label[2].startswith("(f32[128,128")
    assert "characters" not in while_label[2]
    assert len(while_label[2]) <= 26


@pytest.mark.parametrize(
    ("name", "title", "rest"),
    [
        ("multiply_add_fusion.3", "multiply_add", "_fusion.3"),
        ("bitcast_gather_fusion.clone", "bitcast_gather", "_fusion.clone"),
        ("fusion.12", "fusion", " kLoop"),
        ("loop_fusion", "fusion", " kLoop"),
    ],
)
def test_a_fusion_is_titled_by_what_its_name_says_of_its_content(name, title, rest):
    text = (
        "HloModule m\nfused {\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] negate(p)\n}\n"
        f"ENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT {name} = f32[4] fusion(x), kind=kLoop, calls=fused\n}}\n"
    )
    *_, fusion = parse(text).record().entry_computation.instructions
    assert label(instruction_item(fusion)) == (title, rest, "f32[4]")
