"""tf.logging: a program's log on stderr, by the logger "tensorflow"
(python/platform/tf_logging.py).
"""

from __future__ import annotations

import logging as _logging
from typing import Any

DEBUG = _logging.DEBUG
INFO = _logging.INFO
WARN = WARNING = _logging.WARNING
ERROR = _logging.ERROR
FATAL = _logging.FATAL

_log = _logging.getLogger("tensorflow")
debug = _log.debug
info = _log.info
warn = warning = _log.warning
error = _log.error
fatal = _log.critical
log = _log.log
_counts: dict[str, int] = {}


def _handled() -> None:
    if not _log.handlers:
        handler = _logging.StreamHandler()
        handler.setFormatter(_logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
        _log.addHandler(handler)


def set_verbosity(level: int) -> None:
    """Show messages of this level and above."""
    _handled()
    _log.setLevel(level)


def get_verbosity() -> int:
    """The level from which messages are shown."""
    return _log.getEffectiveLevel()


def vlog(level: int, message: str, *args: Any) -> None:
    """A debug message."""
    _log.log(max(1, DEBUG - level), message, *args)


def log_first_n(level: int, message: str, n: int, *args: Any) -> None:
    """Log a message the first `n` times it comes."""
    _counts[message] = _counts.get(message, 0) + 1
    if _counts[message] <= n:
        _log.log(level, message, *args)


def log_every_n(level: int, message: str, n: int, *args: Any) -> None:
    """Log a message once, and then each `n` times it comes."""
    if _counts.setdefault(message, 0) % n == 0:
        _log.log(level, message, *args)
    _counts[message] += 1


def flush() -> None:
    """Write buffered lines."""
    for handler in _log.handlers:
        handler.flush()
