"""The child process in which the real TensorFlow runs a graph with its own XLA.

Run as `python -m xlanb.peers.tensorflow_child REQUEST`. REQUEST is a folder with graph.pb,
feeds.npz and request.json; the child writes results.npz and answer.json to it, TensorFlow the
graphs to graphs/ and the dumps to xla/.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.peers.child import answer, load_arrays, save_arrays


def serve(folder: Path) -> dict[str, Any]:
    """Run the request; return the data for the parent."""
    request = json.loads((folder / "request.json").read_text())
    tf = import_module("tensorflow")
    v1 = tf.compat.v1
    v1.disable_v2_behavior()
    definition = v1.GraphDef.FromString((folder / "graph.pb").read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    config = v1.ConfigProto(inter_op_parallelism_threads=1)
    # Without Grappler, which would rewrite the graph before it is partitioned.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    feeds = dict(zip(request["feeds"], load_arrays(folder / "feeds.npz", request["dtypes"]), strict=True))
    with v1.Session(graph=graph, config=config) as session:
        for name in request["before"]:
            session.run(name)
        (folder / "mark").write_text("")
        results = session.run(request["fetches"], feeds)
        seconds = []
        for _ in range(request["runs"]):
            begin = time.perf_counter()
            session.run(request["fetches"], feeds)
            seconds.append(time.perf_counter() - begin)
    arrays = [np.asarray(r) for r in results if r is not None]
    save_arrays(folder / "results.npz", arrays)
    return {"dtypes": [a.dtype.name for a in arrays], "seconds": seconds, "version": tf.__version__}


if __name__ == "__main__":
    sys.exit(answer(Path(sys.argv[1]), serve))
