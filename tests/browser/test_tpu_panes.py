"""Readers' actions on an XLA:TPU dump: from the schedule to a program, its bundles, and memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "explorer"))
sys.path.insert(0, str(Path(__file__).parent))
from stepper import Stepper
from test_tpu_stages import BUNDLES, TARGET, USE, write_llo


@pytest.fixture
def stepper(context, tmp_path):
    context.set_offline(True)
    dump = tmp_path / "dump"
    write_llo(dump)
    (program,) = dump.glob("*neg.1-*-final_bundles.txt")
    lines = [f"{f'{k:#x}':>6}   :  {{ %v{k}_v{k} = vadd.f32 1.0, %v0_v0 }}" for k in range(3, 400)]
    program.write_text(BUNDLES + "\n".join(lines) + "\n")
    (used,) = dump.glob("*neg.1-*-final_hlo-static*")
    used.write_text(USE + "0 1 0\n" * 397)
    (dump / "module_0000.jit_f.target_arguments.txt").write_text(TARGET)
    stepper = Stepper(context.new_page())
    path = tmp_path / "page.html"
    write_page([xlanb.read_dump(dump)[0]], path)
    stepper.open(path)
    stepper.page.set_default_timeout(30_000)
    yield stepper
    assert stepper.errors == []
    assert stepper.requests == []


def test_a_double_click_goes_from_the_call_to_the_program(stepper):
    stepper.choose("TLP")
    stepper.page.locator(".bundles .row[data-op='neg.2']").dblclick()
    assert stepper.page.locator(".bundles .headline").inner_text().startswith("neg.1: 400 bundles")
    assert stepper.page.locator(".bundles").get_by_text("One program for neg.1, neg.2.").count() == 1


def test_a_click_on_the_use_of_units_goes_to_the_bundle(stepper):
    stepper.choose("neg.1")
    assert stepper.page.locator(".bundles .row").count() < 250  # those further down are not built yet
    box = stepper.page.locator(".bundles .units").bounding_box()
    stepper.page.locator(".bundles .units").click(position={"x": box["width"] - 2, "y": 8})
    found = stepper.page.locator(".bundles .row.found")
    assert found.locator(".address").inner_text() in ("0x18d", "0x18e", "0x18f")
    assert found.locator(".heat").get_attribute("aria-label") == "VALU 1 of 4"


def test_each_unit_stands_beside_its_own_lane(stepper):
    stepper.choose("neg.1")
    names, lanes = (stepper.page.locator(f".bundles {css}") for css in (".names span:not(.loops)", ".units .gridline"))
    names.first.wait_for(state="attached")
    assert names.count() == lanes.count() > 0
    for k in range(names.count()):
        name, lane = names.nth(k).bounding_box(), lanes.nth(k).bounding_box()
        assert abs(name["y"] + name["height"] - lane["y"]) <= 2


def test_a_bundle_is_found_by_its_instruction(stepper):
    stepper.choose("neg.1")
    stepper.page.get_by_label("Find in bundles").fill("v380 = vadd")
    assert stepper.page.locator(".bundles .count").inner_text() == "1 of 1"
    assert stepper.page.locator(".bundles .row.found .address").inner_text() == "0x17c"


def test_the_schedule_and_the_memory_have_panes(stepper):
    stepper.choose("schedule")
    assert "copy-start" in stepper.page.locator(".timing table").inner_text()
    assert stepper.page.locator(".chart.schedule .code").count() == 2
    stepper.choose("memory_space_assignment")
    stepper.page.locator(".memory .chart .value").first.wait_for(state="attached")
    assert stepper.page.locator(".memory .chart .value").count() == 2
    assert "VMEM 1–2" in stepper.page.locator(".memory table").inner_text()
