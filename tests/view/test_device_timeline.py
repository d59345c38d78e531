"""A run on several devices as lanes: the waits, their lengths, and the devices waited for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import xlanb
from xlanb.cpu.device_timeline import DeviceTimeline
from xlanb.cpu.devices import TIMELINE
from xlanb.errors import XlanbError
from xlanb.hlo import parse
from xlanb.hlo.device_groups import device_grid
from xlanb.spmd import collectives
from xlanb.view.plots.picture import figure_svg

TEXT = """HloModule run, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[4] parameter(0)
  sum = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add
  ROOT next = f32[4] collective-permute(sum), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
"""


def _timeline(rows):
    module = parse(TEXT)
    return DeviceTimeline(pd.DataFrame(rows, columns=TIMELINE), module, device_grid(module))


def test_devices_wait_for_the_last_of_their_group_or_for_who_sends_to_them():
    timeline = _timeline([])
    came = {0: 1.0, 1: 3.0, 2: 2.0, 3: 0.0}
    assert sorted(timeline.links("sum", came)) == [(1, 0), (2, 3)]
    assert sorted(timeline.links("next", came)) == [(1, 2), (2, 3)]
    assert list(timeline.links("unknown", came)) == []


def test_each_device_has_a_lane_and_lines_lead_to_those_that_waited():
    rows = [(d, "sum", "all-reduce", d * 1e-5, (1 if d < 2 else 3) * 1e-5, 5e-5) for d in range(4)]
    figure = _timeline(rows).plot()
    waiting, running, lines = figure.data
    assert [waiting.name, running.name, lines.name] == ["waiting", "all-reduce", "waited for"]
    assert list(waiting.x) == pytest.approx([10, 0.5, 10, 0.5])
    assert list(waiting.base) == pytest.approx([0, 10, 20, 30])
    assert list(lines.y) == ["device 1", "device 0", None, "device 3", "device 2", None]
    assert "which waited 20 us in all" in figure.layout.title.text
    svg = figure_svg(figure)
    assert "None" not in svg
    assert svg.count("M") >= 2  # the gap between two lines stays one


def test_a_run_is_drawn():
    text = TEXT.replace("ENTRY e", "ENTRY e_spmd").replace(
        "parameter(0)\n  sum", "parameter(0), sharding={devices=[4]<=[4]}\n  sum"
    )
    exe = xlanb.compile(parse(text))
    figure = exe.plot_timeline(np.arange(16, dtype=np.float32))
    assert {label for trace in figure.data[:2] for label in trace.y} == {f"device {d}" for d in range(4)}


def test_without_collectives_there_is_nothing_to_draw():
    with pytest.raises(XlanbError, match="no collective"):
        _timeline([]).plot()


def test_the_collectives_of_a_program_by_time():
    figure = collectives(parse(TEXT)).plot()
    assert {bars.name for bars in figure.data} == {"all-reduce", "collective-permute"}
    assert figure.layout.xaxis.title.text == "time, us"
    with pytest.raises(XlanbError, match="no collectives"):
        collectives(parse("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }")).plot()
