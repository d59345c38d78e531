"""The live step widget in JupyterLab and Notebook 7.

Run, edit, fork, disable and move passes, measure, compare, save as a page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from programs import TINY
from stepper import Stepper

PROGRAM = f'''
import xlanb
TEXT = """{TINY}"""
compilation = xlanb.Compilation(TEXT)
compilation.finish()
widget = xlanb.explore(compilation)
widget
'''
ROOT = ".xlanb-step .root"


@pytest.fixture(params=["lab", "notebook7"])
def live(request):
    lab = request.getfixturevalue(request.param)
    lab.open(lab.write("controls.ipynb", PROGRAM))
    lab.run_all()
    lab.page.set_default_timeout(15_000)
    lab.page.locator(ROOT).wait_for()
    lab.page.locator(ROOT).focus()
    return lab


def press(lab, name):
    lab.page.get_by_role("button", name=name, exact=True).first.click()


def settled(lab):
    lab.page.locator(f"{ROOT}:not(.waiting)").wait_for()


def choose(lab, name):
    lab.page.locator(".pass .name").get_by_text(name, exact=True).first.click()


def text_of(lab):
    return "\n".join(lab.page.locator(".textpane .line .tx").all_inner_texts())


def test_run_shows_a_time_and_measuring_an_error_per_pass(live):
    press(live, "Run")
    settled(live)
    live.page.get_by_role("tab", name="Timing", exact=True).click()
    assert "All stages of the compilation" in live.page.get_by_role("region", name="Timing").inner_text()
    live.page.locator(ROOT).focus()
    live.page.keyboard.press("e")
    assert "Not measured" in live.page.get_by_role("region", name="Numerics").inner_text()
    press(live, "Measure")
    settled(live)
    pane = live.page.get_by_role("region", name="Numerics")
    assert "largest error of any pass" in pane.inner_text()
    assert "algsimp" in pane.inner_text()
    assert live.page.locator(".sparkbox .label").all_inner_texts() == ["pass ms", "error"]
    live.screenshot("numerics")


def test_an_edited_program_is_compiled_on_as_a_branch_and_a_mistake_is_shown_in_its_place(live):
    choose(live, "algsimp")
    press(live, "Edit here")
    area = live.page.get_by_label("Program text, editable")
    text = area.input_value()
    assert "tanh(" in text
    area.fill(text.replace("tanh(", "tahn("))  # codespell:ignore
    press(live, "Continue from here")
    fault = live.page.get_by_role("alert").inner_text()
    assert re.search(r"Line \d+, column \d+", fault)
    assert "tahn" in fault  # codespell:ignore
    live.screenshot("fault")
    area.fill(text.replace("tanh(", "cosine("))
    press(live, "Continue from here")
    settled(live)
    branches = live.page.get_by_role("tablist", name="Compilations").get_by_role("tab")
    assert branches.count() == 2
    assert branches.nth(1).get_attribute("aria-selected") == "true"
    live.page.locator(ROOT).focus()
    live.page.keyboard.press("t")
    assert "cosine(" in text_of(live)
    live.page.get_by_role("tab", name="Compare", exact=True).click()
    table = live.page.get_by_role("region", name="Compare").inner_text()
    assert "ops at the end" in table
    live.screenshot("compare")


def test_a_pass_is_switched_off_and_the_fork_does_without_it(live):
    choose(live, "before_optimizations")
    live.page.get_by_role("checkbox", name="algsimp is on", exact=True).first.uncheck()
    live.page.locator(".pass.off .name").get_by_text("algsimp", exact=True).first.wait_for()
    settled(live)
    press(live, "Fork here")
    settled(live)
    assert live.page.get_by_role("tablist", name="Compilations").get_by_role("tab").count() == 2
    names = live.page.locator(".pass .name").all_inner_texts()
    assert "dce" in names
    assert "algsimp" not in names
    live.screenshot("forked")


def test_passes_are_moved_and_what_is_left_is_compiled_again(live):
    choose(live, "before_optimizations")
    press(live, "Reorder here")
    rows = live.page.locator(".orderrow")
    rows.first.wait_for()
    names = [n.split(" until")[0] for n in live.page.locator(".orderrow .name").all_inner_texts()]
    assert "fusion" in names
    rows.first.focus()
    live.page.keyboard.press("Alt+ArrowDown")
    again = [n.split(" until")[0] for n in live.page.locator(".orderrow .name").all_inner_texts()]
    assert again != names
    assert sorted(again) == sorted(names)
    live.page.keyboard.press("Alt+ArrowUp")
    rows.nth(2).drag_to(rows.first)
    moved = [n.split(" until")[0] for n in live.page.locator(".orderrow .name").all_inner_texts()]
    assert moved[0] == names[2]
    live.screenshot("order")
    press(live, "Compile again from here")
    settled(live)
    tabs = live.page.get_by_role("tablist", name="Compilations").get_by_role("tab")
    assert tabs.count() == 2
    assert "other order" in tabs.nth(1).inner_text()
    live.page.locator(".xlanb-step header .badge.static").wait_for()


def test_step_diff_why_hover_and_a_page_that_opens_with_no_network(live, tmp_path):
    page = live.page
    choose(live, "algsimp")
    root = page.locator(ROOT)
    root.focus()
    page.keyboard.press("d")
    assert page.locator(".cell.removed").count() > 0
    page.keyboard.press("w")
    assert "=>" in page.get_by_role("region", name="Why").inner_text()
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    assert "rewrite 1/" in page.get_by_role("status").filter(has_text="/").inner_text()
    live.screenshot("rewrite")
    page.keyboard.press("Home")
    press(live, "Next pass")
    page.locator(f"{ROOT}[data-step='1']").wait_for()
    page.keyboard.press("ArrowDown")
    page.locator(f"{ROOT}[data-step='2']").wait_for()
    page.keyboard.press("c")
    page.locator(".column").nth(2).locator(".line[data-op]").first.hover()
    assert page.locator(".column").filter(has=page.locator(".line.lit")).count() >= 2
    with page.expect_download() as download:
        press(live, "Export")
    path = tmp_path / "page.html"
    download.value.save_as(path)
    with page.context.browser.new_context(offline=True) as alone:
        stepper = Stepper(alone.new_page())
        stepper.open(path)
        stepper.press("End", "t")
        assert stepper.step > 5
        assert stepper.errors == []
        assert stepper.requests == []
