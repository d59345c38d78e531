"""The lines of a source, with their costs and what they became."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.explorer.test_live import TEXT
from xlanb.errors import XlanbError
from xlanb.explorer.annotation import annotate
from xlanb.explorer.trace import Trace
from xlanb.view.annotate import annotated_html


def traced(text: str) -> Trace:
    compilation = xlanb.Compilation(text)
    compilation.finish()
    return compilation.trace


def test_every_line_that_became_code_shows_it() -> None:
    found = annotate([traced(TEXT)], TEXT, "")
    by_text = {line.text.strip(): line for line in found.lines}
    tanh = by_text["q = f32[16,32] tanh(p)"]
    assert any("tanh(" in text for text in tanh.hlo)
    assert tanh.assembly
    assert tanh.llvm
    assert not by_text["HloModule m"].hlo
    assert found.elsewhere == pytest.approx(0.0, abs=1e-9)
    assert sum(line.share for line in found.lines) == pytest.approx(1.0)
    assert sum(line.seconds for line in found.lines) == pytest.approx(found.seconds)


def test_what_comes_from_another_source_is_elsewhere() -> None:
    tagged = TEXT.replace("tanh(p)", 'tanh(p), metadata={op_name="t" source_file="In [4]" source_line=2}')
    tagged = tagged.replace(
        "multiply(x, y)", 'multiply(x, y), metadata={op_name="m" source_file="In [3]" source_line=1}'
    )
    found = annotate([traced(tagged)], "first\nsecond\nthird", "In [4]")
    assert [bool(line.hlo) for line in found.lines] == [False, True, False]
    assert 0 < found.lines[1].share <= 1


def test_untrusted_text_stays_text() -> None:
    evil = "<img src=x onerror=alert(1)>"
    found = annotate([traced(TEXT)], f"{TEXT}\n// {evil}", evil)
    shown = annotated_html(found)
    assert "<img" not in shown
    assert "&lt;img" in shown


def test_without_a_program_it_says_so() -> None:
    with pytest.raises(XlanbError, match="nothing to annotate"):
        annotate([Trace("empty")], "x", "In [1]")


def test_several_programs_are_added_up() -> None:
    one = annotate([traced(TEXT)], TEXT, "")
    both = annotate([traced(TEXT), traced(TEXT)], TEXT, "")
    assert {line.number for line in one.lines if line.hlo} == {line.number for line in both.lines if line.hlo}
    assert np.isclose(sum(line.share for line in both.lines), 1.0)
