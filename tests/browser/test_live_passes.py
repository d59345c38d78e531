"""A live view in JupyterLab: coming passes, run to one, the last, play, a fusion, links, edited
cells.
"""

from __future__ import annotations

PROGRAM = '''
import ipywidgets
import xlanb
TEXT = """HloModule tiny

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  t = f32[64,64] tanh(x)
  a = f32[64,64] add(t, y)
  b = f32[64,64] multiply(t, y)
  n = f32[64,64] negate(b)
  s = f32[64,64] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[64,64], f32[64,64], f32[64,64]) tuple(a, s, n)
}
"""
first, second = xlanb.explore(TEXT), xlanb.explore(TEXT)
'''
EDIT = """() => {
  const cell = window.notebookPanel.content.widgets[1];
  cell.model.sharedModel.setSource(cell.model.sharedModel.getSource() + "\\n# edited");
}"""
MOVE = """() => window.jupyterapp.commands.execute("notebook:run-cell")"""


def live(page, stages):
    """Wait until the view has so many stages."""
    page.wait_for_function(
        "n => Number(document.querySelector('.xlanb-step').shadowRoot.querySelector('.root').dataset.stages) >= n",
        arg=stages,
    )


def test_a_click_runs_to_a_pass_and_last_runs_all(lab):
    lab.open(lab.write("passes.ipynb", PROGRAM, "view = xlanb.explore(TEXT)\nview"))
    lab.run_all()
    page = lab.page
    root = page.locator(".xlanb-step .root").first
    coming = root.locator(".pass.coming")
    assert coming.count() > 60
    assert root.locator(".pass:not(.coming)").count() == 1
    fusion = root.get_by_role("treeitem", name="fusion, not run yet", exact=True)
    fusion.scroll_into_view_if_needed()
    fusion.click()
    live(page, 60)
    root.locator(".pass.current .name").get_by_text("fusion", exact=True).wait_for()
    assert coming.first.locator(".name").inner_text() == "sibling-fusion"
    lab.screenshot("run-to-fusion")
    root.get_by_role("button", name="Last pass", exact=True).click()
    root.locator(".pass.current .name").get_by_text("assembly", exact=True).wait_for()
    assert coming.count() == 0
    assert root.locator(".badge").inner_text() == "complete"
    page.evaluate(EDIT)
    root.locator(".badge.stale").wait_for()
    assert "edited" in root.locator(".badge").get_attribute("title")


def test_play_compiles_on_and_pauses(lab):
    lab.open(lab.write("play.ipynb", PROGRAM, "first"))
    lab.run_all()
    root = lab.page.locator(".xlanb-step .root").first
    root.get_by_role("button", name="Play", exact=True).click()
    live(lab.page, 4)
    root.get_by_role("button", name="Play", exact=True).click()
    assert root.get_by_role("button", name="Play", exact=True).get_attribute("aria-pressed") == "false"
    assert int(root.get_attribute("data-stages")) < 60


def test_widgets_that_are_linked_move_together(lab):
    linked = "ipywidgets.jslink((first, 'stage'), (second, 'stage'))\nfor w in (first, second):\n    w.bench.run()\n    w.refresh()\nfirst"
    lab.open(lab.write("linked.ipynb", PROGRAM, linked, "second"))
    lab.run_all()
    roots = lab.page.locator(".xlanb-step .root")
    roots.nth(1).wait_for()
    live(lab.page, 60)
    roots.first.focus()
    lab.page.keyboard.press("Home")
    lab.page.locator(".xlanb-step .root[data-step='0']").nth(1).wait_for()
    lab.page.keyboard.press("ArrowDown")
    lab.page.locator(".xlanb-step .root[data-step='1']").nth(1).wait_for()


def test_a_key_that_is_quicker_than_the_kernel_is_not_lost(lab):
    busy = "import time\nfirst.bench.run()\nfirst.refresh()\ndisplay(first)\ntime.sleep(3)"
    lab.open(lab.write("quick.ipynb", PROGRAM, busy))
    lab.start_all()
    root = lab.page.locator(".xlanb-step .root").first
    root.focus()
    lab.page.keyboard.press("ArrowDown")
    assert root.get_attribute("data-step") == "0"
    lab.finish()
    lab.page.locator(".xlanb-step .root[data-step='1']").wait_for()


def test_a_refused_fusion_is_tried_where_it_is_asked_about(lab):
    lab.open(
        lab.write(
            "try.ipynb",
            PROGRAM,
            "first.bench.run()\nfirst.refresh()\nfirst.stage = 'fusion'\nfirst.pinned = 't'\nfirst",
        )
    )
    lab.run_all()
    root = lab.page.locator(".xlanb-step .root").first
    root.locator(".pass.current .name").get_by_text("fusion", exact=True).wait_for()
    root.locator(".card .opname").get_by_text("t", exact=True).wait_for()
    root.get_by_role("tab", name="Why").click()
    root.locator(".why [data-op='a']").first.click(modifiers=["Shift"])
    offer = root.locator(".offer")
    offer.get_by_text("t has 3 users: duplicating it recomputes about").wait_for()
    lab.screenshot("offered")
    offer.get_by_role("button", name="Try").click()
    root.locator(".compared .note").get_by_text("t fused into a").wait_for()
    assert root.locator(".traces [role=tab]").count() == 2
    assert root.locator(".pass.current .name").inner_text() == "fusion", "the stage that did it"
    unknown = root.locator(".branches tr").filter(has_text="result")
    assert "~" not in unknown.inner_text(), "a result that is not known differs from nothing"
    status = root.get_by_role("status").bounding_box()
    assert status["width"] > 300, "what the stage did is readable beside the buttons of a kernel"
    lab.screenshot("tried")
