"""Modules and traces compared by structure, independent of names, places and layouts."""

from __future__ import annotations

import xlanb
from xlanb.explorer.diff import ModuleDiff, diff_modules, diff_traces

PROGRAM = """HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  x = f32[4,8]{1,0} parameter(0)
  zero = f32[] constant(0)
  e = f32[4,8]{1,0} exponential(x)
  t = f32[4,8]{1,0} tanh(e)
  ROOT r = f32[4]{0} reduce(t, zero), dimensions={1}, to_apply=sum
}
"""
RENAMED = PROGRAM.replace("sum", "region.7").replace("e =", "exp.3 =").replace("(e)", "(exp.3)").replace("zero", "c.9")
FUSED = """HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

fused {
  a = f32[4,8]{1,0} parameter(0)
  b = f32[] parameter(1)
  e = f32[4,8]{1,0} exponential(a)
  t = f32[4,8]{1,0} tanh(e)
  ROOT r = f32[4]{0} reduce(t, b), dimensions={1}, to_apply=sum
}

ENTRY main {
  x = f32[4,8]{1,0} parameter(0)
  zero = f32[] constant(0)
  ROOT f = f32[4]{0} fusion(x, zero), kind=kInput, calls=fused
}
"""


def compared(before: str, after: str) -> ModuleDiff:
    return diff_modules(xlanb.hlo.parse(before).record(), xlanb.hlo.parse(after).record())


def test_names_do_not_matter() -> None:
    found = compared(PROGRAM, RENAMED)
    assert found.is_equal
    assert found.counts == {"same": 8, "moved": 0, "changed": 0, "removed": 0, "added": 0}


def test_what_went_into_a_fusion_has_moved() -> None:
    found = compared(PROGRAM, FUSED)
    assert {m.opcode for m in found.matches if m.kind == "moved"} == {"exponential", "tanh", "reduce"}
    assert [m.opcode for m in found.matches if m.kind == "added"] == ["fusion"]
    assert found.counts["removed"] == 0


def test_a_change_says_in_what() -> None:
    other = PROGRAM.replace("dimensions={1}", "dimensions={0}").replace("ROOT r = f32[4]{0}", "ROOT r = f32[8]{0}")
    changed = [m for m in compared(PROGRAM, other).matches if m.kind == "changed"]
    assert [(m.opcode, m.detail) for m in changed] == [("reduce", "shape f32[4] -> f32[8], dimensions (1,) -> (0,)")]


def test_layouts_are_told_apart() -> None:
    other = PROGRAM.replace("{1,0} exponential", "{0,1} exponential")
    found = compared(PROGRAM, other)
    assert [m.detail for m in found.matches if m.kind == "changed"] == ["layout f32[4,8]{1,0} -> f32[4,8]{0,1}"]


def test_another_reducer_is_a_change() -> None:
    other = PROGRAM.replace("add(p, q)", "maximum(p, q)")
    found = compared(PROGRAM, other)
    assert ("reduce", "to_apply sum -> sum") in {(m.opcode, m.detail) for m in found.matches}


def test_an_operand_between_does_not_hide_its_neighbours() -> None:
    other = PROGRAM.replace("tanh(e)", "tanh(n)").replace("  t =", "  n = f32[4,8]{1,0} negate(e)\n  t =")
    found = compared(PROGRAM, other)
    assert [m.opcode for m in found.matches if m.kind == "added"] == ["negate"]
    assert [(m.opcode, m.detail) for m in found.matches if m.kind == "changed"] == [
        ("tanh", "operand 0 e -> n"),
    ]
    assert found.counts["removed"] == 0


def test_equal_differences_are_one_group() -> None:
    lines = "".join(f"  n{k} = f32[4,8]{{1,0}} negate({f'n{k - 1}' if k else 'x'})\n" for k in range(5))
    module = (
        f"HloModule m\nENTRY e {{\n  x = f32[4,8]{{1,0}} parameter(0)\n{lines}  ROOT r = f32[4,8]{{1,0}} abs(n4)\n}}"
    )
    found = compared(module, module.replace("{1,0} negate", "{0,1} negate"))
    row = found.groups.iloc[0]
    assert (row["kind"], row["opcode"], row["count"]) == ("changed", "negate", 5)


