"""The entry of an executable: its fast path, its slow path, and that failing calls lose nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

from xlanb.cpu.runtime.bridge import bridge
from xlanb.errors import ArgumentError

ADD = """HloModule add

ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
  y = f32[2,3]{1,0} parameter(1)
  s = f32[2,3]{1,0} add(x, y)
  d = f32[2,3]{1,0} subtract(x, y)
  ROOT out = (f32[2,3]{1,0}, f32[2,3]{1,0}) tuple(s, d)
}
"""

ENDLESS = """HloModule endless

condition {
  p = (s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  end = s32[] constant(-1)
  ROOT more = pred[] compare(i, end), direction=NE
}

body {
  p = (s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  two = s32[] constant(2)
  s = s32[] add(i, two)
  mask = s32[] constant(65534)
  even = s32[] and(s, mask)
  ROOT next = (s32[]) tuple(even)
}

ENTRY main {
  x = s32[] parameter(0)
  start = (s32[]) tuple(x)
  loop = (s32[]) while(start), condition=condition, body=body
  ROOT result = s32[] get-tuple-element(loop), index=0
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class _Sub(np.ndarray):
    pass


def _unaligned(a: np.ndarray) -> np.ndarray:
    raw = np.empty(a.nbytes + 1, np.uint8)
    made = raw[1:].view(a.dtype).reshape(a.shape)
    made[...] = a
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1][::-1],
        _unaligned,
        lambda a: a.view(_Sub),
        lambda a: a.tolist() and np.array(a.tolist(), np.float32),
        memoryview,
    ],
)
def test_arrays_of_every_kind_of_memory(backend, make):
    exe = backend(ADD)
    s, d = exe(make(X.copy()), make(X + 1))
    np.testing.assert_array_equal(s, X + X + 1)
    np.testing.assert_array_equal(d, np.full_like(X, -1))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (X,),
        (X, X, X),
        (X, X.astype(np.float64)),
        (X, X.astype(np.int32)),
        (X, X[0]),
        (X, X.T),
        (X, X.reshape(3, 2)),
        (X, None),
        (X, "text"),
        (X, object()),
        (X, X.reshape(2, 3, 1)),
        (X, X.astype(">f4")),
    ],
)
def test_what_does_not_fit_is_an_error_and_harms_nothing(backend, arguments):
    exe = backend(ADD)
    for _ in range(3):
        with pytest.raises(ArgumentError, match=r"add|argument"):
            exe(*arguments)
    np.testing.assert_array_equal(exe(X, X)[1], 0)


def test_an_executable_takes_no_names(backend):
    with pytest.raises(TypeError):
        backend(ADD)(X, y=X)


def test_results_are_owned_and_counted_as_they_should_be(backend):
    exe = backend(ADD)
    gc.collect()
    before = sys.getrefcount(X), sys.getrefcount(X.dtype)
    kept = [exe(X, X) for _ in range(1000)]
    assert all(r.flags.owndata and r.flags.writeable and sys.getrefcount(r) <= 3 for pair in kept[:5] for r in pair)
    assert len({r.ctypes.data for pair in kept for r in pair}) == 2000
    del kept
    gc.collect()
    after = sys.getrefcount(X), sys.getrefcount(X.dtype)
    assert after[0] == before[0]
    assert abs(after[1] - before[1]) < 10


def test_an_executable_goes_when_nobody_holds_it(backend):
    exe = backend(ADD)
    gone = weakref.ref(exe.calls)
    call = exe.__call__
    del exe
    gc.collect()
    np.testing.assert_array_equal(call(X, X)[0], 2 * X)
    del call
    gc.collect()
    assert gone() is None


def test_the_entry_reads_arrays_here():
    """The entry reads arrays on tested platforms; elsewhere every call takes the slow path."""
    assert bridge().reads_arrays


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.complex64, np.bool_, np.int8, np.uint64])
def test_every_dtype_and_no_dimension(backend, dtype):
    names = {ml_dtypes.bfloat16: "bf16", np.float16: "f16", np.complex64: "c64", np.bool_: "pred", np.int8: "s8"}
    name = names.get(dtype, "u64")
    exe = backend(f"HloModule m\n\nENTRY main {{\n  x = {name}[] parameter(0)\n  ROOT y = {name}[] copy(x)\n}}\n")
    one = np.array(1, dtype)
    out = exe(one)
    assert out.dtype == one.dtype
    assert out.shape == ()
    assert out == one
    assert exe(dtype(1)) == one


@pytest.mark.parametrize("order", ["0,1,2", "1,0,2", "2,0,1", "2,1,0"])
def test_a_result_in_an_order_of_its_own(backend, order):
    exe = backend(
        f"HloModule m\n\nENTRY main {{\n  x = f32[2,3,5]{{2,1,0}} parameter(0)\n  ROOT y = f32[2,3,5]{{{order}}} copy(x)\n}}\n"
    )
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    assert exe.__call__ != exe.calls.unusual
    for result in (exe(x), exe.calls.unusual(x)):
        np.testing.assert_array_equal(result, x)
        assert np.argsort(result.strides).tolist() == [int(d) for d in order.split(",")]
        result[...] = 1
    assert exe(x).flags.owndata


def test_empty_arrays(backend):
    exe = backend(
        "HloModule m\n\nENTRY main {\n  x = f32[0,4]{1,0} parameter(0)\n  ROOT y = f32[0,4]{1,0} negate(x)\n}\n"
    )
    assert exe(np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_threads_have_arenas_of_their_own(backend):
    exe = backend(
        """HloModule m

ENTRY main {
  x = f32[50000]{0} parameter(0)
  a = f32[50000]{0} sine(x)
  b = f32[50000]{0} add(a, x)
  c = f32[50000]{0} cosine(b)
  ROOT y = f32[50000]{0} multiply(c, b)
}
"""
    )
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(50000, np.float32) for _ in range(4)]
    want = [exe(x) for x in inputs]
    wrong = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(100) if not np.array_equal(exe(inputs[k]), want[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_loop_that_never_ends_can_be_interrupted(backend):
    exe = backend(ENDLESS)
    assert exe(np.array(-1, np.int32)) == -1
    for argument in (np.array(0, np.int32), 0):  # the fast path, and the slow one
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            exe(argument)
        timer.join()
        assert exe(np.array(-1, np.int32)) == -1


def test_a_process_survives_the_interrupt():
    code = f"""
import sys
from xlanb.cpu import compile_module
from xlanb.hlo import parse
exe = compile_module(parse({ENDLESS!r}))
try:
    print("running", flush=True)
    exe(0)
except KeyboardInterrupt:
    print("interrupted", int(exe(-1)), flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "interrupted -1\n"
    assert child.returncode == 0


def test_other_threads_go_on_while_a_loop_runs(backend):
    exe = backend(ENDLESS)
    seen = []

    def count() -> None:
        seen.append(sum(range(100_000)))
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.05, count)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        exe(0)
    assert seen
