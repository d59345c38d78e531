"""TensorFlow 1's name_scope(name, default_name, values)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xlanb.graph.convert import graph_of


@contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Sequence[Any] | None = None) -> Iterator[str]:
    """Put nodes made inside into the scope `name`, or `default_name` if None; yield "scope/".

    The nodes go to the graph of the tensors among `values`.
    """
    graph = graph_of(values or ())
    with graph.as_default(), graph.name_scope(default_name if name is None else name) as scope:
        yield scope
