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
from xlanb.cpu import objects
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
