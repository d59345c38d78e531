"""IndexedDimensions: the roles of a gather's or scatter's dimensions in partitioning.

A scatter is treated as the gather that would take its updates out of its operand: `output` is a
gather's result or a scatter's update. The docstrings name the functions of XLA
(xla/hlo/utils/hlo_sharding_util.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.spmd.sharding_util import propagate_sharding_along_dims_and_replicate_others

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.shape import ArrayShape
    from xlanb.spmd.hlo_sharding import HloSharding

_O = HloOpcode


@dataclass(frozen=True)
class MatchingDims:
    """Dimensions that match: `operand[n]`, `indices[n]` and `output[n]` are the same one.

    Empty for an array that has none of them.
    """

    operand: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    output: tuple[int, ...] = ()


@dataclass(frozen=True)
class IndexedDimensions:
    """The dimension numbers of a gather or a scatter, under one set of names.

    Attributes:
        window: output dimensions that come from the operand (offset_dims, update_window_dims).
        collapsed: operand dimensions of size 1 in a slice, which the output lacks.
        batching: operand batching dimensions, which the window lacks.
        index_map: the operand dimension that each element of an index vector indexes.
    """

    hlo: HloInstruction
    operand: HloInstruction
    indices: HloInstruction
    output_rank: int
    window: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    index_map: tuple[int, ...]
    indices_batching: tuple[int, ...]
    index_vector_dim: int

    @staticmethod
    def of(hlo: HloInstruction) -> IndexedDimensions:
        """Return the dimensions of a gather or a scatter."""
        a = hlo.attributes
        if hlo.opcode is _O.GATHER:
            names = (
                "offset_dims",
                "collapsed_slice_dims",
                "operand_batching_dims",
                "start_index_map",
                "start_indices_batching_dims",
            )
            operand, indices = hlo.operands
            rank = hlo.array_shape.rank
        else:
            names = (
                "update_window_dims",
                "inserted_window_dims",
                "input_batching_dims",
                "scatter_dims_to_operand_dims",
                "scatter_indices_batching_dims",
            )
            count = len(hlo.operands) // 2
            operand, indices = hlo.operands[0], hlo.operands[count]
            rank = hlo.operands[count + 1].array_shape.rank
        window, collapsed, batching, index_map, indices_batching = (tuple(a.get(name) or ()) for name in names)
        return IndexedDimensions(
            hlo, operand, indices, rank, window, collapsed, batching, index_map, indices_batching, a["index_vector_dim"]
        )

    @property
    def indices_rank(self) -> int:
        """Number of dimensions of the indices."""
        return self.indices.array_shape.rank

    @property
    def has_index_vectors(self) -> bool:
        """Whether the indices have a dimension of index vectors.

        Without one, each index is a vector of one element.
        """
        return self.index_vector_dim < self.indices_rank

    @property
    def output_batch_dims(self) -> tuple[int, ...]:
        """Output dimensions that come from the indices."""
        return tuple(d for d in range(self.output_rank) if d not in self.window)

    # -- matching dimensions -----------------------------------------------------------------------

    def operand_passthrough(self, slice_sizes: Sequence[int], operand: ArrayShape | None = None) -> MatchingDims:
        """Return operand dimensions that slices take whole.

        `operand` defaults to the instruction's own. Follows GetGatherScatterOperandPassthroughDims.
        """
        operand_dims, output = [], []
        windows = iter(self.window)
        for dim, size in enumerate((operand or self.operand.array_shape).dimensions):
            if dim in self.collapsed or dim in self.batching:
                continue
            window = next(windows)
            if slice_sizes[dim] == size:
                operand_dims.append(dim)
                output.append(window)
        return MatchingDims(operand=tuple(operand_dims), output=tuple(output))

    def connected(self, excluded: Iterable[int] = ()) -> MatchingDims:
        """Match index dimensions, without that of the vectors, to output dimensions.

        Follows GetGatherConnectedDimsAcrossIndicesAndOutput.
        """
        left_out = frozenset(excluded)
        dims = (d for d in range(self.indices_rank) if d != self.index_vector_dim)
        pairs = [(i, o) for i, o in zip(dims, self.output_batch_dims, strict=True) if i not in left_out]
        return MatchingDims(indices=tuple(i for i, _ in pairs), output=tuple(o for _, o in pairs))

    def index_passthrough(self) -> MatchingDims:
        """Match the connected dimensions along which the operand is not indexed by position.

        Follows GetGatherScatterIndexPassThroughDims.
        """
        parallel = self.index_parallel()
        return self.connected((*self.indices_batching, *(parallel.indices if parallel else ())))

    def explicit_batch(self) -> MatchingDims | None:
        """Match the batching dimensions that the instruction names; None if there are none."""
        return self._with_output(self.batching, self.indices_batching) if self.batching else None

    def index_parallel(self) -> MatchingDims | None:
        """Match dimensions whose indices are an iota, so that slice n is at n.

        Returns None if there are none. Follows GetGatherScatterBatchParallelDims.
        """
        sizes = self._original_slice_sizes()
        indices = self.indices
        while indices.opcode is _O.COPY:
            indices = indices.operands[0]
        if indices.opcode is not _O.CONCATENATE:
            indices = self.indices
        operand_dims: list[int] = []
        indices_dims: list[int] = []
        for dim, operand_dim in zip(self._iota_dims(indices), self.index_map, strict=True):
            if dim == -1:
                continue
            if dim in indices_dims:
                return None
            if sizes[operand_dim] == 1 and dim not in self.indices_batching:
                if self.operand.array_shape.dimensions[operand_dim] != indices.array_shape.dimensions[dim]:
                    return None
                indices_dims.append(dim)
                operand_dims.append(operand_dim)
        return self._with_output(tuple(operand_dims), tuple(indices_dims)) if indices_dims else None

    def _iota_dims(self, indices: HloInstruction) -> list[int]:
        """Return the dimension along which each element of an index vector is an iota, or -1."""
        dims = [-1] * len(self.index_map)
        if indices.opcode is _O.CONCATENATE and indices.dimensions[0] == self.index_vector_dim:
            done = 0
            for piece in indices.operands:
                size = self._vector_size(piece)
                counted = dimension_for_iota(piece)
                if counted is not None and counted != self.index_vector_dim:
                    dims[done : done + size] = [counted] * size
                done += size
            return dims
        counted = dimension_for_iota(indices)
        if counted is not None and counted != self.index_vector_dim:
            dims = [counted] * self._vector_size(indices)
        return dims

    def _vector_size(self, indices: HloInstruction) -> int:
        shape = indices.array_shape
        return shape.dimensions[self.index_vector_dim] if shape.rank > self.index_vector_dim else 1

    def _original_slice_sizes(self) -> tuple[int, ...]:
        if self.hlo.opcode is _O.GATHER:
            return tuple(self.hlo.attributes["slice_sizes"])
        updates = self.hlo.operands[len(self.hlo.operands) // 2 + 1]
        return self.slice_sizes(self.operand.array_shape, updates.array_shape)

    def slice_sizes(self, operand: ArrayShape, update: ArrayShape) -> tuple[int, ...]:
        """Return the slice sizes of a scatter in its operand's dimensions (GetScatterSliceSize)."""
        windows = iter(self.window)
        return tuple(
            1 if d in self.collapsed or d in self.batching else update.dimensions[next(windows)]
            for d in range(operand.rank)
        )

    def _with_output(self, operand: tuple[int, ...], indices: tuple[int, ...]) -> MatchingDims:
        connected = self.connected()
        output = dict(zip(connected.indices, connected.output, strict=True))
        return MatchingDims(operand, indices, tuple(output[d] for d in indices))

    # -- shardings derived from other arrays -------------------------------------------------------

    def output_from_indices(self, sharding: HloSharding) -> HloSharding:
        """Return the output sharding that follows the indices.

        Follows GatherOutputShardingFromIndex and ScatterUpdateShardingFromIndex.
        """
        dims = self.connected()
        return propagate_sharding_along_dims_and_replicate_others(sharding, dims.indices, dims.output, self.output_rank)

    def indices_from_output(self, sharding: HloSharding) -> HloSharding:
        """Return the index sharding that follows the output.

        Follows GatherIndexShardingFromOutput and ScatterIndexShardingFromUpdate.
        """
        dims = self.connected()
        return propagate_sharding_along_dims_and_replicate_others(
            sharding, dims.output, dims.indices, self.indices_rank
        )

    def output_from_operand(
        self, operand: ArrayShape, sharding: HloSharding, slice_sizes: Sequence[int]
    ) -> HloSharding | None:
        """Return the output sharding that follows the operand in dimensions that slices take whole.

        Returns None if that splits nothing.
        """
        if sharding.is_tile_maximal or sharding.is_manual:
            return None
        dims = self.operand_passthrough(slice_sizes, operand)
        found = propagate_sharding_along_dims_and_replicate_others(
            sharding, dims.operand, dims.output, self.output_rank
        )
        return None if found.is_tile_maximal else found


