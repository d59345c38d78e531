"""The lazy graphs that PyTorch/XLA saved, as a Trace with one stage per graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from xlanb.boundary import boundary
from xlanb.dump.names import printable
from xlanb.dump.reader import DumpFile
from xlanb.dump.torch_xla import LazyGraph, read_analysis, read_lazy_graphs
from xlanb.errors import XlanbError
from xlanb.explorer.stage import Artifact, Deferred, Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.hlo.text.parser import parse
from xlanb.wording import counted


@boundary("read the lazy graphs of PyTorch/XLA")
def lazy_trace(name: str, files: Sequence[DumpFile]) -> Trace | None:
    """Return a stage for each graph in the files, in order; None without graphs."""
    causes = _causes([f for f in files if f.name.label == "analysis"])
    stages: list[Stage] = []
    for file in files:
        if file.name.label != "graphs":
            continue
        before: Deferred | None = None
        for number, graph in enumerate(read_lazy_graphs(file.read_text())):
            after = Deferred(lambda g=graph, n=number: _artifact(g, n), len(graph.text))  # type: ignore[misc]
            kind = "hlo" if graph.format == "hlo" else "tf_graph"
            words = _summary(graph, causes.get(graph.hash, []))
            path = (printable(file.path.name),)
            stages.append(Stage(kind, _name(graph, number), before, after, path, summary=words, index=len(stages)))
            before = after
    return Trace(f"{name}: lazy graphs", stages) if stages else None


def _name(graph: LazyGraph, number: int) -> str:
    return graph.name or f"graph {number}"


def _summary(graph: LazyGraph, events: Sequence[str]) -> str:
    parts = [f"{graph.kind} from {graph.cause}" if graph.cause else graph.kind]
    if graph.root_hashes:
        parts.append(counted(len(graph.root_hashes), "result"))
    if graph.hash:
        parts.append(f"graph hash {graph.hash}")
    return ", ".join(parts) + "".join(f"; {e}" for e in events)


def _causes(files: Sequence[DumpFile]) -> dict[str, list[str]]:
    """Return PT_XLA_DEBUG's reports by graph hash: "compiled: user mark_step", "run once: ..."."""
    counts: dict[str, dict[tuple[str, str], int]] = {}
    for file in files:
        for event in read_analysis(file.read_text()):
            key = (event.kind, event.cause)
            found = counts.setdefault(event.hash, {})
            found[key] = found.get(key, 0) + 1
    verbs = {"compilation": "compiled", "execution": "run"}
    return {
        h: [f"{verbs[kind]} {'once' if n == 1 else f'{n} times'}: {cause}" for (kind, cause), n in found.items()]
        for h, found in counts.items()
        if h
    }


def _artifact(graph: LazyGraph, number: int) -> Artifact:
    name = PurePath(_name(graph, number)).name
    try:
        if graph.format == "hlo":
            return parse(graph.text).record()
        if graph.format in ("text", "dot"):
            return graph.record()
    except XlanbError as error:
        return TextRecord(name, graph.text, "text", str(error))
    return TextRecord(name, graph.text, "mlir" if graph.format == "stablehlo" else "text")
