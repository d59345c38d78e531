"""Code for other machines: plain x86-64, run here, and AArch64, which LLVM must accept.

The former is compared with the interpreter.
"""

from __future__ import annotations

import platform
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from xlanb.codegen import jit
from xlanb.codegen.half import conversions
from xlanb.codegen.jit import LoadedCode
from xlanb.codegen.target import Target
from xlanb.cpu import compiler, objects
from xlanb.cpu.codegen.program import emit_program
from xlanb.cpu.codegen.units import Unit
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.shape import PrimitiveType

T = PrimitiveType
FLOATS = ["f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2"]
INTEGERS = ["s4", "u8", "s16", "s32", "u64"]
TYPES = [*FLOATS, *INTEGERS, "pred", "c64", "c128"]
IS_X86 = platform.machine() in ("x86_64", "AMD64")
X86 = Target("x86_64-unknown-linux-gnu", "x86-64", "", "", 2)
ARM = Target("aarch64-unknown-linux-gnu", "generic", "+neon", "", 2)


def arithmetic(t: str) -> str:
    """Arithmetic of a type, a sum, and a matrix product."""
    add, mul = ("or", "and") if t == "pred" else ("add", "multiply")
    lines = [f"  s = {t}[5,7] {add}(x, y)", f"  m = {t}[5,7] {mul}(s, y)"]
    last = "m"
    if t in FLOATS or t.startswith("c"):
        unary = ("exponential", "tanh", "sqrt", *(("floor", "cbrt", "erf") if t in FLOATS else ()))
        for k, op in enumerate(unary):
            lines += [f"  v{k} = {t}[5,7] {op}(x)", f"  w{k} = {t}[5,7] add(v{k}, {last})"]
            last = f"w{k}"
    return f"""HloModule m
sum {{
  a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT c = {t}[] {add}(a, b)
}}
ENTRY e {{
  x = {t}[5,7] parameter(0)
  y = {t}[5,7] parameter(1)
{chr(10).join(lines)}
  z = {t}[] constant({"false" if t == "pred" else "(0,0)" if t[0] == "c" else 0})
  r = {t}[5] reduce(s, z), dimensions={{1}}, to_apply=sum
  t = {t}[7,5] transpose(y), dimensions={{1,0}}
  ROOT out = ({t}[5,7], {t}[5], {t}[7,5], {t}[5,7]) tuple(m, r, t, {last})
}}
"""


def conversion(t: str) -> str:
    """A type converted to all others."""
    others = [u for u in TYPES if u != t and (not t.startswith("c") or u.startswith("c"))]
    lines = [f"  c{k} = {u}[5,7] convert(x)" for k, u in enumerate(others)]
    shapes, names = ", ".join(f"{u}[5,7]" for u in others), ", ".join(f"c{k}" for k in range(len(others)))
    return f"HloModule m\nENTRY e {{\n  x = {t}[5,7] parameter(0)\n{chr(10).join(lines)}\n  ROOT out = ({shapes}) tuple({names})\n}}"