def dimension_for_iota(hlo: HloInstruction) -> int | None:
    """Return the dimension along which an array is an iota, or None if it is no iota.

    Follows GetDimensionForIota.
    """
    if hlo.opcode is _O.IOTA:
        return int(hlo.attributes["iota_dimension"])
    if not hlo.shape.is_array or hlo.array_shape.element_type is not PrimitiveType.S32:
        return None
    if hlo.opcode is _O.CONSTANT:
        return _counted_dimension(np.asarray(hlo.literal.array))
    if hlo.opcode is _O.BROADCAST:
        dim = dimension_for_iota(hlo.operands[0])
        return None if dim is None else hlo.dimensions[dim]
    if hlo.opcode is _O.GET_TUPLE_ELEMENT and hlo.operands[0].opcode is _O.PARAMETER:
        source = _outside(hlo)
        return None if source is None else dimension_for_iota(source)
    return None


def _counted_dimension(values: np.ndarray) -> int | None:
    for dim, size in enumerate(values.shape):
        count = np.arange(size).reshape([size if d == dim else 1 for d in range(values.ndim)])
        if size > 1 and bool((values == count).all()):
            return dim
    return None


def _outside(element: HloInstruction) -> HloInstruction | None:
    """Return the value that a caller passes for an element of its body's parameter.

    Returns None if it may change between iterations.
    """
    body = element.parent
    callers = body.module.callers(body)
    if body.is_entry or len(callers) != 1:
        return None
    caller, index = callers[0], element.tuple_index
    if caller.opcode is _O.WHILE and caller.operands[0].opcode is _O.TUPLE:
        root = body.root
        if root.opcode is _O.TUPLE and index < len(root.operands) and root.operands[index] is element:
            return caller.operands[0].operands[index]
    if caller.opcode is _O.CONDITIONAL:
        argument = caller.operands[caller.called_computations.index(body) + 1]
        return argument.operands[index] if argument.opcode is _O.TUPLE else None
    return None
