from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph, is_fusion_computation, nonfusion_computations
from xlanb.analysis.operand_use import UseKind, is_elementwise, operand_use, reused_operands
from xlanb.analysis.reachability import HloReachabilityMap
from xlanb.hlo import parse

TEXT = """HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

fused {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  t = f32[4] reverse(q), dimensions={0}
  ROOT r = f32[4] add(p, t)
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = f32[] constant(0)
  f = f32[4] fusion(x, y), kind=kLoop, calls=fused
  total = f32[] reduce(f, zero), dimensions={0}, to_apply=sum
  spread = f32[4] broadcast(total), dimensions={}
  alone = f32[4] negate(y)
  ROOT result = f32[4] add(spread, f)
}
"""


def test_reachability():
    entry = parse(TEXT).entry_computation
    reach = HloReachabilityMap(entry)
    i = {x.name: x for x in entry}
    assert reach.is_reachable(i["x"], i["result"])
    assert not reach.is_reachable(i["result"], i["x"])
    assert reach.is_reachable(i["f"], i["f"])
    assert not reach.is_connected(i["alone"], i["f"])
    assert i["alone"] in reach


def test_control_dependencies_count():
    entry = parse(TEXT).entry_computation
    i = {x.name: x for x in entry}
    entry.add_control_dependency(i["alone"], i["spread"])
    assert HloReachabilityMap(entry).is_reachable(i["alone"], i["result"])


def test_call_graph():
    module = parse(TEXT)
    graph = CallGraph(module)
    by_name = {c.name: c for c in module.computations}
    assert graph.is_control(module.entry_computation)
    assert not graph.is_control(by_name["sum"])
    assert is_fusion_computation(by_name["fused"], graph)
    assert [c.name for c in nonfusion_computations(module)] == ["sum", "main"]
    assert [s.instruction.name for s in graph.callers[by_name["sum"]]] == ["total"]


def test_operand_use():
    entry = parse(TEXT).entry_computation
    i = {x.name: x for x in entry}
    assert operand_use(i["spread"], 0) is UseKind.REUSE
    assert operand_use(i["total"], 0) is UseKind.USE_PERMUTING
    assert operand_use(i["total"], 1) is UseKind.REUSE
    assert operand_use(i["f"], 0) is UseKind.USE
    assert operand_use(i["f"], 1) is UseKind.USE_PERMUTING
    assert reused_operands(i["total"]) == {i["zero"]}
    assert is_elementwise(i["alone"])
    assert not is_elementwise(i["f"])
