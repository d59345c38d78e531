"""Edges of the graph: merged edges appear for a pinned op; long ones end in keyboard-usable
stubs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parent))
from programs import small_step
from stepper import Stepper

FOCUSED = "document.querySelector('.xlanb-step').shadowRoot.activeElement"
LENGTH = 24


def shortcut_text() -> str:
    """Return a chain in which each of the first ops has a second user, half the chain later."""
    lines = ["HloModule shortcuts", "", "ENTRY main {", "  x0 = f32[8,8] parameter(0)"]
    for k in range(1, LENGTH + 1):
        other = f"x{k - LENGTH // 2}" if k > LENGTH // 2 else f"x{k - 1}"
        opcode = ["add", "multiply", "subtract", "maximum", "divide"][k * k % 5]
        lines.append(f"  {'ROOT ' if k == LENGTH else ''}x{k} = f32[8,8] {opcode}(x{k - 1}, {other})")
    return "\n".join([*lines, "}"])


@pytest.fixture
def stepper(context):
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    yield stepper
    assert stepper.errors == []
    assert stepper.requests == []


@pytest.fixture(scope="module")
def chain_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("edges") / "page.html"
    write_page([xlanb.trace(shortcut_text())], path)
    return path


def test_a_stub_is_used_by_keyboard(stepper, chain_page):
    stepper.open(chain_page)
    stubs = stepper.page.locator(".stub")
    assert stubs.count() >= 2, "the edges to the middle of the chain are too long"
    stub = stubs.first
    assert stub.get_attribute("role") == "treeitem"
    start = stub.get_attribute("data-at")
    assert stub.get_attribute("aria-label").startswith((f"{start}: goes to ", f"{start}: comes from "))
    assert all(text[:2] in ("→ ", "← ") for text in stubs.locator("text").all_text_contents()), "an arrow and a name"
    stub.focus()
    assert stepper.page.locator(".far-end").count() >= 1
    stepper.press("Enter")
    if stepper.page.locator(".stub-list button").count():
        stepper.press("ArrowDown", "Enter")
    key = stepper.page.evaluate(f"{FOCUSED}.dataset.key")
    assert key
    assert key != start
    assert stepper.page.locator(".stub-list").is_hidden()


@pytest.fixture(scope="module")
def step_page(tmp_path_factory):
    pytest.importorskip("jax")
    step, arguments = small_step()
    path = tmp_path_factory.mktemp("trails") / "page.html"
    write_page([xlanb.trace(step, *arguments)], path)
    return path


def test_what_flows_through_a_pinned_op_is_drawn(stepper, step_page):
    stepper.open(step_page)
    stepper.button("unfold").click()
    stepper.page.locator(".group").first.wait_for()
    # Ops whose edges lead to another group: those are drawn from group to group.
    crossing = stepper.page.locator(".edge").evaluate_all(
        "(edges) => edges.filter((e) => e.dataset.from.startsWith('@') || e.dataset.to.startsWith('@')).length"
    )
    assert crossing >= 1
    seen = 0
    for name in stepper.page.locator(".node").evaluate_all("(nodes) => nodes.slice(0, 12).map((n) => n.dataset.op)"):
        stepper.page.locator(f".node[data-op='{name}']").first.dispatch_event("click")
        trails = stepper.page.locator(".trail").count()
        assert trails == 0 or stepper.page.locator(".node.linked").count() >= 1
        seen += trails
    assert seen >= 1, "some op uses what another group makes"
    stepper.press("Escape")
    assert stepper.page.locator(".node.linked").count() == 0


BEYOND = """() => {
  const root = document.querySelector(".xlanb-step").shadowRoot;
  const pane = root.querySelector(".canvas").getBoundingClientRect();
  return [...root.querySelectorAll(".canvas .edge, .canvas .stub, .canvas .group, .canvas .node")].flatMap((x) => {
    const b = x.getBoundingClientRect();
    const over = Math.max(pane.left - b.left, pane.top - b.top, b.right - pane.right, b.bottom - pane.bottom);
    return over > 0 ? [`${x.getAttribute("class")} ${x.dataset.key || ""}: ${over} px`] : [];
  });
}"""


def backward_text() -> str:
    """A graph of two columns: what leads back to the top of the second passes above all boxes."""
    meta = ', metadata={{op_name="jit(f)/{}/op"}}'
    lines = ["HloModule columns", "", "ENTRY main {", "  x0 = f32[64,64] parameter(0)"]
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for k in range(1, 25):
        scope = "forward" if k <= 12 else "head"
        lines.append(
            f"  {'ROOT ' if k == 24 else ''}x{k} = f32[64,64] dot(x{k - 1}, x{k - 1}), {dims}{meta.format(f'{scope}/part{k % 3}')}"
        )
    return "\n".join([*lines, "}"])


@pytest.mark.parametrize("screen", [(1440, 900), (1000, 700)], ids=str)
def test_nothing_of_a_graph_that_is_seen_whole_is_cut(stepper, tmp_path, screen):
    jax = pytest.importorskip("jax")
    step, arguments = small_step()
    write_page([xlanb.trace(step, *arguments), xlanb.trace(backward_text())], tmp_path / "page.html")
    assert jax
    stepper.page.set_viewport_size({"width": screen[0], "height": screen[1]})
    stepper.page.emulate_media(reduced_motion="reduce")
    stepper.open(tmp_path / "page.html")
    stepper.page.locator(".node").first.wait_for()
    for _ in range(4):
        assert not stepper.page.locator(".minimap").is_visible(), "all is in sight"
        assert stepper.page.evaluate(BEYOND) == []
        stepper.press("n")
