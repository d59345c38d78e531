from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import xlanb
from xlanb.errors import InternalError, PassError, XlanbError
from xlanb.notebook.explore import explore
from xlanb.notebook.saved import _flush_all as flush_all
from xlanb.notebook.widget import StepWidget
from xlanb.view.page import saved_html

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
from factory import EVIL, FakeCompiler, make_trace

VIEW = "application/vnd.jupyter.widget-view+json"


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


def ask(widget, message_type, **more):
    widget._handle_custom_msg({"type": message_type, **more}, [])


TEXT = """HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  c = f32[8] add(a, b), metadata={op_name="sum" source_file="In [3]" source_line=7}
  d = f32[8] add(a, b)
  ROOT r = f32[8] multiply(c, d)
}
"""


@pytest.fixture
def bench():
    widget = explore(TEXT)
    return widget, Front(widget)


def finished():
    widget = explore(xlanb.trace(TEXT))
    return widget, Front(widget)


def test_a_finished_trace_is_static():
    widget = StepWidget([make_trace()])
    assert not widget.can["step"]
    assert not widget.can["run"]
    assert widget.payload["traces"][0]["live"] is False
    assert len(widget.payload["traces"][0]["stages"]) == 18
    with pytest.raises(XlanbError, match="it cannot be stepped"):
        widget.step()
    with pytest.raises(XlanbError, match="no program to run"):
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
    assert not widget.can["step"]
    assert widget.can["run"]
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
    assert "<td>algsimp</td>" in data["text/html"]
    assert "<script" not in data["text/html"]
    assert "<img" not in StepWidget([make_trace(EVIL, evil=True)])._repr_mimebundle_()[0]["text/html"]


def test_in_a_notebook_it_is_two_outputs_and_the_second_is_written_anew_when_it_rests(monkeypatch):
    told = []

    def publish(data, metadata, transient=None, update=False):
        told.append((data, transient, update))

    monkeypatch.setattr("xlanb.notebook.widget.publish_display_data", publish)
    monkeypatch.setattr("xlanb.notebook.saved.publish_display_data", publish)
    widget = explore(TEXT)
    widget._ipython_display_()
    [(live, _, _), (page, transient, update)] = told
    assert "application/vnd.jupyter.widget-view+json" in live
    assert "text/html" not in live
    assert list(page) == ["text/html"]
    assert f'data-ident="{widget.ident}"' in page["text/html"]
    assert "<td>before_optimizations</td>" in page["text/html"]
    assert not update
    widget.run()
    assert len(told) == 2
    flush_all()
    flush_all()
    [_, _, (again, same, update)] = told
    assert same == transient
    assert update
    assert "<td>fusion</td>" in again["text/html"]
    assert len(widget.get_state()["payload"]["traces"][0]["stages"]) > 50


def test_what_is_kept_of_a_hostile_program_says_nothing_unescaped():
    widget = StepWidget([make_trace(EVIL, evil=True)])
    html = saved_html(widget.payload, widget.traces, widget.ident)
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html


def test_it_answers_a_view_that_asks_whether_there_is_a_kernel():
    widget, front, _ = live()
    ask(widget, "hello")
    assert front.messages == [{"type": "here", "revision": widget.payload["revision"]}], (
        "what the view has may be older"
    )


def test_passes_are_moved_and_a_foolish_order_is_refused(bench):
    widget, front = bench
    widget.run()
    trace = widget.traces[0]
    at = next(s.index for s in trace if s.kind == "hlo")
    ask(widget, "passes", trace=0, stage=at)
    [told] = [m for m in front.messages if m["type"] == "passes"]
    tree = told["tree"]

    def names(entries):
        return [n for e in entries for n in (names(e["inside"]) if "inside" in e else [e["name"]])]

    def order(entries):
        return [[e["id"], order(e["inside"])] if "inside" in e else [e["id"]] for e in entries]

    assert "fusion" in names(tree)
    ask(widget, "reorder", trace=0, stage=at, order=order(tree[::-1]))
    assert front.types()[-1] == "done", front.messages[-1]
    ran = [s.name for s in widget.traces[1] if s.kind == "hlo_pass"]
    assert ran[0] == names(tree[::-1])[0]
    assert "other order" in widget.traces[1].name
    ask(widget, "reorder", trace=0, stage=at, order=[[999]])
    assert "does not exist" in front.messages[-1]["message"]
    assert len(widget.traces) == 2


