"""NVIDIA GPUs: devices, XLA:GPU's passes in order, its cost model, kernels, and occupancy."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xlanb.gpu.pipelines import pipeline


def __getattr__(name: str) -> object:
    if name != "pipeline":  # loaded on demand: readers of the device table need no passes
        raise AttributeError(f"module 'xlanb.gpu' has no attribute {name!r}")
    from xlanb.gpu.pipelines import pipeline

    return pipeline


__all__ = ["pipeline"]
