"""Run long computations in a separate thread, so that a signal interrupts the evaluator at once.

Python runs signal handlers in the main thread, between two bytecode instructions. A NumPy call that
sorts, factorizes or gathers for minutes delays them. So the main thread waits for such a call
instead of making it. If a handler raises (as that of Ctrl-C does), the call is abandoned: its
thread ends when the call returns, and its result is dropped.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from xlanb import threads
from xlanb.evaluator.host import TARGETS, acts
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.threads import Helper

SHORT_BYTES = 1 << 24
"""Smaller operands and results in total take negligible time, except in SUPERLINEAR opcodes."""
SHORT_SUPERLINEAR_BYTES = 1 << 16

SUPERLINEAR = frozenset(
    {Op.SORT, Op.TOPK, Op.FFT, Op.CHOLESKY, Op.TRIANGULAR_SOLVE, Op.DOT, Op.CONVOLUTION}
    | {Op.REDUCE_WINDOW, Op.SELECT_AND_SCATTER, Op.SCATTER, Op.SCAN, Op.CUSTOM_CALL, Op.RAGGED_DOT, Op.SCALED_DOT}
)
"""Opcodes that may be slow on small arrays."""

_PASSED_ON = frozenset({Op.CALL, Op.FUSION, Op.WHILE, Op.CONDITIONAL})
"""Opcodes whose called computations are traversed and checked instruction by instruction."""


def is_long(i: HloInstruction) -> bool:
    """Whether an instruction may take long and can run in another thread.

    An instruction that calls a Python function must run in the calling thread.
    """
    limit = SHORT_SUPERLINEAR_BYTES if i.opcode in SUPERLINEAR else SHORT_BYTES
    if i.opcode in _PASSED_ON or i.shape.byte_size + sum(o.shape.byte_size for o in i.operands) < limit:
        return False
    if i.opcode is Op.CUSTOM_CALL:
        return i.attributes["custom_call_target"] not in TARGETS
    return not acts(i) and not any(j.opcode is Op.CUSTOM_CALL for c in i.called_computations for j in c)


def run(function: Callable[..., Any], *arguments: Any, abandon: Callable[[], None]) -> Any:
    """Call a function in another thread while this one waits; return or raise what it does.

    Only the main thread receives signals; in other threads the function is called directly. If a
    signal's handler raises, `abandon` is called and the error propagates.
    """
    if not threads.HAS_THREADS or threading.get_ident() != threading.main_thread().ident:
        return function(*arguments)
    try:
        call = _ThreadCall(function, arguments)  # a signal may arrive before the thread has started
        call.wait()
    except BaseException:
        abandon()
        raise
    return call.result()


class _ThreadCall:
    """A call in its own thread, in the context of the calling thread (e.g. NumPy's error state)."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments
        self._value: Any = None
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self._helper = Helper(lambda: context.run(self._compute), daemon=True)
        self._helper.start()

    def _compute(self) -> None:
        try:
            self._value = self._function(*self._arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that asked
            self._error = error

    def wait(self) -> None:
        """Return when the call has ended."""
        self._helper.wait()

    def result(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._value
