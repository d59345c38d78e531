"""axe-core on the step page, the report and the widget: no serious findings, light and dark.

Needs the package axe-playwright-python.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import xlanb
from xlanb.cli import main
from xlanb.explorer.trace import Trace
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
sys.path.insert(0, str(Path(__file__).parents[1] / "explorer"))
sys.path.insert(0, str(Path(__file__).parent))
from factory import make_trace
from gpu_dump import write_dump
from stepper import Stepper
from test_tpu_stages import write_llo

SPEC = importlib.util.find_spec("axe_playwright_python")
if SPEC is None or SPEC.origin is None:
    pytest.skip("axe-playwright-python is not installed: pip install 'xlanb[browser]'", allow_module_level=True)
AXE = (Path(SPEC.origin).parent / "axe.min.js").read_text(encoding="utf-8")

SERIOUS = """async (where) => {
  const found = await axe.run(where, { resultTypes: ["violations"] });
  const told = (v) => v.nodes.slice(0, 4).map((n) => `${v.id} (${v.impact}) at ${n.target.flat().join(" ")}: ${n.any.concat(n.all, n.none).map((c) => c.message).join("; ")} ${n.html.slice(0, 160)}`);
  return found.violations.filter((v) => ["serious", "critical"].includes(v.impact)).flatMap(told);
}"""
PANES = {
    "mark_for_compilation": "gw",
    "fusion": "gdtw",
    "buffer_assignment": "m",
    "assembly": "tc",
    "run": "i",
}


def serious(page, where=None) -> list[str]:
    if not page.evaluate("() => 'axe' in globalThis"):
        page.evaluate(AXE)
    page.wait_for_timeout(350)  # what glides has come to its place
    return page.evaluate(SERIOUS, where or {"include": ["body"]})


@pytest.fixture
def stepper(context, tmp_path):
    stepper = Stepper(context.new_page())
    path = tmp_path / "page.html"
    write_page([make_trace("one"), make_trace("two", fail=True)], path)
    stepper.open(path)
    return stepper


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_pane_of_the_step_page(stepper, theme):
    stepper.page.emulate_media(color_scheme=theme)
    found = []
    for stage, keys in PANES.items():
        stepper.page.locator(".pass .name").get_by_text(stage, exact=True).first.click()
        for key in keys:
            stepper.page.locator(".root").focus()
            stepper.press(key)
            found += [f"{stage}, {stepper.tab}: {x}" for x in serious(stepper.page)]
    assert found == []


def every_pane(stepper, label: str) -> list[str]:
    """What axe finds in each pane that has something to show at this stage."""
    found = []
    tabs = stepper.page.locator(".tabrow [role=tab]")
    for k in range(tabs.count()):
        if tabs.nth(k).is_enabled():
            tabs.nth(k).click()
            found += [f"{label}, {stepper.tab}: {x}" for x in serious(stepper.page)]
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_pane_with_an_op_pinned(stepper, theme):
    page = stepper.page
    page.emulate_media(color_scheme=theme)
    page.locator(".pass .name").get_by_text("assembly", exact=True).first.click()
    page.get_by_role("tab", name="Text", exact=True).click()
    page.locator(".line[data-op='fusion']").first.click()
    assert every_pane(stepper, "pinned") == []
    page.get_by_role("tab", name="Code", exact=True).click()
    page.get_by_label("HLO in full width").click()
    page.get_by_label("Wrap long lines").first.click()
    page.get_by_label("Find in HLO").fill("multiply")
    stepper.page.get_by_role("separator", name="Width of the passes").focus()
    assert serious(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_card_of_an_op_with_a_long_text(context, tmp_path, theme):
    parameters = "\n".join(f"  the_parameter_{k} = f32[4] parameter({k})" for k in range(24))
    operands = ", ".join(f"the_parameter_{k}" for k in range(24))
    text = (
        f"HloModule m\n\nENTRY e {{\n{parameters}\n  ROOT all = f32[96] concatenate({operands}), dimensions={{0}}\n}}\n"
    )
    path = tmp_path / "page.html"
    write_page([xlanb.trace(text)], path)
    stepper = Stepper(context.new_page())
    stepper.page.emulate_media(color_scheme=theme)
    stepper.open(path)
    stepper.press("t")
    stepper.page.locator(".line[data-op='all'] .no").first.click()
    assert stepper.page.locator(".card pre").evaluate("x => x.scrollHeight > x.clientHeight")
    assert serious(stepper.page) == []


def write_gpu(folder: Path) -> Trace:
    write_dump(folder)
    return xlanb.read_dump(folder).main.trace


def write_tpu(folder: Path) -> Trace:
    write_llo(folder)
    return xlanb.read_dump(folder)[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("write", [write_gpu, write_tpu])
def test_the_panes_of_other_targets(context, tmp_path, theme, write):
    path = tmp_path / "page.html"
    write_page([write(tmp_path / "dump")], path)
    stepper = Stepper(context.new_page())
    stepper.page.emulate_media(color_scheme=theme)
    stepper.open(path)
    rows = stepper.page.locator(".pass")
    found = []
    for k in range(max(0, rows.count() - 3), rows.count()):
        rows.nth(k).click()
        found += every_pane(stepper, f"stage {k}")
    assert found == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_cards_help_comparison_failure_and_filter(stepper, theme):
    page = stepper.page
    page.emulate_media(color_scheme=theme)
    page.locator(".pass .name").get_by_text("fusion", exact=True).first.click()
    page.locator(".root").focus()
    stepper.press("b")  # the ops that the fusion took in
    page.locator(".node[data-op='subtract']").click()
    found = serious(page)
    page.locator(".node[data-op='reduce']").click(modifiers=["Shift"])
    found += serious(page)
    page.locator(".root").focus()
    stepper.press("?")
    found += serious(page)
    stepper.press("?", "Escape", "/")
    page.keyboard.type("no such pass")
    found += serious(page)
    page.get_by_label("Filter").fill("")
    page.get_by_role("tab", name="Compare", exact=True).click()
    found += serious(page)
    page.get_by_role("tab", name="two", exact=True).click()
    page.locator(".root").focus()
    stepper.press("End")
    found += serious(page)
    assert found == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report(context, tmp_path, theme):
    program = tmp_path / "program.hlo"
    program.write_text(
        "HloModule m\n\nENTRY main {\n  x = f32[8]{0} parameter(0)\n  one = f32[] constant(1)\n  ones = f32[8]{0} broadcast(one), dimensions={}\n  y = f32[8]{0} multiply(x, ones)\n  ROOT z = f32[8]{0} tanh(y)\n}\n"
    )
    path = tmp_path / "report.html"
    assert main(["report", str(program), "-o", str(path)]) == 0
    page = context.new_page()
    page.emulate_media(color_scheme=theme)
    page.goto(path.as_uri())
    page.locator(".root").first.wait_for()
    assert serious(page) == []


PROGRAM = '''
import xlanb

widget = xlanb.explore(xlanb.Compilation("""HloModule tiny

