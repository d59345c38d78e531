"""The artifacts before and after a stage of a compilation, and the stage (see xlanb.stage)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.display import Displayable
from xlanb.dump.tpu.memory_space import MemorySpaceRecord
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.runtime.gpu_program import GpuProgram
from xlanb.stage import Changes, Deferred, Stage, changes_between


@dataclass(frozen=True)
class TextRecord(Displayable):
    """An artifact that can only be shown as text.

    `language` is "dot", "mlir", "text"...; `note` says why it was not parsed.
    """

    name: str
    text: str
    language: str = "text"
    note: str = ""


TpuRecord = MemorySpaceRecord | TpuProgram | TpuScheduleRecord
"""Artifacts of XLA:TPU besides HLO."""

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

RUN_KINDS = frozenset({"execution", "compilation_cache"})
"""Stages that are not part of a compilation: runs and cache hits."""

CODE_KINDS = frozenset({"llvm_ir", "llvm_ir_optimized", "assembly", "ptx"})


def count_kernels(stages: Iterable[Stage]) -> int:
    """Count the kernels in the code of a compilation.

    Optimization inlines kernels, and code has one function after another, so the first code with
    kernels counts. XLA:CPU's own helper of a kernel, NAME_wrapped or NAME_impl, does not count.
    """
    written = 0
    for stage in stages:
        if stage.kind == "llo":
            written += 1
        elif stage.kind in CODE_KINDS:
            record = stage.after
            if isinstance(record, CodeRecord) and (record.kernels or record.functions):
                names = set(record.kernels or record.functions)
                return sum(not _is_part(name, names) for name in names)
    return written


def _is_part(function: str, functions: set[str]) -> bool:
    """Whether a function is the body of another of the same kernel."""
    ends = ("_wrapped", "_impl")
    return any(function.endswith(e) and function.removesuffix(e) in functions for e in ends)


__all__ = [
    "RUN_KINDS", "Artifact", "Changes", "Deferred", "Stage", "TextRecord", "TpuRecord", "changes_between",
    "count_kernels",
]  # fmt: skip
