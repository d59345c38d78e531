"""The step widget: time of Next until painted in Chromium, longest task, page size, and
recompilations.

Rows: the page of a six-layer GPT step (processor seconds and kilobytes); trace, widget and page of
GPT-2 small's training step (needs flax and optax); the page of 40 passes over 500 instructions; the
first picture of 10,000 and 40,000 instructions and opening a group; Next live (below); programs of
some 200, 2,000 and 40,000 instructions, each stepped by Next on a page from disk (graph pane, a
pass that changes something and one that does not); finally, the number of compilations that opening
a widget on a finished one starts.

`next_ms` and `worst_ms` are the median and the largest time from the key to the second frame after
it, `idle_ms` the same without a key (the machine's own time for two frames, alternating with the
others), `task_ms` the longest task of the main thread while stepping. `cpu_ms` is processor time of
the kernel (Python) or of the page's main thread, which other programs on the machine disturb less
than wall time: for a live Next of a pass that changed nothing, `python_ms` is the kernel's part.
Needs playwright and a Chromium on the PATH; without them only page and compilations are measured.
Words choose some of the rows: `python -m benchmarks explorer picture`.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import xlanb
from benchmarks._live import session
from benchmarks.dumps import program
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloModule, parse
from xlanb.notebook.explore import explore
from xlanb.tracing import CompilationStarted, Event, observing
from xlanb.view.page import write_page

_SIZES = (200, 2_000, 40_000)
_PICTURES = {10_000: ("python + shown < 1,000 ms", "next < 50 ms"), 40_000: ("", "")}
"""The limits of the first picture and of opening a group, by instructions."""
_STEPS = 12
_LIVE_STEPS = 30
_PASSES = ("algsimp", "cse", "dce", "tuple-simplifier", "constant_folding", "fusion")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
_NEXT = """async () => {
  const root = document.querySelector(".xlanb-step").shadowRoot.querySelector(".root");
  const tasks = [];
  const watch = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((e) => e.duration)));
  watch.observe({ type: "longtask" });
  const times = [];
  const idle = [];
  for (let k = 0; k < 2 * STEPS; k += 1) {
    const from = performance.now();
    if (k % 2) root.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true, composed: true }));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    (k % 2 ? times : idle).push(performance.now() - from);
    await new Promise((done) => setTimeout(done, 60));
  }
  watch.disconnect();
  return { times, idle, tasks, stage: root.dataset.step };
}"""


_LIVE_NEXT = """async () => {
  const root = document.querySelector(".xlanb-step").shadowRoot.querySelector(".root");
  const before = answered;
  const from = performance.now();
  root.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true, composed: true }));
  while (answered === before) await new Promise((done) => setTimeout(done, 0));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - from;
}"""


_OPEN = """() => {
  const root = document.querySelector(".xlanb-step").shadowRoot.querySelector(".root");
  const times = [];
  for (let k = 0; k < 8; k += 1) {
    const handle = root.querySelector(".graph .handle");
    const from = performance.now();
    handle.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true }));
    times.push(performance.now() - from);
  }
  return times;
}"""


def table(*words: str) -> pd.DataFrame:
    """Return one row per measurement, with limits next to the figures.

    `words` choose measurements: step, trace (of GPT-2 small's training step), page, picture (of
    10,000 instructions), large-picture, live, next, open; all without any. Raises KeyError for
    another word.
    """
    made = {
        "step": _step_rows,
        "trace": _trace_rows,
        "page": lambda: [_page_row()],
        "picture": lambda: _picture_rows(10_000),
        "large-picture": lambda: _picture_rows(40_000),
        "live": _live_rows,
        "next": _next_rows,
        "open": lambda: [_open_row()],
    }
    rows = [row for word in words or made for row in made[word]()]
    return pd.DataFrame(rows).fillna("")


def passes(module: HloModule, rounds: int, name: str) -> Trace:
    """Passes one after the other over a module, again and again, as a trace."""
    trace = Trace(name)
    before = module.record()
    trace.stages.append(Stage("hlo", "program", None, before))
    for k in range(rounds):
        chosen = _PASSES[k % len(_PASSES)]
        begin = time.perf_counter()
        xlanb.transforms.PASSES[chosen]().run(module)
        seconds = time.perf_counter() - begin
        after = module.record()
        trace.stages.append(Stage("hlo_pass", chosen, before, after, ("benchmark",), seconds=seconds, index=k + 1))
        before = after
    return trace


def _step_rows() -> list[dict[str, Any]]:
    """The page of a training step that JAX traced, where JAX is there."""
    if find_spec("jax") is None:
        return []
    from benchmarks._gpt import gpt_step

    step, arrays = gpt_step()
    trace = xlanb.trace(step, *arrays)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        begin = time.process_time()
        write_page([trace], path)
        seconds = time.process_time() - begin
        return [
            {
                "what": "Page of a six-layer GPT step",
                "cpu_ms": round(seconds * 1e3),
                "page_kb": round(path.stat().st_size / 1e3),
                "limit": "cpu < 3,000 ms",
                "count": len(trace),
            }
        ]


def _live_rows() -> list[dict[str, Any]]:
    """Measure Next on a compilation of 2,000 instructions, when the pass changes nothing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or find_spec("playwright") is None:
        return []
    from playwright.sync_api import sync_playwright

    live = session(program(2_000), _LIVE_STEPS)
    idle = [k for k, a in enumerate(live.answers) if not a.stage.changed][1:]  # the first one draws all
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "live.html"
        live.write(path)
        chromium = playwright.chromium.launch(executable_path=browser, args=_FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        clock = page.context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})

        def busy() -> float:
            metrics = clock.send("Performance.getMetrics")["metrics"]
            return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

        page.goto(path.as_uri())
        page.locator(".node").first.wait_for()
        page.wait_for_timeout(1000)
        spent = []
        walls = []
        for _ in live.answers:
            before = busy()
            walls.append(page.evaluate(_LIVE_NEXT))
            spent.append((busy() - before) * 1e3)
        chromium.close()
    kernel = statistics.median(live.answers[k].seconds * 1e3 for k in idle)
    return [
        {
            "what": "Next live, 2,000 instructions, no change",
            "next_ms": round(statistics.median(walls[k] for k in idle), 1),
            "worst_ms": round(max(walls[k] for k in idle), 1),
            "cpu_ms": round(statistics.median(spent[k] for k in idle), 1),
            "python_ms": round(kernel, 1),
            "limit": "python + cpu < 50 ms",
        }
    ]


