"""Stopped executions: at any point, by any means, and that everything continues afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from xlanb.codegen import jit
from xlanb.codegen.host_call import HiddenState
from xlanb.cpu.executable import Executable
from xlanb.errors import CancelledError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")

# One very long kernel, and a way past it. 64 rows are shared by all threads; one row
# is one thread's.
HOURS = """HloModule hours

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

rows {
  x = f32[] parameter(0)
  n = f32[ROWS,1099511627776]{1,0} iota(), iota_dimension=1
  wide = f32[ROWS,1099511627776]{1,0} broadcast(x), dimensions={}
  angle = f32[ROWS,1099511627776]{1,0} multiply(n, wide)
  sine = f32[ROWS,1099511627776]{1,0} sine(angle)
  zero = f32[] constant(0)
  ROOT sums = f32[ROWS]{0} reduce(sine, zero), dimensions={1}, to_apply=add
}

long {
  x = f32[] parameter(0)
  ROOT sums = f32[ROWS]{0} fusion(x), kind=kInput, calls=rows
}

short {
  x = f32[] parameter(0)
  ROOT same = f32[ROWS]{0} broadcast(x), dimensions={}
}

ENTRY main {
  is_long = pred[] parameter(0)
  x = f32[] parameter(1)
  ROOT out = f32[ROWS]{0} conditional(is_long, x, x), true_computation=long, false_computation=short
}
"""
# Many jobs of the pool in an infinite loop.
JOBS = """HloModule jobs

