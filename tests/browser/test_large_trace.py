"""A trace that is too large to convert before its view opens: the rest follows while it is open."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "view")]
from programs import TINY
from unpacking import payload_of

PROGRAM = f'''
import xlanb
import xlanb.notebook.widget

xlanb.notebook.widget._MOST_OPS = 1
TEXT = """{TINY}"""
widget = xlanb.explore(xlanb.trace(TEXT))
kinds = [a["k"] for a in widget.payload["artifacts"]]
assert "module" in kinds and "later" in kinds, kinds
widget
'''
NOTHING_PUT_OFF = """() => {
  const pane = document.querySelector(".xlanb-step").shadowRoot.querySelector(".pane");
  return !pane.innerText.includes("open this stage alone") && !pane.innerText.includes("Reading");
}"""


def kept(lab):
    """The kinds of artifacts in the page that the notebook keeps."""
    pages = [out["data"]["text/html"] for out in lab.outputs() if "text/html" in out.get("data", {})]
    return [a["k"] for a in payload_of("".join(pages[-1]))["artifacts"]]


def test_the_rest_follows_and_each_stage_can_be_seen(lab):
    lab.open(lab.write("large.ipynb", PROGRAM))
    lab.run_all()
    page = lab.page
    root = page.locator(".xlanb-step .root").first
    root.wait_for()
    stages = int(root.get_attribute("data-stages"))
    root.focus()
    for step in range(1, stages):
        page.keyboard.press("ArrowDown")
        page.locator(f".xlanb-step .root[data-step='{step}']").wait_for()
        page.wait_for_function(NOTHING_PUT_OFF)
    lab.screenshot("large")
    until = time.monotonic() + 30
    while "later" in kept(lab):
        assert time.monotonic() < until, "the saved page never got the rest"
        page.wait_for_timeout(200)
