"""PyTorch/XLA's files about lazy graphs open as a dump directory."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb.dump.torch_xla import read_analysis, read_lazy_graphs
from xlanb.errors import DumpError
from xlanb.explorer.stage import TextRecord
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord

HEAD = """[ScheduleSyncTensorsGraph]
TensorsGraphInfo:
  mark_step (/opt/torch_xla/core/xla_model.py:955)
  next (/opt/torch_xla/distributed/parallel_loader.py:46)
  train (train.py:31)
  <module> (train.py:75)

Root Hashes: (93624e0734594a74, c5803cddd1284946)

## BEGIN_GRAPH
"""
IR = """IR {
  %0 = f32[10,5]{1,0} xla::device_data(), location=train@train.py:29, device=CPU:0
  %1 = f32[5,10]{1,0} xla::device_data(), location=train@train.py:29, device=CPU:0
  %2 = f32[5,5]{1,0} aten::mm(%1, %0), location=train@train.py:30
  %3 = (f32[5,5]{1,0}, s64[5]{0}) aten::max(%2), dim=1, ROOT=1
  %4 = f32[] aten::mean(%3.0), dimensions=(0, 1), keep=0, ROOT=0
}
"""
HLO = "HloModule IrToHlo.4\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  ROOT n = f32[4]{0} negate(p)\n}\n"
END = "Graph Hash: b5cb91c3ef0f\n\n## END_GRAPH\n\n\n"
ANALYSIS = """
Compilation Analysis: ================================================================================
Compilation Analysis: Compilation Cause
Compilation Analysis:   mark_step in parallel loader at step end
Compilation Analysis: Graph Info: 
Compilation Analysis:   Graph Hash: b5cb91c3ef0f
Compilation Analysis:   Number of Graph Inputs: 2
Compilation Analysis:   Number of Graph Outputs: 2
Compilation Analysis: Python Frame Triggered Execution: 
Compilation Analysis:   mark_step (/opt/torch_xla/core/xla_model.py:955)
Compilation Analysis: --------------------------------------------------------------------------------
Compilation Analysis: ================================================================================
"""  # noqa: W291 - as it is written


def test_the_ir_becomes_a_graph_with_its_python_lines() -> None:
    (graph,) = read_lazy_graphs(HEAD + IR + "\n" + END)
    assert (graph.format, graph.hash, graph.root_hashes) == (
        "text",
        "b5cb91c3ef0f",
        ("93624e0734594a74", "c5803cddd1284946"),
    )
    assert graph.cause == "train (train.py:31)"
    record = graph.record()
    assert [(n.name, n.op, n.inputs, n.outputs) for n in record.nodes] == [
        ("device_data.0", "xla::device_data", (), ("f32[10,5]",)),
        ("device_data.1", "xla::device_data", (), ("f32[5,10]",)),
        ("mm.2", "aten::mm", ("device_data.1", "device_data.0"), ("f32[5,5]",)),
        ("max.3", "aten::max", ("mm.2",), ("f32[5,5]", "s64[5]")),
        ("mean.4", "aten::mean", ("max.3:0",), ("f32[]",)),
    ]
    assert record.nodes[4].attributes == {"dimensions": "(0, 1)", "keep": "0", "ROOT": "0"}
    assert (record.nodes[2].source_file, record.nodes[2].source_line) == ("train.py", 30)


def test_a_folder_of_it_opens_as_a_dump(tmp_path: Path) -> None:
    dot = 'digraph G {\n  node0 [label="xla::device_data\\nf32[4]{0}"]\n  node1 [label="aten::neg\\nf32[4]{0}\\nROOT=0"]\n  node0 -> node1\n}\n'
    (tmp_path / "graphs.0").write_text(HEAD + IR + "\n" + END + HEAD + HLO + END + HEAD + dot + "## END_GRAPH\n")
    (tmp_path / "debug.log").write_text(ANALYSIS + ANALYSIS.replace("Compilation", "Execution") * 2)
    (tmp_path / "step.txt").write_text(HLO)
    (tmp_path / "notes.txt").write_text("mine")
    dump = xlanb.read_dump(tmp_path)
    assert [(m.name, m.why) for m in dump.ranked] == [("IrToHlo.4", "main program: the only one (2 instructions)")]
    assert dump.others == [("notes.txt", "does not match a known dump file name")]
    graphs = dump.lazy_graphs
    assert graphs is not None
    assert [type(s.after) for s in graphs] == [GraphRecord, ModuleRecord, GraphRecord]
    assert graphs[0].summary == (
        "ScheduleSyncTensorsGraph from train (train.py:31), 2 results, graph hash b5cb91c3ef0f; "
        "compiled once: mark_step in parallel loader at step end; run 2 times: mark_step in parallel loader at step end"
    )
    assert [n.op for n in graphs[2].after.nodes] == ["xla::device_data", "aten::neg"]  # type: ignore[union-attr]
    assert graphs in dump.traces
    assert str(dump).splitlines()[0].endswith(": 4 files, 1 module, 0 graphs, 3 lazy graphs")
    assert set(dump.files.kind) == {"lazy", "fixed", "other"}


def test_the_analysis_is_read_in_order() -> None:
    (event,) = read_analysis(ANALYSIS)
    assert (event.kind, event.cause, event.hash) == (
        "compilation",
        "mark_step in parallel loader at step end",
        "b5cb91c3ef0f",
    )
    assert event.facts["Number of Graph Inputs"] == "2"


def test_graphs_that_are_cut_short_or_odd_are_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / "save.txt").write_text(
        HEAD + IR.replace("aten::mm(%1", "aten mm(%1") + HEAD + "module {}\n" + HEAD + "IR {\n  %0 = f"
    )
    graphs = xlanb.read_dump(tmp_path).lazy_graphs
    assert graphs is not None
    records = [s.after for s in graphs]
    assert all(isinstance(r, TextRecord) for r in records)
    assert "line 4 is not a node of PyTorch/XLA IR: %2" in records[0].note  # type: ignore[union-attr]
    assert records[1].language == "mlir"  # type: ignore[union-attr]
    with pytest.raises(DumpError, match="is stablehlo"):
        read_lazy_graphs(HEAD + "module {}\n")[0].record()


@given(st.text(alphabet="%0123 =f[],(){}:aten\n", max_size=80))
def test_any_ir_is_read_or_refused(text: str) -> None:
    (graph,) = read_lazy_graphs(HEAD + "IR {\n" + text)
    with contextlib.suppress(DumpError):
        assert all(n.op for n in graph.record().nodes)
