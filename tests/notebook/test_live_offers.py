"""Further actions of a live view: force a fusion, measure passes, a note when its cell runs
again.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

import xlanb
from tests.notebook.shells import printed, run, texts
from tests.programs import REFUSED_FUSION
from xlanb.explorer.recorder import Recorder
from xlanb.notebook import origin
from xlanb.notebook.explore import explore
from xlanb.notebook.progress import cell_progress
from xlanb.tracing import observing


class Front:
    """The other end: takes messages as a browser does, through JSON."""

    def __init__(self, widget):
        self.messages = []
        widget.send = lambda content: self.messages.append(json.loads(json.dumps(content)))

    def last(self, kind):
        return [m for m in self.messages if m["type"] == kind][-1]


@pytest.fixture
def bench():
    widget = explore(REFUSED_FUSION)
    widget.bench.run()
    return widget, Front(widget)


def ask(widget, message_type, **more):
    widget._handle_custom_msg({"type": message_type, **more}, [])


def test_a_refused_fusion_is_weighed_and_tried(bench):
    widget, front = bench
    ask(widget, "weigh", trace=0, a="a", b="t")
    told = front.last("weighed")
    assert told["possible"]
    assert told["text"].startswith("t has 3 users: duplicating it recomputes about")
    assert [m["type"] for m in front.messages] == ["weighed"], "it is no answer to other requests"
    ask(widget, "attempt", trace=0, a="a", b="t")
    told = front.last("attempted")
    assert told["text"].startswith("t fused into a: ")
    assert told["speedup"] > 0
    assert front.messages[-1]["type"] == "done"
    delta = front.last("delta")
    assert delta["trace"] == 1
    runs = [t["runs"][-1] for t in delta["delta"]["traces"]]
    assert len(runs) == 2
    assert min(runs) > 0


def test_what_cannot_be_fused_is_said(bench):
    widget, front = bench
    ask(widget, "weigh", trace=0, a="b", b="d")
    assert not front.last("weighed")["possible"]
    assert "consumer is loop-fusible" in front.last("weighed")["text"]
    ask(widget, "attempt", trace=0, a="b", b="d")
    assert "b cannot be fused into d" in front.last("error")["message"]
    ask(widget, "weigh", trace=0, a=["x"], b=None)
    assert not front.last("weighed")["possible"]


def test_what_passes_are_worth_stays_with_the_page(bench, monkeypatch):
    monkeypatch.setattr("xlanb.explorer.worth._ROUNDS", 2)
    widget, front = bench
    ask(widget, "worth", trace=0)
    assert front.messages[-1]["type"] == "done"
    worth = widget.payload["traces"][0]["worth"]
    assert set(worth) == {s.name for s in widget.traces[0] if s.kind == "hlo_pass" and s.changed}
    assert widget.can["worth"]


def kernel(monkeypatch, cell, code):
    """A shell that answers as one in a kernel does."""
    registered = []
    shell = SimpleNamespace(
        get_parent=lambda: {"metadata": {"cellId": cell}, "content": {"code": code}},
        events=SimpleNamespace(register=lambda _, callback: registered.append(callback)),
    )
    monkeypatch.setattr(origin, "get_ipython", lambda: shell)
    monkeypatch.setattr(origin, "_WATCHED", [])
    return registered


def test_a_widget_is_stale_when_its_cell_is_run_again(monkeypatch):
    registered = kernel(monkeypatch, "c1", "explore(f)")
    widget, other = explore(REFUSED_FUSION), explore(REFUSED_FUSION)
    assert len(registered) == 1
    assert widget.origin == {"text": "explore(f)"}
    registered[0](SimpleNamespace(cell_id="c2"))
    assert widget.stale == ""
    registered[0](SimpleNamespace(cell_id="c1"))
    assert widget.stale == other.stale == "the cell of this view was run again"
    fresh = explore(REFUSED_FUSION)
    assert fresh.stale == ""
    registered[0](SimpleNamespace())
    assert fresh.stale == ""


def test_outside_of_a_notebook_there_is_no_cell():
    widget = explore(REFUSED_FUSION)
    assert widget.origin == {}
    assert widget.stale == ""


def test_a_cell_that_compiles_for_long_tells_which_pass_it_is_at(monkeypatch):
    shown = []
    handle = SimpleNamespace(update=lambda data, **_: shown.append(data["text/plain"]))
    monkeypatch.setattr("xlanb.notebook.progress.in_notebook", lambda: True)
    monkeypatch.setattr("xlanb.notebook.progress.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("xlanb.notebook.progress._REST_SECONDS", 0.0)
    monkeypatch.setattr("xlanb.notebook.progress.display", lambda data, **_: shown.append(data["text/plain"]) or handle)
    recorder = Recorder()
    with observing(recorder), cell_progress(recorder):
        xlanb.compile(REFUSED_FUSION)
    assert any("fusion done, next " in line and " of about " in line for line in shown)
    assert shown[-1] == ""
    shown.clear()
    monkeypatch.setattr("xlanb.notebook.progress.PATIENCE_SECONDS", 1e9)
    with observing(recorder), cell_progress(recorder):
        xlanb.compile(REFUSED_FUSION)
    assert shown == []


GRAPH = """
from xlanb import tf
x = tf.placeholder(tf.float32, [4], name="x")
loss = tf.reduce_sum(tf.tanh(x) * x)
sess = tf.Session()
"""


def test_a_call_of_session_run_is_stepped_live():
    shell = InteractiveShell.instance()
    run(shell, "%load_ext xlanb")
    result, captured = run(
        shell, f"%%xla_jit -s --live\n{GRAPH}\nsess.run({{'l': loss}}, feed_dict={{x: [1., 2., 3., 4.]}})"
    )
    assert result.success, printed(captured)
    assert any("application/vnd.jupyter.widget-view+json" in o.data for o in captured.outputs)
    assert "1 stage" in texts(captured), "only the first stage has run"
    result, captured = run(shell, f"%%xla_jit -q --until cse -o seen\n{GRAPH}\nsess.run(loss, {{x: [1., 2., 3., 4.]}})")
    assert result.success, printed(captured)
    assert shell.user_ns["seen"].trace[-1].name == "cse"


TRAINING = """
import numpy as np
from xlanb import tf
g = tf.Graph()
with g.as_default():
    W = tf.get_variable(shape=[], name="weights", initializer=tf.constant_initializer(3.0))
    x = tf.placeholder(tf.float32, [None], name="x")
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(W * x)))
with tf.Session(graph=g) as sess:
    sess.run(W.initializer)
    for step in range(1000):
        sess.run(train, feed_dict={x: np.ones(4)})
