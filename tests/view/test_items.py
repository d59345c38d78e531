"""What the boxes of a graph say."""

from __future__ import annotations

import pytest

import xlanb
from xlanb.view.parts.items import instruction_item, label


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
