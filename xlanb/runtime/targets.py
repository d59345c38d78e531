"""Compilation targets by name: the CPU of this machine, or a GPU."""

from __future__ import annotations

from xlanb.cpu import pipelines as cpu_pipelines
from xlanb.gpu.pipelines import pipeline as gpu_pipeline
from xlanb.transforms.make_pass import target_pipelines
from xlanb.transforms.pipeline import HloPassPipeline


@target_pipelines.implement
def xla_pipelines(target: str) -> tuple[HloPassPipeline, ...]:
    """XLA's own pipelines for "cpu" (for one device, then for several), or for a GPU ("a100")."""
    if target.strip().lower() == "cpu":
        return tuple(cpu_pipelines.pipeline("xla", partitions=n) for n in (1, 2))
    return (gpu_pipeline(target),)
