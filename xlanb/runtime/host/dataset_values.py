"""Data sets as values: how to produce elements, and one traversal of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xlanb.graph.operation import Operation
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.host.ops import HostState, fault

Element = tuple[Any, ...]


class Walk:
    """One iterator's traversal; its state is that of the run that gets the next element."""

    def __init__(self, state: HostState) -> None:
        self.state = state


@dataclass(frozen=True)
class DatasetValue:
    """A data set; `elements` starts a traversal from the beginning."""

    elements: Callable[[Walk], Iterator[Element]]


def dataset_of(op: Operation, value: Any) -> DatasetValue:
    """An input of an op that must be a data set.

    Raises:
        GraphError: it is something else.
    """
    if not isinstance(value, DatasetValue):
        raise fault(op, f"an input is not a data set but {type(value).__name__}")
    return value
