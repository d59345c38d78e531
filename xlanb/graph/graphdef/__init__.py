"""GraphDef, binary and text, to Graph and back, without TensorFlow."""

from xlanb.graph.graphdef.reader import add_nodes, graph_of_proto, parse_graphdef, parse_meta_graphs, read_graphdef
from xlanb.graph.graphdef.writer import (
    function_to_proto,
    graph_to_proto,
    node_to_proto,
    write_graphdef,
    write_graphdef_text,
)

__all__ = [
    "add_nodes",
    "function_to_proto",
    "graph_of_proto",
    "graph_to_proto",
    "node_to_proto",
    "parse_graphdef",
    "parse_meta_graphs",
    "read_graphdef",
    "write_graphdef",
    "write_graphdef_text",
]
