"""Traced runs: StepStats, and the timeline for chrome://tracing and Perfetto."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.runtime.config import RunMetadata, RunOptions
from xlanb.runtime.step_stats import (
    COMPILATIONS,
    CPU,
    KERNELS,
    LAUNCHES,
    PASSES,
    NodeExecStats,
    StepStats,
    op_of,
)
from xlanb.runtime.timeline import Timeline


def traced(flags: str, runs: int = 1) -> RunMetadata:
    program = line_fit()
    metadata = RunMetadata()
    with xlanb.flags(flags), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        for _ in range(runs):
            metadata = RunMetadata()
            options = RunOptions(trace_level=RunOptions.FULL_TRACE)
            session.run([program.loss, program.train], program.feeds, options=options, run_metadata=metadata)
    return metadata


@pytest.fixture(scope="module")
def first() -> RunMetadata:
    return traced("--tf_xla_auto_jit=2")


@pytest.fixture(scope="module")
def plain() -> RunMetadata:
    return traced("", runs=2)


def names(metadata: RunMetadata, device: str) -> list[str]:
    return [n.node_name for n in metadata.step_stats.device(device).node_stats]


def test_a_run_tells_of_every_node_in_order(plain: RunMetadata) -> None:
    (cpu,) = plain.step_stats.dev_stats
    assert cpu.device == CPU
    assert {"mul", "add", "sub", "Square", "Mean"} <= set(names(plain, CPU))
    starts = [n.all_start_micros for n in cpu.node_stats]
    assert starts == sorted(starts)
    mul = next(n for n in cpu.node_stats if n.node_name == "mul")
    assert mul.timeline_label == "mul = Mul(weights/read, _arg_x_observed_0_0)"
    assert 0 == mul.op_start_rel_micros < mul.op_end_rel_micros <= mul.all_end_rel_micros
    (output,) = mul.output
    assert (output.slot, output.tensor_description.dtype, output.tensor_description.shape) == (0, "float32", (100,))
    assert output.tensor_description.allocation_description.requested_bytes == 400
    assert mul.memory[0].total_bytes == 400


def test_a_compiled_run_tells_of_compilations_passes_launches_and_kernels(first: RunMetadata) -> None:
    assert [d.device for d in first.step_stats.dev_stats] == [CPU, LAUNCHES, KERNELS, COMPILATIONS, PASSES]
    assert names(first, LAUNCHES) == ["cluster_0"]
    assert {"prune", "mark_for_compilation", "tf2xla", "algsimp", "fusion", "buffer_assignment"} <= set(
        names(first, PASSES)
    )
    assert any("cluster_0" in n for n in names(first, COMPILATIONS))
    (launch,) = first.step_stats.device(LAUNCHES).node_stats
    (node,) = (n for n in first.step_stats.device(CPU).node_stats if op_of(n) == "XlaLaunch")
    assert node.all_start_nanos <= launch.all_start_nanos
    assert launch.all_start_nanos + launch.all_end_rel_nanos <= node.all_start_nanos + node.all_end_rel_nanos
    swallowed = {op for n in first.step_stats.device(KERNELS).node_stats for op in n.ops}
    assert {"mul", "sub", "Square"} <= swallowed
    for n in first.step_stats.device(KERNELS).node_stats:
        assert launch.all_start_nanos <= n.all_start_nanos
        assert n.all_start_nanos + n.all_end_rel_nanos <= launch.all_start_nanos + launch.all_end_rel_nanos + 1000


def events_of(metadata: RunMetadata, **options: Any) -> list[dict[str, Any]]:
    found = json.loads(Timeline(metadata.step_stats).generate_chrome_trace_format(**options))
    events: list[dict[str, Any]] = found["traceEvents"]
    return events


@pytest.mark.parametrize("which", ["first", "plain"])
def test_the_trace_follows_the_rules_of_its_format(which: str, request: pytest.FixtureRequest) -> None:
    events = events_of(request.getfixturevalue(which), show_memory=True)
    for e in events:
        assert e["ph"] in "MXsfC"
        assert isinstance(e["pid"], int)
        assert e["ph"] == "M" or e["ts"] >= 0
        assert e["ph"] != "X" or (e["dur"] >= 0 and e["name"] and e["args"]["op"])
    slices: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in events:
        if e["ph"] == "X":
            slices.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for lane in slices.values():  # slices of a lane are disjoint or nested
        open_ends: list[float] = []
        for start, end in lane:
            while open_ends and open_ends[-1] <= start + 1e-3:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 2e-3
            open_ends.append(end)
    flows = Counter((e["id"], e["ph"]) for e in events if e["ph"] in "sf")
    assert set(flows.values()) == {1}
    assert len([k for k in flows if k[1] == "s"]) == len([k for k in flows if k[1] == "f"]) > 0
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    assert {e["pid"] for e in events} == processes


def test_arrows_lead_from_what_makes_a_value_to_what_reads_it(plain: RunMetadata) -> None:
    events = events_of(plain)
    by_end = {e["id"]: e for e in events if e["ph"] == "f"}
    sub = next(e for e in events if e["ph"] == "X" and e["args"]["name"] == "sub")
    sources = {
        e["name"] for e in events if e["ph"] == "s" and by_end[e["id"]]["ts"] == pytest.approx(sub["ts"], abs=2e-3)
    }
    assert sources == {"add"}
    assert not [e for e in events_of(plain, show_dataflow=False) if e["ph"] in "sf"]


def test_memory_is_counted_while_tensors_live(plain: RunMetadata) -> None:
    counters = [e["args"]["bytes"] for e in events_of(plain, show_memory=True) if e["ph"] == "C"]
    assert min(counters) >= 0
    assert counters[-1] == 0
    analysis = Timeline(plain.step_stats).analyze_step_stats()
    most = analysis.allocator_maximums["cpu"]
    assert most.num_bytes == max(counters)
    assert 400 <= most.num_bytes < 100 * 400
    assert not [e for e in events_of(plain) if e["ph"] == "C"]


def test_without_being_asked_nothing_is_traced() -> None:
    program = line_fit()
    metadata = RunMetadata()
    with tf.Session(program.graph) as session:
        session.run(program.init, run_metadata=metadata)
    assert metadata.step_stats.dev_stats == []
    assert repr(metadata) == "<RunMetadata: not traced>"
    assert json.loads(Timeline(metadata.step_stats).generate_chrome_trace_format())["traceEvents"] == []


def test_a_run_shows_itself(first: RunMetadata) -> None:
    bundle = first._repr_mimebundle_()
    assert "multiply" in bundle["text/html"] or "fusion" in bundle["text/html"]
    assert bundle["text/plain"].startswith("<RunMetadata: ")
    table = first.step_stats.table
    assert (table.start_us >= 0).all()
    assert table[table.op == "XlaLaunch"].shape[0] == 2


def test_a_node_that_ran_a_thousand_times_is_no_burden() -> None:
    stats = StepStats()
    nodes = stats.device(CPU).node_stats
    for k in range(4000):
        start = 1_000_000 + 10 * k
        label = "a = Add(b, a)" if k % 2 else "b = Mul(a)"
        nodes.append(
            NodeExecStats(label[0], start // 1000, 0, 1, 1, [], [], label, all_start_nanos=start, all_end_rel_nanos=8)
        )
    events = json.loads(Timeline(stats).generate_chrome_trace_format(show_memory=True))["traceEvents"]
    assert len([e for e in events if e["ph"] == "X"]) == 4000
    assert len([e for e in events if e["ph"] == "s"]) == 4000 // 2 * 3 - 2


@pytest.mark.parametrize(
    "label", ["", "a", "a = ", "= ()", "a = Op(", "a = Op(b", "a = Op(,,)", "((((= (", "a:b = Op(^a:b, c:x)"]
)
def test_labels_of_any_kind_are_taken(label: str) -> None:
    stats = StepStats()
    stats.device("/device:CPU:0").node_stats.append(NodeExecStats("a", 5, 0, 1, 2, timeline_label=label))
    events = json.loads(Timeline(stats).generate_chrome_trace_format(show_memory=True))["traceEvents"]
    (shown,) = (e for e in events if e["ph"] == "X")
    assert (shown["ts"], shown["dur"], shown["args"]["name"]) == (0.0, 2.0, "a")


def test_a_notebook_shows_the_table_of_a_run_once(plain: RunMetadata) -> None:
    html = plain._repr_mimebundle_()["text/html"]
    head = html.partition("</pre>")[0]
    assert "&lt;RunMetadata" in head
    assert "\n" not in head