def test_its_state_is_json():
    state = StepWidget([make_trace()]).get_state()
    json.dumps(state["payload"])
    assert state["_esm"].rstrip().endswith("export default { render };")


# -- what needs the compiler -----------------------------------------------------------------------


def test_opening_it_compiles_one_stage_and_run_the_rest(bench):
    widget, front = bench
    assert len(widget.traces[0]) == 1
    ask(widget, "run", trace=0, stage=0)
    assert {"delta", "progress"} <= set(front.types())
    assert front.types()[-1] == "done"
    progress = [m for m in front.messages if m["type"] == "progress"]
    assert all(0 < m["done"] <= m["total"] for m in progress)
    run = widget.traces[0].stages[-1]
    assert run.kind == "execution"
    assert run.after.kernels
    assert run.after.kernels[0].source == "In [3]:7"
    assert "random inputs" in run.summary


def test_a_recorded_compilation_can_be_run_again():
    widget, front = finished()
    assert widget.can["run"]
    ask(widget, "run", trace=0, stage=3)
    ask(widget, "run", trace=0, stage=3)
    assert [s.kind for s in widget.traces[0].stages[-2:]] == ["execution", "execution"]
    assert front.types().count("done") == 2


def test_an_edit_gives_a_branch_and_the_view_goes_to_it():
    widget, front = finished()
    stage = widget.traces[0]["cse"]
    ask(widget, "edit", trace=0, stage=stage.index, text=stage.after.text.replace("add(", "subtract("))
    assert front.types()[-1] == "done"
    delta = next(m for m in front.messages if m["type"] == "delta")
    assert delta["trace"] == 1
    assert delta["delta"]["order"] == [0, 1]
    names = [s["name"] for s in delta["delta"]["traces"][1]["stages"]]
    assert names[stage.index + 1] == "edit"
    assert names[-1] == "assembly"


def test_a_bad_edit_is_told_with_its_place_and_changes_nothing():
    widget, front = finished()
    ask(widget, "edit", trace=0, stage=5, text=TEXT.replace("multiply", "multiplied"))
    (told,) = [m for m in front.messages if m["type"] == "edit-error"]
    assert (told["line"], told["column"]) == (7, 19)
    assert "multiplied" in told["message"]
    assert len(widget.traces) == 1
    ask(widget, "edit", trace=0, stage=5, text=TEXT.replace("ROOT r = f32[8]", "ROOT r = f32[9]"))
    told = front.messages[-1]
    assert (told["type"], told["line"]) == ("edit-error", 7)


def test_a_pass_that_is_switched_off_does_not_run_in_a_fork():
    widget, front = finished()
    ask(widget, "toggle", name="fusion", off=True)
    assert widget.can["off"] == ["fusion"]
    ask(widget, "fork", trace=0, stage=4)
    branch = widget.traces[1]
    assert "fusion" not in {s.name for s in branch}
    ask(widget, "toggle", name="fusion", off=False)
    assert widget.can["off"] == []
    ask(widget, "toggle", name="fussion")
    assert "no pass 'fussion'" in front.messages[-1]["message"]


def test_branches_of_a_live_compilation_leave_it_where_it_is(bench):
    widget, _ = bench
    for _ in range(5):
        ask(widget, "step", trace=0)
    ask(widget, "fork", trace=0, stage=2)
    assert len(widget.traces[0]) == 6
    assert widget.traces[1].stages[-1].kind == "assembly"
    ask(widget, "step", trace=0)
    assert len(widget.traces[0]) == 7
    assert widget.payload["traces"][0]["live"]
    assert not widget.payload["traces"][1]["live"]


def test_a_fork_made_in_python_is_stepped_by_its_own_next():
    compilation = xlanb.Compilation(TEXT)
    compilation.finish()
    widget = explore(compilation)
    Front(widget)
    made = compilation.fork("cse")
    widget.refresh()
    assert widget.payload["traces"][1]["live"]
    before = len(made.trace)
    ask(widget, "step", trace=1)
    assert len(made.trace) == before + 1


