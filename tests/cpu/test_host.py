"""Compiled programs and their host: infeed and outfeed during runs, Python functions.

The interpreter agrees.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import xlanb
from tests.evaluator.test_host import BOTH, CALL, SUMS, X, calling, f32
from xlanb.codegen.host_call import HiddenState
from xlanb.errors import ArgumentError, CancelledError, EvaluationError, FeedError, UnimplementedError
from xlanb.evaluator import Feeds, evaluate
from xlanb.hlo import parse


def test_the_interpreter_agrees(backend):
    exe, feeds = backend(BOTH), Feeds()
    data = ((f32(5, 6), np.int32(3)), np.array(True), f32(1, 1))
    exe.infeed(*data)
    feeds.infeed(*data)
    np.testing.assert_array_equal(exe(f32(10, 20)), evaluate(BOTH, f32(10, 20), feeds=feeds))
    for _ in range(2):
        assert str(exe.outfeed()) == str(feeds.outfeed())
    with pytest.raises(FeedError, match="empty"):
        exe.outfeed()


def test_another_thread_feeds_a_running_program(backend):
    """Each number is fed after the sum of the previous ones has arrived."""
    exe, sums = backend(SUMS), []

    def feed() -> None:
        for n in (3, 4, -2, 0):
            exe.infeed(np.int32(n))
            sums.append(int(exe.outfeed(timeout=None)))

    thread = threading.Thread(target=feed)
    thread.start()
    assert exe() == 5
    thread.join()
    assert sums == [3, 7, 5, 5]


def test_what_no_infeed_takes_is_refused_at_once(backend):
    exe = backend(BOTH)
    with pytest.raises(FeedError, match=r"no infeed of both accepts f64\[2\]; they accept f32\[2\], s32\[\], pred\[\]"):
        exe.infeed((f32(1, 2), np.zeros(2)))
    assert exe.feeds.pending == 0
    with pytest.raises(FeedError, match="call has no infeed"):
        backend(CALL).infeed(f32(1, 2))
    exe.infeed(np.int32(1))  # a later infeed accepts it, but not the first
    with pytest.raises(EvaluationError, match=r"first: the infeed provides s32\[\], but f32\[2\] was expected"):
        exe(f32(0, 0))


def test_who_waits_says_so_and_can_be_interrupted(backend, caplog):
    exe = backend(SUMS)

    def interrupt() -> None:
        while not caplog.records:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with caplog.at_level(logging.WARNING, "xlanb.feeds"), pytest.raises(KeyboardInterrupt) as info:
        exe()
    thread.join()
    assert caplog.messages == ["fed waits for s32[]: provide it with infeed(...)"]
    assert "fed waits for s32[]" in info.value.__notes__[0]
    exe.infeed(np.int32(2), np.int32(0))
    assert exe() == 2


def test_who_waits_can_be_cancelled(backend):
    exe = backend(SUMS)

    def cancel() -> None:
        while not exe.calls.running:
            time.sleep(0.001)
        assert exe.cancel() == 1

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(CancelledError):
        exe()
    thread.join()
    exe.infeed(np.int32(2), np.int32(0))
    assert exe() == 2


def test_nobody_waits_for_what_nobody_can_give():
    code = f"""
from xlanb.cpu import compile_module
from xlanb.errors import EvaluationError
from xlanb.hlo import parse
try:
    compile_module(parse({SUMS!r}))()
except EvaluationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "fed: fed waits for s32[], and no other thread could provide it" in done.stdout


def test_outfeed_waits_as_long_as_it_is_told(backend):
    exe = backend(SUMS)
    with pytest.raises(FeedError, match=r"empty after 0\.01 s"):
        exe.outfeed(timeout=0.01)


def test_a_function_of_pythons_is_called(backend):
    seen = []

    def tell(token, x):
        seen.append(x)
        return (token,)

    exe = backend(calling(lambda x: (x * 2, np.int32(x.sum())), tell))
    for k in range(3):
        doubled, total = exe(X + k)
        np.testing.assert_array_equal(doubled, 2 * (X + k))
        assert total == 6 + 3 * k
    np.testing.assert_array_equal(seen, [X, X + 1, X + 2])  # its own copies


def test_what_it_raises_comes_out_as_it_is(backend):
    class OwnError(LookupError):
        pass

    fails = [True]

    def maybe(x):
        if fails[0]:
            raise OwnError("mine")
        return x, np.int32(0)

    exe = backend(calling(maybe, lambda t, _: (t,)))
    with pytest.raises(OwnError, match="mine"):
        exe(X)
    fails[0] = False
    np.testing.assert_array_equal(exe(X)[0], X)


def test_a_function_may_call_the_program_that_calls_it(backend):
    """Five nested calls, each with its own memory."""

    def deeper(x):
        inner = exe(x + 1)[0] if x[0] < 5 else x
        return inner + 1, np.int32(x[0])

    exe = backend(calling(deeper, lambda t, _: (t,)))
    got, depth = exe(f32(1, 2, 3))
    np.testing.assert_array_equal(got, f32(10, 11, 12))
    assert depth == 1


def test_without_its_functions_the_instruction_is_named(backend):
    with pytest.raises(EvaluationError, match=r"told: .*function number 1 .* came without its functions"):
        backend(CALL)(X)


def test_modules_of_one_text_keep_their_own_functions(backend):
    first, second = (backend(calling(lambda x, k=k: (x + k, np.int32(k)), lambda t, _: (t,))) for k in (1, 2))
    assert [int(first(X)[1]), int(second(X)[1])] == [1, 2]


