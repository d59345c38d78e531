"""tf.summary: no event files are written here. Summaries are taken and thrown away, and the first of them says so.

`scalar` and its like give a string tensor that can be fetched and is empty; FileWriter takes events and keeps none.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.operation import Tensor
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest

_said: list[str] = []


class SummaryWarning(UserWarning):
    """Said once: summaries are not kept."""


def _say() -> None:
    if not _said:
        _said.append("said")
        warnings.warn(
            "tf.summary writes nothing here: summaries are empty strings, FileWriter keeps none",
            SummaryWarning,
            stacklevel=4,
        )


def _summary(name: str, value: Any, collections: Any) -> Tensor:
    _say()
    with name_scope(name, values=[value]) as scope:
        made = constant(b"", name=scope)
    get_default_graph().add_to_collections(collections or [GraphKeys.SUMMARIES], made)
    return made


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A number's summary: empty."""
    return _summary(name, tensor, collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A distribution's summary: empty."""
    return _summary(name, values, collections)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Images' summary: empty."""
    return _summary(name, tensor, collections)


def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None
) -> Tensor:
    """Sounds' summary: empty."""
    return _summary(name, tensor, collections)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """A text's summary: empty."""
    return _summary(name, tensor, collections)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries in one: empty."""
    _say()
    made = constant(b"", name=name or "Merge/MergeSummary")
    if collections:
        get_default_graph().add_to_collections(collections, made)
    return made


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """All summaries of the graph in one, None where there are none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


class FileWriter:
    """Takes summaries and keeps none. `logdir` is not made."""

    def __init__(self, logdir: str, graph: Any = None, **_options: Any) -> None:
        _say()
        self._logdir = logdir

    def get_logdir(self) -> str:
        """The directory that was named."""
        return self._logdir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Nothing."""

    def add_graph(self, graph: Any, global_step: Any = None) -> None:
        """Nothing."""

    def add_event(self, event: Any) -> None:
        """Nothing."""

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

    def reopen(self) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


SummaryWriter = FileWriter


__getattr__ = _naming_the_nearest(__name__)
