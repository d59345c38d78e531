"""Values, buffers and their order, on modules small enough to check by hand."""

from __future__ import annotations

import pytest

from xlanb.analysis.dataflow import HloDataflowAnalysis, buffers, can_share, in_place_pairs
from xlanb.analysis.input_output_alias import Alias, read_aliases, read_donors, write
from xlanb.analysis.ordering import DependencyHloOrdering
from xlanb.hlo import parse

LOOP = """HloModule m

body {
  t = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  y = f32[4] get-tuple-element(t), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  e = f32[4] exponential(x)
  ROOT r = (s32[], f32[4], f32[4]) tuple(next, e, y)
}

condition {
  t2 = (s32[], f32[4], f32[4]) parameter(0)
  j = s32[] get-tuple-element(t2), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(j, n), direction=LT
}

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[4], f32[4]) tuple(zero, a, b)
  w = (s32[], f32[4], f32[4]) while(start), condition=condition, body=body
  g = f32[4] get-tuple-element(w), index=1
  ROOT s = f32[4] add(g, b)
}
"""


@pytest.fixture
def loop():
    module = parse(LOOP)
    return module, HloDataflowAnalysis(module)


def test_a_loop_defines_phis_where_it_changes_what_it_carries(loop):
    module, dataflow = loop
    w, b = module.find("w"), module.find("b")
    assert [str(v) for v in dataflow.at[w].values()] == ["w{0} phi", "w{1} phi", "b{}"]
    assert dataflow.value(module.find("y")) is dataflow.value(b)
    assert str(dataflow.value(module.find("x"))) == "t{1} phi"


def test_uses_are_seen_through_tuples(loop):
    module, dataflow = loop
    users = sorted(u.instruction.name for u in dataflow.value(module.find("b")).uses)
    assert users == ["s", "w"]


def test_what_a_loop_carries_shares_a_buffer(loop):
    _, dataflow = loop
    groups = {frozenset(str(v) for v in values) for values in buffers(dataflow) if len(values) > 1}
    assert groups == {
        frozenset(("zero{}", "t{0} phi", "t2{0} phi", "w{0} phi", "next{}")),
        frozenset(("a{}", "t{1} phi", "t2{1} phi", "w{1} phi", "e{}")),
    }


def test_order_of_phis(loop):
    module, dataflow = loop
    order = DependencyHloOrdering(module)
    early, inner, after = (dataflow.value(module.find(n)) for n in ("x", "e", "g"))
    assert order.is_defined_before(early, inner)
    assert order.is_defined_before(inner, after)
    assert not order.is_defined_before(after, inner)
    assert order.executes_before(module.find("c"), module.find("e"))
    assert not order.executes_before(module.find("next"), module.find("e"))
    use = dataflow.value(module.find("a")).uses[0]
    assert order.use_is_before(use, inner)


def test_who_may_write_over_what_it_reads():
    module = parse(
        "HloModule m\nENTRY main {\n  x = f32[8] parameter(0)\n  i = s32[] parameter(1)\n  u = f32[2] slice(x), slice={[0:2]}\n"
        "  d = f32[8] dynamic-update-slice(x, u, i)\n  r = f32[8] reverse(d), dimensions={0}\n  ROOT n = f32[8] negate(r)\n}"
    )
    dataflow = HloDataflowAnalysis(module)
    assert in_place_pairs(module.find("d")) == [(0, ())]

    def shares(reader: str, operand: str) -> bool:
        use = next(u for u in dataflow.value(module.find(operand)).uses if u.instruction.name == reader)
        return can_share(use, dataflow.value(module.find(reader)))

    assert shares("d", "x")
    assert shares("n", "r")
    assert not shares("r", "d")
    assert not shares("u", "x")


