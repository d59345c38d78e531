"""Summarize clustering: the nodes inside clusters, and the op types outside.

Source: TensorFlow's report_clustering_info_pass.cc, XlaAutoClusteringSummary.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xlanb.clustering.mark_for_compilation import CLUSTER
from xlanb.graph.graph import Graph


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster: its size, and how often each op type is in it."""

    name: str
    size: int
    op_histogram: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AutoClusteringSummary:
    """The whole graph: numbers of nodes inside and outside of clusters, clusters, op types
    outside.
    """

    clustered_node_count: int
    unclustered_node_count: int
    clusters: tuple[ClusterSummary, ...]
    unclustered_op_histogram: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        total = self.clustered_node_count + self.unclustered_node_count
        lines = [f"{len(self.clusters)} clusters with {self.clustered_node_count} of {total:,} nodes"]
        lines += [f"  {c.name}: {c.size} nodes ({_ops(c.op_histogram)})" for c in self.clusters]
        lines.append(f"  outside: {self.unclustered_node_count} nodes ({_ops(self.unclustered_op_histogram)})")
        return "\n".join(lines)


def _ops(histogram: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{count} {op}" for op, count in sorted(histogram, key=lambda h: (-h[1], h[0]))) or "none"


def report_clustering_info(graph: Graph) -> AutoClusteringSummary:
    """Count the nodes of a marked graph."""
    inside: dict[str, Counter[str]] = {}
    outside: Counter[str] = Counter()
    for op in graph:
        cluster = op.attrs.get(CLUSTER)
        (inside.setdefault(cluster, Counter()) if cluster else outside)[op.type] += 1
    clusters = (ClusterSummary(n, sum(c.values()), tuple(sorted(c.items()))) for n, c in sorted(inside.items()))
    clustered = sum(sum(c.values()) for c in inside.values())
    return AutoClusteringSummary(clustered, sum(outside.values()), tuple(clusters), tuple(sorted(outside.items())))
