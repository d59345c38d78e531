"""The step widget among ipywidgets: its state can be observed, linked and set; overlays colour
nodes.
"""

from __future__ import annotations

import json

import ipywidgets
import pandas as pd
import pytest
from traitlets import TraitError

import xlanb
from xlanb.errors import ArgumentError
from xlanb.notebook.explore import explore

TEXT = """HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  total = f32[8] add(a, b)
  again = f32[8] add(a, b)
  ROOT product = f32[8] multiply(total, again)
}
"""


@pytest.fixture
def widget():
    return explore(xlanb.trace(TEXT))


def from_view(widget, **state):
    widget._handle_msg({"content": {"data": {"method": "update", "state": state}}})


def test_a_stage_is_set_by_position_or_name_and_seen_as_a_position(widget):
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "stage")
    widget.stage = 3
    widget.stage = "fusion"
    widget.stage = -1
    trace = widget.traces[0]
    assert seen == [3, trace["fusion"].index, len(trace) - 1]


@pytest.mark.parametrize(
    ("trait", "value", "message"),
    [
        ("stage", "fusoin", r"no stage 'fusoin'.*did you mean 'fusion'"),
        ("stage", 4000, r"no stage 4000: there are \d+ so far"),
        ("stage", -4000, "no stage -4000"),
        ("stage", 1.5, "stage"),
        ("pinned", "totl", "no op 'totl' at any stage; did you mean 'total'"),
        ("selected", "totl", "did you mean 'total'"),
        ("branch", 7, "no compilation 7: there are 1"),
        ("branch", "n", "no compilation 'n'"),
    ],
)
def test_a_wrong_value_is_refused_with_near_names(widget, trait, value, message):
    before = getattr(widget, trait)
    with pytest.raises(TraitError, match=message):
        setattr(widget, trait, value)
    assert getattr(widget, trait) == before


def test_two_widgets_are_linked_both_ways(widget):
    other = explore(xlanb.trace(TEXT))
    link = ipywidgets.link((widget, "stage"), (other, "stage"))
    widget.stage = "fusion"
    assert other.stage == widget.stage
    other.stage = 2
    assert widget.stage == 2
    link.unlink()
    assert ipywidgets.jslink((widget, "pinned"), (other, "pinned")).source == (widget, "pinned")


def test_a_view_that_moves_is_seen_from_python(widget):
    seen = []
    widget.observe(lambda change: seen.append((change["name"], change["new"])), ["stage", "pinned", "selected"])
    from_view(widget, branch=0, stage=5, pinned="total")
    from_view(widget, selected="product")
    assert sorted(seen) == [("pinned", "total"), ("selected", "product"), ("stage", 5)]


def test_what_a_view_may_not_set_stays(widget):
    from_view(widget, stage=5)
    before = widget.get_state()
    from_view(widget, stage=99999)
    from_view(widget, stage="nowhere", pinned=["x"])
    from_view(widget, overlays={"mine": {}}, payload={})
    assert widget.get_state() == before


def test_a_branch_with_fewer_stages_takes_the_stage_along():
    compilation = xlanb.Compilation(TEXT)
    compilation.finish()
    short = compilation.fork(0)
    widget = explore(compilation)
    widget.stage = -1
    widget.branch = short.trace.name
    assert widget.branch == 1
    assert widget.stage == len(short.trace) - 1


def test_an_overlay_of_numbers_and_of_texts(widget):
    widget.overlay(pd.Series({"total": 1.5, "again": float("nan"), "product": 2}), "cost")
    widget.overlay({"total": "mine", "elsewhere": "theirs", "a": None}, "owner")
    assert widget.overlays == {
        "cost": {"total": 1.5, "product": 2.0},
        "owner": {"total": "mine", "elsewhere": "theirs"},
    }
    json.dumps(widget.get_state()["overlays"])
    widget.overlay(None, "cost")
    assert list(widget.overlays) == ["owner"]


def test_an_overlay_of_nothing_that_is_here_is_refused(widget):
    with pytest.raises(ArgumentError, match="names no op of this graph, for example 'totl'; did you mean 'total'"):
        widget.overlay({"totl": 1})
    with pytest.raises(ArgumentError, match="a dict or pandas Series"):
        widget.overlay([1, 2, 3])
    assert widget.overlays == {}
