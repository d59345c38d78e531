"""StepStats: times of nodes, launches, kernels, compilations and HLO passes of one run.

As in TensorFlow's step_stats.proto, with their collector. Times are in microseconds:
`all_start_micros` since 1970, the others since `all_start_micros`. Besides TensorFlow's CPU device,
which has the nodes as the session runs them, there are devices for XLA's launches, kernels,
compilations and passes. Times of kernels come from additional runs with a clock around each kernel,
the shortest of each; they are placed one after another within the launch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xlanb.contexts import bound
from xlanb.cpu.executable import Executable
from xlanb.cpu.profile import kernel_times
from xlanb.cpu.records import KernelTime
from xlanb.display import Displayable
from xlanb.graph.operation import Operation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hooks import Hook
from xlanb.lazy_dataclass import dataclass
from xlanb.stage import Stage
from xlanb.tracing import CompilationStarted, Event, StageFinished

if TYPE_CHECKING:
    import pandas as pd

CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
_XLA: Final = "/job:localhost/replica:0/task:0/device:XLA_CPU:0/stream:"
LAUNCHES, KERNELS, COMPILATIONS, PASSES = (f"{_XLA}{w}" for w in ("launches", "kernels", "compilation", "passes"))
_ALLOCATOR: Final = "cpu"
_MOST_RUNS: Final = 7  # to time kernels
_TIMING_SECONDS: Final = 0.2  # fewer for long programs

timeline_figure: Final[Hook[[StepStats, StepStats | None], Any]] = Hook("runtime.timeline_figure")
"""A run as a plotly Figure, with an optional second run of the same program above it."""


@dataclass
class AllocationDescription:
    """The memory of a tensor: bytes requested and allocated, the allocator, an id.

    Tensors that share memory have the same id.
    """

    requested_bytes: int = 0
    allocated_bytes: int = 0
    allocator_name: str = _ALLOCATOR
    allocation_id: int = 0
    has_single_reference: bool = False
    ptr: int = 0


@dataclass
class TensorDescription:
    """A tensor: its type as in TensorFlow ("float32"), its shape, its memory."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    allocation_description: AllocationDescription = field(default_factory=AllocationDescription)


@dataclass
class NodeOutput:
    """One output of a node."""

    slot: int
    tensor_description: TensorDescription


@dataclass
class AllocatorMemoryUsed:
    """Bytes that a node allocated from an allocator."""

    allocator_name: str = _ALLOCATOR
    total_bytes: int = 0
    peak_bytes: int = 0
    live_bytes: int = 0
    allocation_records: list[Any] = field(default_factory=list)
    allocator_bytes_in_use: int = 0


@dataclass
class NodeExecStats:
    """One node (kernel, pass, ...) of a run.

    `timeline_label` reads "name = Op(input, input)". TensorFlow lacks `ops`, the nodes that a
    kernel computes (all of a fusion's), and `detail`, properties for views.
    """

    node_name: str
    all_start_micros: int = 0
    op_start_rel_micros: int = 0
    op_end_rel_micros: int = 0
    all_end_rel_micros: int = 0
    memory: list[AllocatorMemoryUsed] = field(default_factory=list)
    output: list[NodeOutput] = field(default_factory=list)
    timeline_label: str = ""
    scheduled_micros: int = 0
    thread_id: int = 0
    referenced_tensor: list[AllocationDescription] = field(default_factory=list)
    all_start_nanos: int = 0
    op_start_rel_nanos: int = 0
    op_end_rel_nanos: int = 0
    all_end_rel_nanos: int = 0
    scheduled_nanos: int = 0
    ops: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class DeviceStepStats:
    """The nodes that ran on one device."""

    device: str
    node_stats: list[NodeExecStats] = field(default_factory=list)
    thread_names: dict[int, str] = field(default_factory=dict)


