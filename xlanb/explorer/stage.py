"""What a stage of a compilation may have before and after it, and the stage itself (see xlanb.stage)."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.dump.tpu.memory_space import MemorySpaceRecord
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.explorer.gpu_program import GpuProgram
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.stage import Deferred, Stage


@dataclass(frozen=True)
class TextRecord:
    """What can only be shown as it lies there: `language` is "dot", "mlir", "text"...; `note` says why nothing more was made of it."""

    name: str
    text: str
    language: str = "text"
    note: str = ""


TpuRecord = MemorySpaceRecord | TpuProgram | TpuScheduleRecord
"""What XLA:TPU leaves beside its HLO."""

Artifact = (
    GraphRecord
    | ModuleRecord
    | BufferAssignmentRecord
    | CodeRecord
    | ExecutionRecord
    | CacheRecord
    | TextRecord
    | TpuRecord
    | GpuProgram
)

__all__ = ["Artifact", "Deferred", "Stage", "TextRecord", "TpuRecord"]
