"""The Code and Text panes: all lines; find, copy, follow, resize; separators and full screen."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from xlanb.cpu.records import CodeRecord
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import parse
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
sys.path.insert(0, str(Path(__file__).parent))
from factory import make_trace
from stepper import Stepper, opened

HLO = """HloModule m

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %e = f32[8]{0} exponential(%p), metadata={op_name="jit(f)/exp"}
  ROOT %n = f32[8]{0} negate(%e)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %wave = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %last = f32[8]{0} add(%wave, %wave)
}
"""
LLVM = "define void @helper(ptr %0) {\nentry:\n  ret void\n}\n\ndefine void @wave(ptr %0) {\nentry:\n  call void @helper(ptr %0)\n  br label %done\ndone:\n  ret void\n}\n"
LINES = 100_000


def assembly() -> str:
    body = "\n".join(f"\taddq\t${k}, %rax" for k in range(LINES))
    return f"wave:\n\tcallq\thelper\n{body}\n\tretq\nhelper:\n\tretq\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Write a page with assembly of a hundred thousand lines."""
    trace = Trace("long")
    asm = CodeRecord("asm", assembly(), ("wave", "helper"), {"wave": "wave"})
    llvm = CodeRecord("llvm", LLVM, ("helper", "wave"), {"wave": "wave"})
    kinds = (("tf2xla", parse(HLO).record()), ("llvm_ir", llvm), ("assembly", asm))
    for k, (kind, record) in enumerate(kinds):
        trace.stages.append(Stage(kind, kind, None, record, index=k))
    path = tmp_path_factory.mktemp("code") / "page.html"
    write_page([trace], path)
    return path


@pytest.fixture
def stepper(context, page):
    with opened(context, page) as stepper:
        yield stepper


def column(stepper, title):
    return stepper.page.locator(f".column[data-column='{title}']")


def in_sight(row) -> bool:
    """Whether a line is in the visible part of its list."""
    return row.evaluate(
        "(r) => { const f = r.closest('.code').getBoundingClientRect(), b = r.getBoundingClientRect(); return b.top >= f.top - 1 && b.bottom <= f.bottom + 1; }"
    )


def test_all_lines_are_there_and_only_those_in_sight_are_in_the_page(stepper):
    stepper.press("End", "c")
    pane = column(stepper, "Assembly")
    assert pane.locator(".note").count() == 0
    pane.locator(".code").evaluate("c => { c.scrollTop = c.scrollHeight; }")
    pane.locator(".line").get_by_text("helper:", exact=True).wait_for()
    assert pane.locator(".line .no").last.inner_text() == str(LINES + 5)
    for k in range(20):
        pane.locator(".code").evaluate("(c, k) => { c.scrollTop = c.scrollHeight * k / 20; }", k)
        stepper.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert pane.locator(".line").count() < 2000


def test_find_goes_anywhere_in_a_long_text(stepper):
    stepper.press("End", "c")
    pane = column(stepper, "Assembly")
    pane.get_by_label("Find in Assembly").fill("$98765,")
    assert pane.locator(".count").inner_text() == "1 of 1"
    found = pane.locator(".line.found")
    assert "$98765," in found.inner_text()
    assert in_sight(found)


def test_ctrl_f_is_the_panes_own(stepper):
    stepper.press("t", "Control+f")
    stepper.page.keyboard.type("negate(")
    assert "negate(" in stepper.page.locator(".line.found .tx").inner_text()
    assert re.fullmatch(r"1 of \d", stepper.page.locator(".count").inner_text())


def test_all_of_a_text_is_copied_also_what_is_not_in_the_page(stepper):
    stepper.press("End", "c")
    body = column(stepper, "Assembly").locator(".code")
    body.focus()
    stepper.press("Control+a")
    copied = body.evaluate(
        """(c) => {
          const data = new DataTransfer();
          c.dispatchEvent(new ClipboardEvent("copy", { clipboardData: data, bubbles: true, composed: true }));
          return data.getData("text/plain");
        }"""
    )
    assert copied.split("\n")[:2] == ["wave:", "\tcallq\thelper"]
    assert len(copied.split("\n")) == LINES + 5


def test_code_opens_on_the_op_that_is_pinned_elsewhere(stepper):
    stepper.press("Home", "g")
    stepper.page.locator(".node[data-op='e']").click()
    stepper.page.locator(".root").focus()
    stepper.press("c")
    lit = column(stepper, "LLVM IR").locator(".line.lit").first
    assert lit.get_attribute("data-op") == "wave", "the fusion that runs it"
    assert in_sight(lit)
    assert "e runs in wave" in stepper.status
    assert in_sight(column(stepper, "HLO").locator(".line[data-op='e'].pinned"))