def test_transfers_between_devices_are_refused_with_the_reason(backend):
    send = parse(
        """HloModule send
ENTRY main {
  x = f32[2]{0} parameter(0)
  t = token[] after-all()
  s = (f32[2]{0}, u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
  d = token[] send-done(s), channel_id=1, is_host_transfer=true
  ROOT y = f32[2]{0} add(x, x)
}
"""
    )
    with pytest.raises(UnimplementedError, match="send needs another device to talk to, or a host program"):
        backend(send)


# -- signals ---------------------------------------------------------------------------------------

_DRAWS = """HloModule draws

condition {
  s = (s32[], f32[8]) parameter(0)
  ROOT r = pred[] constant(true)
}

body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  low = f32[] constant(0)
  high = f32[] constant(1)
  y = f32[8] rng(low, high), distribution=rng_uniform
  ROOT t = (s32[], f32[8]) tuple(i, y)
}

ENTRY main {
  zero = s32[] constant(0)
  x = f32[8] parameter(0)
  t = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(t), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}
"""
"""An infinite loop that calls a function of the runtime."""


class _StopError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _StopError


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: (x, np.int32(1), x), r"expected a tuple of 2"),
        (lambda x: (x[:2], np.int32(1)), r"y: .*f32\[3\]"),
        (lambda x: (x.astype(np.int8), np.int32(1)), r"y: .*f32\[3\]"),
        (lambda _: (None, np.int32(1)), r"y: .*f32\[3\]"),
    ],
    ids=["number", "sizes", "type", "no array"],
)
def test_what_a_function_gives_has_the_shape_of_the_call(backend, function, said):
    exe = backend(calling(function, lambda token, _: (token,)))
    with pytest.raises(EvaluationError, match=said):
        exe(X)


def test_a_function_gives_what_numpy_makes_an_array_of(backend):
    exe = backend(calling(lambda x: (x[::-1], 7), lambda token, _: (token,)))
    with pytest.raises(EvaluationError, match=r"s32\[\]"):  # as a Python number is an int64
        exe(X)
    exe = backend(calling(lambda x: [x[::-1], np.int32(7)], lambda token, _: (token,)))
    back, seven = exe(X)
    np.testing.assert_array_equal(back, [3, 2, 1])
    assert seven == 7


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize(
    ("number", "handler", "error"),
    [(signal.SIGINT, signal.default_int_handler, KeyboardInterrupt), (signal.SIGTERM, _stop, _StopError)],
)
def test_the_first_signal_ends_a_loop_of_host_calls(backend, monkeypatch, number, handler, error):
    """At any point: with ctypes in between, 54 of 150 were lost or became a TypeError."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    exe, x = backend(_DRAWS), np.ones(8, np.float32)

    def send(delay: float) -> None:
        while not exe.calls.running:
            time.sleep(0.001)
        time.sleep(delay)
        os.kill(os.getpid(), number)

    before = signal.signal(number, handler)
    try:
        for k in range(40):
            sender = threading.Thread(target=send, args=(0.0007 * (k % 13),), daemon=True)
            sender.start()
            with pytest.raises(error):
                exe(x)
            sender.join()
    finally:
        signal.signal(number, before)
    assert not lost


def test_a_host_call_runs_another_program_and_passes_on_what_that_raises(backend, monkeypatch):
    inner = backend("HloModule i\nENTRY e {\n x = f32[2] parameter(0)\n ROOT y = f32[2] add(x, x)\n}")
    outer = backend(
        "HloModule o\nENTRY e {\n a = f32[] constant(0)\n b = f32[] constant(1)\n ROOT r = f32[8] rng(a, b), distribution=rng_uniform\n}"
    )
    seen = []

    def apply(*_: object) -> np.ndarray:
        seen.append(inner(np.ones(2, np.float32)))
        return np.full(8, seen[-1][0]) if len(seen) < 2 else inner(np.ones(3, np.float32))

    monkeypatch.setattr(HiddenState, "apply", apply)
    np.testing.assert_array_equal(outer(), np.full(8, 2, np.float32))
    with pytest.raises(ArgumentError, match="got shape"):
        outer()
    assert outer.calls.running == inner.calls.running == 0


def test_a_call_keeps_the_functions_that_it_calls(backend):
    exe = backend(
        "HloModule o\nENTRY e {\n a = f32[] constant(0)\n b = f32[] constant(1)\n ROOT r = f32[8] rng(a, b), distribution=rng_uniform\n}"
    )
    call = exe.__call__
    del exe
    gc.collect()
    assert ((call() >= 0) & (call() < 1)).all()


def test_results_that_are_operands_are_not_overwritten_by_others():
    text = """HloModule m
f {
  a = f32[<=10]{0} parameter(0)
  b = f32[<=10]{0} parameter(1)
  s = f32[<=10]{0} add(a, b)
  ROOT r = (f32[<=10]{0}, f32[<=10]{0}, f32[<=10]{0}) tuple(b, s, a)
}
ENTRY e {
  p = f32[<=10]{0} parameter(0)
  q = f32[<=10]{0} parameter(1)
  x = (f32[<=10]{0}, f32[<=10]{0}, f32[<=10]{0}) fusion(p, q), kind=kLoop, calls=f
  ROOT r = (f32[<=10]{0}, f32[<=10]{0}, f32[<=10]{0}) copy(x)
}
"""
    p, q = np.arange(10, dtype=np.float32), np.arange(100, 110, dtype=np.float32)
    for result, expected in zip(xlanb.compile(text)(p, q), (q, p + q, p), strict=True):
        np.testing.assert_array_equal(result, expected)