def _next_rows() -> list[dict[str, Any]]:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or find_spec("playwright") is None:
        return []
    from playwright.sync_api import sync_playwright

    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=_FLAGS)
        for size in _SIZES:
            path = Path(folder) / f"{size}.html"
            write_page([passes(parse(program(size)), _STEPS, f"{size} instructions")], path)
            page = chromium.new_page(viewport={"width": 1440, "height": 900})
            page.goto(path.as_uri())
            page.locator(".root").wait_for()
            found = page.evaluate(_NEXT.replace("STEPS", str(_STEPS)))
            page.close()
            rows.append(
                {
                    "what": f"Next, {size:,} instructions",
                    "next_ms": round(statistics.median(found["times"]), 1),
                    "idle_ms": round(statistics.median(found["idle"]), 1),
                    "worst_ms": round(max(found["times"]), 1),
                    "task_ms": round(max(found["tasks"], default=0.0)),
                    "page_kb": round(path.stat().st_size / 1e3),
                    "limit": {200: "next < 100 ms", 2_000: "next < 300 ms"}.get(size, "task < 200 ms"),
                }
            )
        chromium.close()
    return rows


def _trace_rows() -> list[dict[str, Any]]:
    """Measure the trace of a training step of 7,800 instructions, its widget and its page."""
    if find_spec("flax") is None or find_spec("optax") is None:
        return []
    from benchmarks._models_jax import gpt2_train

    step, arrays = gpt2_train()
    xlanb.trace(lambda x: x + 1, np.ones(3, np.float32))  # imports
    times = [time.perf_counter()]
    trace = xlanb.trace(step, *arrays)
    times.append(time.perf_counter())
    widget = explore(trace)
    times.append(time.perf_counter())
    count = len(widget.saved_payload["traces"][0]["stages"])  # adds what the widget left for later
    times.append(time.perf_counter())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        write_page([trace], path)
        times.append(time.perf_counter())
        size = round(path.stat().st_size / 1e3)
    traced, opened, filled, written = (round((b - a) * 1e3) for a, b in pairwise(times))
    what = "GPT-2 small's training step"
    return [
        {"what": f"Trace of {what}", "python_ms": traced, "limit": "python < 5,000 ms"},
        {"what": f"Widget of {what}", "python_ms": opened, "limit": "python < 5,000 ms"},
        {"what": f"The rest of that widget, {count} stages", "python_ms": filled},
        {"what": f"Page of {what}", "python_ms": written, "page_kb": size, "limit": "page < 3,000 kB"},
    ]


def _picture_rows(size: int) -> list[dict[str, Any]]:
    """Measure the first picture of a program, by Python and in the page.

    Also the script time of a click that opens or closes a group. `cpu_ms` is processor time: of
    Python and the page's main thread until the picture is shown.
    """
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or find_spec("playwright") is None:
        return []
    from playwright.sync_api import sync_playwright

    limits = _PICTURES[size]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=_FLAGS)
        path = Path(folder) / f"{size}.html"
        trace = passes(parse(program(size)), 0, f"{size:,} instructions")
        begin, cpu = time.perf_counter(), time.process_time()
        write_page([trace], path)
        python, cpu = time.perf_counter() - begin, time.process_time() - cpu
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        clock = page.context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(path.as_uri())
        page.locator(".node").first.wait_for()
        shown = page.evaluate("performance.now()") / 1e3
        metrics = {m["name"]: m["value"] for m in clock.send("Performance.getMetrics")["metrics"]}
        clicks = page.evaluate(_OPEN)
        chromium.close()
        return [
            {
                "what": f"First picture, {size:,} instructions",
                "python_ms": round(python * 1e3),
                "shown_ms": round(shown * 1e3),
                "cpu_ms": round((cpu + metrics["TaskDuration"]) * 1e3),
                "page_kb": round(path.stat().st_size / 1e3),
                "limit": limits[0],
            },
            {
                "what": f"Open or close a group, {size:,} instructions",
                "next_ms": round(statistics.median(clicks), 1),
                "worst_ms": round(max(clicks), 1),
                "limit": limits[1],
            },
        ]


def _page_row() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        write_page([passes(parse(program(500)), 40, "40 passes")], path)
        return {
            "what": "40 passes of 500 instructions",
            "page_kb": round(path.stat().st_size / 1e3),
            "limit": "page < 500 kB",
        }


class _Counter(Recorder):
    """Counts compilations that begin."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0

    def on_event(self, event: Event) -> None:
        self.begun += isinstance(event, CompilationStarted)


def _open_row() -> dict[str, Any]:
    compilation = xlanb.Compilation(program(40))
    compilation.finish()
    counter = _Counter()
    with observing(counter):
        widget = explore(compilation)
        widget.refresh()
    return {"what": "compilations begun by opening the widget", "count": counter.begun, "limit": "0"}
