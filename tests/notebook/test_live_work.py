"""Long requests of a live view: sliced on an event loop, with progress, cancelled, interrupted."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from types import SimpleNamespace

import pytest

import xlanb
from xlanb.notebook import saved
from xlanb.notebook import widget as widget_module
from xlanb.notebook.explore import explore
from xlanb.notebook.work import SlicedWork

TEXT = """HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  c = f32[8] add(a, b)
  d = f32[8] add(a, b)
  ROOT r = f32[8] multiply(c, d)
}
"""


class Front:
    """The other end: takes messages as a browser does, through JSON."""

    def __init__(self, widget):
        self.messages = []
        widget.send = lambda content: self.messages.append(json.loads(json.dumps(content)))

    @property
    def types(self):
        return [m["type"] for m in self.messages]


@pytest.fixture
def bench():
    widget = explore(TEXT)
    return widget, Front(widget)


def ask(widget, message_type, **more):
    widget._handle_custom_msg({"type": message_type, **more}, [])


async def until(condition):
    for _ in range(10**6):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came")


def coming(widget, number=0):
    return [name for group in widget.payload["traces"][number]["coming"] for name in group[3]]


def test_passes_to_come_are_in_the_payload_and_go_as_they_run(bench):
    widget, front = bench
    before = coming(widget)
    assert before[-5:] == ["schedule", "buffer_assignment", "llvm_ir", "llvm_ir_optimized", "assembly"]
    loops = [g for g in widget.payload["traces"][0]["coming"] if g[2]]
    assert any(g[1][-1] == "simplification" and "algsimp" in g[3] for g in loops)
    ask(widget, "step", trace=0, stage=0)
    assert coming(widget) == before[1:]
    ask(widget, "to", trace=0, stage=1)
    assert coming(widget) == []
    assert front.types[-1] == "done"


def test_running_to_a_pass_stops_behind_it_and_the_view_follows(bench):
    widget, front = bench
    ask(widget, "to", trace=0, stage=0, position=coming(widget).index("fusion"))
    assert widget.traces[0][-1].name == "fusion"
    assert front.types[-2:] == ["delta", "done"]
    assert front.messages[-2]["jump"] == "last"
    ask(widget, "to", trace=0, stage=0, position=9999)
    assert "no upcoming stage 9999" in front.messages[-1]["message"]
    ask(widget, "to", trace=0, stage=0)
    assert widget.traces[0][-1].kind == "assembly"


def test_a_widget_that_a_function_steps_goes_to_the_end_and_knows_no_positions():
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    widget = xlanb.notebook.widget.StepWidget(lambda: compilation.traces, on_step=compilation.step)
    front = Front(widget)
    assert coming(widget) == []
    ask(widget, "to", trace=0, position=3)
    assert "are unknown" in front.messages[-1]["message"]
    ask(widget, "to", trace=0)
    assert compilation.is_done


def test_long_work_lets_the_event_loop_run_and_is_cancelled_between_stages(bench, monkeypatch):
    monkeypatch.setattr("xlanb.notebook.work.SLICE_SECONDS", 0.0)
    widget, front = bench

    async def kernel():
        ask(widget, "to", trace=0, stage=0)
        assert "done" not in front.types, "the kernel is free again after a slice"
        ask(widget, "run", trace=0, stage=0)
        assert "still processing" in front.messages[-1]["message"]
        await until(lambda: len(widget.traces[0]) >= 10)
        ask(widget, "cancel")
        await until(lambda: "done" in front.types)

    asyncio.run(kernel())
    stages = len(widget.traces[0])
    assert 10 <= stages < 40
    progress = [m for m in front.messages if m["type"] == "progress"]
    assert progress
    assert all(0 < m["done"] <= m["total"] and m["name"] and m["seconds"] >= 0 for m in progress)
    assert (
        sum(len(t["stages"]) for m in front.messages if m["type"] == "delta" for t in m["delta"]["traces"])
        == stages - 1
    )
    ask(widget, "step", trace=0)
    assert len(widget.traces[0]) == stages + 1, "what was cancelled can be stepped on"


def test_a_cancelled_branch_is_there_and_goes_on(bench, monkeypatch):
    monkeypatch.setattr("xlanb.notebook.work.SLICE_SECONDS", 0.0)
    widget, front = bench

    async def kernel():
        ask(widget, "fork", trace=0, stage=0)
        await asyncio.sleep(0)
        ask(widget, "cancel")
        await until(lambda: "done" in front.types)

    asyncio.run(kernel())
    branch = widget.traces[1]
    assert branch.program is None
    assert coming(widget, 1)
    ask(widget, "to", trace=1)
    assert branch.program is not None


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals are the main thread's")
def test_an_interrupt_between_cells_ends_the_work_and_not_the_kernel(monkeypatch):
    monkeypatch.setattr("xlanb.notebook.work.SLICE_SECONDS", 0.0)
    ended, seen = [], []

    def steps():
        yield "first"
        signal.raise_signal(signal.SIGINT)
        while True:
            time.sleep(0)

    async def kernel():
        work = SlicedWork(steps(), on_step=seen.append, on_pause=lambda: None, on_end=ended.append)
        work.start()
        await until(lambda: work.is_done)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(kernel())
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["first"]
    assert isinstance(ended[0], KeyboardInterrupt)


def test_without_an_event_loop_the_work_is_done_at_once(monkeypatch):
    monkeypatch.setattr("xlanb.notebook.work.SLICE_SECONDS", 0.0)
    seen, pauses, ended = [], [], []
    SlicedWork(iter(range(5)), on_step=seen.append, on_pause=lambda: pauses.append(1), on_end=ended.append).start()
    assert seen == [0, 1, 2, 3, 4]
    assert pauses
    assert ended == [None]


@pytest.fixture
def large(monkeypatch):
    """A widget that shows only its first program at once."""
    monkeypatch.setattr(widget_module, "_MOST_OPS", 1)
    pages = []
    monkeypatch.setattr(saved, "publish_display_data", lambda data, *_, **__: pages.append(data["text/html"]))
    widget = explore(xlanb.trace(TEXT))
    return widget, Front(widget), pages


@pytest.fixture
def somebody(monkeypatch):
    """Somebody works in the notebook, and nothing waits longer than for the event loop."""
    monkeypatch.setattr(widget_module, "is_interactive", lambda: True)
    monkeypatch.setattr(widget_module, "_FILL_AFTER", 0)
    monkeypatch.setattr(saved, "_REST_SECONDS", 0)


def left(widget):
    return [a["k"] for a in widget.payload["artifacts"]].count("later")


@pytest.mark.usefixtures("somebody")
def test_the_rest_of_a_large_trace_follows_while_it_is_open(large):
    widget, front, pages = large

    async def session():
        widget._ipython_display_()
        assert left(widget)
        assert len(pages) == 1
        await until(lambda: len(pages) == 2)

    asyncio.run(session())
    assert not left(widget)
    assert set(front.types) == {"delta"}
    assert len(pages[1]) > len(pages[0])


@pytest.mark.usefixtures("somebody")
def test_a_widget_that_was_closed_is_left_as_it_is(large):
    widget, _, pages = large

    async def session():
        widget._ipython_display_()
        widget.close()
        work = widget._filling
        await until(lambda: work.is_done)
        await asyncio.sleep(0.05)

    asyncio.run(session())
    assert left(widget)
    assert len(pages) == 1


def test_a_notebook_that_is_run_as_a_whole_keeps_all_of_a_large_trace(large):
    widget, _, pages = large
    assert left(widget)
    widget._ipython_display_()
    assert not left(widget)
    assert len(pages) == 1


@pytest.mark.usefixtures("somebody")
def test_without_an_event_loop_all_of_a_large_trace_is_kept_at_once(large):
    widget, _, pages = large
    widget._ipython_display_()
    assert not left(widget)
    assert len(pages) == 1


def test_ops_of_programs_that_are_not_converted_yet_can_be_pinned(large):
    widget, _, _ = large
    last = next(s.after for s in reversed(widget.traces[0].stages) if s.kind == "hlo_pass")
    name = last.computations[-1].instructions[-1].name
    widget.open_at(stage=-1, pinned=name)
    assert widget.pinned == name


@pytest.mark.parametrize(
    ("request_", "expected"),
    [({"content": {"allow_stdin": True}}, True), ({"content": {"allow_stdin": False}}, False), ({"header": {}}, False)],
)
def test_somebody_works_in_a_notebook_that_may_ask_for_input(monkeypatch, request_, expected):
    kernel = SimpleNamespace(get_parent=lambda: request_)  # that of JupyterLite takes no channel
    monkeypatch.setattr(saved, "get_ipython", lambda: SimpleNamespace(kernel=kernel))
    assert saved.is_interactive() is expected
    monkeypatch.setattr(saved, "get_ipython", lambda: None)
    assert not saved.is_interactive()
