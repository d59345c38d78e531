"""Kernels for which the code generator's lowest level is good enough."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
import xlanb.hlo
from xlanb.cpu.codegen.levels import is_light
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.transforms.pipeline import HloPassPipeline

_ADD = "ENTRY e { a = f32[4096] parameter(0) b = f32[4096] parameter(1) ROOT c = f32[4096] add(a, b) }"
_TANH = "ENTRY e { a = f32[4096] parameter(0) ROOT c = f32[4096] tanh(a) }"
_SUM = """
s { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
ENTRY e { a = f32[64,512] parameter(0) b = f32[64,512] negate(a) n = f32[] constant(0) ROOT c = f32[64] reduce(b, n), dimensions={1}, to_apply=s }
"""
_SMALL = (
    "ENTRY e { a = f32[4] parameter(0) b = f32[4] parameter(1) m = f32[4] multiply(a, b) ROOT c = f32[4] add(m, a) }"
)


def _levels(text: str) -> list[bool]:
    exe = xlanb.compile("HloModule m\n" + text)
    return [u.calls_only for u in exe.program.units() if not u.shared]


@pytest.mark.parametrize(("text", "light"), [(_ADD, True), (_SMALL, True), (_TANH, False), (_SUM, False)])
def test_only_kernels_that_memory_bounds_are_light(text: str, *, light: bool) -> None:
    assert all(_levels(text)) is light


def test_light_and_other_kernels_stand_in_modules_of_their_own() -> None:
    text = _ADD.replace("ROOT c", "c").replace(
        " }", " t = f32[4096] tanh(c) n = f32[4096] negate(c) ROOT r = (f32[4096], f32[4096]) tuple(t, n) }"
    )
    exe = compile_module(xlanb.hlo.parse("HloModule m\n" + text), CompileOptions(pipeline=HloPassPipeline("none")))
    assert {u.calls_only for u in exe.program.units()} == {True, False}
    x = np.linspace(-3, 3, 4096, dtype=np.float32)
    one, two = exe(x, x)
    np.testing.assert_allclose(one, np.tanh(2 * x), rtol=1e-5)
    np.testing.assert_array_equal(two, -2 * x)


_LOOP = """entry:
  {outside}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  {inside}
  %at = getelementptr inbounds <64 x float>, ptr %p, i64 %i
  %x = load <64 x float>, ptr %at
  {work}
  store <64 x float> %x, ptr %at
  %i1 = add i64 %i, 1
  %c = icmp slt i64 %i1, 100
  br i1 %c, label %loop, label %done
done:
  ret void
}}"""


@pytest.mark.parametrize(
    ("outside", "inside", "work", "light"),
    [
        ("", "", "", True),
        ("%v = load <64 x float>, ptr %q", "", "%y = fadd <64 x float> %x, %v", False),  # a vector defined outside
        ("", "%s = phi float [ 0.0, %entry ], [ %s, %loop ]", "", False),  # one carried by the loop
        ("", "", "\n  ".join(f"%y{k} = fmul <64 x float> %x, %x" for k in range(9)), False),  # much computation
        ("", "", "%y = call <64 x float> @sinf(<64 x float> %x)", False),
    ],
)
def test_what_a_loop_may_do(outside: str, inside: str, work: str, *, light: bool) -> None:
    lines = [line for line in _LOOP.format(outside=outside, inside=inside, work=work).split("\n") if line.strip()]
    assert is_light([lines]) is light


def test_few_bytes_in_a_round_are_not_enough() -> None:
    lines = _LOOP.format(outside="", inside="", work="").replace("<64 x float>", "<4 x float>").split("\n")
    assert not is_light([[line for line in lines if line.strip()]])


def test_parts_for_threads_stand_apart_from_what_hands_them_to_the_pool() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[1024,1024] parameter(0)
  b = f32[2048,512] parameter(1)
  s = f32[1024,1024] tanh(a)
  t = f32[2048,512] exponential(b)
  ROOT r = (f32[1024,1024], f32[2048,512]) tuple(s, t)
}"""
    exe = xlanb.compile(text)
    if exe.target.threads < 2:
        pytest.skip("one thread has no parts")
    own = [u for u in exe.program.units() if not u.shared]
    light, heavy = ([u.text for u in own if u.calls_only is level] for level in (True, False))
    assert len(light) == 1
    assert "define void @run(" in light[0]
    assert sum(u.count("define void @") for u in heavy) == 2
    assert not any("@run(" in u for u in heavy)
    x = np.linspace(-3, 3, 1 << 20, dtype=np.float32)
    one, two = exe(x.reshape(1024, 1024), x.reshape(2048, 512))
    np.testing.assert_allclose(one.ravel(), np.tanh(x), rtol=1e-5)
    np.testing.assert_allclose(two.ravel(), np.exp(x), rtol=1e-5)


