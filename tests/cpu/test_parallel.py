"""Loops that threads share: emitted code, the pool, and that each part runs exactly once."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from xlanb.codegen import jit
from xlanb.codegen.function import PARALLEL, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.parallel import chunks, is_shared, parallel
from xlanb.codegen.target import has_pool
from xlanb.codegen.types import I64, PTR
from xlanb.cpu import compiler, objects
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.runtime import pool
from xlanb.errors import CompilationError

pytestmark = pytest.mark.skipif(not has_pool(jit.host().triple), reason="no pool on this system")


def _counting(count: int, nanoseconds: float, *, threads: int = 2, leak: bool = False, debug: bool = False):
    """A kernel that adds 1 to each of `count` numbers, and stores the slot of the thread."""
    module = ModuleBuilder("counting", replace(jit.host(), threads=threads), {"count": 3} if debug else None)
    f = module.function("count", [], "", "count", linkage="")
    parameters = [Parameter(PTR, f"p{k}", "noalias noundef") for k in range(2)]
    numbers, slots = (Pointer(f.argument(p), I64) for p in parameters)
    outside = f.let(I64, "add i64 0, 1")
    with parallel(f, count, nanoseconds=nanoseconds) as i:
        numbers[i] = numbers[i] + (outside if leak else 1)
        slots[i] = f.value(f.slot)
    f.sign(parameters, "nounwind")
    return module.text(), bool(f.outlined)


def _loaded(text: str, name: str = "count") -> jit.LoadedCode:
    symbols = {PARALLEL: pool.address()} if f"@{PARALLEL}" in text else {}
    unit = Unit(text, ready=False, weight=0)
    return jit.LoadedCode(objects.compile_units([unit], jit.host()), [name], symbols)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("count", [2, 3, 17, 1000])
def test_every_round_is_run_once(count, debug):
    text, outlined = _counting(count, 1e6, debug=debug)
    assert outlined
    run = _loaded(text).function("count", 2)
    numbers, slots = np.zeros(count, np.int64), np.full(count, -1)
    for _ in range(50):
        run(numbers.ctypes.data, slots.ctypes.data)
    np.testing.assert_array_equal(numbers, 50)
    assert set(slots.tolist()) <= {0, 1}


@pytest.mark.parametrize(("nanoseconds", "threads"), [(1.0, 2), (1e6, 1)])
def test_small_work_and_one_thread_are_a_plain_loop(nanoseconds, threads):
    text, outlined = _counting(100, nanoseconds, threads=threads)
    assert not outlined
    assert PARALLEL not in text
    numbers, slots = np.zeros(100, np.int64), np.full(100, -1)
    _loaded(text).function("count", 2)(numbers.ctypes.data, slots.ctypes.data)
    np.testing.assert_array_equal(numbers, 1)


_REPEATED = """HloModule m
body {
  p = (s32[], f32[20000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[20000] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[20000] tanh(x)
  ROOT r = (s32[], f32[20000]) tuple(j, y)
}
condition {
  p = (s32[], f32[20000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(50)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[20000] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[20000]) tuple(zero, x)
  w = (s32[], f32[20000]) while(t), condition=condition, body=body
  ROOT r = f32[20000] get-tuple-element(w), index=1
}
"""
_ONCE = """HloModule m
ENTRY e {
  x = f32[20000] parameter(0)
  ROOT y = f32[20000] tanh(x)
}
"""


def test_threads_share_less_work_in_a_loop_of_the_program(backend, monkeypatch, set_costs):
    x, results = np.linspace(-3, 3, 20000, dtype=np.float32), []
    set_costs(wake_ns=25_000.0)
    for threads in (1, 3):
        target = replace(jit.host(), threads=threads)
        monkeypatch.setattr(compiler, "_target", lambda _, target=target: target)
        assert not backend(_ONCE).program.is_parallel
        exe = backend(_REPEATED)
        assert exe.program.is_parallel is (threads > 1)
        results.append(exe(x))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("nanoseconds", "parts"), [(4e3, 2), (5e3, 2), (8e3, 4), (24e3, 8), (26e3, 8)])
def test_parts_of_small_work_take_some_microseconds(nanoseconds, parts):
    module = ModuleBuilder("parts", replace(jit.host(), threads=8), None)
    f = module.function("parts", [], "", "parts", linkage="")
    f.repeats = True
    assert is_shared(f, 1000, nanoseconds / 1000) is (nanoseconds >= f.target.costs.repeated_wake_ns)
    assert chunks(f, 1000, nanoseconds / 1000) == parts


def test_what_is_made_outside_is_not_known_inside():
    text, _ = _counting(100, 1e6, leak=True)
    with pytest.raises(CompilationError, match="undefined value"):
        _loaded(text)


def test_inside_of_a_part_there_are_no_parts():
    module = ModuleBuilder("nested", replace(jit.host(), threads=2))
    f = module.function("nested", [], "", "nested")
    assert is_shared(f, 100, 1e6)
    with parallel(f, 100, nanoseconds=1e6):
        assert not is_shared(f, 100, 1e6)
    assert is_shared(f, 100, 1e6)


def test_several_threads_bring_jobs_at_once():
    run = _loaded(_counting(64, 1e6)[0]).function("count", 2)
    own = [(np.zeros(64, np.int64), np.zeros(64, np.int64)) for _ in range(4)]

    def work(k: int) -> None:
        for _ in range(2000):
            run(own[k][0].ctypes.data, own[k][1].ctypes.data)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for numbers, _ in own:
        np.testing.assert_array_equal(numbers, 2000)


def test_the_child_of_a_fork_has_a_pool_of_its_own():
    code = """
import os, sys
sys.path.insert(0, "tests/cpu")
import numpy as np
import test_parallel as t
run = t._loaded(t._counting(64, 1e6)[0]).function("count", 2)
def all_right():
    numbers, slots = np.zeros(64, np.int64), np.zeros(64, np.int64)
    for _ in range(200): run(numbers.ctypes.data, slots.ctypes.data)
    return bool((numbers == 200).all())
assert all_right()
child = os.fork()
if child == 0:
    os._exit(0 if all_right() else 1)
assert os.waitpid(child, 0)[1] == 0
assert all_right()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "XLANB_NUM_THREADS": "2"})


def test_the_number_of_threads_is_asked_of_the_environment():
    code = "from xlanb.codegen import jit; print(jit.host().threads)"
    env = {**os.environ, "XLANB_NUM_THREADS": "3"}
    asked = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60, env=env
    )
    assert asked.stdout.strip() == "3"


def test_bounds_depend_on_the_number_of_parts_alone():
    """The pool runs k * count / chunks to (k + 1) * count / chunks, on any thread."""
    source = """
define void @part(ptr %context, i64 %lo, i64 %hi, i64 %slot) {
  %at = getelementptr i64, ptr %context, i64 %lo
  store i64 %hi, ptr %at
  ret void
}
declare void @xlanb.parallel(ptr, ptr, i64, i64, i64)
define void @run(ptr %context) {
  call void @xlanb.parallel(ptr @part, ptr %context, i64 10, i64 4, i64 2)
  ret void
}
"""
    code = _loaded(source, "run")
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("run"))
    for _ in range(100):
        ends = np.zeros(10, np.int64)
        run(ends.ctypes.data)
        assert ends.tolist() == [2, 0, 5, 0, 0, 7, 0, 10, 0, 0]
