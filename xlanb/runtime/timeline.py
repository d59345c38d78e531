"""Timeline: a run's StepStats in the Trace Event Format, for chrome://tracing and Perfetto.

The counterpart of TensorFlow 1's tensorflow.python.client.timeline. Each device is a process. Flows
lead from the end of the slice that produces a value to the start of each that reads it, and from
the launch of a cluster to its kernels; counters show the bytes of live tensors and of the launches'
temporaries. Times are in microseconds since the run's first event.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.config import RunMetadata
from xlanb.runtime.step_stats import (
    CPU,
    KERNELS,
    LAUNCHES,
    DeviceStepStats,
    NodeExecStats,
    StepStats,
    op_of,
    timeline_figure,
)

_LABEL = re.compile(r"(?P<name>.*?) = (?P<op>[^()]*)\((?P<inputs>.*)\)", re.DOTALL)
Event = dict[str, Any]
_TEMPORARIES: Final = "XLA temporaries"
_INSIDE: Final = 1e-4  # us: tolerance for times inside a slice


@dataclass(frozen=True)
class AllocationMaximum:
    """The most bytes of live tensors in an allocator, the time (us), and the tensors' names."""

    timestamp: float
    num_bytes: int
    tensors: tuple[str, ...] = ()


@dataclass
class ChromeTrace:
    """Events in the Trace Event Format."""

    events: list[Event] = field(default_factory=list)

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON."""
        held = {"traceEvents": self.events, "displayTimeUnit": "ns"}
        return json.dumps(held, indent=4 if pretty else None, separators=None if pretty else (",", ":"), default=str)


@dataclass(frozen=True)
class StepStatsAnalysis:
    """The trace, and the peak memory use by allocator."""

    chrome_trace: ChromeTrace
    allocator_maximums: Mapping[str, AllocationMaximum]


@dataclass(frozen=True)
class _Slice:
    """One node on its process and lane."""

    node: NodeExecStats
    device: str
    pid: int
    tid: int
    start: float
    end: float
    inputs: tuple[str, ...]


class Timeline:
    """A run as a timeline, from `run_metadata.step_stats` (also of TensorFlow itself).

    `graph` is accepted as in TensorFlow 1, and ignored.
    """

    def __init__(self, step_stats: StepStats | RunMetadata, graph: Any = None) -> None:
        self.step_stats: StepStats = step_stats.step_stats if isinstance(step_stats, RunMetadata) else step_stats
        self.graph = graph

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """The run as JSON for chrome://tracing and Perfetto.

        `show_dataflow` draws arrows from producers to consumers of values, `show_memory` counts the
        bytes of live tensors; `op_time` is "schedule" (a node's total time), or "cpu" (only its
        computation).
        """
        return self.analyze_step_stats(show_dataflow, show_memory, op_time).chrome_trace.format_to_string(pretty=True)

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """The trace as an object, with the peak memory use."""
        nodes = [n for d in self.step_stats.dev_stats for n in d.node_stats]
        origin = min((_start_ns(n) for n in nodes), default=0)
        slices = [
            s
            for pid, d in enumerate(self.step_stats.dev_stats)
            for s in _slices(d, pid, origin, by_cpu=op_time == "cpu")
        ]
        events = [*_processes(self.step_stats.dev_stats, slices), *map(_shown, slices)]
        if show_dataflow:
            events += _flows(slices)
        maximums, counters = _memory(slices)
        if show_memory:
            events += counters
        events.sort(key=lambda e: (e["ph"] != "M", e.get("ts", 0.0), -e.get("dur", 0.0)))
        return StepStatsAnalysis(ChromeTrace(events), maximums)

    def figure(self, other: Timeline | StepStats | RunMetadata | None = None) -> Any:
        """The run as a plotly Figure.

        With another run of the same program above it, ops are linked to the fusions that contain
        them.

        Raises:
            XlanbError: The run was not traced.
        """
        above: Any = None if other is None else getattr(other, "step_stats", other)
        return timeline_figure(self.step_stats, above)


def _start_ns(n: NodeExecStats) -> int:
    return n.all_start_nanos or n.all_start_micros * 1000


def _slices(device: DeviceStepStats, pid: int, origin: int, *, by_cpu: bool) -> Iterator[_Slice]:
    """The nodes of a device in lanes: overlapping slices are in different lanes unless nested."""
    lanes: list[list[float]] = []  # the ends of the open slices in each
    for n in sorted(device.node_stats, key=lambda n: (_start_ns(n), -n.all_end_rel_micros)):
        start = (_start_ns(n) - origin) / 1e3
        length = n.all_end_rel_nanos / 1e3 if n.all_end_rel_nanos else float(n.all_end_rel_micros)
        if by_cpu:
            begin, end = (
                (n.op_start_rel_nanos / 1e3, n.op_end_rel_nanos / 1e3)
                if n.op_end_rel_nanos
                else (float(n.op_start_rel_micros), float(n.op_end_rel_micros))
            )
            start, length = start + begin, max(end - begin, 0.0)
        tid = _lane(lanes, start, start + length)
        found = _LABEL.fullmatch(n.timeline_label)
        inputs = tuple(i for i in found["inputs"].split(", ") if i) if found is not None else ()
        yield _Slice(n, device.device, pid, tid, start, start + length, inputs)


def _lane(lanes: list[list[float]], start: float, end: float) -> int:
    for tid, open_ends in enumerate(lanes):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if not open_ends or end <= open_ends[-1]:
            open_ends.append(end)
            return tid
    lanes.append([end])
    return len(lanes) - 1


def _processes(devices: Sequence[DeviceStepStats], slices: Sequence[_Slice]) -> Iterator[Event]:
    for pid, device in enumerate(devices):
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"{device.device} Compute"}}
        yield {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}}
        for tid in sorted({s.tid for s in slices if s.pid == pid}):
            name = device.thread_names.get(tid) or f"lane {tid}"
            yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _shown(s: _Slice) -> Event:
    n = s.node
    op = op_of(n)
    args: dict[str, Any] = {"name": n.node_name, "op": op, **{f"input{i}": name for i, name in enumerate(s.inputs)}}
    if getattr(n, "ops", ()):
        args["ops"] = list(n.ops)
    args.update(getattr(n, "detail", {}))
    shown = n.node_name if s.device != CPU else op
    return {
        "ph": "X",
        "cat": "Op",
        "name": shown,
        "pid": s.pid,
        "tid": s.tid,
        "ts": round(s.start, 3),
        "dur": round(s.end - s.start, 3),
        "args": args,
    }


# -------------------------------------------------------------------------------------------- flows


def _flows(slices: Sequence[_Slice]) -> list[Event]:
    by_name: dict[tuple[str, str], tuple[list[float], list[_Slice]]] = {}
    for s in sorted(slices, key=lambda s: s.end):
        ends, made = by_name.setdefault((s.device, s.node.node_name), ([], []))
        ends.append(s.end)
        made.append(s)
    pairs: list[tuple[_Slice, _Slice]] = []
    for s in slices:
        for name in s.inputs:
            ends, made = by_name.get((s.device, _node(name)), ([], []))
            # in a loop a node runs often: use its latest value
            latest = bisect_right(ends, s.start) - 1
            if latest >= 0:
                pairs.append((made[latest], s))
    pairs += _launch_flows(slices)
    return [e for number, (a, b) in enumerate(pairs) for e in _arrow(number, a, b)]


def _node(tensor: str) -> str:
    """The node of an input as labels write it: "a", "a:1", "^a"."""
    name, _, port = tensor.removeprefix("^").rpartition(":")
    return name if name and port.isdigit() else tensor.removeprefix("^")


def _launch_flows(slices: Sequence[_Slice]) -> Iterator[tuple[_Slice, _Slice]]:
    """From the node that launches a cluster to the launch, and from there to each kernel of it."""
    nodes = _by_start(s for s in slices if s.device == CPU and op_of(s.node) == "XlaLaunch")
    kernels = _by_start(s for s in slices if s.device == KERNELS)
    for launch in (s for s in slices if s.device == LAUNCHES):
        around = bisect_right(nodes[0], launch.start) - 1
        if around >= 0 and launch.end <= nodes[1][around].end:
            yield nodes[1][around], launch
        first, last = bisect_left(kernels[0], launch.start - _INSIDE), bisect_right(kernels[0], launch.end)
        for kernel in kernels[1][first:last]:
            yield launch, kernel


def _by_start(slices: Iterable[_Slice]) -> tuple[list[float], list[_Slice]]:
    found = sorted(slices, key=lambda s: s.start)
    return [s.start for s in found], found


def _arrow(number: int, a: _Slice, b: _Slice) -> tuple[Event, Event]:
    begin = a.start if b.start < a.end else max(a.start, a.end - _INSIDE)
    shared = {"cat": "DataFlow", "name": a.node.node_name, "id": number}
    return (
        {"ph": "s", "pid": a.pid, "tid": a.tid, "ts": round(begin, 4), **shared},
        {"ph": "f", "bp": "e", "pid": b.pid, "tid": b.tid, "ts": round(max(b.start, begin), 4), **shared},
    )


# ------------------------------------------------------------------------------------------- memory


@dataclass
class _Allocation:
    """A live tensor: from the node that produces it to the end of its last reader."""

    name: str
    allocator: str
    place: int
    size: int
    start: float
    end: float
    pid: int


def _memory(slices: Sequence[_Slice]) -> tuple[dict[str, AllocationMaximum], list[Event]]:
    changes: dict[tuple[int, str], list[tuple[float, int, str]]] = {}
    for a in _allocations(slices):
        changes.setdefault((a.pid, a.allocator), []).extend(((a.start, a.size, a.name), (a.end, -a.size, a.name)))
    maximums: dict[str, AllocationMaximum] = {}
    events: list[Event] = []
    for (pid, allocator), moments in changes.items():
        live: dict[str, int] = {}
        total = 0
        for at, size, name in sorted(moments, key=lambda m: (m[0], m[1])):
            total += size
            live[name] = live.get(name, 0) + size
            if total > maximums.get(allocator, AllocationMaximum(0.0, -1)).num_bytes:
                maximums[allocator] = AllocationMaximum(at, total, tuple(n for n, b in live.items() if b > 0))
            counter = {"ph": "C", "cat": "Memory", "name": allocator, "pid": pid, "tid": 0, "ts": round(at, 3)}
            events.append({**counter, "args": {"bytes": total}})
    return maximums, events


def _allocations(slices: Sequence[_Slice]) -> list[_Allocation]:
    last = max((s.end for s in slices), default=0.0)
    ends: dict[str, float] = {}
    for s in slices:
        for name in s.inputs if s.device == CPU else ():
            ends[name] = max(ends.get(name, 0.0), s.end)
    found = [_temporaries(s) for s in slices if getattr(s.node, "detail", {}).get("temp_bytes")]
    for s in slices:
        for output in s.node.output if s.device == CPU else ():
            memory = output.tensor_description.allocation_description
            name = f"{s.node.node_name}:{output.slot}" if output.slot else s.node.node_name
            if memory.requested_bytes:
                where = memory.ptr or memory.allocation_id
                end = ends.get(name, last)
                size = memory.requested_bytes
                found.append(_Allocation(name, memory.allocator_name, where, size, s.start, end, s.pid))
    return _without_aliases(found)


def _temporaries(s: _Slice) -> _Allocation:
    return _Allocation(s.node.node_name, _TEMPORARIES, 0, s.node.detail["temp_bytes"], s.start, s.end, s.pid)


def _without_aliases(allocations: Sequence[_Allocation]) -> list[_Allocation]:
    """Merge tensors that share memory at the same time: the result lives as long as any of them."""
    kept: list[_Allocation] = []
    by_place: dict[tuple[int, str, int], _Allocation] = {}
    for a in sorted(allocations, key=lambda a: a.start):
        key = (a.pid, a.allocator, a.place)
        same = by_place.get(key)
        if a.place and same is not None and a.start <= same.end:
            same.end = max(same.end, a.end)
            same.size = max(same.size, a.size)
            continue
        kept.append(a)
        by_place[key] = a
    return kept
