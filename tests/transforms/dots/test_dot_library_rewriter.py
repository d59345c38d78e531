"""What XLA:CPU passes to its kernel library, and what it fuses with it."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.dots.dot_library_rewriter import DotLibraryRewriter

HEAD = """HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] maximum(a, b) }
product { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] multiply(a, b) }
ENTRY e {
  x = f32[64,128] parameter(0)
  y = f32[64,128] parameter(1)
  zero = f32[] constant(0)
"""


def _fusions(body: str, head: str = HEAD, *, bf16_dots: bool = False, large_bitcasts: bool = False) -> list[str]:
    """The opcodes in each fusion in order; the module must still compute the same."""
    text = head + body + "\n}"
    module, before = xlanb.hlo.parse(text), xlanb.hlo.parse(text)
    DotLibraryRewriter(bf16_dots=bf16_dots, large_bitcasts=large_bitcasts).run(module)
    module.verify()
    rng = np.random.default_rng(0)
    shapes = [p.array_shape for p in before.entry_computation.parameters]
    given = [rng.integers(-4, 4, s.dimensions).astype(s.element_type.dtype) for s in shapes]
    _compare(xlanb.evaluate(module, *given), xlanb.evaluate(before, *given))
    return sorted(
        " ".join(f.opcode.text for f in i.fused_computation.post_order() if f.opcode is not O.PARAMETER)
        for i in module.entry_computation
        if i.opcode is O.FUSION
    )


def _compare(got, want) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            _compare(a, b)
        return
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_a_reduction_takes_the_operands_that_nothing_else_uses():
    body = """  s = f32[64,128] multiply(x, y)
  ROOT r = f32[64] reduce(s, zero), dimensions={1}, to_apply=sum"""
    assert _fusions(body) == ["multiply constant reduce"]


def test_an_operand_with_another_use_stays_outside():
    body = """  s = f32[64,128] multiply(x, y)
  r = f32[64] reduce(s, zero), dimensions={1}, to_apply=sum
  ROOT t = (f32[64], f32[64,128]) tuple(r, s)"""
    assert _fusions(body) == ["constant reduce"]


def test_a_reduction_takes_its_only_users_and_then_their_operands():
    body = """  s = f32[64,128] multiply(x, y)
  r = f32[64] reduce(s, zero), dimensions={1}, to_apply=max
  b = f32[64,128] broadcast(r), dimensions={0}
  d = f32[64,128] subtract(s, b)
  e = f32[64,128] tanh(d)
  ROOT t = (f32[64,128], f32[64,128]) tuple(e, e)"""
    assert _fusions(body) == ["multiply constant reduce broadcast subtract tanh"]


def test_a_reduction_takes_a_dot_but_a_dot_takes_nothing():
    product = """  w = f32[128,32] parameter(2)
  d = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""
    reduced = product.replace("32]", "96]") + "  ROOT r = f32[64] reduce(d, zero), dimensions={1}, to_apply=sum"
    assert _fusions(reduced) == ["dot constant reduce"]
    assert _fusions(product + "  ROOT n = f32[64,32] negate(d)") == ["dot"]


def test_pooling_takes_a_bitcast_that_is_large_enough_for_the_release():
    body = """  w = f32[32,64] reduce-window(x, zero), window={size=2x2 stride=2x2}, to_apply=sum
  ROOT b = f32[2048] bitcast(w)"""
    assert _fusions(body) == ["constant reduce-window bitcast"]
    assert _fusions(body, large_bitcasts=True) == ["constant reduce-window"]


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = f32[64] reduce(x, zero), dimensions={1}, to_apply=product",
        "ROOT r = f32[63,127] reduce-window(x, zero), window={size=2x2}, to_apply=sum",
        "s = f32[64,63] slice(x), slice={[0:64], [0:63]}\n ROOT r = f32[64] reduce(s, zero), dimensions={1}, to_apply=sum",
        "ROOT r = f32[128,128] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "v = f32[128,1] parameter(2)\n ROOT r = f32[64,1] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ],
    ids=["product", "overlapping windows", "small", "left operand by columns", "vector"],
)
def test_what_the_library_does_not_take_stays(body):
    assert _fusions("  " + body) == []


def test_dots_of_bf16_that_give_bf16_are_taken_by_later_releases():
    head = "HloModule m\nENTRY e {\n  x = bf16[8,16] parameter(0)\n  w = bf16[16,8] parameter(1)\n"
    body = "  ROOT d = bf16[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert _fusions(body, head) == []
    assert _fusions(body, head, bf16_dots=True) == ["dot"]


def test_a_convolution_of_many_channels_is_taken():
    head = "HloModule m\nENTRY e {\n  x = f32[1,8,8,32] parameter(0)\n  w = f32[3,3,32,CHANNELS] parameter(1)\n"
    body = "  ROOT c = f32[1,6,6,CHANNELS] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f"
    many, other = (t.replace("CHANNELS", "8") for t in (head, body))
    assert _fusions(other, many) == ["convolution"]
    few = many.replace("32,8]", "4,8]").replace("8,8,32]", "8,8,4]")
    assert _fusions(other, few) == []


def test_modules_with_such_fusions_run():
    text = (
        HEAD
        + """  s = f32[64,128] multiply(x, y)
  r = f32[64] reduce(s, zero), dimensions={1}, to_apply=max
  b = f32[64,128] broadcast(r), dimensions={0}
  d = f32[64,128] subtract(s, b)
  e = f32[64,128] exponential(d)
  ROOT q = f32[64] reduce(e, zero), dimensions={1}, to_apply=sum
}"""
    )
    given = np.random.default_rng(0).standard_normal((2, 64, 128)).astype(np.float32)
    executable = compile_module(xlanb.hlo.parse(text), CompileOptions(pipeline="xla"))
    assert "__ynn_fusion" in str(executable.hlo_module)
    np.testing.assert_allclose(executable(*given), xlanb.evaluate(xlanb.hlo.parse(text), *given), rtol=1e-4)
