"""The first tutorial for a newcomer: Run All, then every stage by button and key, up to the
cache.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

MACHINE_CODE = re.compile(r"^\s*\d*\s*(\.text|pushq|mov[ql]|v?mov[au]ps|retq|leaq)\b")
"""A line of assembly; only the lines in sight are on the page."""
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
STATIONS = [
    "mark_for_compilation",
    "encapsulate_subgraphs",
    "build_xla_ops",
    "tf2xla",
    "fusion",
    "buffer_assignment",
    "llvm_ir",
    "assembly",
    "execution",
]


@pytest.fixture
def tutorial(lab):
    name = next(NOTEBOOKS.glob("01-*.ipynb")).name
    folder = lab.server.root / "tutorial"
    shutil.copytree(NOTEBOOKS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    lab.open(f"tutorial/{name}")
    lab.run_all(by_menu=True)
    root = lab.page.locator(".xlanb-step .root").first
    root.wait_for()
    root.scroll_into_view_if_needed()
    return lab, root


def status(root) -> str:
    """Return the status line; it is empty for a moment when JupyterLab re-creates the view."""
    for _ in range(100):
        text = root.get_by_role("status").inner_text()
        if "/" in text:
            return text
        root.page.wait_for_timeout(50)
    pytest.fail("the status line stays empty")


def test_every_stage_by_button_and_by_key(tutorial):
    lab, root = tutorial
    stages = int(root.get_attribute("data-stages"))
    following = root.get_by_role("button", name="Next pass", exact=True)
    seen = [status(root)]
    for step in range(1, stages):
        following.click()
        lab.page.locator(f".xlanb-step .root[data-step='{step}']").first.wait_for()
        seen.append(status(root))
        if "assembly" in seen[-1]:
            assert root.get_by_text(MACHINE_CODE).first.is_visible()
            lab.screenshot("assembly")
        elif "fusion" in seen[-1]:
            lab.screenshot("fusion")
    names = " ".join(seen)
    assert [s for s in STATIONS if s not in names] == []
    assert "XlaCompilationCache" in seen[-1]

    root.focus()
    for step in range(stages - 2, -1, -1):
        lab.page.keyboard.press("ArrowUp")
        lab.page.locator(f".xlanb-step .root[data-step='{step}']").first.wait_for()
    assert status(root) == seen[0]
    lab.page.keyboard.press("n")
    assert root.get_attribute("data-step") != "0"


def test_the_panes_show_graph_text_difference_and_reason(tutorial):
    lab, root = tutorial
    page = lab.page
    root.focus()
    root.get_by_text("fusion", exact=True).first.click()
    for key, pane in (("g", "Graph"), ("t", "Text"), ("d", "Diff")):
        page.keyboard.press(key)
        root.locator(f"[role=tab][aria-selected=true]:has-text('{pane}')").wait_for()
        lab.screenshot(pane.lower())
    root.get_by_role("tab", name="Why").click()
    root.get_by_role("region", name="Why").wait_for()
    lab.screenshot("why")