ENTRY %main (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %sum = f32[8]{0} add(%x, %y)
  ROOT %result = f32[8]{0} tanh(%sum)
}
"""))
for _ in range(8):
    widget.step()
widget
'''
THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_the_widget_in_jupyterlab(lab, theme):
    lab.open(lab.write("axe.ipynb", PROGRAM))
    lab.page.evaluate(THEME, theme)
    lab.run_all()
    root = lab.page.locator(".xlanb-step .root").first
    root.wait_for()
    lab.page.locator(f".root[data-theme={'dark' if 'Dark' in theme else 'light'}]").first.wait_for()
    found = []
    for key in "gtdw":
        root.focus()
        lab.page.keyboard.press(key)
        found += serious(lab.page, {"include": [[".xlanb-step"]]})
    lab.page.keyboard.press("e")
    lab.page.get_by_role("button", name="Measure", exact=True).click()
    lab.page.locator(".xlanb-step .root:not(.waiting)").wait_for()
    found += serious(lab.page, {"include": [[".xlanb-step"]]})
    lab.page.get_by_role("button", name="Reorder here", exact=True).click()
    lab.page.locator(".orderrow").first.wait_for()
    found += serious(lab.page, {"include": [[".xlanb-step"]]})
    lab.screenshot("order")
    lab.page.evaluate(THEME, "JupyterLab Light")
    assert found == []
