"""Write graphs as TensorFlow's DumpGraphToFile does.

They are text files named by `names.GRAPHS`, in the directory of TF_DUMP_GRAPH_PREFIX. Repeated
names in this process get _1, _2 and so on. `-` as directory is stderr. Source of the rules:
tensorflow/core/util/dump_graph.cc.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from xlanb.debug_options import current
from xlanb.errors import DumpError
from xlanb.files import at_home
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import function_to_proto, graph_to_proto
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.logs import VLog

LOG = VLog("dump", "dump_graph")
_CLUSTER = "_XlaCluster"
_COUNTS: Counter[tuple[str, str]] = Counter()
_LOCK = threading.Lock()
_LONGEST_NAME = 255  # bytes of a file's name


def dumps_graphs() -> bool:
    """Whether the current flags name a directory for graphs."""
    return bool(current().tf_dump_graph_prefix)


def dump_graph(name: str, graph: Graph) -> Path | None:
    """Write a graph as NAME.pbtxt.

    Returns:
        The file's path, or None if it went to stderr or no directory is named.

    Raises:
        DumpError: the file cannot be written.
    """
    return _write(name, graph_to_proto(graph)) if _is_wanted(name) else None


def dump_function(name: str, function: GraphFunction) -> Path | None:
    """Write a FunctionDef as NAME.pbtxt; see `dump_graph`."""
    if not _is_wanted(name):
        return None
    proto = new_message("FunctionDef")
    function_to_proto(function, proto)
    return _write(name, proto)


def dump_annotated(name: str, graph: Graph) -> Path | None:
    """Write a marked graph with cluster names as prefixes of node names, so that tools group them.

    See `dump_graph`.
    """
    if not _is_wanted(name):
        return None
    new_names = {op.name: f"{_group(op.type, op.attrs.get(_CLUSTER))}/{op.name}" for op in graph}
    proto = graph_to_proto(graph)
    for node in proto.node:
        node.name = new_names[node.name]
        for index, text in enumerate(node.input):
            node.input[index] = _renamed(text, new_names)
    return _write(name, proto)


def read_graph(data: bytes) -> Graph:
    """Read a dumped graph: a GraphDef, or the body of a FunctionDef in text form.

    FunctionDefs are dumped as text only.

    Raises:
        GraphError: it is neither, or malformed.
    """
    return Graph.from_graphdef(data)


def _group(op_type: str, cluster: Any) -> str:
    return str(cluster) if cluster else "varhandle" if op_type == "VarHandleOp" else "unclustered"


def _renamed(text: str, names: dict[str, str]) -> str:
    if text.startswith("^"):
        return "^" + names[text[1:]]
    name, colon, port = text.partition(":")
    return names[name] + colon + port


def _is_wanted(name: str) -> bool:
    if dumps_graphs():
        return True
    LOG.vlog(1, "Failed to dump %s because dump location is not specified through either TF_DUMP_GRAPH_PREFIX", name)
    return False


def _write(name: str, proto: Any) -> Path | None:
    text: str = text_format.MessageToString(proto)
    prefix = current().tf_dump_graph_prefix
    if prefix == "-":
        sys.stderr.write(text)
        return None
    path = at_home(Path(prefix)) / _unique(prefix, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DumpError(f"TF_DUMP_GRAPH_PREFIX: cannot write {path}: {error}") from error
    return path


def _unique(prefix: str, name: str) -> str:
    plain = re.sub(r"[/\\\[\]*? ]", "_", name)
    with _LOCK:
        count = _COUNTS[prefix, plain]
        _COUNTS[prefix, plain] += 1
    end = (f"_{count}" if count else "") + ".pbtxt"
    return plain.encode()[: _LONGEST_NAME - len(end)].decode("utf-8", "ignore") + end
