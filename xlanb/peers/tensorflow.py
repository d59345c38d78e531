"""The real TensorFlow, if installed: its clusters and the reasons, XLA's modules of each cluster,
and the results.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from xlanb.display import Displayable
from xlanb.errors import MissingPeerError, XlanbError
from xlanb.explorer.dump_directory import DumpDirectory, read_dump
from xlanb.explorer.trace import Trace
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.records import GraphRecord
from xlanb.peers.child import TIMEOUT_S, load_arrays, save_arrays

_REASONS = (
    re.compile(r"Found uncompilable node (?P<node>\S+) \(op (?P<op>\w+)\)(?:: (?P<reason>.*))?"),
    re.compile(r"Rejecting (?P<node>\S+): (?P<reason>.*)"),
    re.compile(r"Not clustering (?P<node>\S+): (?P<reason>.*)"),
    re.compile(r"Isolating (?P<node>\S+): (?P<reason>.*)"),
)
_VMODULES = (
    "mark_for_compilation_pass=4,compilability_check_util=3,encapsulate_subgraphs_pass=1,"
    "build_xla_ops_pass=1,xla_compiler=2"
)


@dataclass
class TensorFlowRun(Displayable):
    """A run of a graph in the real TensorFlow.

    `cluster_of` maps each node that it marked to its cluster, `reasons` each node to its logged
    reason; `graphs` are its passes, `modules` XLA's compilation of each cluster, `results` the
    values of the fetches and `seconds` the wall time of each further run. `graphs_directory` has
    the graphs during this object's lifetime.
    """

    name: str
    cluster_of: dict[str, str]
    reasons: dict[str, str]
    graphs: Trace | None
    modules: list[Trace]
    results: list[NDArray[Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    version: str = ""
    graphs_directory: Path = Path()

    @property
    def traces(self) -> list[Trace]:
        """The graphs first, then the modules."""
        return ([self.graphs] if self.graphs is not None else []) + self.modules

    @property
    def sizes(self) -> dict[str, int]:
        """Nodes in each cluster."""
        found: dict[str, int] = {}
        for cluster in self.cluster_of.values():
            found[cluster] = found.get(cluster, 0) + 1
        return found

    def __str__(self) -> str:
        sizes = ", ".join(f"{c} of {n} nodes" for c, n in self.sizes.items()) or "no cluster"
        lines = [f"TensorFlow {self.version} on {self.name}: {sizes}; {len(self.reasons)} nodes with a reason"]
        if self.seconds:
            lines.append(f"{len(self.seconds)} runs, median {statistics.median(self.seconds) * 1e6:.0f} us")
        return "\n".join([*lines, *(f"  {m!r}" for m in self.modules)])

    def __repr__(self) -> str:
        return f"<TensorFlowRun {self.name}: {len(self.sizes)} clusters>"


def trace(
    graph: Graph,
    fetches: Sequence[Tensor | Operation | str],
    feeds: Mapping[Tensor | str, Any] | None = None,
    *,
    before: Sequence[Operation | str] = (),
    min_cluster_size: int = 4,
    runs: int = 10,
) -> TensorFlowRun:
    """Run a graph in the real TensorFlow with auto-clustering and without Grappler; collect dumps
    and logs.

    `before` are operations to run first: initializers. It runs in a child process, because
    TensorFlow reads its flags once.

    Raises:
        MissingPeerError: TensorFlow is not installed.
        XlanbError: TensorFlow rejects the graph; the message is its own.
    """
    if find_spec("tensorflow") is None:
        raise MissingPeerError("TensorFlow is not installed: pip install 'xlanb[peers]'")
    folder = Path(tempfile.mkdtemp(prefix="xlanb-peer-"))
    try:
        fed = {_name(k): v for k, v in (feeds or {}).items()}
        save_arrays(folder / "feeds.npz", list(fed.values()))
        (folder / "graph.pb").write_bytes(graph.to_graphdef())
        request = {
            "fetches": [_name(f) for f in fetches],
            "feeds": list(fed),
            "dtypes": [_dtype(v) for v in fed.values()],
            "before": [_name(o) for o in before],
            "runs": runs,
        }
        (folder / "request.json").write_text(json.dumps(request))
        log = _child(folder, min_cluster_size)
        found = _collected(folder, log, graph)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


def _child(folder: Path, min_cluster_size: int) -> str:
    """Run the child; its log."""
    for name in ("graphs", "xla"):
        (folder / name).mkdir()
    flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_clustering_debug"
    environment = os.environ | {
        "TF_XLA_FLAGS": f"{flags} --tf_xla_min_cluster_size={min_cluster_size}",
        "XLA_FLAGS": f"--xla_dump_to={folder / 'xla'} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text",
        "TF_DUMP_GRAPH_PREFIX": str(folder / "graphs"),
        "TF_CPP_VMODULE": _VMODULES,
        "TF_CPP_MAX_VLOG_LEVEL": "0",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    command = [sys.executable, "-m", "xlanb.peers.tensorflow_child", str(folder)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise XlanbError(f"TensorFlow took more than {TIMEOUT_S} s") from error
    if not (folder / "answer.json").exists():
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise XlanbError(f"TensorFlow exited with status {done.returncode}:\n{last}")
    return done.stderr


def _collected(folder: Path, log: str, graph: Graph) -> TensorFlowRun:
    told = json.loads((folder / "answer.json").read_text())
    if "error" in told:
        raise XlanbError(f"TensorFlow rejects the graph: {told['error']}")
    graphs, modules = read_dump(folder / "graphs"), read_dump(folder / "xla")
    results = load_arrays(folder / "results.npz", told["dtypes"])
    name = getattr(graph, "name", "") or "graph"
    return TensorFlowRun(
        name,
        _clusters(graphs),
        _reasons(log),
        graphs.graphs,
        [modules.trace(m) for m in modules.ranked if m.name.startswith("cluster_") or not m.is_helper],
        results,
        told["seconds"],
        told["version"],
        folder / "graphs",
    )


def _clusters(graphs: DumpDirectory) -> dict[str, str]:
    """Clusters of the last graph that was marked: that of the run, after the initialisers'."""
    stages = [s for s in (graphs.graphs or []) if s.name == "mark_for_compilation"]
    for stage in reversed(stages):
        record = stage.after
        if isinstance(record, GraphRecord):
            return {n.name: n.cluster for n in record.nodes if n.cluster}
    return {}


def _reasons(log: str) -> dict[str, str]:
    """The reasons that TensorFlow logs, by node, the first of each."""
    found: dict[str, str] = {}
    for line in log.splitlines():
        for pattern in _REASONS:
            m = pattern.search(line)
            if m is not None:
                found.setdefault(m["node"], (m["reason"] or "").strip())
    return found


def _name(x: Any) -> str:
    return x if isinstance(x, str) else str(x.name)


def _dtype(value: Any) -> str:
    import numpy as np

    return np.asarray(value).dtype.name
