"""Interrupts at every moment of some code at which a signal could interrupt it."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_LOOKS = ("CALL", "RESUME")
"""How the names of instructions begin after which Python looks for signals, other than jumps backward."""


def interrupts(work: Callable[[], object], files: tuple[str, ...]) -> Iterator[bool]:
    """Do some work again and again, each time interrupted one moment later than before, until it comes to its end.

    A moment is one after an instruction of these files at which Python looks for signals. It is in
    this thread alone.

    Args:
        work: what is done, from the beginning each time.
        files: of the code that is interrupted, as code objects name them (`co_filename`).

    Yields:
        Whether KeyboardInterrupt came out of the work, once for each moment.
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
