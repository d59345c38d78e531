"""JSON data of what a stage made, except for programs: buffers, code, kernels, runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.dump.tpu.memory_space import MemorySpaceRecord
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.explorer.stage import Artifact, Deferred, TextRecord
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.runtime.gpu_program import GpuProgram
from xlanb.view.parts.gpu import gpu_data
from xlanb.view.parts.items import clip
from xlanb.view.parts.llvm import code_data
from xlanb.view.parts.memory import memory_data
from xlanb.view.parts.tpu import program_data, schedule_data, space_data
from xlanb.view.pool import Limits

Data = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Later:
    """A placeholder for an artifact that was not read, or a program that was not converted."""

    given: Deferred | GraphRecord | ModuleRecord

    @property
    def program(self) -> GraphRecord | ModuleRecord | None:
        """The program, if it is in memory."""
        return None if isinstance(self.given, Deferred) else self.given

    def get(self) -> Artifact:
        """The artifact; reads it if it is not in memory."""
        return self.given.get() if isinstance(self.given, Deferred) else self.given

    def data(self) -> Data:
        if isinstance(self.given, Deferred):
            size, unit = self.given.size, "bytes"
        else:
            size = sum(map(len, op_lists(self.given)))
            unit = "nodes" if isinstance(self.given, GraphRecord) else "instructions"
        note = f"{size:,} {unit}, more than this page can show: open this stage alone, as trace[k]."
        return {"k": "later", "size": size, "note": note}


def op_lists(program: GraphRecord | ModuleRecord) -> list[tuple[NodeRecord | InstructionRecord, ...]]:
    """Return the ops of each computation or function; programs share them if they are equal."""
    if isinstance(program, GraphRecord):
        return [g.nodes for g in (program, *program.functions)]
    return [c.instructions for c in program.computations]


def artifact_data(
    record: BufferAssignmentRecord
    | CacheRecord
    | CodeRecord
    | ExecutionRecord
    | GpuProgram
    | Later
    | MemorySpaceRecord
    | TextRecord
    | TpuProgram
    | TpuScheduleRecord,
    limits: Limits,
) -> Data:
    """Return the data of an artifact; code and programs of kernels are cut by `limits`."""
    if isinstance(record, Later):
        return record.data()
    if isinstance(record, BufferAssignmentRecord):
        return memory_data(record)
    if isinstance(record, CodeRecord):
        return code_data(record, limits.code_lines)
    if isinstance(record, TextRecord):
        return code_data(CodeRecord(record.language, record.text), limits.code_lines)
    if isinstance(record, MemorySpaceRecord):
        return space_data(record)
    if isinstance(record, TpuProgram):
        return program_data(record, limits.program_lines)
    if isinstance(record, TpuScheduleRecord):
        return schedule_data(record)
    if isinstance(record, GpuProgram):
        return gpu_data(record, limits.program_lines)
    if isinstance(record, ExecutionRecord):
        return _execution(record)
    return _cache(record)


def _cache(record: CacheRecord) -> Data:
    counts = {
        "hit": int(record.hit),
        "hits": record.hits,
        "misses": record.misses,
        "entries": record.entries,
    }
    return {"k": "cache", "signature": clip(record.signature), **counts, "s": record.seconds}


def _execution(record: ExecutionRecord) -> Data:
    kernels = [
        [k.name, k.instruction, k.seconds, k.bytes_accessed, k.flops, k.op_name, k.source, k.of_limit, k.bound]
        for k in sorted(record.kernels, key=lambda k: -k.seconds)[:500]
    ]
    results = [[shape, clip(text, 1000)] for shape, text in record.results[:50]]
    return {
        "k": "execution",
        "s": record.seconds,
        "runs": record.runs,
        "kernels": kernels,
        "results": results,
        "roof": {"flops": record.peak_flops, "memory": [list(pair) for pair in record.bandwidth]},
    }
