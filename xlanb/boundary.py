"""The boundary between xlanb and its caller: turn unexpected exceptions into InternalError.

    with boundary("compile"):            @boundary("parse HLO text")
        ...                              def parse(text): ...

The original exception becomes `__cause__`. A MemoryError becomes an OutOfMemoryError, which is a
subclass of it. These pass unchanged: errors of xlanb, errors of the user's own functions (see
`let_pass`) and signal handlers, calls with arguments that the decorated function does not take,
errors of the operating system, warnings turned into errors, a debugger's quit, and interrupts.

`filtered_traceback` wraps calls of the user's functions: their tracebacks show the user's lines and
none of xlanb's.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, suppress
from functools import partial
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import InternalError, OutOfMemoryError, XlanbError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PASSED = (XlanbError, MemoryError, OSError, Warning)
_LIBRARIES = (sys.stdlib_module_names - {"bdb"}) | {"google", "llvmlite", "ml_dtypes", "numpy", "pandas", "xlanb"}
"""Packages whose exceptions indicate a bug of xlanb. Other exception classes are the user's."""
_USERS = "_xlanb_lets_pass"
_SHOWN = 600
_PACKAGE = __name__.partition(".")[0]
_HIDDEN = frozenset({_PACKAGE, "contextlib"})  # whose decorators xlanb uses


class boundary(ContextDecorator):  # noqa: N801 - read as a word: with boundary("compile")
    """Turn an unexpected exception of the block or the decorated function into InternalError.

    `doing` names xlanb's task there, a verb first: "compile".
    """

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, MemoryError) and not isinstance(error, XlanbError) and not _is_the_users(error):
            raise _shortage(error, self._doing) from error
        if isinstance(error, Exception) and is_foreign(error) and not _is_of_call(error):
            raise internal_error(error, self._doing) from error


class filtered_traceback(ContextDecorator):  # noqa: N801 - read as words: with filtered_traceback()
    """Remove xlanb's frames from tracebacks of exceptions that the user's function causes in the
    block.

    These are exceptions that the function raises, or that JAX raises because of it. With
    JAX_TRACEBACK_FILTERING=off, which makes JAX show its own frames, xlanb's frames are shown too.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None:
            filter_traceback(error)


def filter_traceback(error: BaseException) -> None:
    """Remove xlanb's frames from the traceback of an exception of called code; follow it by a bare
    `raise`.

    Exceptions of xlanb, or of a library that it calls, keep all frames unless `let_pass` marked
    them: the frames say where it failed.
    """
    frames = list(_frames_of(error.__traceback__))
    ours = [n for n, t in enumerate(frames) if _package(t.tb_frame) == _PACKAGE]
    if not ours or _shows_all_frames():
        return
    is_libraries = all(_package(t.tb_frame) in _LIBRARIES for t in frames[ours[0] :])
    if not getattr(error, _USERS, False) and (ours[-1] == len(frames) - 1 or is_libraries):
        return
    shown: TracebackType | None = None
    for t in reversed([t for t in frames if _package(t.tb_frame) not in _HIDDEN]):
        shown = TracebackType(shown, t.tb_frame, t.tb_lasti, t.tb_lineno)
    error.__traceback__ = shown


def _frames_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _package(frame: FrameType) -> str:
    """Return the top-level package whose code a frame runs, or ""."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _shows_all_frames() -> bool:
    """Whether the user has JAX show the frames of libraries."""
    jax = sys.modules.get("jax")
    mode = getattr(getattr(jax, "config", None), "jax_traceback_filtering", None)
    return (mode or os.environ.get("JAX_TRACEBACK_FILTERING")) == "off"


def is_foreign(error: Exception) -> bool:
    """Whether this error was not raised deliberately for the user."""
    return not isinstance(error, _PASSED) and not _is_the_users(error)


def _is_of_call(error: Exception) -> bool:
    """Whether it says that the decorated function does not take these arguments.

    It did not begin then: all frames are those of decorators.
    """
    frames = _frames_of(error.__traceback__)
    return isinstance(error, TypeError) and all(_package(t.tb_frame) == "contextlib" for t in frames)


def array_of(
    value: Any, refused: Callable[[Exception], XlanbError], dtype: Any = None, *, copy: bool = False
) -> NDArray[Any]:
    """Convert a caller's value: `np.asarray(value, dtype)`, or with `copy` `np.array(value,
    dtype)`.

    Raises:
        XlanbError: `refused(exception)`, where NumPy or the value's own `__array__` raises.
            Exceptions meant for the user pass unchanged.
    """
    try:
        return np.array(value, dtype) if copy else np.asarray(value, dtype)
    except Exception as error:  # of the value's own __array__, for one
        if not is_foreign(error):
            raise
        raise refused(error) from error


def _is_the_users(error: Exception) -> bool:
    """Whether the error is the user's: marked by `let_pass`, of a foreign class, or from a signal
    handler.
    """
    if getattr(error, _USERS, False) or type(error).__module__.partition(".")[0] not in _LIBRARIES:
        return True
    return _is_of_handler(error)


def _is_of_handler(error: BaseException) -> bool:
    """Whether a signal handler raised it.

    Python may run handlers between any two instructions of xlanb.
    """
    handlers = {code for s in signal.valid_signals() if (code := _code_of(signal.getsignal(s))) is not None}
    return any(t.tb_frame.f_code in handlers for t in _frames_of(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a function, method, partial or callable object, or None if not
    Python's.
    """
    while isinstance(handler, partial):
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__"):  # a method has that of its function
        handler = handler.__call__
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None


def let_pass(error: BaseException) -> None:
    """Mark an exception of a user's function, so that it leaves xlanb unchanged."""
    with suppress(AttributeError):  # an exception without a __dict__
        setattr(error, _USERS, True)


def internal_error(error: BaseException, doing: str, path: tuple[str, ...] = ()) -> InternalError:
    """Return an error with what failed, at which instruction or node, and advice; raise it `from
    error`.
    """
    site = _site(error.__traceback__)
    at = f" at\n  {site}\n" if site else ": "
    way_round = f" To continue without this pass: --xla_disable_hlo_passes={path[-1]} in XLA_FLAGS." if path else ""
    return InternalError(
        f"xlanb failed to {doing}{at}{type(error).__name__}: {error}\n"
        "This is a bug of xlanb. Please report it with this message, the traceback below it, and the program: its "
        "HLO text (print(module), or XLA_FLAGS=--xla_dump_to=DIR) or its GraphDef (graph.save('x.pb')), reduced as "
        f"far as possible.{way_round}",
        doing,
        site,
        path,
    )


def _shortage(error: MemoryError, doing: str) -> OutOfMemoryError:
    site = _site(error.__traceback__)
    why = f": {error}" if str(error) else ""
    return OutOfMemoryError(f"out of memory while trying to {doing}{why}" + (f"\n  {site}" if site else ""))


def _site(traceback: TracebackType | None) -> str:
    """Return the text of the innermost instruction or node in xlanb's frames, or "".

    Classes of program parts have `is_program_site = True`.
    """
    for frame in reversed([t.tb_frame for t in _frames_of(traceback)]):
        if _package(frame) == _PACKAGE:
            for value in frame.f_locals.values():
                if getattr(type(value), "is_program_site", False):
                    return _shown(value)
    return ""


def _shown(site: Any) -> str:
    try:
        text = str(site)
    except Exception:  # noqa: BLE001 - it may be what is broken: then its name has to do
        text = str(getattr(site, "name", ""))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
