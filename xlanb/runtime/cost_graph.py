"""The cost graph of a run: nodes with sizes and times, as in TensorFlow's cost_graph.proto."""

from __future__ import annotations

from dataclasses import field

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.step_stats import CPU, NodeExecStats, StepStats


@dataclass
class InputInfo:
    """The source of a node's input: the number of a node, and of its output."""

    preceding_node: int
    preceding_port: int


@dataclass
class OutputInfo:
    """One output of a node: its bytes (-1 without a trace), element type and shape."""

    size: int
    dtype: str
    shape: tuple[int | None, ...] | None
    alias_input_port: int = -1


@dataclass
class CostNode:
    """A node; times in microseconds, 0 without a trace."""

    name: str
    device: str
    id: int
    input_info: list[InputInfo] = field(default_factory=list)
    output_info: list[OutputInfo] = field(default_factory=list)
    control_input: list[int] = field(default_factory=list)
    compute_cost: int = 0
    compute_time: int = 0
    is_final: bool = False


@dataclass
class CostGraph:
    """All nodes of the executed graph, numbered in its order."""

    node: list[CostNode]


def cost_graph(graph: Graph, stats: StepStats) -> CostGraph:
    """The cost graph of an executed graph, with the times of a traced run."""
    numbers = {op: i for i, op in enumerate(graph)}
    measured = {n.node_name: n for d in stats.dev_stats if d.device == CPU for n in d.node_stats}
    return CostGraph([_node(op, numbers, measured.get(op.name)) for op in graph])


def _node(op: Operation, numbers: dict[Operation, int], measured: NodeExecStats | None) -> CostNode:
    sizes = (
        {o.slot: o.tensor_description.allocation_description.requested_bytes for o in measured.output}
        if measured
        else {}
    )
    took = measured.op_end_rel_micros - measured.op_start_rel_micros if measured else 0
    return CostNode(
        op.name,
        op.device,
        numbers[op],
        [InputInfo(numbers[t.op], t.value_index) for t in op.inputs],
        [OutputInfo(sizes.get(t.value_index, -1), t.dtype.name, t.shape.as_tuple()) for t in op.outputs],
        [numbers[o] for o in op.control_inputs],
        took,
        took,
        is_final=not any(t.uses for t in op.outputs) and not op.control_outputs,
    )
