"""LLVM is loaded by another thread, once, and nobody depends on it."""

from __future__ import annotations

import _thread
import logging
import os
import subprocess
import sys

import pytest

from xlanb import threads
from xlanb.codegen import jit
from xlanb.cpu import warm_up
from xlanb.errors import CompilationError


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_started", [])
    monkeypatch.setenv("XLANB_THREADS", "2")


def test_it_is_done_once(anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []
    compiled = warm_up.compile_unit

    def compile_unit(unit: warm_up.Unit, target: jit.Target) -> bytes:
        levels.append(unit.ready)
        return compiled(unit, target)

    monkeypatch.setattr(warm_up, "compile_unit", compile_unit)
    warm_up.warm_up()
    warm_up.warm_up()
    warm_up._wait()
    assert levels == [False, True]
    assert threads.active() == []


def test_an_error_is_left_to_whoever_needs_llvm(
    anew: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise CompilationError("no target")

    monkeypatch.setattr(warm_up, "compile_unit", fail)
    with caplog.at_level(logging.INFO, "xlanb.cpu"):
        warm_up.warm_up()
        warm_up._wait()
    assert "LLVM cannot be loaded: no target" in caplog.text


def test_there_may_be_no_thread(anew: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", start)
    with caplog.at_level(logging.INFO, "xlanb.cpu"):
        warm_up.warm_up()
    assert "LLVM is loaded when it is needed" in caplog.text
    warm_up._wait()


def test_one_thread_is_enough(anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLANB_THREADS", "1")
    warm_up.warm_up()
    assert warm_up._started == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_right_after_the_start_compiles() -> None:
    program = """
import os
import numpy as np
import xlanb
from xlanb.cpu.warm_up import warm_up

warm_up()
child = os.fork()
text = "HloModule m\\nENTRY e {\\n  a = f32[8] parameter(0)\\n  ROOT t = f32[8] tanh(a)\\n}"
assert xlanb.compile(text)(np.zeros(8, np.float32)).tolist() == [0] * 8
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
