"""Timelines as plotly figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.errors import XlanbError
from xlanb.runtime.config import RunMetadata, RunOptions
from xlanb.runtime.step_stats import StepStats
from xlanb.runtime.timeline import Timeline
from xlanb.view.timeline import figure


def traced(flags: str) -> StepStats:
    program = line_fit()
    with xlanb.flags(flags), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.loss, program.feeds)
        metadata = RunMetadata()
        session.run(program.loss, program.feeds, RunOptions(trace_level=RunOptions.FULL_TRACE), metadata)
    return metadata.step_stats


def test_two_runs_stand_one_above_the_other_and_ops_lead_to_their_fusions() -> None:
    off, on = traced(""), traced("--tf_xla_auto_jit=2")
    chart = Timeline(on).figure(Timeline(off))
    json.loads(chart.to_json())
    rows = set(chart.layout.yaxis.categoryarray)
    assert {"XLA off: nodes", "XLA on: nodes", "XLA on: launches", "XLA on: kernels"} == rows
    joins = chart.data[-1]
    ends = [(a, b) for a, b in zip(joins.y, joins.y[1:], strict=False) if a and b]
    assert ends
    assert set(ends) == {("XLA off: nodes", "XLA on: kernels")}
    kernels = next(t for t in chart.data if t.name == "kernels")
    assert any("Square" in row[2] for row in kernels.customdata)
    assert len({len(kernels.x), len(kernels.base), len(kernels.y), len(kernels.customdata)}) == 1


def test_one_run_stands_alone() -> None:
    chart = RunMetadata(traced("")).figure()
    assert list(chart.layout.yaxis.categoryarray) == ["nodes"]
    assert sum(len(t.x) for t in chart.data) > 5


def test_a_run_that_was_not_traced_is_refused() -> None:
    with pytest.raises(XlanbError, match="the run was not traced"):
        figure(StepStats())
