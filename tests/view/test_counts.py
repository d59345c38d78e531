"""Counts agree: one count of a stage's changes, of kernels, of compile time."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.cpu.records import CodeRecord, ExecutionRecord, KernelTime
from xlanb.debug_options import flags
from xlanb.explorer.comparison import compare
from xlanb.explorer.running import run_traced
from xlanb.explorer.stage import Stage, count_kernels
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.view.brief import trace_brief
from xlanb.view.parts.diff import graph_diff, module_diff
from xlanb.view.payload import build_payload
from xlanb.view.payload_builder import PayloadBuilder
from xlanb.view.pool import LEVELS

GOLDENS = Path(__file__).parents[1] / "transforms" / "goldens"
PROGRAMS = (
    "algsimp/layernorm", "while-loop-invariant-code-motion/*", "fusion/*", "flatten-call-graph/*", "copy-insertion/loop",
    "conditional-to-select/in_a_map", "rng-bit-generator-expander/three_fry",
)  # fmt: skip


def _programs():
    found = [path for name in PROGRAMS for path in sorted(GOLDENS.glob(f"{name}.hlo"))]
    return [p for p in found if ".expected" not in p.name]


@pytest.mark.parametrize("path", _programs(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_rows_of_a_difference_add_up_to_what_the_list_says(path):
    trace = xlanb.trace(path.read_text())
    stages = [s for s in trace.changed if isinstance(s.before, ModuleRecord) and isinstance(s.after, ModuleRecord)]
    assert stages
    payload = build_payload([trace])
    table = trace.to_dataframe()
    for stage in stages:
        marks = Counter(row.mark for section in module_diff(stage.before, stage.after) for row in section.rows)
        assert (marks["+"], marks["-"], marks["~"]) == stage.changes.counts, stage
        assert payload["traces"][0]["stages"][stage.index]["n"] == list(stage.changes.counts)
        assert tuple(table.loc[stage.index, ["added", "removed", "modified"]]) == stage.changes.counts


def test_the_rows_of_a_graphs_difference_add_up_too():
    (trace,) = _line_fits(runs=1)
    changed = [s for s in trace.changed if isinstance(s.before, GraphRecord) and isinstance(s.after, GraphRecord)]
    assert "encapsulate_subgraphs" in {s.kind for s in changed}
    for stage in changed:
        marks = Counter(row.mark for section in graph_diff(stage.before, stage.after) for row in section.rows)
        assert (marks["+"], marks["-"], marks["~"]) == stage.changes.counts


def _line_fits(runs):
    program = line_fit()
    with flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        made = [xlanb.Compilation(program.loss, program.feeds, session=session) for _ in range(runs)]
        for compilation in made:
            compilation.finish()
    return [c.trace for c in made]


def test_a_count_is_whole_where_rows_are_cut():
    trace = xlanb.trace((GOLDENS / "rng-bit-generator-expander" / "three_fry.hlo").read_text())
    builder = PayloadBuilder(LEVELS[-1])
    builder.update([trace])
    stage = trace["rng-bit-generator-expander"]
    told = builder.payload["traces"][0]["stages"][stage.index]
    assert sum(len(section["rows"]) for section in told["diff"]) < sum(told["n"])


def test_kernels_are_counted_alike_everywhere():
    trace = xlanb.trace((GOLDENS / "algsimp" / "layernorm.hlo").read_text())
    exe = trace.program
    run_traced(trace)
    counts = {
        trace.kernel_count,
        len(exe.kernels),
        count_kernels(trace),
        build_payload([trace])["traces"][0]["counts"]["kernels"],
        len(trace.stages[-1].after.kernels),
        int(compare(trace).table["kernels"][0]),
    }
    assert len(counts) == 1
    assert f"{trace.kernel_count} kernel" in repr(exe)


def test_kernels_that_the_optimizer_inlined_still_count():
    codes = [CodeRecord("llvm", "", kernels=dict.fromkeys("abc"[:n], "i")) for n in (3, 2)]
    stages = [Stage(k, k, None, c) for k, c in zip(("llvm_ir", "llvm_ir_optimized"), codes, strict=True)]
    assert Trace("t", stages).kernel_count == 3
    assert Trace("t").kernel_count == 0


def test_compile_time_is_without_runs_and_without_what_a_cache_saved():
    stages = [
        Stage("hlo_pass", "a", None, None, seconds=1.0),
        Stage("hlo_pass", "b", None, None, seconds=None),
        Stage("execution", "execution", None, None, seconds=100.0),
        Stage("compilation_cache", "XlaCompilationCache", None, None, seconds=1000.0),
    ]
    assert Trace("t", stages).compile_seconds == 1.0
    assert Trace("t", stages[1:2]).compile_seconds is None
    assert build_payload([Trace("t", stages)])["traces"][0]["counts"]["seconds"] == 1.0


def test_a_hit_of_the_cache_took_none_of_the_time_that_it_saved():
    (hit,) = (s for s in _line_fits(runs=2)[1] if s.kind == "compilation_cache")
    assert hit.seconds is None
    assert hit.after.seconds > 0


def test_a_kernel_is_no_larger_a_share_than_the_run():
    kernels = (KernelTime("a", "a", 3.0), KernelTime("b", "b", 2.0))
    record = ExecutionRecord(4.0, kernels)
    assert record.share_of(kernels[0]) == pytest.approx(0.6)
    assert ExecutionRecord(10.0, kernels).share_of(kernels[0]) == pytest.approx(0.3)
    assert ExecutionRecord(0.0).share_of(KernelTime("c", "c", 0.0)) == 0.0


def test_a_run_takes_no_less_than_its_kernels_and_knows_the_machine():
    trace = xlanb.trace((GOLDENS / "algsimp" / "layernorm.hlo").read_text())
    run_traced(trace)
    record = trace.stages[-1].after
    assert sum(k.seconds for k in record.kernels) <= record.seconds
    assert all(k.of_limit is None or k.of_limit <= 1 for k in record.kernels)
    assert record.peak_flops > 0
    roof = next(a for a in build_payload([trace])["artifacts"] if a["k"] == "execution")["roof"]
    assert roof == json.loads(json.dumps({"flops": record.peak_flops, "memory": record.bandwidth}))


def test_a_kernel_above_the_measured_limit_is_at_the_limit():
    assert KernelTime("a", "a", 1.0, limit=2.0).of_limit == 1.0


@pytest.mark.peer
def test_programs_with_arguments_by_name_are_compared():
    """Inputs are flat: a function of a structure is not called with them."""
    import jax

    trace = xlanb.trace(
        lambda p, x: jax.numpy.tanh(x @ p["w"]), {"w": np.ones((4, 4), np.float32)}, np.ones((2, 4), np.float32)
    )
    table = compare(trace, trace, runs=1).table
    assert list(table["difference"]) == [0.0, 0.0]


def test_kernels_are_not_counted_before_there_is_code():
    compilation = xlanb.Compilation("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] tanh(x)\n}\n")
    compilation.step()
    builder = PayloadBuilder()
    builder.update([compilation.trace])
    assert "kernels" not in builder.payload["traces"][0]["counts"]
    compilation.finish()
    builder.update([compilation.trace])
    assert builder.payload["traces"][0]["counts"]["kernels"] == compilation.trace.kernel_count == 1


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("a\nb", 2)])
def test_one_count_of_the_lines_of_code(text, count):
    record = CodeRecord("llvm", text)
    assert record.line_count == count == len(text.splitlines())
    trace = Trace("t", [Stage("llvm_ir", "llvm_ir", None, record)])
    if count:
        assert f"{count} lines of LLVM IR" in trace_brief(trace)
