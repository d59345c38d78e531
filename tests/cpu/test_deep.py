"""Fusions deeper than Python's stack."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from xlanb.codegen.deep import deep


def test_a_fusion_of_a_thousand_instructions_one_behind_the_other(backend):
    depth = 1500
    chain = "\n".join(f"  v{k} = f32[64]{{0}} add(v{k - 1}, v0)" for k in range(1, depth))
    exe = backend(
        f"HloModule chain\n\nfused {{\n  v0 = f32[64]{{0}} parameter(0)\n{chain}\n  ROOT r = f32[64]{{0}} add(v{depth - 1}, v0)\n}}\n\n"
        "ENTRY main {\n  x = f32[64]{0} parameter(0)\n  ROOT f = f32[64]{0} fusion(x), kind=kLoop, calls=fused\n}\n"
    )
    np.testing.assert_array_equal(exe(np.ones(64, np.float32)), depth + 1)
    assert len(exe.kernels) == 1


def test_the_limit_is_what_it_was_and_errors_arrive():
    def down(k: int) -> int:
        if k == 0:
            raise ValueError("at the bottom")
        return 1 + down(k - 1)

    limit = sys.getrecursionlimit()
    with pytest.raises(ValueError, match="at the bottom"):
        deep(lambda: down(10 * limit))
    assert sys.getrecursionlimit() == limit


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_an_interrupt_ends_the_work_and_puts_everything_back():
    begun, ended = threading.Event(), threading.Event()
    main = threading.current_thread()

    def down(k: int) -> None:
        if k:
            down(k - 1)
        if threading.current_thread() is main:
            raise RecursionError
        try:
            begun.set()
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    def interrupt() -> None:
        assert begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    limit, size = sys.getrecursionlimit(), threading.stack_size()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            deep(lambda: down(10))
    finally:
        signal.signal(signal.SIGINT, before)
    sender.join()
    assert ended.is_set()
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit, size)
