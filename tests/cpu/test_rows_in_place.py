"""Row fusions that overwrite their operands give the same values as separate kernels."""

from __future__ import annotations

import logging
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlanb
from xlanb.cpu.codegen import kernel
from xlanb.cpu.codegen.kernel import KernelPolicy
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.hlo import parse

REDUCERS = """HloModule rows
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
"""


def fusion(seed: int, *shape: int) -> str:
    """A fusion of elementwise ops and row reductions, in any order, of two dying operands.

    A shape that begins with 1 has rows whose values lose that dimension before they are spread.
    """
    r = random.Random(seed)
    rows = shape[:-1]
    full, row = f"f32[{','.join(map(str, shape))}]", f"f32[{','.join(map(str, rows))}]"

    def spread(to: str, value: str) -> list[str]:
        if len(rows) == 1:
            return [f"{to} = {full} broadcast({value}), dimensions={{0}}"]
        squeezed = f"{to}s = f32[{rows[1]}] bitcast({value})"
        return [squeezed, f"{to} = {full} broadcast({to}s), dimensions={{1}}"]

    lines = [f"p = {full} parameter(0)", f"q = {full} parameter(1)", "z = f32[] constant(0)", "k = f32[] constant(-9)"]
    wide, narrow = ["p", "q"], []
    for n in range(r.randint(2, 12)):
        kind = r.choice(("unary", "binary", "binary", "reduce", "reduce", "spread", "row"))
        if kind == "unary":
            lines.append(f"v{n} = {full} {r.choice(('exponential', 'negate', 'tanh', 'abs'))}({r.choice(wide)})")
        elif kind == "binary":
            lines.append(
                f"v{n} = {full} {r.choice(('add', 'subtract', 'maximum'))}({r.choice(wide)}, {r.choice(wide)})"
            )
        elif kind == "reduce":
            name, start = r.choice((("sum", "z"), ("most", "k")))
            lines.append(f"v{n} = {row} reduce({r.choice(wide)}, {start}), dimensions={{{len(rows)}}}, to_apply={name}")
        elif narrow and kind == "spread":
            lines += spread(f"v{n}", r.choice(narrow))
        elif narrow:
            lines.append(f"v{n} = {row} {r.choice(('tanh', 'negate'))}({r.choice(narrow)})")
        else:
            continue
        (narrow if lines[-1].split(" = ")[1].startswith(row + " ") else wide).append(f"v{n}")
    lines += [line for n, v in enumerate(narrow[-2:]) for line in spread(f"w{n}", v)]
    last = wide[-1]
    for n in range(len(narrow[-2:])):
        lines.append(f"x{n} = {full} {r.choice(('add', 'multiply'))}({last}, w{n})")
        last = f"x{n}"
    lines.append(f"ROOT out = {full} subtract({last}, {r.choice(wide)})")
    return (
        REDUCERS
        + "rows {\n"
        + "\n".join(lines)
        + f"""\n}}
ENTRY main {{
  a = {full} parameter(0)
  b = {full} sine(a)
  c = {full} cosine(a)
  f = {full} fusion(b, c), kind=kLoop, calls=rows
  ROOT n = {full} negate(f)
}}
"""
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(((3, 9), (5, 64), (33, 130), (64, 7), (1, 5, 64), (1, 33, 9))),
    st.sampled_from(("explicit", "llvm")),
)
def test_rows_over_their_operands_have_the_values_of_rows_apart(seed, shape, vectors):
    module = parse(fusion(seed, *shape))
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    exe = compile_module(module, CompileOptions(enable_passes_only=("dce",), vectors=vectors, want_text=False))
    np.testing.assert_allclose(exe(x), xlanb.evaluate(module, x), rtol=2e-4, atol=2e-4)


