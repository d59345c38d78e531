"""Why and why not: what the fusion pass reports about its decisions."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from xlanb.evaluator import evaluate
from xlanb.hlo import HloComputation, HloOpcode, parse
from xlanb.tracing import Decision, observing
from xlanb.transforms import PASSES
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion import cpu_instruction_fusion, instruction_fusion
from xlanb.transforms.fusion.cpu_instruction_fusion import CONDITIONS, CpuInstructionFusion
from xlanb.transforms.fusion.fusion_loops import LOOP_CONDITIONS
from xlanb.transforms.fusion.fusion_wrapper import FusionWrapper
from xlanb.transforms.fusion.instruction_fusion import Condition, FusionEdge, FusionRun
from xlanb.transforms.fusion.stored_operands import STORED_CONDITIONS


class Recorder:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


def decisions(body: str, before: str = "") -> dict[tuple[str, ...], Decision]:
    recorder = Recorder()
    with observing(recorder):
        PASSES["fusion"]().run(parse(f"HloModule m\n{before}ENTRY main {{\n{body}\n}}\n"))
    return {e.subject: e for e in recorder.events if isinstance(e, Decision)}


def test_a_fused_edge_shows_every_condition():
    got = decisions("x = f32[8] parameter(0)\nn = f32[8] negate(x)\nROOT e = f32[8] exponential(n)")
    decision = got["n", "e"]
    assert decision.taken
    assert decision.action == "fuse"
    assert [p.name for p in decision.predicates] == [c.name for c in CONDITIONS]
    assert all(p.holds for p in decision.predicates)


WHY_NOT = [
    ("x = f32[8] parameter(0)\nROOT n = f32[8] negate(x)", None, None),
    (
        "x = f32[4,4] parameter(0)\nd = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\nROOT n = f32[4,4] negate(d)",
        ("d", "n"),
        "producer is loop-fusible",
    ),
    (
        "x = f32[8] parameter(0)\nc = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})\nROOT a = f32[8] add(x, c)",
        ("c", "a"),
        "producer is not an array constant",
    ),
    (
        "x = f32[8] parameter(0)\ne = f32[8] exponential(x)\nROOT b = f32[8,4] broadcast(e), dimensions={0}",
        ("e", "b"),
        "producer is cheap, or its elements are used once",
    ),
    (
        "x = f32[8] parameter(0)\ne = f32[8] exponential(x)\nn = f32[8] negate(e)\ns = f32[8] sine(e)\nROOT t = (f32[8], f32[8]) tuple(n, s)",
        ("e", "n"),
        "no expensive producer is duplicated",
    ),
    (
        "x = f32[] parameter(0)\nc = f32[] constant(2)\nROOT a = f32[] add(x, c)",
        ("c", "a"),
        "not only constants to fuse",
    ),
    (
        (
            "x = f32[8] parameter(0)\nu = f32[2] parameter(1)\ni = s32[] parameter(2)\nr = f32[8] reverse(x), dimensions={0}\ns = f32[2] slice(r), slice={[0:2]}\n"
            "q = f32[2] slice(x), slice={[4:6]}\na = f32[2] add(u, q)\nROOT w = f32[8] dynamic-update-slice(x, q, i)"
        ),
        ("q", "w"),
        "no conflict with an in-place update",
    ),
]


@pytest.mark.parametrize(("body", "edge", "reason"), WHY_NOT)
def test_an_edge_that_is_not_fused_ends_with_the_reason(body, edge, reason):
    got = decisions(body)
    if edge is None:
        assert not got
        return
    decision = got[edge]
    assert not decision.taken
    assert decision.predicates[-1].name == reason
    assert not decision.predicates[-1].holds
    assert all(p.holds for p in decision.predicates[:-1])


def test_nothing_is_fused_where_elements_move_through_a_reducer():
    text = "HloModule m\nsum { a = f32[] parameter(0)  b = f32[] parameter(1)  n = f32[] negate(b)  ROOT s = f32[] add(a, n) }\n"
    text += "ENTRY main {\nx = f32[8] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n}\n"
    module = parse(text)
    assert not PASSES["fusion"]().run(module).changed


def _joined(pieces: int, width: int) -> str:
    rows = f"f32[100,{width}]"
    lines = [f"p{k} = {rows} parameter({k})\nn{k} = {rows} negate(p{k})" for k in range(pieces)]
    joined = ", ".join(f"n{k}" for k in range(pieces))
    return "\n".join(lines) + f"\nROOT c = f32[100,{pieces * width}] concatenate({joined}), dimensions={{1}}"


@pytest.mark.parametrize(
    ("pieces", "width", "copied", "cut"),
    [(2, 64, False, True), (8, 16, False, True), (8, 3, False, False), (9, 64, False, False), (2, 4, True, True)],
)
def test_rows_that_are_joined_are_fused_where_loops_are_cut_at_their_seams(pieces, width, copied, cut):
    for cuts_rows, is_fused in ((False, copied), (True, cut)):
        module = parse(f"HloModule m\nENTRY main {{\n{_joined(pieces, width)}\n}}\n")
        CpuInstructionFusion(cuts_rows=cuts_rows, rows_by_bytes=True).run(module)
        assert (str(module.entry_computation.root.opcode) == "fusion") is is_fused


def _is_fused(hlo_pass: HloPass, rows: int, width: int, dtype: str) -> bool:
    """Whether a concatenation along the most minor dimension is in a fusion after the pass."""
    module = parse(
        f"HloModule m\nENTRY e {{\n x = {dtype}[{rows},{width // 2}] parameter(0)\n"
        f" c = {dtype}[{rows},{width}] concatenate(x, x), dimensions={{1}}\n"
        f" ROOT n = {dtype}[{rows},{width}] negate(c)\n}}\n"
    )
    hlo_pass.run(module)
    return all(i.opcode is not HloOpcode.CONCATENATE for i in module.entry_computation)


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "in_0_10", "in_0_12"),
    [
        (2, 126, "f32", True, True),
        (2, 128, "f32", False, True),
        (4, 128, "f32", False, False),
        (16, 48, "f32", True, False),
        (16, 16, "f32", True, True),
        (4, 96, "f64", True, False),
        (4, 128, "bf16", False, True),
        (1024, 8, "f32", True, True),
    ],
)
def test_each_release_has_its_own_length_of_rows_that_are_copied(rows, width, dtype, in_0_10, in_0_12):
    for by_bytes, wanted in ((False, in_0_10), (True, in_0_12)):
        fused = _is_fused(CpuInstructionFusion(rows_by_bytes=by_bytes), rows, width, dtype)
        wrapped = _is_fused(FusionWrapper(rows_by_bytes=by_bytes), rows, width, dtype)
        assert (fused, wrapped) == (wanted, wanted and by_bytes)  # 0.10.2 wraps no concatenations


def test_a_fusion_asks_of_a_refused_operand_once_for_each_step(monkeypatch):
    asked = [0]

    def counted(c: Condition) -> Condition:
        def holds(edge: FusionEdge) -> bool:
            asked[0] += 1
            return c.holds(edge)

        return replace(c, holds=holds)

    monkeypatch.setattr(cpu_instruction_fusion, "CONDITIONS", tuple(map(counted, cpu_instruction_fusion.CONDITIONS)))
    module = parse(_stencils(40))
    silent = FusionRun.should_fuse_edge
    edges = [0]

    def should_fuse_edge(run: FusionRun, edge: FusionEdge):
        edges[0] += 1
        return silent(run, edge)

    monkeypatch.setattr(FusionRun, "should_fuse_edge", should_fuse_edge)
    CpuInstructionFusion().apply(module)
    assert edges[0] > 1000
    assert asked[0] < 2 * edges[0]


MIXED = """HloModule mixed
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,64] parameter(0)  v = f32[64] parameter(1)  k = s32[] parameter(2)
  zero = f32[] constant(0)
  e = f32[64,64] exponential(x)
  r = f32[64] reduce(e, zero), dimensions={1}, to_apply=sum
  d = f32[64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64] add(d, r)
  q = f32[64] reduce(x, zero), dimensions={0}, to_apply=sum
  c = f32[128] concatenate(a, q), dimensions={0}
  n = f32[128] negate(c)
  u = f32[128] dynamic-update-slice(n, v, k)
  w = f32[128,2] broadcast(u), dimensions={0}
  m = f32[128,2] multiply(w, w)
  i = f32[128,2] iota(), iota_dimension=0
  ROOT t = (f32[128,2], f32[64,64]) tuple(m, e)
}
"""


def test_conditions_fail_and_say_only_what_they_declare(monkeypatch):
    """Of opcodes for which a condition cannot fail it is not asked, and the value of one that holds
    may be known beforehand.
    """
    seen = Counter()

    def checked(c: Condition) -> Condition:
        def holds(edge: FusionEdge) -> bool:
            found = bool(c.holds(edge))
            assert found or c.may_fail(edge.producer.opcode, edge.consumer.opcode), c.name
            known = c.value_if_holds
            if callable(known):
                known = known(edge.producer.opcode, edge.consumer.opcode)
            if found and known is not None:
                assert c.value(edge) == known, c.name
                seen[c.name] += 1
            return found

        return replace(c, holds=holds, may_fail=lambda *_: True, value_if_holds=None)

    monkeypatch.setattr(cpu_instruction_fusion, "CONDITIONS", tuple(map(checked, cpu_instruction_fusion.CONDITIONS)))
    monkeypatch.setattr(cpu_instruction_fusion, "LOOP_CONDITIONS", tuple(map(checked, LOOP_CONDITIONS)))
    monkeypatch.setattr(cpu_instruction_fusion, "STORED_CONDITIONS", tuple(map(checked, STORED_CONDITIONS)))
    for text in (_stencils(12), MIXED):
        CpuInstructionFusion(separate_loops=True, reads_stored=True).run(parse(text))
    assert len(seen) == 17


@pytest.mark.parametrize("is_observed", [False, True])
def test_a_shared_operand_that_opens_a_block_is_refused_once(monkeypatch, is_observed):
    """A fusion is checked against each operand whenever it grows: n^2 checks for n operands."""
    asked = Counter()
    condition = next(c for c in CONDITIONS if c.name == "code duplication is low")

    def counting(edge: FusionEdge) -> bool:
        asked[edge.producer, edge.consumer] += edge.consumer.opcode is HloOpcode.FUSION
        return condition.holds(edge)

    counted = replace(condition, holds=counting)
    monkeypatch.setattr(
        cpu_instruction_fusion, "CONDITIONS", tuple(counted if c is condition else c for c in CONDITIONS)
    )
    with observing(Recorder()) if is_observed else nullcontext():
        PASSES["fusion"]().run(parse(_stencils(30)))
    pads = [n for (p, _), n in asked.items() if p.name.startswith("v")]
    assert max(pads) <= 2


def test_a_computation_has_a_limited_number_of_duplicates(monkeypatch):
    unlimited, limited = parse(_stencils(30)), parse(_stencils(30))
    PASSES["fusion"]().run(unlimited)
    monkeypatch.setattr(instruction_fusion, "_DUPLICATES", 50)
    monkeypatch.setattr(instruction_fusion, "_DUPLICATES_EACH", 0)
    recorder = Recorder()
    with observing(recorder):
        PASSES["fusion"]().run(limited)
    sizes = [sum(len(c) for c in m.computations) for m in (unlimited, limited)]
    assert sizes[0] > 3 * sizes[1]
    refused = [p.name for e in recorder.events if isinstance(e, Decision) for p in e.predicates if not p.holds]
    assert "the limit of duplicates is not reached" in refused
    x = np.linspace(0.9, 1.1, 64, dtype=np.float32)
    np.testing.assert_allclose(evaluate(limited, x), evaluate(parse(_stencils(30)), x), rtol=1e-6)


def test_broadcasts_are_fused_where_no_more_duplicates_are_allowed(monkeypatch):
    """A broadcast of a constant that stays for other users would be an array as large as theirs."""
    monkeypatch.setattr(instruction_fusion, "_DUPLICATES", 1)
    monkeypatch.setattr(instruction_fusion, "_DUPLICATES_EACH", 0)
    text = """HloModule m