def test_numbers_after_every_pass_arrive_with_the_stages():
    widget, front = finished()
    ask(widget, "numerics", trace=0)
    assert front.types() == ["delta", "done"]
    stages = [s for s in widget.payload["traces"][0]["stages"] if "numerics" in s]
    assert stages
    assert stages[0]["numerics"][0]["err"] == 0.0
    assert stages[-1]["err"] is not None


@pytest.mark.parametrize("message", [{"trace": 99}, {"trace": -1}, {"trace": "x", "stage": "y"}, {"stage": 10**9}, {}])
@pytest.mark.parametrize("kind", ["step", "run", "edit", "fork", "toggle", "numerics", "load"])
def test_whatever_comes_is_answered_and_the_kernel_lives(kind, message):
    widget, front = finished()
    ask(widget, kind, **message)
    assert front.types()[-1] in {"done", "error", "edit-error"}


def test_interrupting_is_no_end():
    def forever():
        raise KeyboardInterrupt

    widget = StepWidget([make_trace()], on_run=forever)
    front = Front(widget)
    ask(widget, "run")
    assert front.messages[-1] == {"type": "error", "message": "interrupted"}


WRONG = [
    None,
    True,
    -1,
    10**30,
    1.5,
    float("nan"),
    "",
    "x",
    "\udc80",
    [],
    [[]],
    [None],
    [[0, 5]],
    [[10**30]],
    {},
    {"a": 1},
    [[0, [[0, [[0]]]]]],
]


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize("field", ["trace", "stage", "text", "order", "name", "off"])
def test_fields_of_the_wrong_kind_are_refused_with_a_message(field, value):
    compilation = xlanb.Compilation(TEXT)
    widget = StepWidget(lambda: compilation.traces, compilation=compilation)
    front = Front(widget)
    for kind in ("step", "run", "edit", "fork", "passes", "reorder", "toggle", "numerics", "load"):
        ask(widget, kind, **{field: value})
        answer = front.messages[-1]
        assert answer["type"] in {"done", "error", "edit-error"}
        assert "Traceback" not in answer.get("message", ""), answer["message"]
    assert compilation.run(*[np.ones(8, np.float32)] * 2) is not None


@pytest.mark.parametrize(
    "message",
    [
        None, [], "x", {}, {"content": None}, {"content": {}}, {"content": {"data": 3}}, {"content": {"data": {"method": 3}}},
        {"content": {"data": {"method": "nothing"}}}, {"content": {"data": {"method": "update"}}},
        {"content": {"data": {"method": "custom", "content": "x"}}}, {"content": {"data": {"method": "custom", "content": None}}},
        {"content": {"data": {"method": "custom", "content": {"type": ["step"]}}}},
        {"content": {"data": {"method": "update", "state": {"payload": 3, "can": [], "ident": None, "_esm": "x"}}}},
    ],
    ids=repr,
)  # fmt: skip
def test_messages_of_the_wrong_form_change_nothing(message, capsys, caplog):
    widget = finished()[0]
    before = widget.get_state()
    widget._handle_msg(message)
    assert widget.get_state() == before
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err + caplog.text


def test_a_bug_is_shown_as_one_with_its_traceback(monkeypatch):
    widget, front = finished()
    monkeypatch.setattr(widget.bench, "numerics", lambda _: {}["x"])
    ask(widget, "numerics")
    assert isinstance(widget.error, InternalError)
    assert "Please report it" in front.messages[-1]["message"]
    assert "KeyError: 'x'" in front.messages[-1]["message"]


def test_colab_is_asked_for_its_manager_of_widgets(monkeypatch):
    util = pytest.importorskip("anywidget._util")
    turned_on = []
    colab = types.ModuleType("google.colab.output")
    colab.enable_custom_widget_manager = lambda: turned_on.append(True)
    colab._widgets = types.SimpleNamespace(_installed_url="https://manager")
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", colab)
    util.enable_custom_widget_manager_once.cache_clear()
    for _ in range(2):
        data, metadata = explore(make_trace())._repr_mimebundle_()
        assert metadata[VIEW] == {"colab": {"custom_widget_manager": {"url": "https://manager"}}}
        assert {VIEW, "text/html", "text/plain"} <= set(data)
    assert turned_on == [True]
    util.enable_custom_widget_manager_once.cache_clear()
