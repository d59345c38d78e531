"""Placement of nodes whose device is missing: run them elsewhere, with a warning."""

from __future__ import annotations

from xlanb.clustering.xla_kernels import GPU_JIT, kernel_types, missing_kernel
from xlanb.debug_options import current
from xlanb.graph.device import parse_device
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.lazy_logging import logger

_LOG = logger("xlanb.runtime.placement")
_HERE = frozenset({"CPU", "XLA_CPU"})
_EMULATED = frozenset({"GPU", "XLA_GPU"})
_GPU = "/device:GPU:0"


def placed(graph: Graph) -> Graph:
    """The graph with its nodes on existing devices; the same graph if they already are.

    Nodes on other XLA devices move to XLA_CPU:0, which compiles them, all others to CPU:0. With
    --xlanb_gpu GPUs exist too, and nodes without a device that have a GPU kernel are on GPU:0, as
    in TensorFlow.

    TensorFlow does this with `allow_soft_placement`, and rejects the graph otherwise. The log
    `xlanb.runtime.placement` warns once per prepared graph.

    Raises:
        GraphValueError: A device name is malformed.
    """
    has_gpu = bool(current().xlanb_gpu)
    here = _HERE | _EMULATED if has_gpu else _HERE
    if has_gpu:
        graph = _preferring_gpu(graph)
    moved: dict[str, tuple[str, list[str]]] = {}
    for op in graph:
        if op.device:
            device = parse_device(op.device).get("device", "CPU:0")
            kind = device.partition(":")[0]
            if kind not in here:
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
        _LOG.warning("No device %s: %r%s runs on %s%s", device, names[0], others, instead, how)
    return copy


def _preferring_gpu(graph: Graph) -> Graph:
    """The graph with nodes that have no device but a GPU kernel placed on the GPU."""
    names = [op.name for op in graph if not op.device and _runs_on_gpu(op)]
    if not names:
        return graph
    copy = graph.copy()
    for name in names:
        copy.get_operation_by_name(name).set_device(_GPU)
    return copy


def _runs_on_gpu(op: Operation) -> bool:
    return op.type in kernel_types() and not missing_kernel(op, GPU_JIT)
