"""Counts agree: list, card, status line and diff show the trace's numbers for each stage."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.explorer.running import run_traced
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parent))
from stepper import Stepper

GOLDENS = Path(__file__).parents[1] / "transforms" / "goldens"
PROGRAMS = ("algsimp/layernorm", "rng-bit-generator-expander/three_fry", "conditional-to-select/in_a_map")
NO_PASSES = (
    "execution",
    "compilation_cache",
    "schedule",
    "buffer_assignment",
    "llvm_ir",
    "llvm_ir_optimized",
    "assembly",
)
SAID = """() => {
  const root = document.querySelector(".xlanb-step").shadowRoot;
  const text = (selector) => root.querySelector(selector)?.textContent ?? "";
  const found = [];
  for (const tab of root.querySelectorAll(".traces button")) {
    tab.click();
    const rows = root.querySelectorAll(".pass");
    const stages = [];
    for (let k = 0; k < rows.length; k += 1) {
      root.querySelector(`#pass-${k}`).click();
      const diff = [...root.querySelectorAll("[role=tab]")].find((b) => b.textContent === "Diff");
      if (!diff.disabled) diff.click();
      stages.push({
        name: text(".pass.current .name"),
        list: text(".pass.current .tally"),
        card: text(".card-body p"),
        status: text(".status"),
        tally: text(".status .tally"),
        diff: diff.disabled ? null : text(".textpane > .tools .tally"),
        rows: [...root.querySelectorAll("summary .tally")].map((x) => x.textContent),
      });
    }
    const timing = [...root.querySelectorAll("[role=tab]")].find((b) => b.textContent === "Timing");
    root.querySelector("#pass-0").click();
    if (!timing.disabled) timing.click();
    found.push({
      stages,
      head: text(".counts"),
      compiling: text(".timing .figure b"),
      slowest: [...root.querySelectorAll(".timing h4")].filter((x) => x.textContent === "The slowest passes").flatMap((x) => [...x.nextSibling.querySelectorAll(".label")].map((l) => l.textContent)),
    });
  }
  return found;
}"""


def _traces():
    traces = [xlanb.trace((GOLDENS / f"{name}.hlo").read_text()) for name in PROGRAMS]
    run_traced(traces[0])
    program = line_fit()
    with flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        traces += [
            xlanb.trace(program.loss, program.feeds, session=session) for _ in range(2)
        ]  # the second hits the cache
    return traces


def counts(text):
    """The numbers behind the marks of a tally, or before the words of a line."""
    signs = dict(re.findall(r"([+−~])(\d+)", text))
    words = {word: n for n, word in re.findall(r"(\d+) (added|removed|changed)", text)}
    found = [signs.get(s) or words.get(w) or 0 for s, w in (("+", "added"), ("−", "removed"), ("~", "changed"))]
    return tuple(int(n) for n in found)


@pytest.fixture
def said(context, tmp_path):
    traces = _traces()
    write_page(traces, tmp_path / "page.html")
    stepper = Stepper(context.new_page())
    stepper.open(tmp_path / "page.html")
    found = stepper.page.evaluate(SAID)
    assert stepper.errors == []
    return list(zip(traces, found, strict=True))


def test_one_count_of_what_a_pass_did(said):
    compared = 0
    for trace, found in said:
        assert len(found["stages"]) == len(trace)
        for stage, seen in zip(trace, found["stages"], strict=True):
            assert seen["name"] == stage.name
            assert stage.describe().removeprefix(f"{stage.name}: ") in seen["status"]
            assert seen["card"] == stage.describe().removeprefix(f"{stage.name}: ")
            assert seen["list"] == seen["tally"]
            is_counted = stage.changed and type(stage.before) is type(stage.after) and not stage.summary
            if not is_counted or stage.kind not in ("hlo_pass", "optimize"):
                continue
            compared += 1
            places = {"list": seen["list"], "card": seen["card"], "diff": seen["diff"]}
            assert {k: counts(v) for k, v in places.items()} == dict.fromkeys(places, stage.changes.counts), stage
    assert compared > 25


def test_one_count_of_kernels_and_passes_and_of_the_time(said):
    for trace, found in said:
        kernels = trace.kernel_count
        assert f"{kernels} kernel" in found["head"]
        assert f"{len(trace.changed)} changed" in found["head"]
        passes = {s.name for s in trace if s.kind not in NO_PASSES}
        assert set(found["slowest"]) <= passes
        if trace.compile_seconds is None:  # a hit of the cache alone
            assert found["compiling"] == ""
        else:
            assert _seconds(found["compiling"]) == pytest.approx(trace.compile_seconds, rel=0.01)


def _seconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