@dataclass(repr=False)
class StepStats(Displayable):
    """One run, by device."""

    dev_stats: list[DeviceStepStats] = field(default_factory=list)

    def device(self, name: str) -> DeviceStepStats:
        """The device of this name, added if it is missing."""
        found = next((d for d in self.dev_stats if d.device == name), None)
        if found is None:
            found = DeviceStepStats(name)
            self.dev_stats.append(found)
        return found

    def __repr__(self) -> str:
        counts = (f"{len(d.node_stats)} on {d.device.rpartition('device:')[2]}" for d in self.dev_stats)
        return f"<StepStats: {', '.join(counts) or 'not traced'}>"

    def __str__(self) -> str:
        return f"{self!r}\n{self.table.to_string(index=False)}" if self.dev_stats else repr(self)

    @property
    def headline(self) -> str:
        """How many nodes ran on each device."""
        return repr(self)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """The tables that a notebook shows."""
        return (("The run, node by node", self.table),) if self.dev_stats else ()

    def to_dataframe(self) -> pd.DataFrame:
        """`table`: a row for each node on each device."""
        return self.table

    def plot(self) -> Any:
        """The run as a plotly timeline, a row for each device.

        Raises:
            XlanbError: The run was not traced.
        """
        return timeline_figure(self, None)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each node on each device.

        Columns: device, name, op, start_us (since the start of the run), duration_us, output_bytes,
        ops.
        """
        import pandas as pd

        nodes = [(d, n) for d in self.dev_stats for n in d.node_stats]
        first = min((n.all_start_nanos for _, n in nodes), default=0)
        rows = [
            (
                d.device.rpartition("device:")[2], n.node_name, op_of(n), (n.all_start_nanos - first) / 1e3,
                n.all_end_rel_nanos / 1e3,
                sum(o.tensor_description.allocation_description.requested_bytes for o in n.output), ", ".join(n.ops),
            )
            for d, n in nodes
        ]  # fmt: skip
        columns = ["device", "name", "op", "start_us", "duration_us", "output_bytes", "ops"]
        return pd.DataFrame(rows, columns=columns)


def op_of(node: NodeExecStats) -> str:
    """The op type in a label "name = Op(input)"; otherwise the node's name."""
    _, equals, rest = node.timeline_label.partition(" = ")
    return rest.partition("(")[0] if equals else node.node_name


