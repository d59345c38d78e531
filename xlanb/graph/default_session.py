"""The stack of default sessions, which `Tensor.eval` and `Operation.run` use.

Sessions themselves are in xlanb.runtime.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from xlanb.errors import GraphValueError


class SessionLike(Protocol):
    """The part of a session that this module uses."""

    @property
    def graph(self) -> Any:
        """The graph it runs."""

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Run the fetches."""


class _SessionStack(threading.local):
    def __init__(self) -> None:
        self.sessions: list[SessionLike] = []


_STACK = _SessionStack()


def get_default_session() -> Any:
    """Return the innermost default session of this thread, or None."""
    return _STACK.sessions[-1] if _STACK.sessions else None


def push_session(session: SessionLike) -> None:
    """Make `session` the default one (InteractiveSession does so for good)."""
    _STACK.sessions.append(session)


def pop_session(session: SessionLike) -> None:
    """Remove `session` from the stack, at any depth."""
    for index in range(len(_STACK.sessions) - 1, -1, -1):
        if _STACK.sessions[index] is session:
            del _STACK.sessions[index]
            return


@contextmanager
def session_scope(session: SessionLike) -> Iterator[SessionLike]:
    """Make `session` the default one in this block."""
    push_session(session)
    try:
        yield session
    finally:
        pop_session(session)


def require_session(session: SessionLike | None, graph: Any) -> SessionLike:
    """`session`, or the default one, for running something of `graph`.

    Raises:
        GraphValueError: there is no default session, or it runs another graph.
    """
    found = session if session is not None else get_default_session()
    if found is None:
        raise GraphValueError(
            "Cannot evaluate: no session was given and there is no default one. Use `with sess.as_default()` or "
            "pass session=sess"
        )
    if found.graph is not graph:
        raise GraphValueError("Cannot use the session: it runs a different graph than that of this tensor or operation")
    return found
