"""A saved notebook with a step widget: as nbconvert's page, and reopened without its kernel.

It needs no network, and nothing is empty.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from programs import TINY
from stepper import Stepper

PROGRAM = f'''
import xlanb
widget = xlanb.explore(xlanb.Compilation("""{TINY}"""))
widget
'''
STEPS = "for _ in range(200):\n    widget.step()"
ROOT = ".xlanb-step .root"
WHOLE = 60  # so many stages at least


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook as `jupyter nbconvert --execute` leaves it."""
    nbclient = pytest.importorskip("nbclient")
    cells = [nbformat.v4.new_code_cell(source) for source in (PROGRAM, STEPS)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = tmp_path_factory.mktemp("executed")
    # a loop of its own: that of playwright is running
    worker = nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(worker.async_execute())).result(180)
    return notebook


def test_what_is_kept_is_small_and_says_it_in_words_too(executed):
    kept = [out["data"] for cell in executed.cells for out in cell.outputs if "data" in out]
    [widget, page] = kept
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert len(widget["text/plain"]) < 200
    html = page["text/html"]
    assert len(html) < 205_000  # most of it is the step view's own program, packed
    assert len(re.sub(r"<script[^>]* data-code=.*?</script>", "", html, flags=re.DOTALL)) < 20_000
    assert "<td>algsimp</td>" in html
    assert "The program after" in html
    assert "tanh(" in html
    state = executed.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    payloads = [x["state"]["payload"] for x in state.values() if "payload" in x.get("state", {})]
    assert [len(p["traces"][0]["stages"]) > WHOLE for p in payloads] == [True]
    json.dumps(kept)


@pytest.mark.parametrize("with_state", [True, False])
def test_nbconvert_makes_a_page_that_steps_with_the_network_off(executed, context, tmp_path, with_state):
    exporter = pytest.importorskip("nbconvert").HTMLExporter()
    notebook = nbformat.reads(nbformat.writes(executed), as_version=4)
    if not with_state:
        del notebook.metadata["widgets"]
    path = tmp_path / "page.html"
    path.write_text(exporter.from_notebook_node(notebook)[0], encoding="utf-8")
    context.set_offline(True)
    stepper = Stepper(context.new_page())
    # nbconvert's own page asks for its libraries elsewhere: with no network it fails at once
    stepper.page.route(
        "**/*", lambda r: r.continue_() if r.request.url.startswith(("file:", "data:", "blob:")) else r.abort()
    )
    stepper.open(path)
    assert int(stepper.page.locator(ROOT).get_attribute("data-stages")) > WHOLE
    stepper.press("End")
    assert stepper.step > WHOLE - 1
    assert stepper.page.locator(".root:visible").count() == 1
    assert not stepper.page.locator(".xlanb-fallback").is_visible()


def test_a_page_without_the_name_of_a_live_view_waits_for_none(executed, context, tmp_path):
    [html] = [o["data"]["text/html"] for c in executed.cells for o in c.outputs if "text/html" in o.get("data", {})]
    path = tmp_path / "page.html"
    hidden = []
    for markup in (html, re.sub(r' data-ident="[^"]*"', "", html, count=1)):
        path.write_text(f"<!doctype html><title>t</title><body>{markup}</body>", encoding="utf-8")
        page = context.new_page()
        page.goto(path.as_uri())
        hidden.append(page.locator(".xlanb-static").first.is_hidden())
    assert hidden == [True, False]


def test_without_scripts_there_are_a_picture_ten_lines_and_a_folded_table(executed, chromium, tmp_path):
    [html] = [o["data"]["text/html"] for c in executed.cells for o in c.outputs if "text/html" in o.get("data", {})]
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>t</title><body>{html}</body>", encoding="utf-8")
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        assert page.locator("img").evaluate("i => i.naturalWidth > 100 && i.naturalWidth < 900")
        assert len(page.locator(".xlanb-fallback > pre").inner_text().splitlines()) <= 10
        assert page.locator("td").first.is_hidden()
        page.locator("summary").first.click()
        assert page.locator("td").get_by_text("algsimp", exact=True).first.is_visible()
        page.locator("summary").nth(1).click()
        assert "tanh(" in page.locator("details pre").first.inner_text()


SAVE = "() => window.jupyterapp.commands.execute('docmanager:save')"
END_SESSIONS = "() => window.notebookPanel.sessionContext.shutdown()"


@pytest.mark.parametrize("app", ["lab", "notebook7"])
def test_opened_again_without_its_kernel_it_shows_the_page(request, app):
    screen = request.getfixturevalue(app)
    name = screen.write(f"saved-{app}.ipynb", PROGRAM, STEPS)
    screen.open(name)
    screen.run_all()
    page = screen.page
    page.locator(ROOT).first.wait_for()
    page.wait_for_timeout(1000)
    assert page.locator(f"{ROOT}:visible").count() == 1, "the page hides itself beside the live widget"
    screen.screenshot("live")
    page.evaluate(SAVE)
    page.evaluate(END_SESSIONS)
    screen.open(name)
    page.locator(f".xlanb-static {ROOT}").wait_for()
    assert page.locator(f"{ROOT}:visible").count() == 1
    assert int(page.locator(ROOT).get_attribute("data-stages")) > WHOLE
    page.locator(ROOT).focus()
    page.keyboard.press("End")
    page.locator(f"{ROOT}[data-step='{int(page.locator(ROOT).get_attribute('data-stages')) - 1}']").wait_for()
    assert page.get_by_text("Error displaying widget").locator("visible=true").count() == 0
    screen.screenshot("again")
    # the notebook itself says on the console that the model is gone
    screen.errors[:] = [
        e for e in screen.errors if "widget model not found" not in e and "model not found" not in e.lower()
    ]
