"""One warp traced: what each lane computes, by line and round."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError
from xlanb.gpu.emulator.lanes import result_type
from xlanb.gpu.executable import GpuExecutable

DOUBLE = """HloModule m
ENTRY e {
  x = f32[100] parameter(0)
  ROOT r = f32[100] add(x, x)
}"""

SUM = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[4,100] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=add
}"""


def compiled(text: str) -> GpuExecutable:
    return xlanb.compile(text, target="a100")


def test_lanes_have_their_own_elements() -> None:
    x = np.arange(100, dtype=np.float32)
    seen = compiled(DOUBLE).step_warp(x, warp=1)
    sums = [s for s in seen.steps if " fadd " in s.text]
    assert sums
    assert all(s.values == tuple(2.0 * n for n in range(32, 64)) for s in sums)
    loads = [s for s in seen.steps if " load float" in s.text]
    assert loads[0].values == tuple(float(n) for n in range(32, 64))
    places = [s for s in seen.steps if " getelementptr " in s.text and str(s.values[0]).startswith("p")]
    assert [str(v).partition("+")[2] for v in places[0].values] == [str(4 * n) for n in range(32, 64)]


def test_lanes_beyond_the_array_take_no_part() -> None:
    seen = compiled(DOUBLE).step_warp(np.zeros(100, np.float32), warp=3)
    loads = [s for s in seen.steps if " load float" in s.text]
    assert loads[0].active == 4
    assert loads[0].values[4:] == (None,) * 28
    first = seen.steps[0]
    assert first.active == 32


def test_a_reduction_is_watched_through_its_shuffles() -> None:
    x = np.random.default_rng(0).integers(0, 9, (4, 100)).astype(np.float32)
    executable = compiled(SUM)
    seen = executable.step_warp(x)
    shuffles = [s for s in seen.steps if "@llvm.nvvm.shfl" in s.text]
    assert len(shuffles) == 5
    stores = [s for s in seen.steps if s.text.startswith("store float")]
    assert x[0].sum() in stores[-1].values
    np.testing.assert_array_equal(executable.emulate(x), x.sum(1))


COLUMN = """HloModule m
ENTRY e {
  x = f32[64,32] parameter(0)
  s = f32[64,1] slice(x), slice={[0:64], [0:1]}
  r = f32[64] reshape(s)
  ROOT y = f32[64] negate(r)
}"""


def test_consecutive_elements_share_sectors_and_strided_ones_do_not() -> None:
    rows = compiled(SUM).step_warp(np.ones((4, 100), np.float32)).only("load").steps
    assert [s.addresses[:2] for s in rows[:2]] == [("p0+0", "p0+4"), ("p0+128", "p0+132")]
    assert [s.sectors for s in rows] == [4, 4, 4, 1]
    assert rows[-1].addresses[4:] == (None,) * 28
    column = compiled(COLUMN).step_warp(np.ones((64, 32), np.float32))
    (load,) = column.only("load").steps
    assert load.addresses == tuple(f"p1+{128 * n}" for n in range(32))
    assert load.sectors == 32
    (store,) = column.only("store").steps
    assert (store.addresses[1], store.sectors) == ("p0+4", 4)
    assert {s.sectors for s in column.steps if s.opcode not in ("load", "store")} == {0}


def test_steps_are_selected_by_opcode() -> None:
    seen = compiled(SUM).step_warp(np.ones((4, 100), np.float32))
    assert [s.opcode for s in seen.only("shfl").steps] == ["shfl.sync.down.f32"] * 5
    assert {s.opcode for s in seen.only("load", "fadd").steps} == {"load", "fadd"}
    assert seen.only("shfl.sync.down.f32").steps == seen.only("shfl").steps
    assert seen.steps[0].opcode == "read.ptx.sreg.tid.x"
    assert "sectors" in seen.only("load")._repr_mimebundle_()["text/html"]
    assert "sectors" not in seen.only("fadd")._repr_mimebundle_()["text/html"]
    with pytest.raises(ArgumentError, match=r"has the opcode 'loed'.*load"):
        seen.only("loed")


def test_rounds_of_a_loop_are_counted() -> None:
    seen = compiled(SUM).step_warp(np.ones((4, 100), np.float32))
    line = next(s.line for s in seen.steps if s.round == 2)
    assert [s.round for s in seen.at(line)] == list(range(1, len(seen.at(line)) + 1))
    order = [(s.line, s.round) for s in seen.steps]
    assert len(order) == len(set(order))


def test_it_shows_itself() -> None:
    seen = compiled(DOUBLE).step_warp(np.ones(100, np.float32), warp=3)
    assert "warp 3 of block 0" in str(seen)
    table = seen.frame()
    assert list(table.columns[:5]) == ["line", "round", "instruction", "active", "sectors"]
    assert len(table) == len(seen)
    html = seen._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert 'class="n"' in html
    assert "nvvm" in html


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"kernel": "no"}, "no kernel 'no'"), ({"block": 9}, "blocks 0 to 0"), ({"warp": 4}, "warps 0 to 3")],
)
def test_what_is_not_there_is_refused(asked: dict[str, int | str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        compiled(DOUBLE).step_warp(np.ones(100, np.float32), **asked)


def test_a_kernel_that_no_launch_comes_to_is_told() -> None:
    text = """HloModule m
one {
  a = f32[8] parameter(0)
  ROOT n = f32[8] sine(a)
}
two {
  b = f32[8] parameter(0)
  ROOT m = f32[8] cosine(b)
}
ENTRY e {
  k = s32[] parameter(0)
  x = f32[8] parameter(1)
  ROOT c = f32[8] conditional(k, x, x), branch_computations={one, two}
}"""
    executable = compiled(text)
    x = np.ones(8, np.float32)
    inner = [k.name for k in executable.kernels if "sine" in k.name and "cosine" not in k.name]
    assert inner
    assert len(executable.step_warp(np.int32(0), x, kernel=inner[0]))
    with pytest.raises(ArgumentError, match="was not launched with"):
        executable.step_warp(np.int32(1), x, kernel=inner[0])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fadd reassoc contract float %a, %b", "float"),
        ("load float, ptr %p, align 4", "float"),
        ("load volatile i32, ptr %p", "i32"),
        ("zext nneg i32 %v1 to i64", "i64"),
        ("icmp slt i64 %a, 3", "i1"),
        ("icmp slt <4 x i32> %a, %b", ""),
        ("select i1 %c, float %a, float %b", "float"),
        ("getelementptr inbounds float, ptr %p, i64 %i", "ptr"),
        ("phi float [ %a, %entry ], [ %b, %loop ]", "float"),
        ("call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a, i32 16, i32 31)", "float"),
        ("call { i32, i1 } @f()", ""),
        ("addrspacecast ptr addrspace(3) @shared0 to ptr", "ptr"),
    ],
)
def test_types_are_read_off_the_text(text: str, kind: str) -> None:
    assert result_type(text) == kind
