"""Make the still and moving pictures of the step widget: `make demo`, then `python docs/picture.py
[STAGE]`.

Needs playwright, Pillow and Chromium.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "build" / "demo.html"
PICTURES = ROOT / "docs" / "images"
STAGE = sys.argv[1] if len(sys.argv) > 1 else "fusion"
# Name, theme, stage, and the keys pressed there.
SCENES = (
    ("step-widget", "light", STAGE, "g"),
    ("step-widget-dark", "dark", STAGE, "g"),
    ("step-diff", "light", STAGE, "d"),
    ("step-why-dark", "dark", "algsimp", ("w", "ArrowRight", "ArrowRight")),
    ("step-rewrite", "light", "algsimp", ("g", "ArrowRight", "ArrowRight")),
    ("step-code", "light", "assembly", "c"),
)
# The film: a stage (none: the last one's), the keys pressed there, and how long it is shown, ms.
FILM = (
    ("graph", "g", 1500),
    ("mark_for_compilation", "", 1500),
    ("encapsulate_subgraphs", "", 1500),
    ("tf2xla", "", 1500),
    ("flatten-call-graph", "", 900),
    ("algsimp", "", 1800),
    ("", "d", 1800),
    ("fusion", "g", 1800),
    ("", "w", 2500),
    ("assembly", "c", 2500),
    ("execution", "i", 2500),
)
FILM_SIZE = (1180, 720)
# as root, without a GPU, and never phoning home
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def widget(page: Page) -> Locator:
    """The demo's widget."""
    page.goto(PAGE.as_uri())
    root = page.locator(".xlanb-step .root").first
    root.wait_for()
    return root


def go(page: Page, root: Locator, stage: str, keys: Sequence[str]) -> None:
    """Go to the first stage of a name; press keys there and wait for the end of animations."""
    if stage:
        root.get_by_text(stage, exact=True).first.click()
    root.focus()
    for key in keys:
        page.keyboard.press(key)
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)  # the nodes have moved to their places


def take(page: Page, name: str, stage: str, keys: str) -> None:
    """Open the demo page at a stage, and save a picture of the widget."""
    root = widget(page)
    go(page, root, stage, keys)
    root.screenshot(path=PICTURES / f"{name}.png")


def film(browser: Browser) -> None:
    """Walk through the stages, and save an animation."""
    width, height = FILM_SIZE
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    root = widget(page)
    frames = []
    for stage, keys, _ in FILM:
        go(page, root, stage, keys)
        frames.append(Image.open(io.BytesIO(root.screenshot())).convert("RGB"))
    page.close()
    path = PICTURES / "step.webp"
    durations = [ms for *_, ms in FILM]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, lossless=True, method=6)
    print(f"{path}: {path.stat().st_size:,} bytes")


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
        film(browser)
        browser.close()


main()