class StepStatsCollector:
    """Collects the times of one run, from the executor and (as an observer) from the compiler."""

    def __init__(self) -> None:
        self.step_stats = StepStats()
        self._epoch = time.time_ns() - time.perf_counter_ns()
        self._names: dict[int, str] = {}
        self._begun: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._launches: list[tuple[str, Executable, tuple[Any, ...], int, float]] = []
        self._lock = threading.Lock()

    def ran_node(self, op: Operation, begin: int, end: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Record the run of a node, from `begin` to `end` by perf_counter_ns."""
        label = f"{op.name} = {op.type}({', '.join(op.node_inputs)})"
        described = [_described(t.value_index, t.dtype.name, v) for t, v in zip(op.outputs, outputs, strict=True)]
        read = [_allocation(v) for v in inputs if isinstance(v, np.ndarray)]
        taken = sum(o.tensor_description.allocation_description.requested_bytes for o in described)
        memory = [AllocatorMemoryUsed(total_bytes=taken, peak_bytes=taken, live_bytes=taken)] if taken else []
        self._add(CPU, op.name, label, begin, end, memory=memory, output=described, referenced_tensor=read)

    def ran(self, name: str, executable: Executable, values: Sequence[Any], begin: float, seconds: float) -> None:
        """Record the run of a cluster, `begin` by perf_counter.

        It is run a few more times at the end, to time its kernels.
        """
        start, length = round(begin * 1e9), round(seconds * 1e9)
        self._launches.append((name, executable, tuple(values), start, seconds))
        temp = executable.buffer_assignment.temp_size
        memory = [AllocatorMemoryUsed(total_bytes=temp, peak_bytes=temp)]
        label = f"{name} = XlaLaunch()"
        self._add(LAUNCHES, name, label, start, start + length, memory=memory, detail={"temp_bytes": temp})

    def _time_kernels(
        self, name: str, executable: Executable, values: tuple[Any, ...], start: int, seconds: float
    ) -> None:
        times, calls = _shortest(executable, values, seconds)
        whole = sum(t.seconds for t in times)
        scale = min(1.0, seconds / whole) if whole else 1.0
        by_name = {i.name: i for i in executable.hlo_module.instructions()}
        at = start
        for kernel, count in zip(times, calls, strict=True):
            end = at + round(kernel.seconds * scale * 1e9)
            i = by_name[kernel.instruction]
            detail = {
                "cluster": name,
                "kernel": kernel.name,
                "calls": count,
                "bytes_accessed": kernel.bytes_accessed,
                "flops": kernel.flops,
                "op_name": kernel.op_name,
                "measured_us": kernel.seconds * 1e6,
            }
            label = f"{i.name} = {i.opcode}({', '.join(o.name for o in i.operands)})"
            self._add(KERNELS, i.name, label, at, end, ops=_computed(i), detail=detail)
            at = end

    def on_event(self, event: Event) -> None:
        """Process one event of the compiler."""
        now = time.perf_counter_ns()
        if isinstance(event, CompilationStarted):
            self._names[event.key] = event.name
            self._begun[event.key] = now
        elif isinstance(event, StageFinished) and event.stage.seconds is not None:
            stage: Stage = event.stage
            if stage.kind in ("execution", "compilation_cache"):
                return
            begin = now - round(event.stage.seconds * 1e9)
            pipeline = " > ".join(stage.pipeline)
            detail = {"kind": stage.kind, "pipeline": pipeline, "changed": stage.changed}
            name = self._names.get(event.compilation, "")
            label = f"{stage.name} = {stage.kind}({name.split(':')[0]})"
            self._add(PASSES, stage.name, label, max(begin, self._ends.get(0, begin)), now, detail=detail)
            self._ends[0] = now
            self._ends[event.compilation or -1] = now

    def finish(self) -> StepStats:
        """The stats, with the kernels of each launch and a bar for each compilation."""
        for launch in self._launches:
            self._time_kernels(*launch)
        self._launches.clear()
        for key, begun in self._begun.items():
            name = self._names[key]
            if (end := self._ends.get(key or -1)) is not None:
                self._add(COMPILATIONS, name, f"{name} = compile()", begun, end, detail={"compilation": key})
        order = [CPU, LAUNCHES, KERNELS, COMPILATIONS, PASSES]
        self.step_stats.dev_stats.sort(key=lambda d: order.index(d.device))
        for device in self.step_stats.dev_stats:
            device.node_stats.sort(key=lambda n: n.all_start_nanos)
        return self.step_stats

    def _add(self, device: str, name: str, label: str, begin: int, end: int, **rest: Any) -> None:
        start = begin + self._epoch
        length = max(end - begin, 0)
        node = NodeExecStats(
            name,
            start // 1000,
            0,
            -(-length // 1000),
            -(-length // 1000),
            timeline_label=label,
            scheduled_micros=start // 1000,
            all_start_nanos=start,
            op_end_rel_nanos=length,
            all_end_rel_nanos=length,
            scheduled_nanos=start,
            **rest,
        )
        with self._lock:
            self.step_stats.device(device).node_stats.append(node)


def _shortest(executable: Executable, values: tuple[Any, ...], seconds: float) -> tuple[list[KernelTime], list[int]]:
    """Each kernel's shortest time in a few runs, to exclude the effect of preempted threads."""
    runs = max(1, min(_MOST_RUNS, round(_TIMING_SECONDS / max(seconds, 1e-9))))
    times, calls = kernel_times(executable, values, 1)
    for _ in range(runs - 1):
        again, _ = kernel_times(executable, values, 1, warm=False)
        times = [min(pair, key=lambda t: t.seconds) for pair in zip(times, again, strict=True)]
    return times, calls


def _computed(i: HloInstruction) -> tuple[str, ...]:
    """The TensorFlow nodes of an instruction; for a fusion, of the instructions in it."""
    inside = i.fused_computation.instructions if i.opcode is HloOpcode.FUSION else (i,)
    names = [j.metadata.op_name for j in (*inside, i) if j.opcode not in (HloOpcode.PARAMETER, HloOpcode.CONSTANT)]
    return tuple(dict.fromkeys(n for n in names if n))


def _described(slot: int, dtype: str, value: Any) -> NodeOutput:
    if not isinstance(value, np.ndarray):
        return NodeOutput(slot, TensorDescription(dtype))
    return NodeOutput(slot, TensorDescription(dtype, value.shape, _allocation(value)))


def _allocation(value: np.ndarray[Any, Any]) -> AllocationDescription:
    address = value.__array_interface__["data"][0]
    return AllocationDescription(value.nbytes, value.nbytes, _ALLOCATOR, address, ptr=address)


_COLLECTOR: ContextVar[StepStatsCollector | None] = ContextVar("xlanb_step_stats_collector", default=None)


def collecting() -> StepStatsCollector | None:
    """The collector of the current run, if any."""
    return _COLLECTOR.get()


@contextmanager
def collect(collector: StepStatsCollector) -> Iterator[StepStatsCollector]:
    """Collect the times of runs within the block."""
    with bound(_COLLECTOR, collector):
        yield collector
