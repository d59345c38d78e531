from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from xlanb.errors import PassError, XlanbError
from xlanb.notebook.widget import StepWidget

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
from factory import FakeCompiler, make_trace


class Front:
    """The other end: takes messages as a browser does, through JSON."""

    def __init__(self, widget):
        self.messages = []
        widget.send = lambda content: self.messages.append(json.loads(json.dumps(content)))

    def types(self):
        return [m["type"] for m in self.messages]


def live(compiler=None, **options):
    compiler = compiler or FakeCompiler()
    compiler.step()
    widget = StepWidget(lambda: compiler.traces, on_step=compiler.step, **options)
    return widget, Front(widget), compiler


def ask(widget, message_type):
    widget._handle_custom_msg({"type": message_type}, [])


def test_a_finished_trace_is_static():
    widget = StepWidget([make_trace()])
    assert widget.can == {"step": False, "run": False}
    assert widget.payload["traces"][0]["live"] is False
    assert len(widget.payload["traces"][0]["stages"]) == 18
    with pytest.raises(XlanbError, match="nothing to step"):
        widget.step()
    with pytest.raises(XlanbError, match="nothing to run"):
        widget.run()


def test_next_advances_the_compiler_by_exactly_one_stage():
    widget, front, compiler = live()
    ask(widget, "step")
    assert len(compiler.traces[0]) == 2
    assert front.types() == ["delta", "done"]
    (change,) = front.messages[0]["delta"]["traces"]
    assert [s["name"] for s in change["stages"]] == ["constant folding"]
    assert change["live"] is True
    assert len(widget.payload["traces"][0]["stages"]) == 2, "a view that opens later gets the whole"


def test_it_says_when_the_compilation_is_over_and_then_compiles_no_more():
    widget, front, compiler = live()
    while widget.step() is not None:
        pass
    assert front.messages[-1]["delta"]["traces"][0]["live"] is False
    stages = len(compiler.traces[0])
    assert widget.step() is None
    assert len(compiler.traces[0]) == stages


def test_what_the_compiler_raises_is_shown_and_kept():
    compiler = FakeCompiler()
    compiler.step()

    def fail():
        compiler.step()
        raise PassError("fusion broke the module")

    widget = StepWidget(lambda: compiler.traces, on_step=fail)
    front = Front(widget)
    ask(widget, "step")
    assert front.types() == ["delta", "error"]
    assert front.messages[-1]["message"] == "PassError: fusion broke the module"
    assert isinstance(widget.error, PassError)
    assert front.messages[0]["delta"]["traces"][0]["live"] is False, "a compilation that failed goes no further"


def test_run_runs_and_shows_what_came():
    compiler = FakeCompiler()
    compiler.step()
    calls = []
    widget = StepWidget(lambda: compiler.traces, on_run=lambda: calls.append(compiler.finish()))
    front = Front(widget)
    assert widget.can == {"step": False, "run": True}
    ask(widget, "run")
    assert len(calls) == 1
    assert front.types() == ["delta", "done"]
    assert front.messages[0]["delta"]["traces"][0]["stages"][-1]["kind"] == "compilation_cache"


def test_an_error_of_the_users_own_comes_with_its_traceback():
    widget = StepWidget([make_trace()], on_run=lambda: 1 / 0)
    front = Front(widget)
    ask(widget, "run")
    assert "ZeroDivisionError" in front.messages[-1]["message"]
    assert "test_widget.py" in front.messages[-1]["message"]


def test_export_sends_a_whole_page():
    widget = StepWidget([make_trace()])
    front = Front(widget)
    ask(widget, "export")
    assert front.messages[0]["html"].startswith("<!doctype html>")
    assert front.messages[0]["name"] == "linear regression.html"


def test_unknown_messages_are_left_alone():
    widget, front, _ = live()
    ask(widget, "format the disk")
    assert front.messages == []


def test_its_bundle_has_the_widget_and_the_text():
    bundle = StepWidget([make_trace()])._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "algsimp: 4 removed" in data["text/plain"]


def test_its_state_is_json():
    state = StepWidget([make_trace()]).get_state()
    json.dumps(state["payload"])
    assert state["_esm"].rstrip().endswith("export default { render };")
