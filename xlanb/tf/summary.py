"""tf.summary: training records in event files for TensorBoard (TensorFlow 1's python/summary)."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np

from xlanb.errors import ArgumentError
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.runtime.events import EventFile, messages, run_metadata_bytes
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest


def _collected(op: Operation, collections: Any) -> Tensor:
    made = op.outputs[0]
    get_default_graph().add_to_collections(collections or [GraphKeys.SUMMARIES], made)
    return made


def _tag(scope: str, family: str | None) -> Tensor:
    """Return a summary's tag: its scope, below its family if any."""
    name = scope.rstrip("/")
    return constant(f"{family}/{name}" if family else name, name=f"{scope}tags")


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The summary of a number: a serialized message, for `FileWriter.add_summary`."""
    with name_scope(name, values=[tensor]) as scope:
        made: Operation = call_op("ScalarSummary", _tag(scope, family), tensor, name=scope)
    return _collected(made, collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The summary of the distribution of a tensor's elements."""
    with name_scope(name, values=[values]) as scope:
        made: Operation = call_op("HistogramSummary", _tag(scope, family), values, name=scope)
    return _collected(made, collections)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """The summary of images [batch, height, width, 1, 3 or 4], of bytes or of floats."""
    with name_scope(name, values=[tensor]) as scope:
        tag = _tag(scope, family)
        bad = np.array([255, 0, 0, 255], np.uint8)
        made: Operation = call_op("ImageSummary", tag, tensor, max_images=max_outputs, bad_color=bad, name=scope)
    return _collected(made, collections)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """Summarize sounds [batch, frames] or [batch, frames, channels], floats in [-1, 1]; rate in
    Hz.
    """
    with name_scope(name, values=[tensor]) as scope:
        tag = _tag(scope, family)
        made: Operation = call_op("AudioSummaryV2", tag, tensor, sample_rate, max_outputs=max_outputs, name=scope)
    return _collected(made, collections)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """The summary of strings."""
    metadata = messages().SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    with name_scope(name, values=[tensor]) as scope:
        about = constant(metadata.SerializeToString(), name=f"{scope}metadata")
        made: Operation = call_op("TensorSummaryV2", _tag(scope, None), tensor, about, name=scope)
    return _collected(made, collections)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries in one."""
    op: Operation = call_op("MergeSummary", list(inputs), name=name or "Merge/MergeSummary")
    made = op.outputs[0]
    if collections:
        get_default_graph().add_to_collections(collections, made)
    return made


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """Merge all summaries of the graph, or return None."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


class FileWriter:
    """Write events to a new file in `logdir`, which is created; `graph` is written first.

    `max_queue` and `flush_secs` have no effect: events are written immediately, and buffered by the
    file.
    """

    def __init__(
        self,
        logdir: str,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        del max_queue, flush_secs, session
        self._logdir = str(logdir)
        self._file = EventFile(self._logdir, filename_suffix or "")
        given = graph if graph is not None else graph_def
        if given is not None:
            self.add_graph(given)

    def get_logdir(self) -> str:
        """The directory."""
        return self._logdir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Add a step's summary, serialized as `session.run` returns it."""
        data = summary if isinstance(summary, bytes) else getattr(summary, "item", lambda: summary)()
        parsed = messages().Summary
        self._add(global_step, summary=parsed.FromString(data) if isinstance(data, bytes) else data)

    def add_graph(self, graph: Any, global_step: Any = None) -> None:
        """A Graph, or a GraphDef's bytes or message."""
        data = graph.to_graphdef() if isinstance(graph, Graph) else graph
        self._add(global_step, graph_def=data if isinstance(data, bytes) else data.SerializeToString())

    def add_event(self, event: Any) -> None:
        """An Event message."""
        self._file.write(event)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Add the times of a run, which TensorBoard shows on the graph.

        A tag may be used only once.
        """
        if not tag:
            raise ArgumentError("add_run_metadata: expected a tag")
        data = run_metadata_bytes(run_metadata.step_stats)
        self._add(global_step, tagged_run_metadata={"tag": tag, "run_metadata": data})

    def _add(self, step: Any, **what: Any) -> None:
        self._file.write(messages().Event(wall_time=time.time(), step=int(step or 0), **what))

    def flush(self) -> None:
        """Write buffered events."""
        self._file.flush()

    def close(self) -> None:
        """Write buffered events and close the file; a later event opens it again."""
        self._file.close()

    def reopen(self) -> None:
        """As in TensorFlow; the next event opens the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


SummaryWriter = FileWriter


__getattr__ = _naming_the_nearest(__name__)
