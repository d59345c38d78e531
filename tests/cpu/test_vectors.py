"""Explicit vectors: elementwise loops and reductions for each width, against the interpreter."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from xlanb.codegen import jit
from xlanb.codegen.target import Target
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.errors import CompilationError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

REDUCERS = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
least {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] minimum(a, b)
}
all {
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT s = pred[] and(a, b)
}
product {
  a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT s = c64[] multiply(a, b)
}
"""
X = "x = f32[3,7,45] parameter(0)\n"
BODIES = {
    "flat": X + "ROOT r = f32[3,7,45] exponential(x)",
    "channels": X
    + "b = f32[7] parameter(1)\n w = f32[3,7,45] broadcast(b), dimensions={1}\n ROOT r = f32[3,7,45] add(x, w)",
    "columns": X
    + "b = f32[45] parameter(1)\n w = f32[3,7,45] broadcast(b), dimensions={2}\n ROOT r = f32[3,7,45] subtract(w, x)",
    "pad": X + "v = f32[] parameter(1)\n ROOT r = f32[4,7,130] pad(x, v), padding=0_1x0_0x20_21_1",
    "holes": X + "v = f32[] parameter(1)\n ROOT r = f32[4,7,106] pad(x, v), padding=0_1x0_0x20_-3_1",
    "cut": X + "v = f32[] parameter(1)\n ROOT r = f32[3,7,79] pad(x, v), padding=0_0x0_0x31_3",
    "negative pad": X + "v = f32[] parameter(1)\n ROOT r = f32[3,5,48] pad(x, v), padding=0_0x-1_-1x-20_23",
    "concatenate": X + "y = f32[3,7,20] parameter(1)\n ROOT r = f32[3,7,110] concatenate(x, y, x), dimensions={2}",
    "reverse": X + "ROOT r = f32[3,7,45] reverse(x), dimensions={0,2}",
    "strided": X + "ROOT r = f32[2,7,21] slice(x), slice={[1:3],[0:7],[2:44:2]}",
    "transpose": X
    + "n = f32[3,7,45] negate(x)\n t = f32[45,3,7] transpose(n), dimensions={2,0,1}\n ROOT r = f32[45,3,7] sine(t)",
    "reshape": X
    + "n = f32[3,7,45] negate(x)\n t = f32[21,45] reshape(n)\n u = f32[945] reshape(t)\n ROOT r = f32[945] cosine(u)",
    "iota": "ROOT r = f32[5,40] iota(), iota_dimension=1",
    "narrow iota": "i = s8[5,40] iota(), iota_dimension=1\n ROOT r = s8[5,40] multiply(i, i)",
    "one row": X + "z = f32[] constant(1)\n ROOT r = f32[3,7] reduce(x, z), dimensions={2}, to_apply=sum",
    "rows": X + "z = f32[] constant(-inf)\n ROOT r = f32[7] reduce(x, z), dimensions={0,2}, to_apply=max",
    "column": X + "z = f32[] constant(1)\n ROOT r = f32[7,45] reduce(x, z), dimensions={0}, to_apply=sum",
    "middle": X + "z = f32[] constant(1)\n ROOT r = f32[3,45] reduce(x, z), dimensions={1}, to_apply=sum",
    "whole": X + "z = f32[] parameter(1)\n ROOT r = f32[] reduce(x, z), dimensions={0,1,2}, to_apply=sum",
    "integers": "x = s32[3,70] parameter(0)\n z = s32[] constant(9)\n ROOT r = s32[3] reduce(x, z), dimensions={1}, to_apply=least",
    "logic": (
        X + "c = pred[3,7,45] compare(x, x), direction=GE\n z = pred[] constant(true)\n"
        " ROOT r = pred[3,7] reduce(c, z), dimensions={2}, to_apply=all"
    ),
    "complex": "x = c64[3,33] parameter(0)\n y = c64[3,33] divide(x, x)\n z = c64[] constant((1,0))\n ROOT r = c64[3] reduce(y, z), dimensions={1}, to_apply=product",
    "padded rows": (
        X
        + "v = f32[] constant(2)\n p = f32[3,7,90] pad(x, v), padding=0_0x0_0x20_25\n q = f32[3,7,90] multiply(p, p)\n"
        " z = f32[] constant(0)\n ROOT r = f32[3,7] reduce(q, z), dimensions={2}, to_apply=sum"
    ),
    "gather": (
        "x = f32[50] parameter(0)\n i = s32[70] parameter(1)\n ROOT g = f32[70] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
    ),
    "bf16": "x = bf16[99] parameter(0)\n y = bf16[99] parameter(1)\n ROOT r = bf16[99] multiply(x, y)",
    "f8": "x = f8e4m3fn[99] parameter(0)\n y = f8e4m3fn[99] parameter(1)\n ROOT r = f8e4m3fn[99] add(x, y)",
    "s8": "x = s8[199] parameter(0)\n y = s8[199] parameter(1)\n ROOT r = s8[199] divide(x, y)",
    "s4": "x = s4[99] parameter(0)\n y = s4[99] parameter(1)\n ROOT r = s4[99] multiply(x, y)",
    "f64": "x = f64[99] parameter(0)\n ROOT r = f64[99] tanh(x)",
    "softmax": (
        "x = f32[9,70] parameter(0)\n low = f32[] constant(-inf)\n z = f32[] constant(0)\n m = f32[9] reduce(x, low), dimensions={1}, to_apply=max\n"
        " mb = f32[9,70] broadcast(m), dimensions={0}\n d = f32[9,70] subtract(x, mb)\n e = f32[9,70] exponential(d)\n"
        " s = f32[9] reduce(e, z), dimensions={1}, to_apply=sum\n sb = f32[9,70] broadcast(s), dimensions={0}\n ROOT r = f32[9,70] divide(e, sb)"
    ),
}