def test_aliases_between_text_and_values():
    module = parse(
        "HloModule m, input_output_alias={ {1}: (0, {}, may-alias), {0}: (2, {1}, must-alias) }, buffer_donor={ (1, {}) }\n"
        "ENTRY main {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  z = (f32[], f32[]) parameter(2)\n  ROOT t = (f32[], f32[]) tuple(y, x)\n}"
    )
    aliases = read_aliases(module)
    assert sorted(aliases) == [Alias((0,), 2, (1,), "must-alias"), Alias((1,), 0, ())]
    assert read_donors(module) == [(1, ())]
    text = str(module)
    write(module, aliases, read_donors(module))
    assert module.header["input_output_alias"] == "{ {0}: (2, {1}, must-alias), {1}: (0, {}, may-alias) }"
    assert read_aliases(parse(str(module))) == sorted(aliases)
    assert "buffer_donor" in text
    write(module, [], [])
    assert "alias" not in str(module)
    assert "donor" not in str(module)


def test_memory_has_one_value_for_what_a_loop_changes(loop):
    module, _ = loop
    dataflow = HloDataflowAnalysis(module, ssa_form=False)
    w = module.find("w")
    for leaf in ((0,), (1,)):
        state = dataflow.value(w, leaf)
        assert state.instruction is w
        assert dataflow.value(module.find("t"), leaf) is state
        assert dataflow.value(module.find("t2"), leaf) is state
    assert dataflow.value(w, (2,)) is dataflow.value(module.find("b"))


@pytest.mark.parametrize("ssa_form", [True, False])
def test_what_moves_nothing_defines_no_value(ssa_form):
    module = parse(
        "HloModule m\nENTRY main {\n  x = f32[8]{0} parameter(0)\n  b = f32[2,4]{1,0} bitcast(x)\n  r = f32[4,2]{1,0} reshape(b)\n"
        "  s = (f32[4,2]{1,0}, f32[4,2]{1,0}, u32[]) copy-start(r)\n  d = f32[4,2]{1,0} copy-done(s)\n  t = f32[2,4]{0,1} reshape(d)\n  ROOT n = f32[2,4]{0,1} negate(t)\n}"
    )
    dataflow = HloDataflowAnalysis(module, ssa_form=ssa_form)
    x, r = dataflow.value(module.find("x")), dataflow.value(module.find("r"))
    assert dataflow.value(module.find("b")) is x
    assert (r is x) == (not ssa_form)  # passes use a bitcast to express it
    start = dataflow.at[module.find("s")]
    assert (start[0,], start[1,]) == (r, r)
    assert start[2,].instruction is module.find("s")  # the copy's context
    assert dataflow.value(module.find("d")) is r
    assert dataflow.value(module.find("t")) is not r


def test_a_conditional_defines_memory_for_all_that_it_gives():
    module = parse(
        "HloModule m\nyes {\n  p = f32[4] parameter(0)\n  ROOT y = f32[4] bitcast(p)\n}\nno {\n  q = f32[4] parameter(0)\n  ROOT z = f32[4] bitcast(q)\n}\n"
        "ENTRY main {\n  a = pred[] parameter(0)\n  x = f32[4] parameter(1)\n  ROOT c = f32[4] conditional(a, x, x), true_computation=yes, false_computation=no\n}"
    )
    c, x = module.find("c"), module.find("x")
    assert HloDataflowAnalysis(module).value(c).instruction is x
    assert HloDataflowAnalysis(module, ssa_form=False).value(c).instruction is c


def test_each_operand_of_a_scatter_of_several_in_a_fusion_is_updated_in_place() -> None:
    module = parse("""HloModule m
    combine {
      a = f32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = s32[] parameter(3)
      ROOT r = (f32[], s32[]) tuple(c, d)
    }
    f {
      x = f32[9] parameter(0)  y = s32[9] parameter(1)  i = s32[2,1] parameter(2)  u = f32[2] parameter(3)  v = s32[2] parameter(4)
      w = s32[9] bitcast(y)
      ROOT s = (f32[9], s32[9]) scatter(x, w, i, u, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
    }
    ENTRY e {
      x = f32[9] parameter(0)  y = s32[9] parameter(1)  i = s32[2,1] parameter(2)  u = f32[2] parameter(3)  v = s32[2] parameter(4)
      ROOT g = (f32[9], s32[9]) fusion(x, y, i, u, v), kind=kInput, calls=f
    }""")
    assert in_place_pairs(module.find("g")) == [(0, (0,)), (1, (1,))]
    assert len(buffers(HloDataflowAnalysis(module))) < len(HloDataflowAnalysis(module).values)
