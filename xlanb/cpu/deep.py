"""Work on expressions deeper than Python's stack allows: a chain of a thousand instructions in one fusion is walked by calls within calls."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_STACK_BYTES = 1 << 29
_DEPTH = 200_000
_LOCK = threading.Lock()


def deep(work: Callable[[], _Result]) -> _Result:
    """What `work` gives; where it goes deeper than Python's stack, it is begun once more on a thread with a stack that is large enough.

    Raises:
        RecursionError: that stack is too small as well.
    """
    try:
        return work()
    except RecursionError:
        pass
    found: list[_Result] = []
    failed: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            failed.append(error)

    with _LOCK:
        limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        try:
            sys.setrecursionlimit(max(limit, _DEPTH))
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if failed:
        raise failed[0]
    return found[0]