ENTRY e {
  p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  half = f32[] constant(0.5)
  b = f32[64] broadcast(half), dimensions={}
  s = f32[64] add(p, q)
  t = f32[64] multiply(s, s)
  u = f32[64] add(b, t)
  k = f32[64] custom-call(u), custom_call_target="opaque"
  v = f32[64] multiply(b, t)
  l = f32[64] custom-call(v), custom_call_target="opaque"
  w = f32[64] subtract(b, t)
  ROOT r = (f32[64], f32[64], f32[64]) tuple(k, l, w)
}
"""
    module = parse(text)
    PASSES["fusion"]().run(module)
    left = [i for i in module.entry_computation if i.opcode is HloOpcode.BROADCAST]
    assert not left
    kept = [i.opcode for i in module.entry_computation if i.opcode in (HloOpcode.MULTIPLY, HloOpcode.ADD)]
    assert kept  # the limit is reached: a product with several users is computed once
    fused = [i for i in module.entry_computation if i.opcode is HloOpcode.FUSION]
    assert len(fused) >= 3


def _stencils(count: int) -> str:
    """A chain in which each product is read by the next one, also padded and shifted."""
    steps = "".join(
        f" v{k} = f32[65] pad(m{k}, z), padding=0_1\n h{k} = f32[64] slice(v{k}), slice={{[1:65]}}\n"
        f" m{k + 1} = f32[64] multiply(m{k}, h{k})\n"
        for k in range(count)
    )
    return f"HloModule m\nENTRY e {{\n m0 = f32[64] parameter(0)\n z = f32[] constant(0)\n{steps} ROOT r = f32[64] copy(m{count})\n}}\n"


def test_reductions_beyond_the_limit_are_refused_once(monkeypatch):
    """A fusion is checked against each operand whenever it grows; its reductions never decrease."""
    asked = []
    condition = next(c for c in CONDITIONS if c.name == "not too many reductions in one fusion")

    def counting(edge: FusionEdge) -> bool:
        asked.append(edge.producer)
        return condition.holds(edge)

    counted = replace(condition, holds=counting)
    monkeypatch.setattr(
        cpu_instruction_fusion, "CONDITIONS", tuple(counted if c is condition else c for c in CONDITIONS)
    )
    count = 60
    lines = [
        f"p{k} = f32[64] parameter({k})\ns{k}x = f32[] reduce(p{k}, z), dimensions={{0}}, to_apply=add"
        for k in range(count)
    ]
    lines += [f"v{k} = f32[] add({f'v{k - 1}' if k > 1 else 's0x'}, s{k}x)" for k in range(1, count)]
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    body = "\n".join(["z = f32[] constant(0)", *lines, f"ROOT r = f32[] negate(v{count - 1})"])
    PASSES["fusion"]().run(parse(f"HloModule m\n{add}ENTRY main {{\n{body}\n}}\n"))
    assert len(asked) < 6 * count


def test_operands_that_a_fusion_had_before_are_not_checked_again(monkeypatch):
    checked = []
    check = HloComputation._check_mine

    def counting(self, operands, user, of):
        operands = tuple(operands)
        checked.extend(operands)
        check(self, operands, user, of)

    count = 64
    lines = [f"p{k} = f32[64] parameter({k})" for k in range(count)]
    names = [f"p{k}" for k in range(count)]
    while len(names) > 1:  # a tree of additions
        made = [f"v{a}.{b}" for a, b in zip(names[::2], names[1::2], strict=True)]
        lines += [f"{n} = f32[64] add({a}, {b})" for n, a, b in zip(made, names[::2], names[1::2], strict=True)]
        names = made
    module = parse("HloModule m\nENTRY main {\n" + "\n".join([*lines, f"ROOT r = f32[64] abs({names[0]})"]) + "\n}\n")
    monkeypatch.setattr(HloComputation, "_check_mine", counting)
    PASSES["fusion"]().run(module)
    assert module.entry_computation.root.opcode is HloOpcode.FUSION
    assert len(checked) < count * 16
