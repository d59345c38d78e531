"""Make the README's film of a JAX transformer block: `python docs/film.py`.

Needs JAX, playwright and Chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from playwright.sync_api import sync_playwright

import xlanb
from xlanb.explorer.trace import Trace

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "film.webp"
SECONDS, RATE, WIDTH, QUALITY = 14, 10, 800, "small"
LENGTH, FEATURES = 256, 64
RUNS = 60
MOST_BYTES = 1_500_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]


def normalized(x: Any, scale: Any) -> Any:
    """Layer normalization without a bias."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def block(params: dict[str, Any], x: Any) -> Any:
    """A transformer block: attention with one head, then a multilayer perceptron."""
    with jax.named_scope("attention"):
        q, k, v = (normalized(x, params["scale"]) @ params[name] for name in "qkv")
        with jax.named_scope("softmax"):
            weights = jax.nn.softmax(q @ k.T / np.sqrt(FEATURES))
        x = x + weights @ v @ params["o"]
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(normalized(x, params["scale"]) @ params["up"]) @ params["down"]


def traced() -> Trace:
    """Return the block's compilation, with the fastest of some runs, the least disturbed ones."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    params = {
        **{name: weights(FEATURES, FEATURES) for name in "qkvo"},
        "up": weights(FEATURES, 4 * FEATURES),
        "down": weights(4 * FEATURES, FEATURES),
        "scale": np.ones(FEATURES, np.float32),
    }
    x = weights(LENGTH, FEATURES)
    compilation = xlanb.Compilation(block, params, x)
    compilation.finish()
    for _ in range(RUNS):
        compilation.run(params, x)
    trace = compilation.trace
    stages = [s for s in trace if s.kind != "execution"]
    quickest = min((s for s in trace if s.kind == "execution"), key=lambda s: float(s.after.seconds))
    return Trace(trace.name, [*stages, replace(quickest, index=len(stages))])


def main() -> None:
    """Make the film's page, and let it save itself."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_path = Path(folder) / "film.html"
        traced().film().to_html(str(page_path))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme="light", reduced_motion="reduce")
        page.goto(page_path.as_uri())
        page.get_by_role("button", name="Save the film").click()
        page.get_by_role("spinbutton", name="Seconds").fill(str(SECONDS))
        for name, value in (("Width", f"{WIDTH} px"), ("Frames per second", str(RATE)), ("Quality", QUALITY)):
            page.get_by_role("combobox", name=name).select_option(label=value)
        with page.expect_download(timeout=300_000) as download:
            page.get_by_role("button", name="Save", exact=True).click()
        download.value.save_as(PICTURE)
        browser.close()
    size = PICTURE.stat().st_size
    print(f"{PICTURE}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes: make it shorter, smaller or of a lower quality")


main()
