"""Figures fit a screen, name their units, and show names verbatim."""

import pickle
import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from plotly import io

import xlanb
from tests.view.factory import EVIL, make_trace
from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue
from xlanb.cpu.records import ExecutionRecord, KernelTime
from xlanb.errors import ArgumentError, MissingLibraryError, XlanbError
from xlanb.explorer.ablation import Ablation
from xlanb.explorer.bisection import Bisection, Checked
from xlanb.explorer.comparison import Comparison
from xlanb.explorer.numerics import Numerics, ResultNumbers, StageNumbers
from xlanb.explorer.recording import Recording
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.frames import framed
from xlanb.view.plots.chart import Bar, bar_figure, fitting
from xlanb.view.plots.picture import figure_svg, figure_text

TEXT = "HloModule m\nENTRY e {\n  x = f32[8,8] parameter(0)\n  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT t = f32[8,8] tanh(y)\n}\n"


def _labels(figure):
    return [label for trace in figure.data for label in trace.y]


def _stage(index, name="pass", **named):
    return Stage("hlo_pass", name, None, None, index=index, **named)


def test_of_many_bars_the_longest_stay_in_their_order_and_the_others_are_one():
    bars = [Bar(f"b{k}", k % 37 + k / 1000) for k in range(108)]
    shown = fitting(bars)
    assert len(shown) == 21
    assert shown[-1].label == "88 others"
    assert sum(b.value for b in shown) == pytest.approx(sum(b.value for b in bars))
    assert [b for b in bars if b in shown] == shown[:-1]
    assert min(b.value for b in shown[:-1]) >= max(b.value for b in bars if b not in shown)
    assert fitting(bars[:21]) == bars[:21]


def test_a_trace_of_108_stages_fits_a_screen():
    trace = Trace("many", [_stage(k, seconds=k / 1e3) for k in range(108)])
    figure = trace.plot()
    assert figure.layout.height < 700
    assert "88 others" in _labels(figure)
    assert figure.layout.xaxis.title.text == "wall time, ms"
    assert figure.layout.title.text.startswith("many: ")


@pytest.mark.parametrize("what", ["time", "instructions", "kernels", "memory"])
def test_every_figure_of_a_trace_has_a_title_and_units(what):
    figure = make_trace().plot(what)
    assert figure.layout.title.text
    assert figure.layout.xaxis.title.text
    assert figure.data


def test_an_unknown_figure_suggests_the_nearest():
    with pytest.raises(ArgumentError, match="no figure 'kernel'; did you mean 'kernels'"):
        make_trace().plot("kernel")
    with pytest.raises(XlanbError, match="'empty' holds no run"):
        Trace("empty").plot("kernels")


def test_names_are_no_markup():
    evil = "<b onclick=x>&"
    figure = bar_figure(evil, "time", "us", [Bar(evil, 1.0, evil, evil)], {})
    assert figure.layout.title.text == "&lt;b onclick=x>&amp;"
    (bars,) = figure.data
    assert list(bars.y) == ["&lt;b onclick=x>&amp;"]
    assert "<b onclick" not in figure.to_json().replace("<b>%{customdata[0]}</b>", "")


def test_without_plotly_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingLibraryError, match="pip install plotly"):
        make_trace().plot()


def test_errors_after_each_pass():
    results = [ResultNumbers("r", 0.0, 1.0, 0, 0, error) for error in (0.0, 1e-7, None)]
    stages = [StageNumbers(_stage(k), (r,)) for k, r in enumerate(results)]
    figure = Numerics((*stages, StageNumbers(_stage(3), failure="too large"))).plot()
    line, crosses = figure.data
    assert [y is None for y in line.y] == [False, False, True, True]
    assert list(line.customdata)[:3] == ["0.00e+00", "1.00e-07", "not finite"]
    assert list(crosses.x) == ["3 pass"]
    assert figure.layout.yaxis.type == "log"
    with pytest.raises(XlanbError, match="no stage was evaluated: too large"):
        Numerics((StageNumbers(_stage(0), failure="too large"),)).plot()


def test_a_bisection_shows_the_tolerance_and_what_moved():
    guilty = _stage(4, "algsimp")
    checked = (Checked(_stage(2)), Checked(guilty, error=0.5))
    figure = Bisection(1e-6, checked, guilty).plot()
    assert "4 algsimp changed the result" in figure.layout.title.text
    assert [line.name for line in figure.data] == ["largest error", "changed the result", "tolerance 1.0e-06"]
    with pytest.raises(XlanbError, match="nothing to plot"):
        Bisection(1e-6, ()).plot()


