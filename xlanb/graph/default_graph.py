"""The default graph, to which new nodes are added."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from xlanb.errors import GraphError
from xlanb.hooks import Hook

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph

make_graph: Final[Hook[[], Graph]] = Hook("graph.make_graph")
"""A new graph without nodes; graph.py implements it."""


class _GraphStack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []


_STACK = _GraphStack()
_global: list[Graph] = []  # at most one: the graph outside of every `with`, shared by all threads


def get_default_graph() -> Graph:
    """The graph that new nodes go to: the innermost `as_default`, or the global one."""
    if _STACK.graphs:
        return _STACK.graphs[-1]
    if not _global:
        _global.append(make_graph())
    return _global[0]


def reset_default_graph() -> None:
    """Begin a new global default graph.

    Raises:
        GraphError: inside `with graph.as_default()`, where it would have no effect.
    """
    if any(g not in _global for g in _STACK.graphs):
        raise GraphError(
            "reset_default_graph() inside `with graph.as_default()` would have no effect: leave that block first"
        )
    _global.clear()
    _STACK.graphs.clear()


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the default of this thread in this block."""
    stack = _STACK.graphs
    stack.append(graph)
    try:
        yield graph
    finally:
        for index in range(len(stack) - 1, -1, -1):
            if stack[index] is graph:
                del stack[index]
                break
