"""Show an XlanbError with its message and the user's lines; with xlanb's frames on request."""

from __future__ import annotations

import contextlib
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

import IPython
from IPython.core.interactiveshell import InteractiveShell

from xlanb.errors import XlanbError, render_traceback

_OURS = str(Path(__file__).parents[1])
_SHELLS = str(Path(IPython.__file__).parent)
_ASK = "(use %tb to show the frames within xlanb, %debug to inspect them)"

_SHOWN: Final[weakref.WeakSet[XlanbError]] = weakref.WeakSet()


@render_traceback.implement
def rendered(error: XlanbError) -> list[str]:
    """Return a traceback's lines in the user's code; of the same error again, as by %tb, all
    lines.
    """
    again = error in _SHOWN
    _SHOWN.add(error)
    shell = InteractiveShell.instance() if InteractiveShell.initialized() else None
    whole = error.__traceback__
    if shell is None:
        return traceback.format_exception(error)
    if again:
        return _formatted(shell, error, whole)
    kept = [t for t in _frames(whole) if _is_the_users(t.tb_frame)]
    hidden = len(kept) < sum(not _is_of_the_shell(t.tb_frame) for t in _frames(whole))
    mine: TracebackType | None = None
    for t in reversed(kept):
        mine = TracebackType(mine, t.tb_frame, t.tb_lasti, t.tb_lineno)
    cause, silent = error.__cause__, error.__suppress_context__
    try:
        # the cause inside xlanb is shown only on a second request
        error.__cause__, error.__suppress_context__ = None, True
        lines = _formatted(shell, error, mine)
    finally:
        error.__cause__, error.__suppress_context__ = cause, silent
    return [*lines, _ASK] if hidden else lines


def _formatted(shell: InteractiveShell, error: XlanbError, frames: TracebackType | None) -> list[str]:
    if frames is None:
        only: list[str] = shell.InteractiveTB.get_exception_only(type(error), error)
        return only
    made: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=0)
    return made


def _frames(frames: TracebackType | None) -> Iterator[TracebackType]:
    while frames is not None:
        yield frames
        frames = frames.tb_next


def _is_the_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not _is_of_the_shell(frame) and not file.startswith(_OURS) and file != contextlib.__file__


def _is_of_the_shell(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_SHELLS, "<decorator-gen"))
