"""Data flow between clusters: outputs and the parameters they feed, with types and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from xlanb.clustering.encapsulate_subgraphs import ClusterFunction, Encapsulated
from xlanb.display import Displayable
from xlanb.frames import framed
from xlanb.graph.graph import Graph

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor that enters or leaves a cluster.

    `source` and `target` are clusters, or nodes outside of clusters; `output` and `parameter`
    number the tensor there (-1: a control edge). `tensor` is its name in the original graph, `type`
    reads "f32[8,3]". `kind` is "data", "constant" (a compile-time constant), "resource" (a
    variable's handle) or "control".
    """

    source: str
    output: int
    target: str
    parameter: int
    tensor: str
    type: str
    kind: str


@dataclass(frozen=True)
class Dataflow(Displayable):
    """All flows into, out of and between clusters, in the order of the graph."""

    flows: tuple[Flow, ...]
    clusters: tuple[str, ...]

    def __iter__(self) -> Iterator[Flow]:
        return iter(self.flows)

    def __len__(self) -> int:
        return len(self.flows)

    @property
    def between_clusters(self) -> tuple[Flow, ...]:
        """Flows from one cluster to another."""
        inside = set(self.clusters)
        return tuple(f for f in self.flows if f.source in inside and f.target in inside)

    def into(self, name: str) -> tuple[Flow, ...]:
        """Return the flows into a cluster or node."""
        return tuple(f for f in self.flows if f.target == name)

    def out_of(self, name: str) -> tuple[Flow, ...]:
        """Return the flows out of a cluster or node."""
        return tuple(f for f in self.flows if f.source == name)

    def table(self) -> pd.DataFrame:
        """A row for each flow."""
        columns = list(Flow.__dataclass_fields__)
        table = framed([asdict(f) for f in self.flows], columns=columns)
        # a control edge has neither an output nor a parameter
        ends = {c: table[c].astype("Int64").mask(table[c] < 0) for c in ("output", "parameter")}
        return table.assign(**ends)

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for a notebook."""
        return (("Data flow into, out of and between clusters", self.table()),)

    def __str__(self) -> str:
        lines = [f"{len(self.flows)} flows, {len(self.between_clusters)} of them between {len(self.clusters)} clusters"]
        for f in self.flows:
            output = "" if f.output < 0 else f" output {f.output}"
            parameter = "" if f.parameter < 0 else f" parameter {f.parameter}"
            what = (
                f.kind
                if f.kind == "control"
                else f"{f.tensor}: {f.type}" + ("" if f.kind == "data" else f" ({f.kind})")
            )
            lines.append(f"  {f.source}{output} -> {f.target}{parameter}  {what}")
        return "\n".join(lines)


def dataflow(encapsulated: Encapsulated) -> Dataflow:
    """The flows of a graph in which clusters are call nodes."""
    graph, functions = encapsulated.graph, encapsulated.functions
    return Dataflow(tuple(_flows(graph, functions)), tuple(functions))


def _flows(graph: Graph, functions: Mapping[str, ClusterFunction]) -> Iterator[Flow]:
    def label(name: str, op_type: str) -> str:
        return op_type if op_type in functions else name

    for op in graph:
        taker = functions.get(op.type)
        target = label(op.name, op.type)
        for index, tensor in enumerate(op.inputs):
            giver = functions.get(tensor.op.type)
            if taker is None and giver is None:
                continue
            kind = "data"
            if taker is not None and index in taker.constant_arguments:
                kind = "constant"
            elif tensor.dtype.name == "resource":
                kind = "resource"
            original = giver.result_sources[tensor.value_index] if giver is not None else tensor.name
            source = label(tensor.op.name, tensor.op.type)
            yield Flow(source, tensor.value_index, target, index, original, tensor.describe(), kind)
        for waited in op.control_inputs:
            if taker is not None or waited.type in functions:
                yield Flow(label(waited.name, waited.type), -1, target, -1, "", "", "control")
