"""Trace a fused instruction back to its node and line, and a node forwards to its fusions."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.errors import XlanbError
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import observing


@pytest.fixture(scope="module")
def trace() -> Trace:
    program = line_fit()
    recorder = Recorder()
    with observing(recorder), flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.train, program.feeds)
    return recorder.traces[0]


def last_module(trace: Trace):
    return [s for s in trace if s.kind == "hlo_pass"][-1].after


def test_every_final_instruction_knows_its_node(trace: Trace) -> None:
    unknown = [
        i.name
        for c in last_module(trace).computations
        for i in c.instructions
        if not trace.lineage(i.name).nodes and not i.metadata.op_name
    ]
    assert trace.coverage >= 0.9, unknown


def test_an_instruction_inside_a_fusion_leads_back_to_the_python_line(trace: Trace) -> None:
    module = last_module(trace)
    fused = [
        i
        for c in module.computations
        if c.name != module.entry
        for i in c.instructions
        if i.metadata.op_name == "Square" or str(i.opcode) == "subtract"
    ]
    assert fused
    for i in fused:
        found = trace.lineage(i.name)
        assert set(found.nodes) & {"sub", "Square"}
        assert any("programs.py:" in line for line in found.lines)
        assert any(link.cause.pass_name == "fusion" for link in found.links)


def test_a_node_leads_forwards_to_what_became_of_it(trace: Trace) -> None:
    found = trace.lineage("sub")
    names = {i.name for c in last_module(trace).computations for i in c.instructions}
    assert found.results
    assert set(found.results) <= names


def test_what_never_was_is_refused(trace: Trace) -> None:
    with pytest.raises(XlanbError, match="nothing_of_that_name"):
        trace.lineage("nothing_of_that_name")


def test_a_fusion_comes_from_all_that_is_in_it(trace: Trace) -> None:
    module = last_module(trace)
    fusion = next(i for c in module.computations for i in c.instructions if i.opcode.text == "fusion")
    inside = module.by_name[fusion.called_computations[0]].instructions
    nodes = {n for i in inside if i.opcode.text != "parameter" for n in trace.lineage(i.name).nodes}
    assert len(nodes) > 1
    assert nodes <= set(trace.lineage(fusion.name).nodes)
    node = next(iter(nodes))
    assert any(fusion.name in trace.lineage(n).results for n in trace.lineage(node).sources)


SWAPPED = """HloModule m

ENTRY main {
  a = f32[2,4,3] parameter(0)
  b = f32[2,3,5] parameter(1)
  two = f32[] constant(2)
  twos = f32[2,5,4] broadcast(two), dimensions={}
  d = f32[2,4,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, metadata={op_name="product"}
  t = f32[2,5,4] transpose(d), dimensions={0,2,1}, metadata={op_name="turned"}
  s = f32[2,5,4] tanh(t), metadata={op_name="bent"}
  ROOT r = f32[2,5,4] multiply(s, twos), metadata={op_name="doubled"}
}
"""


def test_a_replacement_comes_from_all_that_a_rule_matched_and_no_longer_reads() -> None:
    trace = xlanb.trace(SWAPPED)
    last = [s.after for s in trace.stages if isinstance(s.after, ModuleRecord)][-1]
    (dot,) = [i for c in last.computations for i in c.instructions if i.opcode is HloOpcode.DOT]
    lineage = trace.lineage(dot.name)
    assert {"product", "turned"} <= set(lineage.nodes)
    assert "a" not in {k.old for k in lineage.links}


def test_a_constant_without_a_name_belongs_to_what_it_is_there_for() -> None:
    trace = xlanb.trace(SWAPPED)
    assert trace.lineage("two").nodes == ("doubled",)