def test_a_call_leads_to_what_is_called(stepper):
    stepper.press("End", "c")
    column(stepper, "Assembly").locator(".tk-jump").get_by_text("helper", exact=True).click()
    found = column(stepper, "Assembly").locator(".line.found")
    assert found.locator(".tx").inner_text() == "helper:"
    assert in_sight(found)
    column(stepper, "LLVM IR").locator(".tk-jump").get_by_text("@helper", exact=True).click()
    assert column(stepper, "LLVM IR").locator(".line.found .tx").inner_text().startswith("define void @helper")
    column(stepper, "LLVM IR").locator(".tk-name").get_by_text("%done", exact=True).click()
    assert column(stepper, "LLVM IR").locator(".line.found .tx").inner_text() == "done:"
    column(stepper, "HLO").locator(".tk-jump").get_by_text("%fused", exact=True).click()
    assert column(stepper, "HLO").locator(".line.found .tx").inner_text().startswith("%fused")


def test_columns_are_resized_wrapped_and_shown_alone(stepper):
    stepper.press("End", "c")

    def widths():
        return stepper.page.locator(".column").evaluate_all("all => all.map(x => x.offsetWidth)")

    first = widths()
    stepper.page.get_by_role("separator", name="Width of the columns").first.focus()
    stepper.press("ArrowRight", "ArrowRight")
    assert widths()[0] == first[0] + 48
    assert widths()[2] == first[2]
    stepper.press("Enter")
    assert widths() == first
    hlo = column(stepper, "HLO")
    hlo.get_by_label("Wrap long lines").click()
    assert hlo.locator(".code").evaluate("c => c.scrollWidth <= c.clientWidth")
    hlo.get_by_label("HLO in full width").click()
    assert stepper.page.locator(".column:visible h4").all_inner_texts() == ["HLO"]
    stepper.page.locator(".root").focus()
    stepper.press("g", "c")
    assert stepper.page.locator(".column:visible").count() == 1, "it is remembered"
    hlo.get_by_label("HLO in full width").click()
    assert stepper.page.locator(".column:visible").count() == 3


def test_the_text_pane_leads_to_definitions_and_users(stepper):
    stepper.press("t")
    stepper.page.locator(".line[data-op='last'] .tk-ref[data-op='wave']").first.click()
    row = stepper.page.locator(".line[data-op='wave']").first
    assert in_sight(row)
    assert "pinned" in row.get_attribute("class")
    stepper.page.get_by_role("button", name="Next user of the pinned op").click()
    assert stepper.page.locator(".line.found").get_attribute("data-op") == "last"
    assert stepper.page.get_by_role("button", name="Next user of the pinned op").inner_text() == "1 user"


def test_the_frame_is_resized_by_mouse_and_keys(stepper):
    page = stepper.page

    def width(name):
        return page.locator(name).evaluate("x => x.offsetWidth")

    first = width(".list")
    bar = page.get_by_role("separator", name="Width of the passes")
    box = bar.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 64, box["y"] + 50)
    page.mouse.up()
    assert width(".list") == first + 60
    assert int(bar.get_attribute("aria-valuenow")) == first + 60
    card = width(".card")
    page.get_by_role("separator", name="Width of the pane").focus()
    stepper.press("ArrowLeft")
    assert width(".card") == card + 24
    bar.dblclick()
    assert width(".list") == first


def test_the_view_takes_the_whole_screen(stepper):
    stepper.press("z")
    stepper.page.locator(".root.whole").wait_for()
    height = stepper.page.locator(".root").evaluate("x => [x.offsetWidth, x.offsetHeight, innerWidth, innerHeight]")
    assert height[:2] == height[2:]
    assert stepper.button("Full screen").get_attribute("aria-pressed") == "true"
    stepper.press("z")
    stepper.page.locator(".root:not(.whole)").wait_for()


def test_a_small_trace_has_its_code_whole(context, tmp_path):
    path = tmp_path / "page.html"
    write_page([make_trace()], path)
    stepper = Stepper(context.new_page())
    stepper.open(path)
    stepper.press("End", "c")
    assert stepper.page.locator(".column h4").all_inner_texts() == ["HLO", "LLVM IR", "Assembly"]
    assert stepper.page.locator(".column .note").count() == 0
