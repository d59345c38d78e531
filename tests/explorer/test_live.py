"""The stepper: one stage at a time, the same result as compiling at once, everything recorded."""

from __future__ import annotations

from itertools import pairwise
from threading import Thread
from typing import Any

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.errors import HloParseError, XlanbError
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import observing

TEXT = """
HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[16,32] parameter(0)
  y = f32[16,32] parameter(1)
  zero = f32[] constant(0)
  p = f32[16,32] multiply(x, y)
  q = f32[16,32] tanh(p)
  ROOT s = f32[16] reduce(q, zero), dimensions={1}, to_apply=add
}
"""
STATIONS = [
    "tf_graph",
    "optimize",
    "mark_for_compilation",
    "encapsulate_subgraphs",
    "build_xla_ops",
    "tf2xla",
    "hlo_pass",
    "schedule",
    "buffer_assignment",
    "llvm_ir",
    "llvm_ir_optimized",
    "assembly",
    "execution",
    "compilation_cache",
]


@pytest.fixture
def arguments(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((16, 32)).astype(np.float32) for _ in range(2)]


def test_stepped_and_compiled_at_once_the_results_are_the_same_bits(arguments: list[Any]) -> None:
    compilation = xlanb.Compilation(TEXT)
    while compilation.step() is not None:
        pass
    stepped = compilation.result(*arguments)
    assert stepped.tobytes() == xlanb.compile(TEXT)(*arguments).tobytes()
    np.testing.assert_allclose(stepped, xlanb.evaluate(TEXT, *arguments), rtol=1e-5, atol=1e-6)


def test_a_step_is_one_stage_and_the_compiler_waits_in_between() -> None:
    compilation = xlanb.Compilation(TEXT)
    assert len(compilation.trace) == 0
    for count in range(1, 6):
        stage = compilation.step()
        assert stage is not None
        assert stage.index == len(compilation.trace) - 1 == count - 1
    assert not compilation.is_done


def test_run_to_stops_at_the_pass() -> None:
    compilation = xlanb.Compilation(TEXT)
    assert compilation.run_to("fusion").name == "fusion"
    assert compilation.trace.stages[-1].name == "fusion"
    with pytest.raises(XlanbError, match="no stage 'no_such_pass' came"):
        compilation.run_to("no_such_pass")


def test_changed_is_what_the_records_say() -> None:
    for stage in xlanb.trace(TEXT):
        assert stage.changed == (stage.before is not stage.after)
        if isinstance(stage.after, ModuleRecord) and isinstance(stage.before, ModuleRecord):
            assert stage.changed == (stage.before.text != stage.after.text)


def test_every_edit_of_a_pass_names_the_pass() -> None:
    trace = xlanb.trace(TEXT)
    edits = [(s, e) for s in trace if s.kind == "hlo_pass" for e in s.edits]
    assert edits
    assert all(e.cause.pass_name == s.name for s, e in edits)


def test_each_stage_begins_where_the_one_before_ended() -> None:
    modules = [s for s in xlanb.trace(TEXT) if isinstance(s.after, ModuleRecord)]
    for earlier, later in pairwise(modules):
        assert later.before is earlier.after


def test_text_that_cannot_be_parsed_is_refused_at_once() -> None:
    with pytest.raises(HloParseError):
        xlanb.Compilation("HloModule m\nENTRY e { ROOT x = f32[ parameter(0) }")


def graph_trace() -> Trace:
    program = line_fit()
    recorder = Recorder()
    with observing(recorder), flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        for _ in range(3):
            session.run(program.train, program.feeds)
    (trace,) = recorder.traces
    return trace


def test_a_training_step_goes_through_every_station_in_order() -> None:
    trace = graph_trace()
    assert list(dict.fromkeys(s.kind for s in trace)) == STATIONS
    assert len(trace.runs) == 3


def test_hlo_names_the_nodes_and_lines_of_the_graph() -> None:
    trace = graph_trace()
    nodes = {n.name for n in trace["mark_for_compilation"].after.nodes}
    module = trace["tf2xla"].after
    named = [i for i in module.entry_computation.instructions if i.metadata.op_name]
    assert len(named) >= len(module.entry_computation.instructions) - 1  # all but the tuple of the results
    inside = [i for i in named if str(i.opcode) != "parameter"]
    assert {i.metadata.op_name for i in inside} <= nodes
    assert all(
        i.metadata.source_file.endswith(("programs.py", "test_live.py")) for i in inside if i.metadata.op_name == "mul"
    )


def test_why_a_node_is_in_a_cluster_or_not() -> None:
    trace = graph_trace()
    (inside,) = [d for d in trace.why("mul") if d.action == "cluster"]
    (outside,) = [d for d in trace.why("weights/read") if d.action == "cluster"]
    assert inside.taken
    assert not outside.taken
    assert [p.value for p in outside.predicates if not p.holds] == ["Identity with unsafe cast."]


def test_a_graph_is_stepped_through_its_execution() -> None:
    program = line_fit()
    with flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        compilation = xlanb.Compilation(program.loss, program.feeds, session=session)
        assert isinstance(compilation.step().after, GraphRecord)
        by_step = compilation.finish()
        assert compilation.trace.stages[-1].kind == "execution"
        assert by_step == session.run(program.loss, program.feeds)


def test_compilations_of_two_threads_do_not_mix() -> None:
    recorders = [Recorder(), Recorder()]

    def work(recorder: Recorder, name: str) -> None:
        with observing(recorder):
            xlanb.compile(TEXT.replace("HloModule m", f"HloModule {name}"))

    threads = [Thread(target=work, args=(r, f"module{i}")) for i, r in enumerate(recorders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[t.name for t in r.traces] for r in recorders] == [["module0"], ["module1"]]


def test_observers_cost_nothing_when_there_are_none(arguments: list[Any]) -> None:
    recorder = Recorder()
    xlanb.compile(TEXT)(*arguments)
    assert recorder.traces == []


def test_a_stage_is_found_by_name_and_a_wrong_name_lists_them() -> None:
    trace = xlanb.trace(TEXT)
    assert trace["fusion"].name == "fusion"
    with pytest.raises(XlanbError, match=r"no stage 'fusoin'.*fusion"):
        trace["fusoin"]
    assert "tanh" in trace.diff(0, "fusion").text
