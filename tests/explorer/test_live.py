"""The stepper: one stage at a time, the same result as compiling at once, all recorded."""

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
    with pytest.raises(XlanbError, match="no stage 'no_such_pass' was reached"):
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


def test_what_is_shown_at_a_prompt_is_one_line() -> None:
    trace = xlanb.trace(TEXT)
    executable = xlanb.compile(TEXT)
    result = xlanb.transforms.PASSES["cse"]().run(xlanb.hlo.parse(TEXT))
    name = executable.hlo_module.entry_computation.root.name
    for thing in (trace, executable, executable.buffer_assignment, result, trace.lineage(name)):
        assert repr(thing).startswith(f"<{type(thing).__name__} ")
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200


def test_an_unknown_name_is_answered_by_the_nearest_and_no_list() -> None:
    trace = xlanb.trace(TEXT)
    with pytest.raises(XlanbError, match="did you mean 'fusion'") as found:
        trace["fussion"]
    assert len(str(found.value)) < 200
    with pytest.raises(XlanbError, match=r"no stage 'zzz' in trace .* among \d+$"):
        trace["zzz"]
    passes = xlanb.transforms.PASSES
    with pytest.raises(KeyError) as unknown:
        passes["fussion"]
    assert str(unknown.value).startswith("no pass 'fussion'; did you mean 'fusion'")
    assert passes.get("fussion") is None
    assert "fussion" not in passes


def test_a_compilation_knows_its_end_with_the_last_stage():
    compilation = xlanb.Compilation("HloModule m\nENTRY e {\n  a = f32[8] parameter(0)\n  ROOT r = f32[8] tanh(a)\n}\n")
    stages = 0
    while not compilation.is_done:
        assert compilation.step() is not None
        stages += 1
    assert compilation.trace.stages[-1].kind == "assembly"
    assert len(compilation.trace) == stages
    assert compilation.trace.program is compilation.result
    assert compilation.step() is None


def test_of_a_graph_too_and_what_was_looked_ahead_to_waits_for_its_step():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4])
        far = tf.py_func(lambda a: a + 1, [tf.tanh(x * 2 + 1) * x], tf.float32)
        y = tf.exp(tf.reshape(far, [4])) * 3 - 1
    told = []
    with flags(tf_xla_auto_jit=2, tf_xla_cpu_global_jit=True, tf_xla_min_cluster_size=1):
        compilation = xlanb.Compilation(y, {x: np.ones(4, np.float32)})
        while not compilation.is_done:
            before = sum(len(t) for t in compilation.traces)
            told.append(compilation.step())
            assert sum(len(t) for t in compilation.traces) > before
        assert compilation.step() is None
    assert [s.kind for s in told].count("execution") == 2
    assert told[-1].kind == "execution"
    np.testing.assert_allclose(compilation.result, np.exp(np.tanh(3) + 1) * 3 - 1, rtol=1e-5)
