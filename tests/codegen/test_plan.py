"""The plans of kernels: their content, and where they are shown."""

from __future__ import annotations

import pytest

import xlanb
from xlanb.codegen.nest import Nest, Tail, Vectors
from xlanb.codegen.plan import Choice, KernelPlan, time_text
from xlanb.cpu.executable import Executable
from xlanb.view.parts.llvm import code_data

SUMS = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[1000,1030] parameter(0)
  y = f32[1000,1030] tanh(x)
  z = f32[] constant(0)
  columns = f32[1030] reduce(y, z), dimensions={0}, to_apply=add
  ROOT t = (f32[1000,1030], f32[1030]) tuple(y, columns)
}
"""


def compiled(text: str) -> Executable:
    made = xlanb.compile(text)
    assert isinstance(made, Executable)
    return made


def test_plan_of_an_elementwise_kernel() -> None:
    (plan,) = (p for p in compiled(SUMS).plans.values() if "columns" not in p.instruction)
    lines = str(plan).splitlines()
    assert lines[0] == f"{plan.instruction}:"
    assert any(line.startswith("  for 1030000 elements by vectors of ") for line in lines)
    (nest,) = (s for s in plan.steps if isinstance(s, Nest))
    assert nest.vectors is not None
    assert nest.sizes == (1_030_000,)


def test_plan_says_why_a_reduction_is_a_routine() -> None:
    (plan,) = (p for p in compiled(SUMS).plans.values() if "columns" in p.instruction)
    (choice,) = (s for s in plan.steps if isinstance(s, Choice) and s.what == "reduction")
    assert choice.taken == "a routine over columns"
    assert "1000 rows of 1030" in choice.why


def test_plan_compares_the_ways_to_sort() -> None:
    text = (
        "HloModule m\nless { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }\n"
        "ENTRY e { x = f32[8,40] parameter(0) ROOT s = f32[8,40] sort(x), dimensions={1}, to_apply=less }"
    )
    (plan,) = compiled(text).plans.values()
    (choice,) = (s for s in plan.steps if isinstance(s, Choice) and s.what == "sort")
    assert choice.taken.startswith("by counting")
    ((other, cost),) = choice.others
    assert (other, cost[-2:]) == ("by merging", "us")


def test_plan_of_a_product_names_other_tiles_with_their_cycles() -> None:
    text = (
        "HloModule m\nENTRY e { x = f32[96,80] parameter(0) y = f32[80,160] parameter(1) "
        "ROOT d = f32[96,160] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    (plan,) = compiled(text).plans.values()
    (tile,) = (s for s in plan.steps if isinstance(s, Choice) and s.what == "tile")
    assert tile.others
    assert all(cost.endswith("times the cycles") and float(cost.split()[0]) >= 0.98 for _, cost in tile.others)


def test_plan_of_a_transform_names_its_radices() -> None:
    text = "HloModule m\nENTRY e {{ x = c64[{0}] parameter(0) ROOT y = c64[{0}] fft(x), fft_type=FFT, fft_length={{{1}}} }}"
    found = []
    for shape, length in (("640,40", 40), ("1,1024", 1024), ("64,101", 101), ("3,101", 101)):
        (plan,) = compiled(text.format(shape, length)).plans.values()
        found += [s for s in plan.steps if isinstance(s, Choice) and " of " in s.what]
    blocks, single, prime, convolved = found
    assert (blocks.what, blocks.taken) == ("640 lines of 40", "16 lines at once")
    assert blocks.why.endswith("radices 8 x 5")
    assert single.taken == "each line as a matrix"
    assert single.why.endswith("radices 4 x 4, then 8 x 8")
    assert prime.why.endswith("radices 101")
    assert convolved.taken == "each line as a matrix, convolved (240)"
    assert convolved.why.endswith("radices 4 x 4, then 3 x 5")
    ways = [blocks.taken, single.taken, "16 lines at once, convolved (224)", convolved.taken]
    assert [other for other, _ in blocks.others] == [single.taken]
    assert [other for other, _ in single.others] == [blocks.taken]
    for choice in (prime, convolved):
        assert [other for other, _ in choice.others] == [way for way in ways if way != choice.taken]


def test_plan_of_a_factor_names_the_ways_that_fit() -> None:
    text = (
        "HloModule m\nENTRY e {{ x = f32[{0},{1},{1}] parameter(0) ROOT y = f32[{0},{1},{1}] cholesky(x), lower=true }}"
    )
    (batch,) = compiled(text.format(100, 8)).plans.values()
    (choice,) = (s for s in batch.steps if isinstance(s, Choice) and s.what.startswith("potrf"))
    assert (choice.what, choice.taken) == ("potrf of 100 x [8,8]", "a matrix in each lane")
    assert [way for way, _ in choice.others] == ["calls of LAPACK"]
    (single,) = compiled(text.format(1, 8)).plans.values()
    (choice,) = (s for s in single.steps if isinstance(s, Choice) and s.what.startswith("potrf"))
    assert (choice.taken, choice.others) == ("calls of LAPACK", ())


def test_plans_stand_beside_the_assembly() -> None:
    exe = compiled(SUMS)
    record = exe.assembly_record
    assert record.plans == exe.plans
    data = code_data(record)["plan"]
    assert [op for _, op in data["ops"]] == [p.instruction for p in exe.plans.values()]
    for begin, op in data["ops"]:
        assert data["lines"][begin - 1] == f"{op}:"


def test_nest_as_text() -> None:
    nest = Nest((4, 100), 1, Vectors(16, 4), 0.5, Tail.OVERLAP)
    assert str(nest) == (
        "for 4\n  for 100 elements by vectors of 64, then 16; the last vector overlaps the previous one; 0.5 ns each"
    )
    assert str(Nest((7,), 1)) == "for 7 elements, one by one"


def test_choice_and_plan_as_text() -> None:
    choice = Choice("sort", "by digits", "2 us", (("by merging", "9 us"),))
    plan = KernelPlan("s.1", "s", (choice,))
    assert str(plan) == "s:\n  sort: by digits, 2 us\n    not by merging: 9 us"


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(0.25, "0.25 ns"), (1500.0, "1.5 us"), (2.5e6, "2.5 ms"), (3e9, "3 s")]
)
def test_times_as_text(nanoseconds: float, text: str) -> None:
    assert time_text(nanoseconds) == text