condition {
  p = (f32[65536]{0}, s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=1
  zero = s32[] constant(0)
  ROOT more = pred[] compare(i, zero), direction=NE
}

body {
  p = (f32[65536]{0}, s32[]) parameter(0)
  x = f32[65536]{0} get-tuple-element(p), index=0
  i = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  less = s32[] subtract(i, one)
  y = f32[65536]{0} sine(x)
  ROOT next = (f32[65536]{0}, s32[]) tuple(y, less)
}

ENTRY main {
  x = f32[65536]{0} parameter(0)
  n = s32[] parameter(1)
  start = (f32[65536]{0}, s32[]) tuple(x, n)
  loop = (f32[65536]{0}, s32[]) while(start), condition=condition, body=body
  ROOT y = f32[65536]{0} get-tuple-element(loop), index=0
}
"""


def _await(running: Callable[[], bool]) -> None:
    while not running():
        time.sleep(0.001)


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a thread during the block."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


@contextmanager
def _handling(number: int, handler: Callable[..., object]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _signal_when(exe: Executable, number: int = signal.SIGINT) -> Callable[[], None]:
    def work() -> None:
        _await(lambda: exe.calls.running > 0)
        os.kill(os.getpid(), number)

    return work


def _cancel_when(exe: Executable, count: int) -> Callable[[], None]:
    def work() -> None:
        _await(lambda: exe.calls.running == count)
        assert exe.cancel() == count

    return work


@pytest.fixture(params=[1, 64], ids=["one thread", "all threads"])
def hours(request, backend):
    return backend(HOURS.replace("ROWS", str(request.param)))


def _is_ready(exe: Executable) -> None:
    np.testing.assert_array_equal(exe(False, 2.5), np.full(exe.calls.results[0].dimensions, 2.5, np.float32))
    assert exe.calls.running == 0


def test_a_kernel_is_interrupted(hours):
    for argument in (True, np.array(True)):  # the slow path, and the fast one
        with _beside(_signal_when(hours)), pytest.raises(KeyboardInterrupt):
            hours(argument, np.array(0.5, np.float32))
        _is_ready(hours)


def test_the_pool_goes_on_after(hours, backend):
    loop = backend(JOBS)
    x = np.linspace(-3, 3, 65536, dtype=np.float32)
    want = loop(x, 20)
    for _ in range(5):
        with _beside(_signal_when(hours)), pytest.raises(KeyboardInterrupt):
            hours(True, 0.5)
        np.testing.assert_array_equal(loop(x, 20), want)


def test_a_signal_that_raises_nothing_does_not_stop_it(hours):
    """Two signals are handled in the middle of the kernel; the third ends it."""
    seen: list[int] = []

    def handler(*_: object) -> None:
        seen.append(hours.calls.running)
        if len(seen) == 3:
            raise TimeoutError

    def send() -> None:
        for k in range(3):
            _await(lambda k=k: hours.calls.running > 0 and len(seen) == k)
            os.kill(os.getpid(), signal.SIGUSR1)

    with _handling(signal.SIGUSR1, handler), _beside(send), pytest.raises(TimeoutError):
        hours(True, 0.5)
    assert seen == [1, 1, 1]
    _is_ready(hours)


def test_a_handler_may_run_programs(hours, backend):
    loop = backend(JOBS)
    x = np.linspace(-3, 3, 65536, dtype=np.float32)
    want = loop(x, 20)

    def handler(*_: object) -> None:
        np.testing.assert_array_equal(loop(x, 20), want)
        np.testing.assert_array_equal(hours(False, 1.0)[:1], [1.0])
        raise TimeoutError

    with _handling(signal.SIGUSR1, handler), _beside(_signal_when(hours, signal.SIGUSR1)), pytest.raises(TimeoutError):
        hours(True, 0.5)
    _is_ready(hours)


def test_a_handler_may_cancel(hours):
    handling = _handling(signal.SIGUSR1, lambda *_: hours.cancel())
    with handling, _beside(_signal_when(hours, signal.SIGUSR1)), pytest.raises(CancelledError, match="hours"):
        hours(True, 0.5)
    _is_ready(hours)


def test_another_thread_cancels(hours):
    for argument in (True, np.array(True)):
        with _beside(_cancel_when(hours, 1)), pytest.raises(CancelledError, match="hours was cancelled"):
            hours(argument, np.array(0.5, np.float32))
        _is_ready(hours)


def test_all_calls_of_a_program_are_cancelled_and_no_others(hours, backend):
    other = backend(JOBS)
    ended: list[str] = []

    def run() -> None:
        with pytest.raises(CancelledError):
            hours(True, 0.5)
        ended.append("hours")

    def run_other() -> None:
        with pytest.raises(CancelledError):
            other(np.zeros(65536, np.float32), -1)
        ended.append("jobs")

    threads = [threading.Thread(target=f) for f in (run, run, run_other)]
    for t in threads:
        t.start()
    _await(lambda: hours.calls.running == 2 and other.calls.running == 1)
    assert hours.cancel() == 2
    for t in threads[:2]:
        t.join()
    assert ended == ["hours", "hours"]
    assert other.cancel() == 1
    threads[2].join()
    _is_ready(hours)


def test_where_nothing_runs_nothing_is_cancelled(hours):
    assert hours.cancel() == 0
    _is_ready(hours)


def test_many_are_cancelled_at_any_moment(backend):
    """Two threads run jobs on the pool in a loop; each is cancelled repeatedly at any point."""
    exe, rng = backend(JOBS), random.Random(0)
    x = np.linspace(-3, 3, 65536, dtype=np.float32)
    want, stop, cancelled, right = exe(x, 3), threading.Event(), [], []

    def run() -> None:
        while not stop.is_set():
            with pytest.raises(CancelledError):
                exe(x, -1)
            cancelled.append(1)
            with suppress(CancelledError):
                right.append(np.array_equal(exe(x, 3), want))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for t in threads:
        t.start()
    while len(cancelled) < 300:
        time.sleep(rng.random() * 1e-3)
        exe.cancel()
    stop.set()
    while any(t.is_alive() for t in threads):
        exe.cancel()
        time.sleep(0.001)
    for t in threads:
        t.join()
    assert right
    assert all(right)
    np.testing.assert_array_equal(exe(x, 3), want)


def test_who_is_in_python_stops_when_that_returns(backend, monkeypatch):
    exe = backend(
        """HloModule host
ENTRY main {
  x = f32[8,3,3]{2,1,0} parameter(0)
  ROOT y = f32[8,3,3]{2,1,0} all-to-all(x), dimensions={0}, replica_groups={{0}}
}
"""
    )
    x = np.ones((8, 3, 3), np.float32)
    apply, here = HiddenState.apply, threading.Event()
    want = exe(x)

    def slow(*arguments: object) -> object:
        here.set()
        _await(lambda: bool(told))
        return apply(*arguments)

    told: list[int] = []

    def cancel() -> None:
        here.wait()
        told.append(exe.cancel())

    monkeypatch.setattr(HiddenState, "apply", slow)
    with _beside(cancel), pytest.raises(CancelledError):
        exe(x)
    assert told == [1]
    monkeypatch.undo()
    np.testing.assert_array_equal(exe(x), want)


def test_others_keep_their_handler_of_the_signal(hours):
    """Signals not sent by us go to the handlers of others, installed before or after ours."""
    seen: list[int] = []
    with _handling(signal.SIGURG, lambda *_: seen.append(1)):
        with _beside(_signal_when(hours)), pytest.raises(KeyboardInterrupt):
            hours(True, 0.5)
        count = len(seen)
        os.kill(os.getpid(), signal.SIGURG)
        _await(lambda: len(seen) > count)
    _is_ready(hours)


def _script(body: str) -> str:
    source = HOURS.replace("ROWS", "64")
    return f"""
import os, signal, sys, threading, time
import numpy as np
from xlanb.cpu import compile_module
from xlanb.hlo import parse
exe = compile_module(parse({source!r}))
def run():
    try:
        exe(True, 0.5)
    except KeyboardInterrupt:
        os.write(1, b"interrupted %s\\n" % str(float(exe(False, 2.5).sum())).encode())  # a line whole, of two processes
def when_running(work):
    def wait():
        while exe.calls.running == 0: time.sleep(0.001)
        work()
    threading.Thread(target=wait).start()
{body}
"""


def test_a_process_survives_the_interrupt_of_a_kernel():
    code = _script("when_running(lambda: print('running', flush=True))\nrun()")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted 160.0\n"
    assert child.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_child_of_a_fork_can_be_interrupted():
    body = """
interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
when_running(interrupt)
run()
child = os.fork()
when_running(interrupt)
run()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", _script(body)], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n") == ["interrupted 160.0"] * 3 + [""]


def test_a_daemon_thread_in_a_kernel_does_not_keep_the_process():
    body = "threading.Thread(target=run, daemon=True).start()\nwhile exe.calls.running == 0: time.sleep(0.001)\nprint('end')"
    done = subprocess.run([sys.executable, "-c", _script(body)], check=True, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("end\n", "")


def test_the_loop_of_the_pool_is_shared(backend):
    """The tests above stop a job of several threads, if there are several."""
    exe = backend(JOBS)
    assert exe.program.is_parallel or jit.host().threads == 1
