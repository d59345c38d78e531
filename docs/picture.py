"""Make the still and moving pictures of the step widget: `python docs/picture.py`.

Needs JAX, playwright, Pillow and Chromium.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from transformer import training

import xlanb

PICTURES = Path(__file__).parent / "images"
SIZE = (1360, 850)
RUNS = 5
"""The last run is shown; the first ones are slower."""
# Name, theme, stage, and what is done there: keys, or ops to click.
SCENES = (
    ("graph", "light", "before_optimizations", ()),
    ("fusion-dark", "dark", "fusion", ()),
    ("why", "light", "fusion", ("w",)),
    ("code", "dark", "fusion", ("c",)),
    ("timing", "light", "", ("End", "i")),
)
# The film: a stage ("": the last one's), what is done there, and how long it is shown, ms.
FILM = (
    ("before_optimizations", (), 2500),
    ("dot_decomposer", (), 1800),
    ("layout-assignment", (), 1800),
    ("fusion", (), 2500),
    ("", ("d",), 2200),
    ("", ("w",), 2800),
    ("", ("c",), 2500),
    ("", ("End", "i"), 2500),
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]


def widget(page: Page, path: Path) -> Locator:
    """The widget of a page."""
    page.goto(path.as_uri())
    root = page.locator(".xlanb-step .root").first
    root.wait_for()
    page.wait_for_timeout(1500)
    return root


def go(page: Page, root: Locator, stage: str, keys: Sequence[str]) -> None:
    """Go to the first stage of a name; press keys there and wait for the end of animations."""
    if stage:
        root.get_by_text(stage, exact=True).first.click()
    root.focus()
    for key in keys:
        page.keyboard.press(key)
    page.mouse.move(0, 0)
    page.wait_for_timeout(2000)  # the nodes have moved to their places


def picture(root: Locator) -> Image.Image:
    """The widget as it is."""
    return Image.open(io.BytesIO(root.screenshot())).convert("RGB")


def film(browser: Browser, path: Path) -> None:
    """Walk through the stages, and save an animation."""
    page = browser.new_page(viewport={"width": 1200, "height": 750}, color_scheme="light")
    root = widget(page, path)
    frames = []
    for stage, keys, _ in FILM:
        go(page, root, stage, keys)
        frames.append(picture(root))
    page.close()
    durations = [ms for *_, ms in FILM]
    frames[0].save(
        PICTURES / "step.webp",
        save_all=True,
        append_images=frames[1:],
        duration=durations,
        loop=0,
        quality=80,
        method=6,
    )


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "step.html"
        function, *arguments = training()
        compilation = xlanb.Compilation(function, *arguments)
        compilation.finish()
        for _ in range(RUNS):
            compilation.run(*arguments)
        compilation.trace.to_html(str(path))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, theme, stage, keys in SCENES:
            page = browser.new_page(
                viewport={"width": SIZE[0], "height": SIZE[1]}, device_scale_factor=1.5, color_scheme=theme
            )
            root = widget(page, path)
            go(page, root, stage, keys)
            picture(root).save(PICTURES / f"step-{name}.webp", lossless=True)
            page.close()
        film(browser, path)
        browser.close()
    for made in sorted(PICTURES.glob("step*")):
        print(f"{made.name}: {made.stat().st_size:,} bytes")


main()
