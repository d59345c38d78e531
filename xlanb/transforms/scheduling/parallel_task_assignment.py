"""Choose the number of parallel tasks of each instruction (xla/service/cpu/parallel_task_assignment.h, the pass cpu-parallel-task-assigner).

    f = f32[256,512] fusion(x), kind=kLoop    =>    the same with backend_config={"outer_dimension_partitions":["2"]}

An instruction that moves bytes is cut where it writes more than 256 KiB a task, one that computes where it costs more than 100,000 units a task; the outermost dimensions are cut.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.cost import cost
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
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
    """Annotates what is worth cutting for `max_parallelism` threads."""

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
    """How many tasks pay, at most `max_parallelism`."""
    c = cost(i)
    if c.flops <= c.bytes_accessed:
        # Memory is shared: more threads than the square root of the cores bring nothing.
        limit, paid = min(max_parallelism, math.ceil(math.sqrt(max_parallelism))), i.shape.byte_size // _BYTES_PER_TASK
    else:
        limit, paid = max_parallelism, int(c.flops + 2 * c.transcendentals + 10 * c.bytes_accessed) // _UNITS_PER_TASK
    return min(limit, max(1, paid))


def partitions(i: HloInstruction, tasks: int) -> tuple[int, ...]:
    """Into how many parts each of the outermost dimensions is cut, their product being at most `tasks`; empty for one task."""
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
