"""Choose the number of parallel tasks of each instruction (cpu-parallel-task-assigner).

    f = f32[256,512] fusion(x), kind=kLoop
      =>  the same with backend_config={"outer_dimension_partitions":["2"]}

A memory-bound instruction is split if it writes more than 256 KiB per task, a compute-bound one if
it costs more than 100,000 units per task. The outermost dimensions are split.
Source: xla/service/cpu/parallel_task_assignment.h.
"""

from __future__ import annotations

import json
import math

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.cost import cost
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion.in_place import in_place_operands

_BYTES_PER_TASK = 256 << 10
_UNITS_PER_TASK = 100_000
_LOOPS = frozenset(
    (
        O.BROADCAST,
        O.CONCATENATE,
        O.DYNAMIC_SLICE,
        O.GATHER,
        O.IOTA,
        O.PAD,
        O.REDUCE,
        O.REDUCE_WINDOW,
        O.REVERSE,
        O.SLICE,
        O.TRANSPOSE,
    )
)


@dataclass(frozen=True)
class ParallelTaskAssigner(HloPass):
    """Annotates instructions that pay to split over `max_parallelism` threads."""

    name = "cpu-parallel-task-assigner"
    max_parallelism: int = 2

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in module.post_order():
            if not graph.is_control(c):
                continue
            for i in c.post_order():
                parts = partitions(i, task_count(i, self.max_parallelism)) if _is_loop(i) else ()
                if parts:
                    config = {"outer_dimension_partitions": [str(p) for p in parts]}
                    c.update(i, backend_config=json.dumps(config, separators=(",", ":")))


def _is_loop(i: HloInstruction) -> bool:
    if i.backend_config or in_place_operands(i):
        return False
    if i.opcode is O.FUSION:
        return bool(i.get("kind") == "kLoop")
    return i.opcode in _LOOPS or (is_elementwise(i) and i.opcode is not O.CONSTANT)


def task_count(i: HloInstruction, max_parallelism: int) -> int:
    """The number of tasks that pays, at most `max_parallelism`."""
    c = cost(i)
    if c.flops <= c.bytes_accessed:
        # Threads share memory bandwidth: more than the square root of the number of cores don't
        # help.
        limit, paid = min(max_parallelism, math.ceil(math.sqrt(max_parallelism))), i.shape.byte_size // _BYTES_PER_TASK
    else:
        limit, paid = max_parallelism, int(c.flops + 2 * c.transcendentals + 10 * c.bytes_accessed) // _UNITS_PER_TASK
    return min(limit, max(1, paid))


def partitions(i: HloInstruction, tasks: int) -> tuple[int, ...]:
    """The number of parts of each outermost dimension; () for one task.

    Their product is at most `tasks`.
    """
    shape = next((s for _, s in i.shape.leaves() if isinstance(s, ArrayShape) and s.is_array), None)
    if shape is None or tasks < 2:
        return ()
    parts: list[int] = []
    left = tasks
    for d in reversed(shape.minor_to_major):
        here = min(left, shape.dimensions[d])
        parts.append(max(1, here))
        left //= max(1, here)
        if left < 2:
            break
    return tuple(parts) if math.prod(parts) > 1 else ()
