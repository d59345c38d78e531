"""Transposes on a GPU: tiles in shared memory, any permutation and layout, fused neighbors."""

import itertools

import numpy as np
import pytest

import xlanb
from xlanb.gpu.emitters.transposes import turn_of


def numbers(shape, kind="f4"):
    return np.random.default_rng(0).integers(-100, 100, shape).astype(kind)


def program(shape, permutation, kind="f32", layouts=("", "")):
    out = ",".join(str(shape[d]) for d in permutation)
    return f"""HloModule m
ENTRY e {{
  x = {kind}[{",".join(map(str, shape))}]{layouts[0]} parameter(0)
  ROOT t = {kind}[{out}]{layouts[1]} transpose(x), dimensions={{{",".join(map(str, permutation))}}}
}}"""


@pytest.mark.parametrize("shape", [(32, 32), (33, 65), (40, 30), (8, 200), (1000, 9)])
def test_matrices(check, shape):
    exe = check(program(shape, (1, 0)), numbers(shape))
    assert [k.emitter for k in exe.kernels] == [
        ("transpose" if min(shape) >= 8 and shape[0] * shape[1] >= 1024 else "loop")
    ]


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))))
def test_every_permutation(check, permutation):
    exe = check(program((12, 10, 34), permutation), numbers((12, 10, 34)))
    moves = permutation[-1] != 2
    if exe.kernels:  # one that moves nothing is no kernel
        assert exe.kernels[0].emitter == ("transpose" if moves else "loop")


@pytest.mark.parametrize(("kind", "dtype"), [("f64", "f8"), ("pred", "?"), ("s8", "i1"), ("c64", "c8"), ("f16", "f2")])
def test_every_width(check, kind, dtype):
    check(program((50, 40), (1, 0), kind), numbers((50, 40), dtype))


def test_copy_to_another_layout(check):
    text = "HloModule m\nENTRY e { x = f32[3,40,50]{2,1,0} parameter(0)\n  ROOT c = f32[3,40,50]{1,2,0} copy(x) }"
    assert [k.emitter for k in check(text, numbers((3, 40, 50))).kernels] == ["transpose"]


def test_dimensions_side_by_side_count_as_one():
    module = xlanb.hlo.parse(program((2, 16, 5, 7), (0, 2, 3, 1)))
    turn = turn_of(module.entry_computation.root)
    assert turn.groups == ((0,), (1,), (2, 3))
    assert turn.order == (0, 2, 1)
    assert turn.sizes == (2, 16, 35)
    same = xlanb.hlo.parse(program((4, 1, 6), (1, 0, 2)))
    assert turn_of(same.entry_computation.root) is None


def test_what_is_fused_before_and_behind(check):
    text = """HloModule m
f {
  x = f32[40,60] parameter(0)  y = f32[60,40] parameter(1)
  n = f32[40,60] negate(x)
  t = f32[60,40] transpose(n), dimensions={1,0}
  s = f32[60,40] add(t, y)
  b = f32[2400] bitcast(s)
  ROOT r = (f32[60,40], f32[2400]) tuple(s, b)
}
ENTRY e {
  x = f32[40,60] parameter(0)  y = f32[60,40] parameter(1)
  ROOT r = (f32[60,40], f32[2400]) fusion(x, y), kind=kInput, calls=f
}"""
    assert [k.emitter for k in check(text, numbers((40, 60)), numbers((60, 40))).kernels] == ["transpose"]


def test_what_another_kernel_transposes_is_no_hero(check):
    text = """HloModule m
ENTRY e {
  x = f32[40,60] parameter(0)
  t = f32[60,40] transpose(x), dimensions={1,0}
  b = f32[2400] bitcast(t)
  ROOT n = f32[2400] negate(b)
}"""
    assert [k.emitter for k in check(text, numbers((40, 60))).kernels] == ["transpose", "loop"]
