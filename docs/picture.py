"""The picture of the step widget in README: `make demo`, then `python docs/picture.py` (needs playwright and Chromium)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "build" / "demo.html"
PICTURE = ROOT / "docs" / "images" / "step-widget.png"
STAGE = sys.argv[1] if len(sys.argv) > 1 else "fusion"
# as root, without a GPU, and never phoning home
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def main() -> None:
    """Open the page of the demo at one stage, and keep what is seen of the widget."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1360, "height": 900}, device_scale_factor=1.5)
        page.goto(PAGE.as_uri())
        root = page.locator(".xlanb-step .root").first
        root.wait_for()
        root.get_by_text(STAGE, exact=True).first.click()
        page.mouse.move(0, 0)
        page.wait_for_timeout(1500)  # the nodes have moved to their places
        root.screenshot(path=PICTURE)
        browser.close()


main()
