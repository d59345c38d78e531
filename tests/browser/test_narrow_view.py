"""The view where it has little room: nothing is cut, nothing covered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parent))
from stepper import opened
from test_closed_groups import HLO, meet

TOOLS = """() => {
  const root = document.querySelector(".xlanb-step").shadowRoot;
  const pane = root.querySelector(".pane").getBoundingClientRect();
  const cut = (x) => {
    const box = x.getBoundingClientRect();
    const wide = x.cloneNode(true);
    Object.assign(wide.style, { position: "absolute", width: "max-content", maxWidth: "none", visibility: "hidden" });
    x.parentElement.append(wide);
    const needs = wide.getBoundingClientRect().width;
    wide.remove();
    return box.left < pane.left - 1 || box.right > pane.right + 1 || needs > box.width + 1;
  };
  return [...root.querySelectorAll(".pane .tools .tool")].filter((x) => x.checkVisibility() && cut(x)).map((x) => x.getAttribute("aria-label") || x.textContent);
}"""


@pytest.fixture
def stepper(context, tmp_path):
    path = tmp_path / "page.html"
    write_page([xlanb.trace(HLO)], path)
    with opened(context, path) as stepper:
        yield stepper


@pytest.mark.parametrize("width", [640, 830, 1000])
@pytest.mark.parametrize("pinned", [False, True])
def test_no_tool_is_cut_and_none_is_covered(stepper, width, pinned):
    page = stepper.page
    page.set_viewport_size({"width": width, "height": 700})
    stepper.choose("fusion")
    stepper.press("g")
    if pinned:
        page.locator(".node").first.click()
        page.locator(".card .opname").first.wait_for()
    page.wait_for_timeout(400)
    assert page.evaluate(TOOLS) == []
    if not pinned:
        return
    card = page.locator(".card").bounding_box()
    for part in (*page.locator(".tabs button").all(), *page.locator(".pane .tool:visible").all()):
        assert not meet(part.bounding_box(), card), part.inner_text()
    stepper.press("w")
    card = page.locator(".card").bounding_box()
    for row in page.locator(".why .decisions li").all()[:4]:
        assert not meet(row.bounding_box(), card)


@pytest.mark.parametrize("width", [830, 1000])
def test_the_conditions_of_a_decision_break_no_word(stepper, width):
    page = stepper.page
    page.set_viewport_size({"width": width, "height": 700})
    stepper.choose("fusion")
    page.get_by_role("tab", name="Why").click()
    for row in page.locator(".why .predicates tr:has(td.mono)").all():
        value = row.locator("td.mono")
        word = max(value.inner_text().split() or [""], key=len)
        if len(word) <= 9:
            assert value.bounding_box()["width"] >= 7 * len(word)


def test_two_graphs_stand_level_and_name_their_stages(stepper):
    page = stepper.page
    page.set_viewport_size({"width": 1000, "height": 700})
    stepper.choose("fusion")
    stepper.press("g")
    stepper.button("side by side").click()
    left, right = (page.locator(f".canvas[aria-label='{name}']").bounding_box() for name in ("Graph", "Second graph"))
    assert (left["y"], left["height"]) == (right["y"], right["height"])
    named = page.locator(".stages[data-name]").first
    assert named.get_attribute("data-name") == "after fusion"


def test_a_pinned_group_that_is_closed_is_named_and_shown_on_demand(stepper):
    page = stepper.page
    page.get_by_role("button", name="unfold", exact=True).click()
    stepper.press("o")
    page.keyboard.type("tanh")
    stepper.press("Enter")
    page.locator(".group[data-key='@first']").wait_for()
    page.evaluate(
        "() => { const r = document.querySelector('.xlanb-step').shadowRoot.querySelector('.group[data-key=\"@first\"]'); r.focus(); }"
    )
    stepper.press("Enter")
    page.locator(".node.closed[data-op='@first']").click()
    assert page.locator(".card h3").inner_text().startswith("first")
