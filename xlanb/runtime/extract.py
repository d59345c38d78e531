"""`extract`: the whole program as one HloModule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import FeedError, GraphError
from xlanb.graph.graph import Graph
from xlanb.hlo import HloModule
from xlanb.runtime.program import extract_module


def extract(graph: Graph, fetches: Any, **values: Any) -> HloModule:
    """The program that computes `fetches` of `graph` as one module, variables as parameters and their new values as results.

    `fetches` are tensors, operations or names; `values` are arrays by the name of a placeholder or variable whose shape the graph leaves open.

    Raises:
        FeedError: a fetch is not in the graph.
        GraphError: a node cannot be lowered.
    """
    items: Sequence[Any] = fetches if isinstance(fetches, list | tuple) else [fetches]
    try:
        found = [graph.as_graph_element(item) for item in items]
    except GraphError as error:
        raise FeedError(f"cannot fetch: {error}") from None
    return extract_module(found, values)