def test_temporaries_lie_at_their_offsets():
    values = (BufferValue("a", (), "f32[4]", 0, 2048, 0, 3), BufferValue("b", (1,), "f32[4]", 2048, 1024, 2, 5))
    record = BufferAssignmentRecord("m", tuple("abcdef"), (BufferAllocation(0, "temp", 4096, values),), 3072)
    boxes, line = record.plot().data
    assert list(boxes.width) == [2.0, 1.0]
    assert list(boxes.y) == [1.0, 2.5]
    assert list(boxes.base) == [-0.5, 1.5]
    assert max(line.y) == 3.0
    table = record.to_dataframe()
    assert list(table["value"]) == ["a", "b{1}"]
    bare = BufferAssignmentRecord("m", (), (BufferAllocation(0, "parameter", 64), BufferAllocation(1, "temp", 0)))
    assert _labels(bare.plot()) == ["0 parameter"]


def test_an_executables_memory_is_drawn_and_listed():
    memory = xlanb.compile(TEXT).buffer_assignment
    assert memory.plot().layout.title.text.startswith("m: ")
    assert len(memory.to_dataframe()) == sum(len(a.values) + len(a.scratch) for a in memory.record().allocations)


def test_the_passes_that_matter_most_are_drawn():
    names = ["", *(f"p{k:02}" for k in range(30))]
    runs = [1.0, *(1.0 + k / 10 for k in range(30))]
    table = framed(
        {"without": names, "instructions": 1, "kernels": 1, "temp_bytes": 0, "compile_ms": 1.0, "run_us": runs}
    )
    figure = Ablation("m", table).plot()
    assert list(figure.data[0].y) == [f"p{k:02}" for k in range(29, 9, -1)]
    assert "10 more passes omitted" in figure.layout.title.text
    with pytest.raises(XlanbError, match="nothing to plot"):
        Ablation("m", table[:1]).plot()


def test_branches_recordings_and_dumps_are_drawn(tmp_path):
    rows = {"branch": ["a", "b"], "run_us": [1.0, 2.0], "kernels": [1, 2], "instructions": [3, 4]}
    assert _labels(Comparison(framed(rows)).plot()) == ["a", "b"]
    with xlanb.flags(f"--xla_dump_to={tmp_path}"), xlanb.recording() as recorded:
        xlanb.compile(TEXT)(np.ones((8, 8), np.float32))
    assert _labels(recorded.plot()) == ["m: compilation", "m: runs"]
    (label,) = _labels(xlanb.read_dump(tmp_path).plot())
    assert label.endswith(" m")
    with pytest.raises(XlanbError, match="nothing was compiled"):
        Recording().plot()


def test_kernels_say_their_share_and_their_limit():
    kernels = (KernelTime("a", "a", 3e-6, 1024, 5, "jit(f)/a", limit=1e-6, bound="memory"), KernelTime("b", "b", 1e-6))
    (bars,) = ExecutionRecord(4e-6, kernels).plot().data
    assert list(bars.y) == ["a", "b"]
    assert bars.customdata[0][1] == "75% of the run, 1 KiB, 5 flops, 33% of the memory limit, jit(f)/a"
    table = ExecutionRecord(4e-6, kernels).to_dataframe()
    assert list(table["% of run"]) == [pytest.approx(75.0), pytest.approx(25.0)]


@pytest.mark.parametrize("what", ["time", "instructions", "kernels", "memory"])
def test_a_figure_is_a_picture_where_no_script_runs(what):
    figure = make_trace().plot(what)
    svg = figure_svg(figure)
    tree = ET.fromstring(svg)  # noqa: S314 - our own
    assert float(tree.get("width")) <= 860
    assert len(svg) < 15_000
    marks = [e for e in tree.iter() if e.tag.endswith(("rect", "circle"))]
    assert len(marks) > 2
    lines = figure_text(figure).splitlines()
    assert 2 <= len(lines) <= 10
    assert lines[0].startswith(figure.layout.title.text[:20])


def test_what_a_notebook_keeps_of_a_figure(monkeypatch):
    monkeypatch.setattr(io.renderers, "default", "plotly_mimetype")
    figure = make_trace(EVIL, evil=True).plot()
    assert figure._ipython_display_ is None  # IPython takes the bundle
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.plotly.v1+json", "text/html", "text/plain"}
    assert re.fullmatch(
        r'<img alt="[^"<]*" style="max-width:100%" src="data:image/svg\+xml;base64,[\w+/=]+">', bundle["text/html"]
    )
    assert pickle.loads(pickle.dumps(figure)) == figure  # noqa: S301 - its own
    monkeypatch.setattr(io.renderers, "default", "png")
    monkeypatch.setattr(io.renderers, "render_on_display", False)
    assert figure._ipython_display_ is not None
