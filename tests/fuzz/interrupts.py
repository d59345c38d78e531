"""Interrupts at random moments of compiling, running and recording.

    python -m tests.fuzz.interrupts [--count N] [--seed S]

Each round starts some work, sends SIGINT during it, and expects KeyboardInterrupt, or the right
result if the work was faster. Then it collects garbage, and every few rounds it compiles the same
program anew, whose results must be the original ones. A crash ends the process; all other errors
are counted.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import xlanb
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.threads import active

_UNITS = 6
_SIZES = range(20, 20 + _UNITS)
_DOTS = f"""HloModule dots

ENTRY main {{
{chr(10).join(f"  a{n} = f32[{n},33] parameter({k})" for k, n in enumerate(_SIZES))}
{chr(10).join(f"  d{n} = f32[{n},{n}] dot(a{n}, a{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}" for n in _SIZES)}
{chr(10).join(f"  t{n} = f32[{n},{n}] tanh(d{n})" for n in _SIZES)}
  ROOT t = ({", ".join(f"f32[{n},{n}]" for n in _SIZES)}) tuple({", ".join(f"t{n}" for n in _SIZES)})
}}
"""
"""Several modules of LLVM IR, which threads share."""

_LOOP = """HloModule loop

condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(COUNT)
  ROOT r = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  low = f32[] constant(0)
  high = f32[] constant(1)
  y = f32[8] STEP
  ROOT t = (s32[], f32[8]) tuple(j, y)
}

ENTRY main {
  zero = s32[] constant(0)
  x = f32[8] parameter(0)
  t = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(t), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}
"""
_HOST = _LOOP.replace("STEP", "rng(low, high), distribution=rng_uniform").replace("COUNT", "300")
_KERNEL = _LOOP.replace("STEP", "sine(x)").replace("COUNT", "1000000")
"""Loops that call a Python function, and loops that stay in machine code."""


class _Work:
    """Work to interrupt, with its duration and its result."""

    def __init__(self, name: str, work: Callable[[], Any], check: Callable[[Any], bool]) -> None:
        self.name, self.work, self.check = name, work, check
        work()
        begin = time.perf_counter()
        work()
        self.seconds = time.perf_counter() - begin


def _works() -> list[_Work]:
    arrays = [np.linspace(-1, 1, 33 * n, dtype=np.float32).reshape(n, 33) for n in _SIZES]
    x = np.linspace(0, 1, 8, dtype=np.float32)
    module = xlanb.hlo.parse(_DOTS)
    want = xlanb.compile(module)(*arrays)
    stages = len(list(xlanb.trace(module)))
    host, kernel = xlanb.compile(_HOST), xlanb.compile(_KERNEL)
    sines = kernel(x)
    return [
        _Work("compile", lambda: xlanb.compile(module), lambda exe: _same(exe(*arrays), want)),
        _Work("record", lambda: xlanb.trace(module), lambda trace: len(list(trace)) == stages),
        _Work("run a kernel", partial(kernel, x), lambda y: _same(y, sines)),
        _Work("run host calls", partial(host, x), lambda y: bool(((y >= 0) & (y < 1)).all())),
    ]


def _same(given: Any, want: Any) -> bool:
    if not isinstance(want, tuple):
        return np.array_equal(given, want)
    return all(map(np.array_equal, given, want))


def campaign(count: int, seed: int) -> Counter[str]:
    """Interrupt work `count` times; count the outcomes, errors beginning with "WRONG".

    Call it on the main thread; it temporarily replaces the handler of SIGINT.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    unraisable, sys.unraisablehook = sys.unraisablehook, lambda lost: found.update([f"lost in {lost.object!r}"])
    found: Counter[str] = Counter()
    try:
        works, chance = _works(), random.Random(seed)
        for k in range(count):
            work = works[k % len(works)]
            found[_interrupted(work, chance.random() * work.seconds)] += 1
            gc.collect()
            if k % 10 == 9:
                found.update(_not_as_before(works))
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = unraisable
    return found


def _interrupted(work: _Work, delay: float) -> str:
    """The outcome of interrupted work."""
    outcome = "not interrupted"
    begun, sent = threading.Event(), threading.Event()
    sender = threading.Thread(target=_send, args=(begun, delay, sent))
    sender.start()
    try:
        begun.set()
        try:
            result = work.work()
            if not work.check(result):
                outcome = f"WRONG result: {work.name}"
        except KeyboardInterrupt:
            outcome = f"interrupted: {work.name}"
        except Exception as error:  # noqa: BLE001 - any other exception is an error
            outcome = f"WRONG exception: {work.name}: {type(error).__name__}: {str(error)[:100]}"
        while not sent.is_set():
            time.sleep(0.001)
        time.sleep(0.002)  # it arrives before the next round
    except KeyboardInterrupt:
        outcome = "interrupted outside"
    sender.join()
    return outcome


def _send(begun: threading.Event, delay: float, sent: threading.Event) -> None:
    begun.wait()
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGINT)
    sent.set()


def _not_as_before(works: list[_Work]) -> list[str]:
    """What has changed: each work is done without an interrupt."""
    wrong = [f"WRONG afterwards: {w.name}" for w in works if not w.check(w.work())]
    thresholds = gc.get_threshold()
    with raised_gc_thresholds():
        pass
    if thresholds != gc.get_threshold():
        wrong.append("the collector's thresholds were put back late")
    end = time.monotonic() + 10
    while active() and time.monotonic() < end:
        time.sleep(0.001)
    return wrong + ["WRONG: a helper's thread is left"] * len(active())


def main() -> int:
    """The command line; returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="a number; a new one each time where it is left out")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    found = campaign(options.count, seed)
    for name, times in sorted(found.items()):
        sys.stdout.write(f"{times:7} {name}\n")
    return int(any(name.startswith("WRONG") for name in found))


if __name__ == "__main__":
    sys.exit(main())
