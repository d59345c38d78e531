"""Keep arguments that must be constant in host memory, for calls that request compilation.

Source: TensorFlow's force_xla_constants_on_host_pass.cc.
"""

from __future__ import annotations

from xlanb.clustering.candidates import MUST_COMPILE
from xlanb.graph.functions import FunctionRef
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.tf2xla.const_analysis import constant_arguments


def force_xla_constants_on_host(graph: Graph) -> Graph:
    """Copy a graph with `_input_hostmem` on such calls; return the graph itself if there are
    none.
    """
    if not any(op.attrs.get(MUST_COMPILE) is True for op in graph):
        return graph
    copy = graph.copy()
    for op in copy:
        function = copy.functions.get(_callee(op))
        if op.attrs.get(MUST_COMPILE) is True and function is not None:
            op.set_attr("_input_hostmem", tuple(sorted(constant_arguments(function.body))))
    return copy


def _callee(op: Operation) -> str:
    called = op.attrs.get("f")
    return called.name if isinstance(called, FunctionRef) else op.type
