"""Work on expressions deeper than Python's stack: nested calls along chains of instructions."""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from xlanb.errors import CompilationError
from xlanb.threads import Helper

_Result = TypeVar("_Result")
_STACK_BYTES = 1 << 29
_DEPTH = 200_000
_LOCK = threading.Lock()


def deep(work: Callable[[], _Result]) -> _Result:
    """Return `work()`; if it exceeds Python's stack, run it again on a thread with a larger one.

    Raises:
        RecursionError: That stack is too small as well.
        CompilationError: No such thread can be started.
    """
    try:
        return work()
    except RecursionError:
        pass
    run = _DeepCall(work)
    # This second thread changes the settings of the process, as no signal handler can interrupt it
    # before it has restored them.
    launcher = Helper(run.launch)
    try:
        launcher.start()
        launcher.wait()
    except RuntimeError as error:
        raise _no_thread(error) from error
    except BaseException:
        run.stop()
        launcher.stop()
        raise
    return run.result()


def _no_thread(error: RuntimeError) -> CompilationError:
    return CompilationError(
        f"the program nests too deep for Python's stack, and no thread with a stack of {_STACK_BYTES >> 20} MiB can "
        f"be started ({error}): "
        "raise the limits of memory (ulimit -v) and of processes (ulimit -u)"
    )


class _DeepCall(Generic[_Result]):
    """Work on a thread with a large stack."""

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work = work
        self._context = contextvars.copy_context()
        self._worker = threading.Thread(target=self._run, name="xlanb-deep-stack")
        self._found: list[_Result] = []
        self._failed: list[BaseException] = []
        self._is_stopped = False

    def launch(self) -> None:
        """Start the thread and wait for it, with the process's limits raised in the meantime."""
        with _LOCK:
            limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
            try:
                sys.setrecursionlimit(max(limit, _DEPTH))
                self._worker.start()
                self._worker.join()
            except RuntimeError as error:
                self._failed.append(_no_thread(error))
            finally:
                threading.stack_size(size)
                sys.setrecursionlimit(limit)

    def _run(self) -> None:
        try:
            if not self._is_stopped:
                self._found.append(self._context.run(self._work))
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._failed.append(error)

    def stop(self) -> None:
        """Make the work end with KeyboardInterrupt."""
        self._is_stopped = True
        if self._worker.ident is not None:
            interrupt = ctypes.py_object(KeyboardInterrupt)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._worker.ident), interrupt)

    def result(self) -> _Result:
        """The result of the work; raises its exception."""
        if self._failed:
            raise self._failed[0]
        return self._found[0]
