"""The static site of `make lite`, in headless Chromium, as files: lessons run, and can be
stepped.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("XLANB_LITE_SITE", ROOT / "build" / "lite" / "site"))
LESSONS = sorted(p.name for p in (ROOT / "notebooks").glob("0[1-4]-*.ipynb"))
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
READY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.isReady"
RUN_ALL = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
  const cells = [...panel.content.model.cells].filter((c) => c.type === "code");
  for (const c of cells) c.sharedModel.outputs = [];
  await window.jupyterapp.commands.execute("notebook:run-all-cells");
  return cells.map((c) => c.sharedModel.toJSON());
}"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (SITE / "lab" / "index.html").exists(), reason="needs the site: make lite"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    """Open a page that can reach only the site, in a fresh browser."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium on the PATH")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        elsewhere: list[str] = []
        page.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else elsewhere.append(r.url))
        yield page
        browser.close()
        assert elsewhere == []


def run_lesson(page: Any, address: str, lesson: str) -> list[dict[str, Any]]:
    """Open a lesson and run it; its code cells."""
    page.goto(f"{address}/lab/index.html?path={lesson}")
    page.wait_for_function(READY, timeout=120_000)
    page.set_default_timeout(300_000)
    return page.evaluate(RUN_ALL)


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_cell_of_a_lesson_runs(page, address, lesson):
    cells = run_lesson(page, address, lesson)
    failed = [(c["source"], o["evalue"]) for c in cells for o in c["outputs"] if o["output_type"] == "error"]
    assert failed == []
    assert all(c["execution_count"] for c in cells)
    assert any("application/vnd.jupyter.widget-view+json" in o.get("data", {}) for c in cells for o in c["outputs"])


def test_the_first_lesson_can_be_stepped(page, address):
    run_lesson(page, address, LESSONS[0])
    root = page.locator(".xlanb-step .root").first
    root.wait_for(state="attached")
    root.scroll_into_view_if_needed()
    stages = int(root.get_attribute("data-stages"))
    assert stages > 50
    following = root.get_by_role("button", name="Next pass", exact=True)
    for step in range(1, stages):
        following.click()
        page.locator(f".xlanb-step .root[data-step='{step}']").first.wait_for()
    assert not following.is_enabled()


def test_the_picture_and_the_note_are_there_before_the_kernel(page, address, record_property):
    begin = time.perf_counter()
    page.goto(f"{address}/lab/index.html?path={LESSONS[0]}")
    page.locator(".jp-OutputArea-output svg, .jp-OutputArea-output img").first.wait_for(
        state="attached", timeout=120_000
    )
    record_property("seconds", time.perf_counter() - begin)
    page.locator("strong", has_text="This lesson runs in your browser").wait_for()
