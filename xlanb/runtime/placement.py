"""Nodes that ask for a device that is not here: where they run instead, and the word on it."""

from __future__ import annotations

import logging

from xlanb.graph.device import parse_device
from xlanb.graph.graph import Graph

_LOG = logging.getLogger("xlanb.runtime.placement")
_HERE = frozenset({"CPU", "XLA_CPU"})


def placed(graph: Graph) -> Graph:
    """The graph with its nodes on devices that are here, itself where they are: on XLA_CPU:0 for other XLA devices, which compiles them, else on CPU:0.

    TensorFlow does so with `allow_soft_placement`, and refuses the graph without. A warning in the log `xlanb.runtime.placement` says it, once for a graph that is prepared.

    Raises:
        GraphValueError: a malformed name of a device.
    """
    moved: dict[str, tuple[str, list[str]]] = {}
    for op in graph:
        if op.device:
            device = parse_device(op.device).get("device", "CPU:0")
            kind = device.partition(":")[0]
            if kind not in _HERE:
                instead = "XLA_CPU:0" if kind.startswith("XLA_") else "CPU:0"
                moved.setdefault(device, (instead, []))[1].append(op.name)
    if not moved:
        return graph
    copy = graph.copy()
    for device, (instead, names) in moved.items():
        for name in names:
            op = copy.get_operation_by_name(name)
            parts = {**parse_device(op.device), "device": instead}
            op.set_device("".join(f"/{key}:{value}" for key, value in parts.items()))
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        how = ", compiled by XLA for the CPU" if instead == "XLA_CPU:0" else ""
        _LOG.warning("There is no device %s here: %r%s runs on %s%s", device, names[0], others, instead, how)
    return copy