def test_traces_are_aligned_by_pass() -> None:
    whole = xlanb.trace(PROGRAM)
    with xlanb.flags("--xla_disable_hlo_passes=fusion"):
        without = xlanb.trace(PROGRAM)
    found = whole.diff(without)
    assert found.passes.query("`pass` == 'fusion'")["changed_before"].tolist() == [True]
    assert found.passes.query("`pass` == 'fusion'")["changed_after"].isna().all()
    assert {m.opcode for m in found.final.matches if m.kind == "moved"} >= {"exponential", "tanh"}
    assert found.at("constant_folding").is_equal
    assert "fusion: " in str(found)
    assert diff_traces(whole, whole).final.is_equal


def test_users_of_one_constant_are_not_taken_for_one_another() -> None:
    """A zero that everything uses does not identify its users."""
    before = """HloModule m
ENTRY e {
  z = f32[] constant(0)
  a = f32[4] broadcast(z), dimensions={}
  b = f32[2,8] broadcast(z), dimensions={}
  ROOT t = (f32[4], f32[2,8]) tuple(a, b)
}"""
    after = """HloModule m
ENTRY e {
  z = f32[] constant(0)
  c = f32[16,3] broadcast(z), dimensions={}
  b = f32[2,8] broadcast(z), dimensions={}
  ROOT t = (f32[16,3], f32[2,8]) tuple(c, b)
}"""
    found = compared(before, after)
    assert {m.after.name for m in found.matches if m.kind == "same" and m.after} == {"z", "b"}
    (root,) = (m for m in found.matches if m.opcode == "tuple")
    assert root.detail.startswith("shape (f32[4], f32[2,8]) -> (f32[16,3], f32[2,8])")


def test_constants_that_no_neighbour_joins_are_not_matched() -> None:
    program = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  c = f32[] constant(%s)\n  b = f32[4] broadcast(c), dimensions={}\n  ROOT r = f32[4] %s(x, b)\n}"
    found = compared(program % ("3", "add"), program.replace("c = ", "k = ").replace("(c)", "(k)") % ("5", "power"))
    assert {(m.kind, m.opcode) for m in found.matches if m.opcode in ("constant", "add", "power")} >= {
        ("removed", "add"),
        ("added", "power"),
    }
    same = compared(program % ("3", "add"), program % ("5", "add"))
    assert [(m.opcode, m.detail) for m in same.matches if m.kind == "changed"] == [("constant", "literal 3 -> 5")]


def test_long_constants_are_compared_whole() -> None:
    values = ["0"] * 2000
    program = "HloModule m\nENTRY e {\n  ROOT c = f32[2000] constant({%s})\n}"
    before = program % ",".join(values)
    values[1000] = "1"
    assert compared(before, before).is_equal
    assert not compared(before, program % ",".join(values)).is_equal


def test_a_change_is_told_where_it_is_and_repeats_are_one_group() -> None:
    lines = "\n".join(
        f"  n{k} = f32[4] negate({'x' if not k else f't{k - 1}'})\n  t{k} = f32[4] tanh(n{k})" for k in range(5)
    )
    before = f"HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n{lines}\n  ROOT r = f32[4] copy(t4)\n}}"
    after = before
    for k in range(5):
        after = after.replace(f"tanh(n{k})", f"tanh(a{k})").replace(f"  t{k} =", f"  a{k} = f32[4] abs(n{k})\n  t{k} =")
    found = compared(before, after)
    assert found.counts == {"same": 7, "moved": 0, "changed": 5, "removed": 0, "added": 5}
    rows = found.groups[["kind", "opcode", "detail", "count"]].to_numpy().tolist()
    assert rows == [["added", "abs", "", 5], ["changed", "tanh", "operand 0 negate -> abs", 5]]


def test_another_result_is_a_difference() -> None:
    program = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  %sa = f32[4] negate(x)\n  %sb = f32[4] tanh(a)\n}"
    found = compared(program % ("", "ROOT "), program % ("ROOT ", ""))
    assert {m.detail for m in found.matches if m.kind == "changed"} == {"is the result", "is no longer the result"}
