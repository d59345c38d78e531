"""The pictures of the step widget: `make demo`, then `python docs/picture.py` (needs playwright and Chromium)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "build" / "demo.html"
PICTURES = ROOT / "docs" / "images"
STAGE = sys.argv[1] if len(sys.argv) > 1 else "fusion"
# Name, theme, stage, and the keys pressed there.
SCENES = (
    ("step-widget", "light", STAGE, "g"),
    ("step-widget-dark", "dark", STAGE, "g"),
    ("step-diff", "light", STAGE, "d"),
    ("step-why-dark", "dark", STAGE, "w"),
    ("step-code", "light", "assembly", "c"),
)
# as root, without a GPU, and never phoning home
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def take(page: Page, name: str, stage: str, keys: str) -> None:
    """Open the page of the demo at one stage, and keep what is seen of the widget."""
    page.goto(PAGE.as_uri())
    root = page.locator(".xlanb-step .root").first
    root.wait_for()
    root.get_by_text(stage, exact=True).first.click()
    root.focus()
    for key in keys:
        page.keyboard.press(key)
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)  # the nodes have moved to their places
    root.screenshot(path=PICTURES / f"{name}.png")


def main() -> None:
    """Take all pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, theme, stage, keys in SCENES:
            scale = 1.5 if name == "step-widget" else 1
            page = browser.new_page(
                viewport={"width": 1360, "height": 900}, device_scale_factor=scale, color_scheme=theme
            )
            take(page, name, stage, keys)
            page.close()
        browser.close()


main()
