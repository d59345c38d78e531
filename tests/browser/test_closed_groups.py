"""Ops in closed groups and undrawn computations are reachable: highlighted, guessed, found,
opened.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.notebook.explore import explore
from xlanb.view.page import view_html, whole_page

sys.path.insert(0, str(Path(__file__).parent))
from stepper import opened
from test_cells import NOTEBOOK

HLO = """HloModule scoped

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,16] parameter(0)
  one = f32[] constant(2)
  ones = f32[8,16] broadcast(one), dimensions={}
  m = f32[8,16] multiply(x, ones), metadata={op_name="jit(f)/first/mul" source_file="In [3]" source_line=2}
  t = f32[8,16] tanh(m), metadata={op_name="jit(f)/first/tanh" source_file="In [3]" source_line=2}
  e = f32[8,16] exponential(t), metadata={op_name="jit(f)/first/exp" source_file="In [3]" source_line=2}
  c = f32[8,16] cosine(e), metadata={op_name="jit(f)/second/cos" source_file="In [3]" source_line=3}
  n = f32[8,16] negate(c), metadata={op_name="jit(f)/second/neg" source_file="In [3]" source_line=3}
  zero = f32[] constant(0)
  ROOT r = f32[8] reduce(n, zero), dimensions={1}, to_apply=add
}
"""
CELL = ["x = input()", "y = exp(tanh(x * 2))", "z = -cos(y)"]


@pytest.fixture(scope="module")
def trace():
    trace = xlanb.trace(HLO)
    trace.sources.update({("In [3]", k): text for k, text in enumerate(CELL, 1)})
    return trace


@pytest.fixture
def stepper(context, tmp_path, trace):
    context.set_offline(True)
    widget = explore(trace, stage=0, pane="Graph")
    widget.overlay({"t": 3.5, "c": 1.0}, "mine")
    path = tmp_path / "page.html"
    path.write_text(whole_page(view_html(widget.saved_payload, ""), "page"), encoding="utf-8")
    with opened(context, path) as stepper:
        stepper.button("fold").click()
        group(stepper, "first").wait_for()
        yield stepper


def group(stepper, name):
    return stepper.page.locator(f".node.closed[data-op='@{name}']")


def meet(a, b):
    return not (
        a["x"] + a["width"] <= b["x"]
        or b["x"] + b["width"] <= a["x"]
        or a["y"] + a["height"] <= b["y"]
        or b["y"] + b["height"] <= a["y"]
    )


def test_a_line_lights_the_closed_group_of_its_ops(stepper):
    stepper.page.evaluate(NOTEBOOK, CELL)
    stepper.page.locator(".cm-line").nth(1).hover()
    lit = stepper.page.locator(".node.of-this-line")
    assert [n.get_attribute("data-op") for n in lit.all()] == ["@first"]


def test_the_value_on_a_closed_group_covers_no_handle(stepper):
    node = group(stepper, "first")
    assert node.locator(".overvalue").text_content() == "3.5"
    assert not meet(node.locator(".overvalue").bounding_box(), node.locator(".handle").bounding_box())


def test_a_guess_opens_groups_and_counts_what_is_in_closed_ones(stepper):
    page = stepper.page
    stepper.button("predict").click()
    group(stepper, "first").click()
    page.locator(".group[data-key='@first']").wait_for()
    assert "0 marked" in page.locator(".question").inner_text(), "a group is no op"
    page.locator(".node[data-op='t']").click()
    assert "1 marked" in page.locator(".question").inner_text()
    page.locator(".group[data-key='@first'] .handle").click()
    group(stepper, "first").wait_for()
    stepper.button("Reveal").click()
    said = page.locator(".question").inner_text()
    assert "of 0 found" not in said
    assert "missed" in said
    assert page.locator(".node.closed.missed").count() >= 1, "the group that holds it says so"


def test_find_leads_to_who_applies_a_reducer(stepper):
    stepper.press("o")
    stepper.page.keyboard.type("s")
    assert "add" in stepper.page.locator(".found-ops [role=option]").first.inner_text()
    stepper.press("Enter")
    assert stepper.status == "s is drawn as part of reduce r."
    focused = "document.querySelector('.xlanb-step').shadowRoot.activeElement.dataset.op"
    assert stepper.page.evaluate(focused) == "r"


def test_a_called_computation_is_entered_from_the_card(stepper):
    stepper.button("unfold").click()
    stepper.page.locator(".node[data-op='r']").click()
    calls = stepper.page.locator(".card .links").filter(has_text="Calls")
    calls.get_by_role("button", name="add").click()
    assert stepper.page.locator(".card .opname").first.inner_text() == "s"


def test_a_pair_that_a_pass_takes_apart_is_told_as_it_was_before(stepper):
    stepper.choose("fusion")
    stepper.page.get_by_role("tab", name="Why").click()
    stepper.page.locator(".why [data-op='t']").first.click()
    stepper.page.locator(".why [data-op='e']").first.click(modifiers=["Shift"])
    assert "Before this pass: t feeds e." in stepper.page.locator(".card").inner_text()
