"""The initial state of a step view: the arguments of `explore`, and the front end's data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xlanb
from tests.programs import TWO_SUMS
from xlanb.errors import ArgumentError, XlanbError
from xlanb.notebook.explore import explore
from xlanb.notebook.start import PANES


@pytest.fixture(scope="module")
def trace():
    return xlanb.trace(TWO_SUMS)


def test_a_stage_a_pane_and_an_op(trace):
    widget = explore(trace, stage="cse", pane="why", pinned="again")
    at = trace["cse"].index
    assert (widget.stage, widget.pinned) == (at, "again")
    assert widget.start == {"branch": 0, "stage": at, "pane": "Why", "pinned": "again"}


def test_nothing_asked_for_is_as_before(trace):
    widget = explore(trace)
    assert (widget.stage, widget.start) == (0, {})


def test_two_ops_are_a_pair(trace):
    start = explore(trace, stage=-1, pinned=["total", "product"]).start
    assert start == {"branch": 0, "stage": len(trace) - 1, "pinned": "total", "second": "product"}


def test_another_stage_is_compared_or_drawn_side_by_side(trace):
    cse, fusion = trace["cse"], trace["fusion"]
    assert explore(trace, stage=cse, against=fusion).start == {
        "branch": 0, "stage": cse.index, "pane": "Diff", "other": fusion.index
    }  # fmt: skip
    both = [trace, xlanb.trace(TWO_SUMS)]
    assert explore(both, stage=both[1]["fusion"], against=cse, pane="Graph").start == {
        "branch": 1, "stage": both[1]["fusion"].index, "pane": "Graph", "second_graph": f"0:{cse.index}"
    }  # fmt: skip
    with pytest.raises(ArgumentError, match="two compilations, 'm' and 'm': pane='Graph' shows them"):
        explore(both, stage=both[1]["fusion"], against=cse)


def test_a_stage_that_left_the_program_alone_is_drawn_as_the_one_before_it(trace):
    cse = trace["cse"].index
    quiet = next(k for k in range(cse + 1, len(trace)) if not trace[k].changed)
    start = explore(trace, stage="fusion", against=quiet, pane="Graph").start
    assert start["second_graph"] == f"0:{quiet - 1}"


def test_a_guess_is_made_on_the_graph_before_the_stage(trace):
    before = trace["cse"].index - 1
    widget = explore(trace, stage="cse", predict=True)
    assert widget.start == {"branch": 0, "stage": before, "pane": "Graph", "predict": 1}
    assert widget.stage == before
    assert explore(trace, predict=True).start["stage"] == 0


def test_a_saved_page_has_what_was_laid_over_the_nodes(trace):
    widget = explore(trace)
    widget.overlay({"total": 1.5}, "mine")
    assert widget.saved_payload["overlays"] == {"mine": {"total": 1.5}}


def test_a_live_compilation_runs_to_the_stage():
    compilation = xlanb.Compilation(TWO_SUMS)
    widget = explore(compilation, stage="cse")
    assert compilation.trace.stages[-1].name == "cse"
    assert widget.stage == len(compilation.trace) - 1
    assert not compilation.is_done


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stage": "csee"}, "no stage 'csee'.*did you mean 'cse'"),
        ({"stage": 4000}, r"no stage 4000: there are \d+, numbered from 0"),
        ({"pane": "whi"}, "no pane 'whi'; known: Graph"),
        ({"pinned": "agin"}, "no op 'agin' at any stage; did you mean 'again'"),  # codespell:ignore
        ({"pinned": ["a", "b", "total"]}, "3 ops to pin"),
    ],
)
def test_what_is_not_there_is_refused_with_near_names(trace, asked, message):
    with pytest.raises(XlanbError, match=message):
        explore(trace, **asked)


def test_a_stage_of_another_compilation_is_refused(trace):
    with pytest.raises(ArgumentError, match="stage 'cse' does not belong to any of these: m"):
        explore(trace, stage=xlanb.trace(TWO_SUMS)["cse"])


def test_the_panes_are_those_of_the_front_end():
    source = (Path(xlanb.__file__).parent / "view/step/panes.js").read_text(encoding="utf-8")
    listed = re.search(r"^export const TABS = \[(.*)\];$", source, re.MULTILINE)
    assert listed is not None
    assert tuple(re.findall(r'"(\w+)"', listed[1])) == PANES