def inputs(t: str, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    dtype = next(p for p in T if p.text == t).dtype
    return [(rng.integers(0, 7, (5, 7)) / (1 if t in (*INTEGERS, "pred") else 4)).astype(dtype) for _ in range(count)]


def complete(target: Target) -> Target:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(cpu=target.cpu, features=target.features)
    return replace(target, data_layout=str(machine.target_data))


@pytest.mark.parametrize("make", [arithmetic, conversion])
@pytest.mark.parametrize("t", TYPES)
def test_aarch64_takes_every_type(t, make, backend):
    target = complete(ARM)
    program = emit_program(backend(make(t)).buffer_assignment, target)
    for unit in program.units():
        data = objects.compile_unit(unit, target, relocation="pic")
        assert data.startswith(b"\x7fELF")
        assert not any(name in data for name in (b"hfsf2", b"sfhf2", b"dfhf2"))


@pytest.mark.skipif(not IS_X86, reason="runs code for x86-64")
@pytest.mark.parametrize("make", [arithmetic, conversion])
@pytest.mark.parametrize("t", TYPES)
def test_plain_x86_gives_what_the_interpreter_gives(t, make, backend, monkeypatch):
    monkeypatch.setattr(compiler, "_target", lambda _: complete(replace(X86, triple=jit.host().triple)))
    text = make(t)
    arguments = inputs(t, 2 if make is arithmetic else 1)
    exe = backend(text)
    assert exe.target.vector_bits == 128
    for got, want in zip(exe(*arguments), evaluate(parse(text), *arguments), strict=True):
        if want.dtype.kind in "biu" or want.dtype.name in ("int4", "uint4"):
            np.testing.assert_array_equal(got, want)
        else:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            low = want.dtype.name.startswith(("float8", "bfloat", "float16"))
            np.testing.assert_allclose(
                got.astype(wide), want.astype(wide), rtol=0.13 if low else 3e-5, atol=0.02 if low else 3e-6
            )


HALVES = """
define void @widen(ptr %in, ptr %out) {
  %x = load half, ptr %in
  %y = fpext half %x to float
  store float %y, ptr %out
  ret void
}
define void @narrow(ptr %in, ptr %out) {
  %x = load float, ptr %in
  %y = fptrunc float %x to half
  store half %y, ptr %out
  ret void
}
define void @narrow64(ptr %in, ptr %out) {
  %x = load double, ptr %in
  %y = fptrunc double %x to half
  store half %y, ptr %out
  ret void
}
"""


@pytest.fixture(scope="module")
def halves():
    if not IS_X86:
        pytest.skip("runs code for x86-64")
    target = complete(replace(X86, triple=jit.host().triple))
    head = f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.triple}"\n'
    data = objects.compile_unit(Unit(head + HALVES, ready=True, weight=0), target)
    return LoadedCode([data], ["widen", "narrow", "narrow64"])


def converted(halves, name, values, dtype):
    function, out = halves.function(name, 2), np.zeros(1, dtype)
    made = np.empty(len(values), dtype)
    for k in range(len(values)):
        function(values[k:].ctypes.data, out.ctypes.data)
        made[k] = out[0]
    return made


def test_every_f16_widens_as_numpy_widens_it(halves):
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    got, want = converted(halves, "widen", every, np.float32), every.astype(np.float32)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(got[number].view(np.uint32), want[number].view(np.uint32))
    assert np.isnan(got[~number]).all()


@pytest.mark.parametrize(("name", "dtype"), [("narrow", np.float32), ("narrow64", np.float64)])
def test_numbers_narrow_to_f16_as_numpy_narrows_them(halves, name, dtype):
    rng = np.random.default_rng(0)
    every = np.arange(2**15, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)].astype(dtype)
    between = (every[1:] + every[:-1]) / 2  # ties
    wild = (rng.standard_normal(5000) * 10.0 ** rng.uniform(-10, 6, 5000)).astype(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 65519.9, 65520.0, 1e30, 2.0**-25, 2.0**-24], dtype)
    values = np.concatenate(
        [every, between, np.nextafter(between, dtype(0)), np.nextafter(between, dtype(1e9)), wild, -wild, special]
    )[::3]
    values = np.concatenate([values, special])
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    np.testing.assert_array_equal(converted(halves, name, values, np.float16).view(np.uint16), want.view(np.uint16))
    assert np.isnan(converted(halves, name, np.array([np.nan], dtype), np.float16)).all()


def test_machines_that_convert_f16_themselves_need_no_functions():
    assert conversions(HALVES, replace(X86, features="+avx,+f16c")) == ""
    assert conversions(HALVES, ARM) == ""
    assert conversions("define void @f() { ret void }", X86) == ""
    assert "__truncdfhf2" in conversions(HALVES, X86)
