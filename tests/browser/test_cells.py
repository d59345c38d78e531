"""Hovering a line of a notebook's cell highlights its ops in the step view, and vice versa."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
sys.path.insert(0, str(Path(__file__).parent))

import re

import pytest
from stepper import opened

import xlanb
from xlanb.view.page import write_page

HLO = """HloModule m

ENTRY e {
  p = f32[4] parameter(0), metadata={op_name="x" source_file="In [3]" source_line=1}
  t = f32[4] tanh(p), metadata={op_name="jit(f)/tanh" source_file="In [3]" source_line=2}
  n = f32[4] negate(t), metadata={op_name="jit(f)/neg" source_file="In [3]" source_line=2}
  ROOT s = f32[4] sine(n), metadata={op_name="jit(f)/sin" source_file="In [3]" source_line=3}
}
"""
CELL = ["x = input()", "y = -tanh(x)", "sin(y)"]
NOTEBOOK = """(lines) => {
  const host = document.querySelector(".xlanb-static");
  const make = (tag, name, text) => { const x = document.createElement(tag); x.className = name; if (text) x.textContent = text; return x; };
  const book = make("div", "jp-Notebook"), cell = make("div", "jp-CodeCell"), scroller = make("div", "cm-scroller"), content = make("div", "cm-content");
  scroller.style.position = "relative";
  content.append(...lines.map((l) => make("div", "cm-line", l)));
  scroller.append(content);
  cell.append(make("div", "jp-InputPrompt", "[3]:"), scroller);
  document.body.append(book);
  book.append(cell, host);
}"""


@pytest.fixture
def stepper(context, tmp_path):
    trace = xlanb.trace(HLO)
    trace.sources.update({("In [3]", k): text for k, text in enumerate(CELL, 1)})
    path = tmp_path / "page.html"
    write_page([trace], path)
    with opened(context, path) as stepper:
        yield stepper


def lit(stepper) -> set[str]:
    names = stepper.page.locator(".line.of-this-line").evaluate_all("all => all.map(x => x.dataset.op)")
    return set(names)


def test_a_line_lights_its_ops_and_an_op_marks_its_line(stepper):
    page = stepper.page
    stepper.press("Home", "t")
    page.evaluate(NOTEBOOK, CELL)
    lines = page.locator(".cm-line")
    lines.nth(1).hover()
    assert lit(stepper) == {"t", "n"}
    assert stepper.status.startswith("In [3]:2: 2 ops here")
    lines.nth(2).hover()
    assert lit(stepper) == {"s"}
    page.locator(".line[data-op='t']").first.hover()
    assert lit(stepper) == set()
    mark, line = (page.locator(x).bounding_box() for x in (".xlanb-cell-line", ".cm-line:nth-child(2)"))
    assert (mark["y"], mark["height"]) == (line["y"], line["height"])
    page.locator(".title").hover()
    page.locator(".xlanb-cell-line").wait_for(state="detached")


def test_the_fusion_that_runs_a_line_is_lit_at_the_end(stepper):
    stepper.press("End", "c")
    stepper.page.evaluate(NOTEBOOK, CELL)
    stepper.page.locator(".cm-line").nth(1).hover()
    assert any("fusion" in name for name in lit(stepper))


def test_an_edited_line_is_no_longer_that_of_the_trace(stepper):
    stepper.press("Home", "t")
    stepper.page.evaluate(NOTEBOOK, [CELL[0], "y = something(x)", CELL[2]])
    stepper.page.locator(".cm-line").nth(1).hover()
    assert lit(stepper) == set()


LIVE = """
import jax.numpy as jnp
import xlanb

def f(x):
    y = jnp.tanh(x)
    return -y

widget = xlanb.explore(f, jnp.ones(8))
widget
"""


@pytest.mark.parametrize("app", ["lab", "notebook7"])
def test_the_cell_lights_up_in_a_real_notebook(request, app):
    pytest.importorskip("jax")
    screen = request.getfixturevalue(app)
    screen.open(screen.write(f"cell-{app}.ipynb", LIVE))
    screen.run_all()
    page = screen.page
    page.locator(".xlanb-step .root").first.wait_for()
    page.locator(".xlanb-step .root").first.focus()
    page.keyboard.press("t")
    line = page.locator(".jp-CodeCell .cm-line").filter(has_text=re.compile(r"y = jnp\.tanh"))
    line.hover()
    page.locator(".xlanb-step .line.of-this-line").first.wait_for()
    text = page.locator(".xlanb-step .line.of-this-line").first.inner_text()
    assert "tanh" in text
    page.locator(".xlanb-step .line[data-op]").filter(has_text="tanh(").first.hover()
    mark = page.locator(".xlanb-cell-line").first
    mark.wait_for(state="attached")
    boxes = page.locator(".xlanb-cell-line").evaluate_all("all => all.map(x => x.getBoundingClientRect().top)")
    assert any(abs(top - line.bounding_box()["y"]) < 2 for top in boxes)
    screen.screenshot("cell")