SOFTMAX = (
    REDUCERS
    + """rows {
  p = f32[16,100] parameter(0)
  k = f32[] constant(-inf)
  m = f32[16] reduce(p, k), dimensions={1}, to_apply=most
  w = f32[16,100] broadcast(m), dimensions={0}
  d = f32[16,100] subtract(p, w)
  e = f32[16,100] exponential(d)
  z = f32[] constant(0)
  s = f32[16] reduce(e, z), dimensions={1}, to_apply=sum
  v = f32[16,100] broadcast(s), dimensions={0}
  ROOT r = f32[16,100] divide(LAST, v)
}
ENTRY main {
  a = f32[16,100] parameter(0)
  b = f32[16,100] sine(a)
  ROOT f = f32[16,100] fusion(b), kind=kLoop, calls=rows
}
"""
)


@pytest.mark.parametrize(("last", "in_place"), [("e", True), ("d", True)])
def test_a_softmax_is_written_over_what_it_is_of(last, in_place):
    module = parse(SOFTMAX.replace("LAST", last))
    f = module.entry_computation.root
    assert KernelPolicy().can_share(f, 0, (), ()) is in_place


def test_what_is_needed_after_costly_values_are_kept_in_the_row_does_not_lie_there():
    text = SOFTMAX.replace("divide(LAST, v)", "divide(g, v)").replace(
        "  ROOT r", "  g = f32[16,100] add(e, p)\n  ROOT r"
    )
    f = parse(text).entry_computation.root
    assert not KernelPolicy().can_share(f, 0, (), ())


def test_an_instruction_that_is_to_lie_apart_shares_nothing():
    f = parse(SOFTMAX.replace("LAST", "e")).entry_computation.root
    assert not KernelPolicy(apart={f.name}).can_share(f, 0, (), ())


def test_a_kernel_that_would_read_what_it_has_written_is_compiled_again_with_its_operands_apart(monkeypatch, caplog):
    monkeypatch.setattr(kernel, "is_in_place", lambda *_: True)
    text = SOFTMAX.replace("divide(LAST, v)", "divide(g, v)").replace(
        "  ROOT r", "  g = f32[16,100] add(e, p)\n  ROOT r"
    )
    module = parse(text)
    x = np.random.default_rng(0).standard_normal((16, 100)).astype(np.float32)
    with caplog.at_level(logging.INFO, "xlanb.cpu"):
        exe = compile_module(module, CompileOptions(enable_passes_only=("dce",)))
    assert "p is read after f has overwritten it with its result" in caplog.text
    np.testing.assert_allclose(exe(x), xlanb.evaluate(module, x), rtol=1e-5, atol=1e-6)


BATCH_OF_ONE = (
    REDUCERS
    + """rows {
  p = f32[1,16,100] parameter(0)
  k = f32[] constant(-inf)
  m = f32[1,16] reduce(p, k), dimensions={2}, to_apply=most
  ms = f32[16] bitcast(m)
  w = f32[1,16,100] broadcast(ms), dimensions={1}
  d = f32[1,16,100] subtract(p, w)
  e = f32[1,16,100] exponential(d)
  z = f32[] constant(0)
  s = f32[1,16] reduce(e, z), dimensions={2}, to_apply=sum
  ss = f32[16] bitcast(s)
  v = f32[1,16,100] broadcast(ss), dimensions={1}
  ROOT r = f32[1,16,100] divide(e, v)
}
ENTRY main {
  a = f32[1,16,100] parameter(0)
  b = f32[1,16,100] sine(a)
  ROOT f = f32[1,16,100] fusion(b), kind=kLoop, calls=rows
}
"""
)


def test_a_softmax_of_a_batch_of_one_is_written_over_what_it_is_of():
    module = parse(BATCH_OF_ONE)
    assert KernelPolicy().can_share(module.entry_computation.root, 0, (), ())
    x = np.random.default_rng(0).standard_normal((1, 16, 100)).astype(np.float32)
    exe = compile_module(module, CompileOptions(enable_passes_only=("dce",)))
    np.testing.assert_allclose(exe(x), xlanb.evaluate(module, x), rtol=1e-5, atol=1e-6)
