"""The kernels of XLA:GPU in a page from disk.

Launches, the table, a kernel's card and its code, by mouse and by keyboard.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb

sys.path.insert(0, str(Path(__file__).parents[1] / "explorer"))
sys.path.insert(0, str(Path(__file__).parent))
from gpu_dump import write_dump
from stepper import Stepper


@pytest.fixture
def stepper(context, tmp_path):
    write_dump(tmp_path / "dump")
    path = tmp_path / "gpu.html"
    xlanb.read_dump(tmp_path / "dump").main.trace.to_html(str(path))
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    stepper.button("Last pass").click()
    return stepper


def test_a_click_on_a_launch_or_a_row_shows_the_kernel(stepper):
    assert stepper.tab == "Timing"
    card = stepper.page.get_by_role("region", name="Kernel", exact=True)
    assert card.locator("h4").first.inner_text() == "loop_add_fusion_1"
    stepper.page.locator(".launches .value[data-op='wrapped_sine']").click()
    assert card.locator("h4").first.inner_text() == "wrapped_sine"
    assert "40 registers, no spills" in card.inner_text()
    row = stepper.page.locator("tr[data-kernel='loop_add_fusion_1']")
    row.click()
    assert row.get_attribute("aria-selected") == "true"
    assert stepper.page.locator(".card").inner_text().startswith("fusion")
    stepper.page.locator("tr[data-kernel='wrapped_sine']").get_by_role("button").press("Enter")
    assert card.locator("h4").first.inner_text() == "wrapped_sine"
    assert stepper.errors == []


def test_the_forms_of_code_and_their_lines(stepper):
    card = stepper.page.get_by_role("region", name="Kernel", exact=True)
    forms = card.get_by_role("tab")
    assert forms.all_inner_texts() == ["HLO", "LLVM IR", "LLVM IR, optimized", "PTX", "SASS"]
    forms.nth(4).click()
    card.locator(".column").nth(1).locator(".line").first.hover()
    assert card.locator(".column").nth(0).locator(".found").inner_text().split()[-1] == "ret;"
    forms.first.click()
    assert "add.2" in card.locator(".code").inner_text()
    assert stepper.errors == []


def test_the_table_is_sorted_by_its_headings(stepper):
    names = stepper.page.locator("tr[data-kernel] td:first-child")
    heading = stepper.page.locator(".kernellist th").first
    heading.get_by_role("button").click()
    assert names.all_inner_texts() == ["loop_add_fusion_1", "wrapped_sine"]
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").press("Enter")
    assert names.all_inner_texts() == ["wrapped_sine", "loop_add_fusion_1"]
    assert stepper.errors == []