"""


def test_a_training_loop_is_stepped_live_at_its_first_run():
    shell = InteractiveShell.instance()
    run(shell, "%load_ext xlanb")
    result, captured = run(shell, f"%%xla_jit --live\n{TRAINING}")
    assert result.success, printed(captured)
    assert any("application/vnd.jupyter.widget-view+json" in o.data for o in captured.outputs)
    assert "1 stage" in texts(captured), "only the first stage has run"
    assert shell.user_ns["step"] == 0
    assert shell.user_ns["sess"]._closed, "the with block has ended"
    assert "_xlanb_reached" not in shell.user_ns
    result, captured = run(shell, f"%%xla_jit -q --until assembly -o seen\n{TRAINING}")
    assert result.success, printed(captured)
    assert "assembly" in {s.kind for s in shell.user_ns["seen"].trace}


@pytest.mark.parametrize(
    "cell", ["for k in range(2):\n    print(k)", "with open(__file__ if 0 else '/dev/null') as f:\n    f.read()"]
)
def test_a_loop_without_a_run_is_run_whole_and_then_refused(cell):
    shell = InteractiveShell.instance()
    run(shell, "%load_ext xlanb")
    result, captured = run(shell, f"%%xla_jit --live\n{cell}\n")
    assert not result.success
    assert "also within with and for" in printed(captured)
    assert shell.user_ns.get("k", 1) == 1


def test_what_runs_more_than_a_call_says_what_is_needed():
    shell = InteractiveShell.instance()
    run(shell, "%load_ext xlanb")
    result, captured = run(shell, f"%%xla_jit --live\n{GRAPH}\nvalue = sess.run(loss, {{x: [1., 2., 3., 4.]}})")
    assert not result.success
    assert "a call of Session.run" in printed(captured)
