"""What higher packages do for graphs: declared here, implemented in the view and in peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xlanb.graph.records import GraphRecord
from xlanb.hooks import Hook

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph

write_picture: Final[Hook[[GraphRecord, Path, int], None]] = Hook("graph.write_picture")
"""Write a graph of at most that many nodes as .dot, or by Graphviz as .svg, .png or .pdf."""

graph_of_objects: Final[Hook[[Any, Sequence[Any]], Graph]] = Hook("graph.graph_of_objects")
"""The graph of an object of TensorFlow or Keras and the arguments of its call."""

__all__ = ["graph_of_objects", "write_picture"]
