"""The first picture of real training steps: few boxes, legible, filling the pane, all reachable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parent))
from programs import residual_step, small_step, transformer_step
from stepper import Stepper

PROGRAMS = {"transformer": transformer_step, "residual net": residual_step, "two layers": small_step}
SCREENS = [(1440, 900), (1000, 700)]
STAGES = ["first", "fusion"]

MEASURE = """() => {
  const root = document.querySelector(".xlanb-step").shadowRoot;
  const pane = root.querySelector("[aria-label=Graph]").getBoundingClientRect();
  const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const nodes = [...root.querySelectorAll(".node")];
  const boxes = nodes.map((n) => n.querySelector(".body").getBoundingClientRect()).filter((b) => meets(b, pane));
  const covered = (lo, hi) => {
    let [total, at] = [0, pane[lo]];
    const ends = boxes.map((b) => [Math.max(b[lo], pane[lo]), Math.min(b[hi], pane[hi])]);
    for (const [from, to] of ends.sort((a, b) => a[0] - b[0])) {
      total += Math.max(0, to - Math.max(from, at));
      at = Math.max(at, to);
    }
    return total / (pane[hi] - pane[lo]);
  };
  const over = [".legend", ".minimap"].map((name) => root.querySelector(name)).filter((x) => x.checkVisibility()).map((x) => x.getBoundingClientRect());
  const texts = nodes.filter((n) => meets(n.querySelector(".body").getBoundingClientRect(), pane)).flatMap((n) => [...n.querySelectorAll("text")]);
  const outside = (t) => {
    const [text, box] = [t.getBoundingClientRect(), t.closest(".node").querySelector(".body").getBoundingClientRect()];
    return !t.classList.contains("mark") && (text.left < box.left - 1 || text.right > box.right + 1);
  };
  const unreached = nodes.filter((n) => {
    n.focus({ preventScroll: true });
    return root.activeElement !== n || !n.getAttribute("aria-label") || !n.getAttribute("role");
  });
  return {
    drawn: nodes.length,
    seen: boxes.length,
    titles: Math.min(...texts.map((t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a)),
    width: covered("left", "right"),
    height: covered("top", "bottom"),
    hidden: boxes.filter((b) => over.some((o) => meets(b, o))).length,
    overlapping: boxes.filter((a, k) => boxes.slice(k + 1).some((b) => meets(a, b))).length,
    cut: boxes.filter((b) => !inside(b, pane)).length,
    spilled: texts.filter(outside).map((t) => t.textContent),
    unreached: unreached.length,
    reached: root.querySelectorAll(".node[tabindex='0']").length,
  };
}"""


@pytest.fixture(scope="module", params=PROGRAMS)
def page_of_step(request, tmp_path_factory):
    """The page of a training step, on disk."""
    pytest.importorskip("jax")
    step, arguments = PROGRAMS[request.param]()
    path = tmp_path_factory.mktemp("legible") / "page.html"
    write_page([xlanb.trace(step, *arguments)], path)
    return path


@pytest.fixture
def stepper(context):
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    yield stepper
    assert stepper.errors == []
    assert stepper.requests == []


def settled(stepper):
    """Wait for the end of animations."""
    stepper.page.wait_for_function(
        "() => document.querySelector('.xlanb-step').shadowRoot.getAnimations().every(a => a.playState !== 'running')"
    )


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_the_first_picture_is_legible(stepper, page_of_step, screen, stage):
    stepper.page.set_viewport_size({"width": screen[0], "height": screen[1]})
    stepper.open(page_of_step)
    if stage == "fusion":
        stepper.page.locator(".pass .name").get_by_text("fusion", exact=True).first.click()
    stepper.page.locator(".node").first.wait_for()
    settled(stepper)
    found = stepper.page.evaluate(MEASURE)
    assert 3 <= found["drawn"] <= 80
    assert found["titles"] >= 11
    assert found["width"] >= 0.45
    assert found["height"] >= 0.45
    assert (found["hidden"], found["overlapping"], found["unreached"]) == (0, 0, 0)
    assert found["cut"] <= 0.1 * found["seen"]
    assert found["spilled"] == []
    assert found["reached"] == 1, "one stop of the Tab key"
    assert stepper.page.get_by_label("Find op", exact=True).is_visible()


@pytest.fixture(scope="module")
def small_page(tmp_path_factory):
    """The page of a program of two layers, on disk."""
    pytest.importorskip("jax")
    step, arguments = small_step()
    path = tmp_path_factory.mktemp("small") / "page.html"
    write_page([xlanb.trace(step, *arguments)], path)
    return path


FOCUSED = "document.querySelector('.xlanb-step').shadowRoot.activeElement"


def close_groups(stepper):
    stepper.button("fold").click()
    settled(stepper)
    assert stepper.page.locator(".group").count() == 0
    stepper.page.locator(".root").focus()


def test_an_op_is_found_wherever_it_is(stepper, small_page):
    stepper.open(small_page)
    close_groups(stepper)
    stepper.press("o")
    stepper.page.keyboard.type("layer_1 tanh")
    options = stepper.page.locator(".found-ops [role=option]")
    assert options.count() == 1
    box = stepper.page.get_by_label("Find op", exact=True)
    assert box.get_attribute("aria-activedescendant") == options.first.get_attribute("id")
    stepper.press("Enter")
    assert box.get_attribute("aria-expanded") == "false"
    name = stepper.page.evaluate(f"{FOCUSED}.dataset.op")
    assert stepper.page.locator(".node.pinned").get_attribute("data-op") == name
    assert stepper.page.locator(".group").count() >= 1, "what hid it is open"
    settled(stepper)
    stepper.page.wait_for_timeout(400)
    sight = stepper.page.locator(".node.pinned").bounding_box()
    pane = stepper.page.locator(".canvas").bounding_box()
    assert pane["x"] <= sight["x"] <= pane["x"] + pane["width"] - sight["width"]
    assert pane["y"] <= sight["y"] <= pane["y"] + pane["height"] - sight["height"]
    stepper.press("Escape", "Control+f")
    assert stepper.page.evaluate(f"{FOCUSED}.ariaLabel") == "Find op"
    stepper.page.keyboard.type("no such op")
    assert "No op has" in options.first.inner_text()


def test_the_graph_is_walked_by_keyboard(stepper, small_page):
    stepper.open(small_page)
    close_groups(stepper)
    stepper.page.locator(".node[tabindex='0']").focus()
    here = f"{FOCUSED}.dataset.key"
    seen = {stepper.page.evaluate(here)}
    for key in ["ArrowDown", "ArrowRight", "ArrowDown", "End", "Home"]:
        stepper.press(key)
        seen.add(stepper.page.evaluate(here))
    assert len(seen) >= 3
    assert stepper.step == 0, "the arrows walk the graph, not the passes"
    group = stepper.page.locator(".node[data-fold]").first
    key = group.get_attribute("data-key")
    group.focus()
    stepper.press("Enter")
    opened = stepper.page.locator(f".group[data-key='{key}']")
    assert opened.get_attribute("aria-expanded") == "true"
    assert stepper.page.evaluate(here) == key, "the focus stays on what was opened"
    stepper.press("-")
    assert stepper.page.locator(f".node[data-key='{key}']").get_attribute("aria-expanded") == "false"
    stepper.press("Escape", "ArrowDown")
    assert stepper.step == 1


def places(stepper):
    return stepper.page.evaluate(
        "() => Object.fromEntries([...document.querySelector('.xlanb-step').shadowRoot.querySelectorAll('.node')].map(n => [n.dataset.key, n.style.transform]))"
    )


def test_an_opened_group_closes_to_what_was(stepper, small_page):
    stepper.open(small_page)
    close_groups(stepper)
    before = places(stepper)
    key = stepper.page.locator(".node[data-fold]").first.get_attribute("data-key")
    stepper.page.locator(f".node[data-key='{key}']").dblclick()
    settled(stepper)
    assert key not in places(stepper)
    assert len(places(stepper)) > len(before)
    assert "ops" in stepper.page.get_by_role("complementary").inner_text(), "the card of the group"
    stepper.page.locator(f".group[data-key='{key}'] .handle").click()
    settled(stepper)
    assert places(stepper) == before


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory):
    """The page of a transformer's training step, on disk."""
    pytest.importorskip("jax")
    step, arguments = transformer_step()
    path = tmp_path_factory.mktemp("wide") / "page.html"
    write_page([xlanb.trace(step, *arguments)], path)
    return path


def test_a_digit_opens_so_many_levels_of_groups(stepper, wide_page):
    stepper.open(wide_page)
    seen = []
    for digit in "123":
        stepper.page.locator(".root").focus()
        stepper.press(digit)
        settled(stepper)
        seen.append((stepper.page.locator(".node").count(), stepper.page.locator(".group").count()))
    assert seen[0][1] == 0
    assert seen[0] < seen[1] < seen[2], "the third level is the blocks: one of six is drawn"
    assert seen[2][0] <= 400


def test_tools_stay_whole_when_a_group_was_opened(stepper, wide_page):
    stepper.page.set_viewport_size({"width": 1440, "height": 900})
    stepper.open(wide_page)
    stepper.page.locator(".node[data-fold]").first.dblclick()
    settled(stepper)
    assert stepper.page.get_by_role("button", name="focus", exact=True).is_visible()
    assert stepper.page.locator(".graph .tools").first.evaluate("t => t.scrollWidth - t.clientWidth") <= 0


def test_two_stages_stand_side_by_side(stepper, small_page):
    stepper.open(small_page)
    stepper.page.locator(".pass .name").get_by_text("fusion", exact=True).first.click()
    stepper.button("side by side").click()
    first, second = (stepper.page.locator(f".canvas[aria-label='{name}']") for name in ("Graph", "Second graph"))
    assert second.locator(".node").count() >= 3
    stepper.button("Zoom in").click()
    view = [graph.locator(".view").get_attribute("transform") for graph in (first, second)]
    assert view[0] == view[1]
    names = stepper.page.get_by_label("Second stage").locator("option").all_inner_texts()
    assert names[0] == "before fusion"
    assert len(names) >= 3
    stepper.button("side by side").click()
    assert second.count() == 0
