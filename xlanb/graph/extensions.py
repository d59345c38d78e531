"""Extension points of Graph: declared here, implemented in graphdef.py, foreign.py, the view and
peers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xlanb.graph.binding import CallRequest
from xlanb.graph.records import GraphRecord
from xlanb.hooks import Hook

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph

write_picture: Final[Hook[[GraphRecord, Path, int], None]] = Hook("graph.write_picture")
"""Write a graph of at most that many nodes as .dot, or by Graphviz as .svg, .png or .pdf."""

graph_of_objects: Final[Hook[[Any, CallRequest], Graph]] = Hook("graph.graph_of_objects")
"""The graph of an object of TensorFlow or Keras, traced for a call."""

flatten_foreign_call: Final[Hook[[Any, tuple[Any, ...], Mapping[str, Any]], tuple[list[str], list[Any]]]] = Hook(
    "graph.flatten_foreign_call"
)
"""The leaves of the arguments that an object of TensorFlow is called with, and their names."""

make_tf_function: Final[Hook[[Any], Any]] = Hook("graph.make_tf_function")
"""A Python function over TensorFlow as a tf.function."""

read_graphdef: Final[Hook[[Any, str], Graph]] = Hook("graph.read_graphdef")
"""The graph of a GraphDef (a path, bytes or text), and its name."""

graph_to_proto: Final[Hook[[Graph, bool], Any]] = Hook("graph.graph_to_proto")
"""Make a graph's GraphDef message, with the shapes of all outputs on request."""

write_graphdef: Final[Hook[[Graph], bytes]] = Hook("graph.write_graphdef")
"""A graph as a binary GraphDef."""

write_graphdef_text: Final[Hook[[Graph], str]] = Hook("graph.write_graphdef_text")
"""A graph as a GraphDef in text form."""

graph_of_program: Final[Hook[[Any, tuple[Any, ...], str | None], Graph]] = Hook("graph.graph_of_program")
"""Make a graph from a TensorFlow program, its call's arguments, and a SavedModel's signature."""

stablehlo_module: Final[Hook[[bytes, Sequence[Any]], Any]] = Hook("graph.stablehlo_module")
"""The HloModule of StableHLO text or bytecode for arguments of these shapes."""

__all__ = [
    "flatten_foreign_call",
    "graph_of_objects",
    "graph_of_program",
    "graph_to_proto",
    "make_tf_function",
    "read_graphdef",
    "stablehlo_module",
    "write_graphdef",
    "write_graphdef_text",
    "write_picture",
]