def narrower(bits: int, *, explicit: bool = True) -> Target:
    """The host with vectors of this many bits."""
    wide = {512: (), 256: ("avx512f",), 128: ("avx512f", "avx2", "avx")}[bits]
    features = ",".join("-" + f[1:] if f[1:].startswith(wide) else f for f in jit.host().features.split(","))
    return replace(jit.host(), features=features if wide else jit.host().features, explicit_vectors=explicit)


def inputs(text: str) -> list[NDArray[np.generic]]:
    """Normally distributed numbers for each parameter."""
    rng = np.random.default_rng(3)
    made = []
    for p in parse(text).entry_computation.parameters:
        t = p.shape.as_array().element_type
        values = rng.standard_normal(p.shape.as_array().dimensions) * 4
        values = values + 1j * values[..., ::-1] if t.is_complex else values
        values = values.astype(np.int8) if t.is_integral and t.bits < 8 else values  # NumPy wraps integers
        small = t.bits < 32 and t.is_floating
        made.append(
            np.asarray(values).astype(np.float32).astype(t.dtype) if small else np.asarray(values).astype(t.dtype)
        )
    return made


def agrees(text: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compile for a target, compare with the interpreter, return the LLVM IR."""
    monkeypatch.setattr(jit, "host", lambda: target)
    module = parse(text)
    exe = compile_module(module)
    given = inputs(text)
    want, got = np.asarray(evaluate(module, *given)), np.asarray(exe(*given))
    assert got.dtype == want.dtype
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=2e-5, atol=2e-5)
    return str(exe.llvm_ir)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", BODIES)
def test_each_width_agrees_with_the_interpreter(name: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if jit.host().vector_bits < bits:
        pytest.skip("the host's vectors are narrower")
    text = f"HloModule m\n{REDUCERS}\nENTRY e {{\n {BODIES[name]}\n}}\n"
    made = agrees(text, narrower(bits), monkeypatch)
    assert re.search(r"^[^d].* <\d+ x ", made, re.MULTILINE)  # not in a declaration only


@pytest.mark.parametrize("name", BODIES)
def test_one_by_one_agrees_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"HloModule m\n{REDUCERS}\nENTRY e {{\n {BODIES[name]}\n}}\n"
    made = agrees(text, narrower(512, explicit=False), monkeypatch)
    assert not any(f"<{n} x float>" in made for n in (4, 8, 16, 32, 64))


def test_nothing_is_read_or_written_beyond_the_end(backend) -> None:
    """Rows of 19 in one array: the neighbours of masked elements are unchanged."""
    text = (
        "HloModule m\nENTRY e {\n x = f32[2,19] parameter(0)\n y = f32[4,19] parameter(1)\n n = f32[2,19] negate(x)\n i = s32[] constant(1)\n z = s32[] constant(0)\n"
        " ROOT r = f32[4,19] dynamic-update-slice(y, n, i, z)\n}\n"
    )
    x, y = np.ones((2, 19), np.float32), np.zeros((4, 19), np.float32)
    got = np.asarray(backend(text)(x, y))
    assert (got[1:3] == -1).all()
    assert (got[[0, 3]] == 0).all()


@pytest.mark.parametrize(("op", "start"), [("add", "1"), ("maximum", "-inf")])
@pytest.mark.parametrize("dims", [(1 << 18,), (300, 1237), (3, 50_001)])
def test_a_reduction_of_everything_is_shared_and_always_the_same(
    op: str, start: str, dims: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    two = replace(jit.host(), threads=2)
    monkeypatch.setattr(jit, "host", lambda: two)
    shape = ",".join(map(str, dims))
    text = (
        f"HloModule m\nr {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] {op}(a, b)\n}}\nENTRY e {{\n x = f32[{shape}] parameter(0)\n"
        f" z = f32[] constant({start})\n n = f32[{shape}] negate(x)\n ROOT o = f32[] reduce(n, z), dimensions={{{','.join(map(str, range(len(dims))))}}}, to_apply=r\n}}\n"
    )
    exe = compile_module(parse(text))
    assert ".part" in exe.llvm_ir
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    want = 1 - x.astype(np.float64).sum() if op == "add" else -x.min()
    runs = {float(exe(x)) for _ in range(8)}
    assert len(runs) == 1
    np.testing.assert_allclose(runs.pop(), want, rtol=1e-4)
    x.flat[-1] = np.nan
    assert np.isnan(exe(x))


def test_llvm_finds_the_vectors_where_it_is_asked_to() -> None:
    text = "HloModule m\nENTRY e {\n x = f32[4096] parameter(0)\n ROOT r = f32[4096] add(x, x)\n}\n"
    explicit = compile_module(parse(text), CompileOptions())
    left = compile_module(parse(text), CompileOptions(vectors="llvm"))
    assert " x float>" in explicit.llvm_ir
    assert " x float>" not in left.llvm_ir
    assert " x float>" in left.optimized_llvm_ir
    with pytest.raises(CompilationError, match="explicit"):
        compile_module(parse(text), CompileOptions(vectors="none"))


@pytest.mark.parametrize("columns", [17, 37, 61, 100, 130])
def test_the_last_vectors_lie_back_unless_the_result_is_written_over_what_it_is_of(backend, columns: int) -> None:
    shape = f"f32[6,{columns}]"
    exe = backend(f"""HloModule m
    ENTRY e {{
      x = {shape} parameter(0)
      b = f32[6] parameter(1)
      c = {shape} broadcast(b), dimensions={{0}}
      once = {shape} multiply(x, c)
      twice = {shape} multiply(once, once)
      d = {shape} broadcast(b), dimensions={{0}}
      sum = {shape} add(twice, d)
      ROOT r = {shape} divide(sum, c)
    }}""")
    rng = np.random.default_rng(columns)
    x, b = rng.standard_normal((6, columns)).astype("f4"), 1 + rng.random(6).astype("f4")
    np.testing.assert_allclose(exe(x, b), ((x * b[:, None]) ** 2 + b[:, None]) / b[:, None], rtol=1e-5)
    places = {
        exe.buffer_assignment.slice_of(i) for i in exe.hlo_module.instructions() if i.name in ("once", "twice", "sum")
    }
    assert len(places) < 3


@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize(("kept", "dims"), [("3,7", "2,3"), ("7", "0,2,3"), ("", "0,1,2,3"), ("3,45", "1,3")])
@pytest.mark.parametrize("to_apply", ["sum", "max"])
def test_vectors_run_along_what_does_not_repeat(
    to_apply: str, kept: str, dims: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if jit.host().vector_bits < bits:
        pytest.skip("the host's vectors are narrower")
    text = f"""HloModule m
{REDUCERS}
f {{
  x = f32[3,7,45] parameter(0)
  z = f32[] parameter(1)
  w = f32[3,7,45,2] broadcast(x), dimensions={{0,1,2}}
  c = f32[] constant(3)
  t = f32[3,7,45,2] broadcast(c), dimensions={{}}
  m = f32[3,7,45,2] multiply(w, t)
  ROOT r = f32[{kept}] reduce(m, z), dimensions={{{dims}}}, to_apply={to_apply}
}}
ENTRY e {{
  x = f32[3,7,45] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[{kept}] fusion(x, z), kind=kLoop, calls=f
}}
"""
    agrees(text, narrower(bits), monkeypatch)
    plan = "".join(map(str, compile_module(parse(text)).plans.values()))
    assert "for 2 elements" not in plan
    assert "for 45 elements" in plan or dims == "1,3"


def test_offsets_are_known_where_lanes_cannot_be_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of two dimensions in one, from its last element on: the lanes begin anywhere."""
    text = f"""HloModule m
{REDUCERS}
f {{
  x = f32[5,6,70] parameter(0)
  z = f32[] constant(-inf)
  y = f32[5,420] bitcast(x)
  end = f32[5,1] slice(y), slice={{[0:5],[419:420]}}
  rest = f32[5,419] slice(y), slice={{[0:5],[0:419]}}
  c = f32[5,420] concatenate(end, rest), dimensions={{1}}
  ROOT r = f32[5] reduce(c, z), dimensions={{1}}, to_apply=max
}}
ENTRY e {{
  x = f32[5,6,70] parameter(0)
  ROOT r = f32[5] fusion(x), kind=kLoop, calls=f
}}
"""
    agrees(text, jit.host(), monkeypatch)
    assert "for 420 elements by vectors" in "".join(map(str, compile_module(parse(text)).plans.values()))
