"""The call of each cluster becomes a launch op (build_xla_ops_pass.cc, formerly build_xla_launch_ops_pass.cc).

This is the view of 2017-2018: one XlaLaunch per cluster, which compiles at its first run for each signature and then runs the executable.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.clustering.encapsulate_subgraphs import Encapsulated
from xlanb.graph.graph import Graph

LAUNCH = "XlaLaunch"


@dataclass(frozen=True)
class Launches:
    """The graph in which each cluster is an XlaLaunch node; its attribute `function` names the cluster."""

    graph: Graph


def build_xla_ops(encapsulated: Encapsulated) -> Launches:
    """Replace call nodes by XlaLaunch nodes, in a copy."""
    graph = encapsulated.graph.copy()
    for op in graph.get_operations():
        function = encapsulated.functions.get(op.type)
        if function is None:
            continue
        attrs = {
            "function": function.name,
            "Tconstants": tuple(
                t.dtype.base_dtype for i, t in enumerate(op.inputs) if i in function.constant_arguments
            ),
            "Targs": tuple(t.dtype.base_dtype for i, t in enumerate(op.inputs) if i not in function.constant_arguments),
            "Nresources": sum(t.dtype.name == "resource" for t in op.inputs),
            "Tresults": tuple(t.dtype for t in op.outputs),
        }
        waits, waiting = op.control_inputs, op.control_outputs
        launch = graph.add_op(
            LAUNCH,
            graph.unique_name(f"{function.name}/{LAUNCH}"),
            op.inputs,
            [t.dtype for t in op.outputs],
            attrs,
            waits,
        )
        for old, new in zip(op.outputs, launch.outputs, strict=True):
            new.give_shape(old.shape.as_tuple())
            old.replace_uses(new)
        for other in waiting:
            other.add_control_input(launch)
        graph.remove_ops([op])
    return Launches(graph)
