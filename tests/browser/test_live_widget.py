"""The step widget in JupyterLab: Next compiles, in the kernel, one stage at a time."""

from __future__ import annotations

PROGRAM = '''
import xlanb
TEXT = """HloModule tiny

ENTRY %main (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %one = f32[] constant(1)
  %ones = f32[8]{0} broadcast(%one), dimensions={}
  %product = f32[8]{0} multiply(%x, %ones)
  ROOT %sum = f32[8]{0} add(%product, %y)
}
"""
compilation = xlanb.Compilation(TEXT)
'''


def test_next_runs_one_more_stage_of_the_compiler(lab):
    lab.open(
        lab.write(
            "live.ipynb",
            PROGRAM,
            "from xlanb.notebook.explore import explore\nexplore(compilation)",
            "len(compilation.trace)",
        )
    )
    lab.run_all()
    page = lab.page
    root = page.locator(".xlanb-step .root").first
    root.wait_for()
    assert root.get_attribute("data-stages") == "1"
    page.get_by_role("button", name="Next pass", exact=True).click()
    page.locator(".xlanb-step .root[data-stages='2'][data-step='1']").wait_for()
    root.focus()
    page.keyboard.press("ArrowUp")
    page.locator(".xlanb-step .root[data-step='0']").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.locator(".xlanb-step .root[data-stages='3'][data-step='2']").wait_for()
    lab.screenshot("stepped")
    for stages in range(4, 200):
        if page.locator(".xlanb-step header .badge.static").count():
            break
        page.keyboard.press("ArrowDown")
        page.wait_for_function(
            "n => { const r = document.querySelector('.xlanb-step').shadowRoot; return r.querySelector('.root').dataset.stages >= n || r.querySelector('header .badge.static'); }",
            arg=stages,
        )
    assert "assembly" in page.get_by_role("status").filter(has_text="/").inner_text()
    assert page.get_by_text("retq").first.is_visible()
    lab.screenshot("assembly")
    # a key of JupyterLab's own must not reach it: 'b' would insert a cell
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    page.keyboard.press("b")
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
