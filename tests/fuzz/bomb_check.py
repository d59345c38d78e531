"""How programs of large expansion are judged.

They must give a result or an XlanbError in time; evaluation and runs must end on a signal.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np

import xlanb
from tests.fuzz.kinds import Item
from xlanb.analysis.cost import cost
from xlanb.errors import XlanbError
from xlanb.hlo.module import HloModule
from xlanb.shape import ArrayShape

INTERRUPT_SECONDS = 1.5
"""The most seconds from a signal to the end of what it interrupts."""
_RUN_SECONDS = 2.0
_ARGUMENT_BYTES = 64 << 20


class _Interrupted(BaseException):
    """Raised by the timer's signal, as KeyboardInterrupt is by Ctrl-C."""


def check(item: Item, _rng: np.random.Generator) -> str | None:
    """Take a text through every stage. The worker limits the time of the stages before the run."""
    assert isinstance(item, str)
    try:
        module = xlanb.hlo.parse(item)
    except XlanbError as error:
        return _silent("parse", error)
    for stage, work in (
        ("verify", module.verify),
        ("print", lambda: str(module)),
        ("record", module.record),
        ("cost", lambda: cost(module)),
        ("proto", lambda: HloModule.from_proto(module.to_proto())),
    ):
        try:
            work()
        except XlanbError as error:
            return _silent(stage, error)
    arguments = _arguments(module)
    try:
        exe = xlanb.compile(module.clone())
    except XlanbError as error:
        return _silent("compile", error) or _ended("evaluate", lambda: xlanb.evaluate(module, *arguments))
    return _ended("evaluate", lambda: xlanb.evaluate(module, *arguments)) or _ended("run", lambda: exe(*arguments))


def _silent(stage: str, error: XlanbError) -> str | None:
    return None if str(error) else f"{stage}: {type(error).__name__} without a message"


def _ended(stage: str, work: Callable[[], object]) -> str | None:
    """Run a stage until a signal ends it; report if it ends late.

    The previous timer and handler continue afterwards.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    began = time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.signal(signal.SIGALRM, stop)
    try:
        with suppress(XlanbError, _Interrupted):
            signal.setitimer(signal.ITIMER_REAL, _RUN_SECONDS)
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.monotonic() - began
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - took, 0.001))
    late = took - _RUN_SECONDS
    return f"late: {stage} ended {late:.1f} s after the signal" if late > INTERRUPT_SECONDS else None


def _arguments(module: HloModule) -> list[Any]:
    """Ones for every parameter; None, which is rejected, if too large or not arrays."""
    shapes = [p.shape for p in module.entry_computation.parameters]
    arrays = [s for s in shapes if isinstance(s, ArrayShape) and s.is_array and s.rank <= 64]
    if len(arrays) < len(shapes) or sum(s.byte_size for s in arrays) > _ARGUMENT_BYTES:
        return []
    return [np.ones(s.dimensions, s.dtype) for s in arrays]
