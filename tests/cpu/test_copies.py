"""Copies between the kernels of a program: whole, or shared by threads if large."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xlanb.codegen import jit
from xlanb.codegen.function import PARALLEL, Parameter
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.target import has_pool
from xlanb.codegen.types import PTR
from xlanb.cpu import compiler, objects
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.emitters.copies import emit_bytes
from xlanb.cpu.runtime import pool

pytestmark = pytest.mark.skipif(not has_pool(jit.host().triple), reason="no pool on this system")


def _copying(*sizes: int, threads: int = 2) -> str:
    """A function (to, from) that copies this many bytes, size after size to the same address."""
    module = ModuleBuilder("copying", replace(jit.host(), threads=threads))
    f = module.function("run", [], "nounwind", "", linkage="")
    parameters = [Parameter(PTR, f"p{k}", "noalias") for k in range(2)]
    target, source = map(f.argument, parameters)
    for size in sizes:
        emit_bytes(f, target, source, size)
    f.sign(parameters, "nounwind")
    return module.text()


@pytest.mark.parametrize("size", [1, 4096, 1 << 22, (1 << 22) + 1, 3_000_001, 5_000_000 - 1])
def test_a_copy_is_whole_and_writes_nothing_beyond(size):
    text = _copying(size)
    unit = Unit(text, ready=False, weight=0)
    symbols = {PARALLEL: pool.address()} if PARALLEL in text else {}
    code = jit.LoadedCode(objects.compile_units([unit], jit.host()), ["run"], symbols)
    source = np.random.default_rng(0).integers(1, 256, size + 64, np.uint8)
    target = np.zeros(size + 64, np.uint8)
    code.function("run", 2)(target.ctypes.data, source.ctypes.data)
    np.testing.assert_array_equal(target[:size], source[:size])
    assert not target[size:].any()


def test_threads_share_large_copies_only_and_have_one_function_for_each_size():
    assert PARALLEL not in _copying(4096)
    assert PARALLEL not in _copying(1 << 24, threads=1)
    text = _copying(1 << 24, 1 << 24, 1 << 25)
    assert text.count(f"call void @{PARALLEL}(") == 2
    assert text.count("call void @xlanb.copy") == 3


@pytest.mark.parametrize("count", [2, 16, 1 << 10])
def test_a_result_that_is_an_argument_is_copied(backend, count):
    shape = f"f32[{count},1024]"
    exe = backend(f"HloModule m\nENTRY e {{\n  p = {shape} parameter(0)\n  ROOT b = {shape} bitcast(p)\n}}\n")
    x = np.random.default_rng(1).standard_normal((count, 1024)).astype(np.float32)
    got = exe(x)
    np.testing.assert_array_equal(got, x)
    assert not np.shares_memory(got, x)


def _exchanging(n: int) -> str:
    """A loop over two arrays: five times (x, y) becomes (y, tanh(reversed y) - x)."""
    state = f"(s32[], f32[{n}], f32[{n}])"
    return f"""HloModule exchanging
again {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[{n}] get-tuple-element(p), index=1
  y = f32[{n}] get-tuple-element(p), index=2
  back = f32[{n}] reverse(y), dimensions={{0}}
  t = f32[{n}] tanh(back)
  z = f32[{n}] subtract(t, x)
  ROOT r = {state} tuple(next, y, z)
}}
few {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  five = s32[] constant(5)
  ROOT less = pred[] compare(i, five), direction=LT
}}
ENTRY e {{
  x = f32[{n}] parameter(0)
  y = f32[{n}] parameter(1)
  zero = s32[] constant(0)
  init = {state} tuple(zero, x, y)
  w = {state} while(init), condition=few, body=again
  x1 = f32[{n}] get-tuple-element(w), index=1
  y1 = f32[{n}] get-tuple-element(w), index=2
  ROOT r = (f32[{n}], f32[{n}]) tuple(x1, y1)
}}
"""


@pytest.mark.parametrize(
    ("n", "threads", "shared"), [(1 << 8, 2, False), (1 << 16, 2, True), (1 << 16, 1, False), (100_001, 3, True)]
)
def test_threads_copy_in_a_loop_what_they_wrote(backend, monkeypatch, n, threads, shared):
    target = replace(jit.host(), threads=threads)
    monkeypatch.setattr(compiler, "_target", lambda _: target)
    exe = backend(_exchanging(n))
    assert ("call void @xlanb.copy" in exe.llvm_ir.partition("body")[2]) is shared
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    got = exe(x, y)
    for _ in range(5):
        x, y = y, np.tanh(y[::-1]) - x
    for one, other in zip(got, (x, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
