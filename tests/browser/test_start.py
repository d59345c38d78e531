"""A page opens where whoever made it said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from tests.programs import TWO_SUMS
from xlanb.notebook.explore import explore
from xlanb.view.page import view_html, whole_page

sys.path.insert(0, str(Path(__file__).parent))
from stepper import opened


@pytest.fixture(scope="module")
def trace():
    return xlanb.trace(TWO_SUMS)


@pytest.fixture
def page_of(context, tmp_path, trace):
    context.set_offline(True)

    def page(overlay=None, **asked):
        widget = explore(trace, **asked)
        if overlay:
            widget.overlay(overlay, "mine")
        path = tmp_path / "page.html"
        path.write_text(whole_page(view_html(widget.saved_payload, ""), "page"), encoding="utf-8")
        return opened(context, path)

    return page


def test_at_a_stage_on_a_pane_with_an_op_pinned(page_of, trace):
    with page_of(stage="cse", pane="why", pinned="again") as stepper:
        assert (stepper.step, stepper.tab) == (trace["cse"].index, "Why")
        assert stepper.page.locator(".card h3").inner_text().endswith("again")
        stepper.press("g", "n")
        assert stepper.tab == "Graph"
        assert stepper.step == trace["fusion"].index


def test_on_the_difference_from_another_stage(page_of):
    with page_of(stage="cse", against=0) as stepper:
        assert stepper.tab == "Diff"
        assert "before_optimizations" in stepper.page.locator(".pane").inner_text()


def test_with_a_second_graph(page_of):
    with page_of(stage="fusion", against="cse", pane="Graph") as stepper:
        assert stepper.page.locator(".graph").count() == 2
        assert stepper.button("side by side").get_attribute("aria-pressed") == "true"
        chosen = stepper.page.get_by_label("Second stage").locator("option:checked").inner_text()
        assert chosen == "after cse"
        for name in ("Graph", "Second graph"):  # both are seen whole, at one scale
            graph = stepper.page.locator(f".canvas[aria-label='{name}']")
            pane = graph.bounding_box()
            assert pane is not None
            for node in graph.locator(".node").all():
                box = node.bounding_box()
                assert box is not None
                assert pane["x"] <= box["x"]
                assert box["x"] + box["width"] <= pane["x"] + pane["width"]
                assert box["y"] + box["height"] <= pane["y"] + pane["height"]


def test_with_a_guess_to_make(page_of):
    with page_of(stage="cse", predict=True) as stepper:
        assert "cse comes next" in stepper.page.locator(".question").inner_text()
        assert stepper.button("predict").get_attribute("aria-pressed") == "true"


def test_with_data_laid_over_the_nodes(page_of):
    with page_of(stage=0, overlay={"total": "mine to tell", "again": "another"}) as stepper:
        assert "mine to tell" in stepper.page.locator(".legend").inner_text()


MOVES = """
globalThis.moved = [];
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (given) {
  const root = attach.call(this, given);
  const watch = (records) => moved.push(...records.filter((r) => r.target.matches(".node")).map((r) => r.target.dataset.key));
  new MutationObserver(watch).observe(root, { subtree: true, attributeFilter: ["style"] });
  return root;
};
"""


@pytest.mark.parametrize("screen", [(1440, 900), (760, 1100)], ids=str)
def test_with_a_picture_that_is_placed_once(context, tmp_path, trace, screen):
    path = tmp_path / "page.html"
    trace.to_html(str(path))
    page = context.new_page()
    page.set_viewport_size({"width": screen[0], "height": screen[1]})
    page.add_init_script(MOVES)
    page.goto(path.as_uri())
    page.wait_for_function(
        "() => document.querySelector('.xlanb-step')?.shadowRoot.querySelector('.canvas:not(.still)')"
    )
    assert page.locator(".node").count() >= 3
    assert page.evaluate("moved") == []


def test_a_name_in_the_text_of_a_card_pins_what_it_names(page_of):
    with page_of(stage="cse", pinned="again") as stepper:
        name = stepper.page.locator(".card pre .tk-ref").first
        wanted = name.get_attribute("data-op")
        assert wanted != "again"
        name.click()
        assert stepper.page.locator(".card h3").inner_text().endswith(wanted)


def test_no_tab_is_covered_on_a_small_screen(page_of):
    with page_of(stage="cse") as stepper:
        page = stepper.page
        page.set_viewport_size({"width": 1000, "height": 700})
        sides = page.locator(".sides").first.bounding_box()
        tabs = page.get_by_role("tab").all()
        assert len(tabs) > 5
        assert sides is not None
        for tab in tabs:
            box = tab.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= sides["x"], f"{tab.inner_text()} is covered"
