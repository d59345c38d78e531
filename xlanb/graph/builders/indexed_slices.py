"""IndexedSlices: some rows of a tensor, as gradients of gathers are."""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.dtypes import DType
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor


class IndexedSlices:
    """Rows `values` of a tensor of `dense_shape`, at `indices` of dimension 0.

    Rows with the same index add up.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.values.dtype

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        return self.values.op

    @property
    def graph(self) -> Graph:
        """The graph that holds them."""
        return self.values.graph

    @property
    def name(self) -> str:
        """Name of the values."""
        return self.values.name

    @property
    def device(self) -> str:
        """Device of the values."""
        return self.values.device

    def as_tensor(self, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
        """The dense tensor: UnsortedSegmentSum.

        Raises:
            GraphValueError: the dense shape is not known.
        """
        if self.dense_shape is None:
            raise GraphValueError(f"slices {self.values.name!r} without a dense shape cannot be converted to a tensor")
        return call("UnsortedSegmentSum", self.values, self.indices, self.dense_shape[0], name=name)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __mul__(self, other: Any) -> Tensor:
        return self.as_tensor() * other  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices!r}, values={self.values!r})"
