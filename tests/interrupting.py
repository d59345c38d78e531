"""Interrupts at every moment of some code at which a signal could interrupt it."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_LOOKS = ("CALL", "RESUME")
"""Prefixes of instructions after which Python checks signals, other than backward jumps."""


def interrupts(work: Callable[[], object], files: tuple[str, ...]) -> Iterator[bool]:
    """Repeat some work, interrupted one moment later each time, until it runs to its end.

    A moment follows an instruction of these files at which Python checks signals, in this thread
    only.

    Args:
        work: the work, repeated from its beginning.
        files: the files of the code to interrupt, as in `co_filename`.

    Yields:
        Whether the work raised KeyboardInterrupt, once for each moment.
    """
    moment = 0
    while True:
        tracer = _Tracer(files, moment)
        before, came = sys.gettrace(), False
        sys.settrace(tracer.trace)
        try:
            work()
        except KeyboardInterrupt:
            came = True
        finally:
            sys.settrace(before)
        if not tracer.has_interrupted:
            return
        yield came
        moment += 1


class _Tracer:
    """A trace function that raises KeyboardInterrupt after so many moments."""

    def __init__(self, files: tuple[str, ...], moments: int) -> None:
        self.has_interrupted = False
        self._files, self._left = files, moments
        self._previous: dict[FrameType, int] = {}

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """See sys.settrace."""
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "exception":  # Python does not look after a call that raises
            self._previous.pop(frame, None)
        elif event == "opcode" and self._is_moment(frame):
            if not self._left:
                self.has_interrupted = True
                sys.settrace(None)
                raise KeyboardInterrupt
            self._left -= 1
        return self.trace

    def _is_moment(self, frame: FrameType) -> bool:
        """Whether Python looked for signals after the instruction before this one."""
        previous, self._previous[frame] = self._previous.get(frame), frame.f_lasti
        if previous is None:
            return False
        return previous > frame.f_lasti or dis.opname[frame.f_code.co_code[previous]].startswith(_LOOKS)
