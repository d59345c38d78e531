"""Long instructions run in a separate thread, so that signals interrupt the evaluator at once."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError
from xlanb.evaluator import interruptible
from xlanb.evaluator.interpreter import Evaluator
from xlanb.threads import Helper

_ADD = "f {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
_LESS = _ADD.replace("s = f32[] add(a, b)", "s = pred[] compare(a, b), direction=LT")
_SOLVE = "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"
_ROWS = "index_vector_dim=1"
_SCATTER = (
    f"update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, {_ROWS}, to_apply=f"
)
_GATHER = f"offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, {_ROWS}, slice_sizes={{1}}"
LONG = {
    "sort": (_LESS, "x = f32[20000] parameter(0)\n ROOT r = f32[20000] sort(x), dimensions={0}, to_apply=f"),
    "reduce-window": (
        _ADD,
        "x = f32[20000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[20000] reduce-window(x, z), window={size=20000 pad=19999_0}, to_apply=f",
    ),
    "fft": ("", "x = c64[9973] parameter(0)\n ROOT r = c64[9973] fft(x), fft_type=FFT, fft_length={9973}"),
    "cholesky": ("", "x = f32[150,150] parameter(0)\n ROOT r = f32[150,150] cholesky(x), lower=true"),
    "triangular-solve": ("", f"x = f32[100,100] parameter(0)\n ROOT r = f32[100,100] triangular-solve(x, x), {_SOLVE}"),
    "scatter": (
        _ADD,
        f"x = f32[9000] parameter(0)\n i = s32[9000,1] iota(), iota_dimension=0\n ROOT r = f32[9000] scatter(x, i, x), {_SCATTER}",
    ),
    "gather": (
        "",
        f"x = f32[3000000] parameter(0)\n i = s32[3000000,1] iota(), iota_dimension=0\n ROOT r = f32[3000000] gather(x, i), {_GATHER}",
    ),
    "rng": (
        "",
        "x = f32[] constant(0)\n y = f32[] constant(1)\n ROOT r = f32[5000000] rng(x, y), distribution=rng_uniform",
    ),
    "exponential": ("", "x = f32[3000000] parameter(0)\n ROOT r = f32[3000000] exponential(x)"),
}


def _module(applied: str, body: str) -> xlanb.hlo.HloModule:
    return xlanb.hlo.parse(f"HloModule m\n{applied}ENTRY e {{\n {body}\n}}\n")


@pytest.mark.parametrize("opcode", LONG)
def test_an_instruction_that_may_take_long_is_computed_aside(opcode):
    assert interruptible.is_long(_module(*LONG[opcode]).entry_computation.root)


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[100] parameter(0)\n ROOT r = f32[100] exponential(x)",
        "x = f32[9,9] parameter(0)\n ROOT r = f32[9,9] cholesky(x), lower=true",
        'x = f32[3000000] parameter(0)\n ROOT r = f32[3000000] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback"',
        "x = f32[3000000] parameter(0)\n t = token[] after-all()\n ROOT r = token[] outfeed(x, t)",
    ],
)
def test_what_is_short_or_calls_python_stays_in_the_thread_that_asked(body):
    assert not interruptible.is_long(_module("", body).entry_computation.root)


def test_values_and_errors_come_out(monkeypatch):
    monkeypatch.setattr(interruptible, "SHORT_BYTES", 0)
    monkeypatch.setattr(interruptible, "SHORT_SUPERLINEAR_BYTES", 0)
    threads = set()
    compute = interruptible._ThreadCall._compute

    def seen(call):
        threads.add(threading.get_ident())
        compute(call)

    monkeypatch.setattr(interruptible._ThreadCall, "_compute", seen)
    x = np.float32([3, 1, 2])
    text = f"HloModule m\n{_LESS}ENTRY e {{ x = f32[3] parameter(0) ROOT r = f32[3] sort(x), dimensions={{0}}, to_apply=f }}"
    np.testing.assert_array_equal(xlanb.evaluate(text, x), [1, 2, 3])
    assert threads
    assert threading.main_thread().ident not in threads
    division = "HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT r = f32[3] divide(x, x) }"
    assert np.isnan(xlanb.evaluate(division, 0 * x)).all()  # NumPy's error state is that of the evaluator
    order = "HloModule m\nENTRY e { x = c64[3] parameter(0) ROOT r = c64[3] maximum(x, x) }"
    with pytest.raises(EvaluationError, match="r: c64 values are not ordered"):
        xlanb.evaluate(order, x.astype(np.complex64))


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_signal_interrupts_what_runs_aside():
    begun, release, ended, abandoned = threading.Event(), threading.Event(), threading.Event(), []

    def compute():
        begun.set()
        release.wait(60)
        ended.set()

    def interrupt():
        begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Thread(target=interrupt)
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            interruptible.run(compute, abandon=lambda: abandoned.append(ended.is_set()))
    finally:
        signal.signal(signal.SIGINT, before)
        release.set()
        sender.join()
    assert abandoned == [False]
    assert ended.wait(60)


def test_a_signal_while_the_thread_starts_abandons_the_call(monkeypatch):
    start, abandoned = Helper.start, []

    def interrupted(helper):
        start(helper)
        raise KeyboardInterrupt

    monkeypatch.setattr(Helper, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        interruptible.run(int, abandon=lambda: abandoned.append(True))
    assert abandoned == [True]


def test_an_abandoned_evaluation_enters_no_further_computation():
    module = _module("", "x = f32[3] parameter(0)\n ROOT r = f32[3] negate(x)")
    evaluator = Evaluator()
    evaluator.abandon()
    with pytest.raises(EvaluationError, match="the evaluation was interrupted before e"):
        evaluator.run(module.entry_computation, [np.zeros(3, np.float32)])


def test_another_thread_computes_in_place():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(interruptible.run(threading.current_thread, abandon=found.clear))
    )
    thread.start()
    thread.join()
    assert found == [thread]
