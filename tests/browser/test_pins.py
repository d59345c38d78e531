"""A pinned op stays pinned through passes that give it another name."""

from __future__ import annotations

import sys
from pathlib import Path

import xlanb
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view" / "outline"))
sys.path.insert(0, str(Path(__file__).parent))
from stepper import opened
from test_caller_keys import LOOP

PINNED = """() => [...document.querySelector(".xlanb-step").shadowRoot.querySelectorAll(".canvas .node.pinned")].map((n) => n.dataset.op)"""


def test_an_op_in_a_loop_body_is_followed_through_passes_that_make_the_loop_anew(context, tmp_path):
    write_page([xlanb.trace(LOOP)], tmp_path / "page.html")
    with opened(context, tmp_path / "page.html") as stepper:
        stepper.page.emulate_media(reduced_motion="reduce")
        stepper.press("o")
        stepper.page.keyboard.type("grown")
        stepper.press("Enter")
        assert stepper.page.evaluate(PINNED) == ["grown"]
        stepper.choose("simplify-while-loops")
        (name,) = stepper.page.evaluate(PINNED)
        assert name != "grown"
        card = stepper.page.get_by_role("complementary")
        assert f"dot{name}" in card.inner_text().replace("\n", "")
        assert "Pinned as grown at" in card.inner_text()
        card.locator(".pinned-as button").click()
        assert stepper.page.evaluate(PINNED) == ["grown"]
        assert "Pinned as" not in card.inner_text()