def _loops(count: int) -> str:
    """Consecutive loops; each increments the previous result until it is at least 3."""
    condition = "{ p = f32[4] parameter(0) s = f32[1] slice(p), slice={[0:1]} v = f32[] reshape(s) n = f32[] constant(3) ROOT c = pred[] compare(v, n), direction=LT }"
    body = "{ p = f32[4] parameter(0) o = f32[] constant(1) b = f32[4] broadcast(o), dimensions={} ROOT r = f32[4] add(p, b) }"
    parts = [f"cond{k} {condition}\nbody{k} {body}\n" for k in range(count)]
    chain = "".join(
        f" w{k} = f32[4] while({f'n{k - 1}' if k else 'p'}), condition=cond{k}, body=body{k}\n n{k} = f32[4] negate(w{k})\n"
        for k in range(count)
    )
    return f"HloModule loops\n{''.join(parts)}ENTRY e {{\n p = f32[4] parameter(0)\n{chain} ROOT r = f32[4] negate(n{count - 1})\n}}\n"


@pytest.mark.parametrize(("count", "has_passes"), [(3, True), (301, False)])
def test_hundreds_of_loops_get_no_passes_of_llvms(count: int, has_passes: bool) -> None:
    exe = xlanb.compile(_loops(count))
    main = next(u for u in exe.program.units() if "@run(" in u.text)
    assert main.ready is not has_passes
    assert ("alwaysinline" in main.text) is has_passes
    np.testing.assert_array_equal(exe(np.array([0, 1, 2, 3], np.float32)), [3, 4, 5, 6])


def _repeated(elements: int) -> str:
    """A tangent, and a loop that repeats it."""
    array = f"f32[{elements}]"
    return f"""HloModule repeated
again {{
  p = (s32[], {array}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = {array} get-tuple-element(p), index=1
  y = {array} tanh(x)
  ROOT t = (s32[], {array}) tuple(next, y)
}}
few {{
  p = (s32[], {array}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT less = pred[] compare(i, three), direction=LT
}}
ENTRY e {{
  a = {array} parameter(0)
  first = {array} tanh(a)
  zero = s32[] constant(0)
  init = (s32[], {array}) tuple(zero, first)
  w = (s32[], {array}) while(init), condition=few, body=again
  ROOT r = {array} get-tuple-element(w), index=1
}}
"""


@pytest.mark.parametrize(("elements", "inlined"), [(16, True), (1 << 12, False), (1 << 16, False)])
def test_only_quick_kernels_are_inlined_in_loops(elements: int, inlined: bool) -> None:
    exe = xlanb.compile(_repeated(elements))
    main = next(u.text for u in exe.program.units() if "define void @run(" in u.text)
    assert ("define internal void @y(" in main) is inlined
    x = np.linspace(-3, 3, elements, dtype=np.float32)
    np.testing.assert_allclose(exe(x), np.tanh(np.tanh(np.tanh(np.tanh(x)))), rtol=1e-5)
