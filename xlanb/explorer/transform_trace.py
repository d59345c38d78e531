"""The transforms of a frozen graph as a Trace: the graph before and after each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from xlanb.explorer.trace import Trace
from xlanb.runtime.graph_transforms import transform_stages


def transform_trace(graph: Any, inputs: Iterable[str], outputs: Iterable[str], transforms: Iterable[str]) -> Trace:
    """Return what TransformGraph does to a graph, one stage per transform, with its arguments.

    Raises:
        GraphError: as TransformGraph.
    """
    stages = transform_stages(graph, inputs, outputs, transforms)
    return Trace("TransformGraph", [replace(s, index=k) for k, s in enumerate(stages)])
