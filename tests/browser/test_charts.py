"""Memory and Timing: pictures fit the width, have units, and are at most one screen long at
first.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue
from xlanb.cpu.records import CacheRecord, ExecutionRecord, KernelTime
from xlanb.explorer.stage import RUN_KINDS, Stage
from xlanb.view.page import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
sys.path.insert(0, str(Path(__file__).parent))
from factory import make_trace
from stepper import opened


@pytest.fixture
def stepper(context, tmp_path):
    trace = make_trace()
    kernels = tuple(KernelTime(f"kernel_{k}", f"kernel_{k}", (k + 1) * 1e-6, 4096, 512, "") for k in range(108))
    record = ExecutionRecord(2e-3, kernels, ())
    trace.stages.append(Stage("execution", "long run", None, record, index=len(trace.stages)))
    path = tmp_path / "page.html"
    write_page([trace], path)
    with opened(context, path) as stepper:
        yield stepper


def letters(stepper) -> list[float]:
    """The height in pixels on the screen of each word in a chart."""
    return stepper.page.locator(".pane .chart text").evaluate_all(
        "all => all.map(x => x.getBoundingClientRect().height)"
    )


def cut_words(stepper) -> list[str]:
    """Words in a chart that leave it."""
    return stepper.page.locator(".pane .chart text").evaluate_all(
        """all => all.filter(x => { const b = x.getBoundingClientRect(), f = x.ownerSVGElement.getBoundingClientRect();
           return b.left < f.left - 1 || b.right > f.right + 1 || b.top < f.top - 1 || b.bottom > f.bottom + 1; }).map(x => x.textContent)"""
    )


@pytest.mark.parametrize("width", [1440, 1000])
@pytest.mark.parametrize("key", ["m", "i"])
def test_words_in_charts_are_legible_and_whole_at_any_width(stepper, width, key):
    stepper.page.set_viewport_size({"width": width, "height": 900})
    stepper.press("End", key)
    stepper.page.locator(".chartbox .chart").first.wait_for()
    assert len(letters(stepper)) >= 4
    assert min(letters(stepper)) >= 10
    assert cut_words(stepper) == []
    assert stepper.page.locator(".pane").evaluate(
        "x => [...x.querySelectorAll('.memory, .timing')].every(y => y.scrollWidth <= y.clientWidth)"
    )


def test_no_label_of_the_memory_chart_is_under_another_value(stepper):
    stepper.press("End", "m")
    stepper.page.locator(".chartbox .value text").first.wait_for()
    covered = stepper.page.locator(".pane .chart").first.evaluate("""chart => {
      const values = [...chart.querySelectorAll(".value")];
      const under = (a, b) => a.right > b.left + 1 && b.right > a.left + 1 && a.bottom > b.top + 1 && b.bottom > a.top + 1;
      return values.flatMap((v, k) => [...v.querySelectorAll("text")].filter((t) => values.slice(k + 1).some((o) => under(t.getBoundingClientRect(), o.querySelector("rect").getBoundingClientRect()))).map((t) => t.textContent));
    }""")
    assert covered == []


def test_a_chart_is_drawn_anew_for_another_width(stepper):
    stepper.press("End", "m")
    chart = stepper.page.locator(".chartbox .chart").first
    chart.wait_for()
    stepper.page.set_viewport_size({"width": 1000, "height": 700})
    stepper.page.wait_for_function(
        "() => { const c = document.querySelector('.xlanb-step').shadowRoot.querySelector('.chartbox .chart'); return Math.abs(c.viewBox.baseVal.width - c.parentElement.clientWidth) <= 1; }"
    )


def test_of_many_kernels_the_first_are_shown(stepper):
    stepper.press("End", "i")
    timing = stepper.page.get_by_role("region", name="Timing")
    assert timing.locator(".hbar:visible").count() < 30
    more = timing.get_by_text("96 more kernels")
    more.click()
    assert timing.locator(".hbar:visible").count() >= 108


def test_a_part_of_the_strip_leads_to_its_stage(stepper):
    stepper.press("End", "i")
    part = stepper.page.locator(".strip .part").filter(has_text="optimize LLVM IR").first
    part.click()
    assert stepper.page.locator(".pass.current .name").inner_text() == "optimize LLVM IR"


def test_the_table_of_buffers_has_units(stepper):
    stepper.press("End", "m")
    heads = stepper.page.locator(".memory th").all_inner_texts()
    assert heads == ["#", "what", "size", "shape", "offset", "steps alive"]
    row = stepper.page.locator(".memory tr[data-op='grad'] td").all_inner_texts()
    assert row[2:] == ["400 B", "f32[100]", "448 B", "9–12"]


def figures(stepper) -> dict[str, str]:
    """The numbers at the head of a pane, by their labels."""
    pairs = stepper.page.locator(".figure").evaluate_all("all => all.map(x => [...x.children].map(y => y.textContent))")
    return {label: value for value, label in pairs}


@pytest.fixture
def runs_stepper(context, tmp_path):
    """A page of a trace with two runs and a hit of the cache."""
    trace = make_trace()
    kernel = KernelTime("fusion", "fusion", 1e-6, 4096, 512, limit=1e-9, bound="memory")
    for seconds in (3e-3, 5e-3):
        record = ExecutionRecord(seconds, (kernel,), ())
        trace.stages.append(Stage("execution", "execution", None, record, index=len(trace.stages)))
        trace.runs.append(seconds)
    hit = CacheRecord("f32[4]", hit=True, hits=1, misses=1, entries=1, seconds=0.124)
    trace.stages.append(Stage("compilation_cache", "cache", None, hit, index=len(trace.stages)))
    path = tmp_path / "page.html"
    write_page([trace], path)
    with opened(context, path) as stepper:
        yield stepper


def test_each_run_shows_its_own_times(runs_stepper):
    rows = runs_stepper.page.locator(".pass").filter(has_text="execution")
    for row, seconds in zip(rows.all()[-2:], ("3.00 ms", "5.00 ms"), strict=True):
        row.click()
        assert figures(runs_stepper)["last timed run"] == seconds
        assert "under 1 % of the memory limit" in runs_stepper.page.locator(".hbar .detail").first.inner_text()


def test_a_hit_of_the_cache_says_what_it_saved(runs_stepper):
    runs_stepper.press("End", "i")
    assert figures(runs_stepper)["of compilation saved"] == "124 ms"


def test_a_dump_without_times_says_so_and_draws_no_axis(context, tmp_path):
    trace = make_trace()
    trace.stages[:] = [replace(s, seconds=None) for s in trace.stages if s.kind not in RUN_KINDS]
    write_page([trace], tmp_path / "page.html")
    with opened(context, tmp_path / "page.html") as stepper:
        stepper.press("Home", "i")
        pane = stepper.page.get_by_role("region", name="Timing")
        assert "times of the stages are unknown" in pane.inner_text()
        assert pane.locator(".chart").count() == 0


def test_all_values_of_an_allocation_can_be_seen(context, tmp_path):
    values = tuple(BufferValue(f"value.{k}", (), "f32[4]", k * 16, 16, k, k + 1) for k in range(100))
    record = BufferAssignmentRecord("m", ("step",), (BufferAllocation(0, "temp", 1600, values),))
    trace = make_trace()
    trace.stages.append(Stage("buffer_assignment", "many", None, record, index=len(trace.stages)))
    write_page([trace], tmp_path / "page.html")
    with opened(context, tmp_path / "page.html") as stepper:
        stepper.press("End", "m")
        rows = stepper.page.locator(".memory tbody tr[data-op]")
        assert rows.count() == 60
        stepper.button("Show 40 more values").click()
        assert rows.count() == 100
