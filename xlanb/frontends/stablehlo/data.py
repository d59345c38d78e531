"""Operations that move elements: broadcasts, slices, gathers, scatters, sorts, tuples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, rule
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape.shape import array

_O = HloOpcode


@rule("stablehlo.broadcast")
def _broadcast(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.broadcast(x, s.ints(op, "broadcast_sizes"))


@rule("stablehlo.broadcast_in_dim")
def _broadcast_in_dim(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return broadcast_in_dim(s, op, x, s.result_shape(op).dimensions)


def broadcast_in_dim(s: RegionScope, op: StablehloOperation, x: HloInstruction, sizes: Sequence[int]) -> HloInstruction:
    """Broadcast `x` to sizes; transpose it first if its dimensions are not in HLO's order."""
    dims = s.ints(op, "broadcast_dimensions")
    if len(dims) != x.array_shape.rank or len(set(dims)) != len(dims):
        s.fail(op, f"broadcast_dimensions {list(dims)} do not match an operand of {x.array_shape.rank} dimensions")
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))):
        x = s.b.transpose(x, order)
    return s.b.broadcast_in_dim(x, sizes, sorted(dims))


@rule("stablehlo.reshape")
def _reshape(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.reshape(x, s.result_shape(op).dimensions)


@rule("stablehlo.transpose")
def _transpose(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.transpose(x, s.ints(op, "permutation"))


@rule("stablehlo.reverse")
def _reverse(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.reverse(x, s.ints(op, "dimensions"))


@rule("stablehlo.slice")
def _slice(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    starts, limits, strides = (s.ints(op, n) for n in ("start_indices", "limit_indices", "strides"))
    if not len(starts) == len(limits) == len(strides) == x.array_shape.rank:
        s.fail(op, f"expected a range for each of {x.array_shape.rank} dimensions")
    return s.b.slice(x, starts, limits, strides)


@rule("stablehlo.dynamic_slice")
def _dynamic_slice(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, *starts = s.operands(op, at_least=1)
    return s.b.dynamic_slice(x, starts, s.ints(op, "slice_sizes"))


@rule("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, update, *starts = s.operands(op, at_least=2)
    return s.b.dynamic_update_slice(x, update, starts)


@rule("stablehlo.pad")
def _pad(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, value = s.operands(op, 2)
    parts = [s.ints(op, n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding")]
    return pad(s, op, x, value, parts)


def pad(
    s: RegionScope, op: StablehloOperation, x: HloInstruction, value: HloInstruction, parts: Sequence[Sequence[int]]
) -> HloInstruction:
    """Pad `x`; `parts` are the low, high and interior padding of each dimension."""
    low, high, interior = parts
    if not len(low) == len(high) == len(interior) == x.array_shape.rank:
        s.fail(op, f"expected padding for each of {x.array_shape.rank} dimensions")
    return s.b.pad(x, value, list(zip(low, high, interior, strict=True)))


@rule("stablehlo.concatenate")
def _concatenate(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.b.concatenate(s.operands(op), s.integer(op, "dimension"))


@rule("stablehlo.gather")
def _gather(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, indices = s.operands(op, 2)
    return gather(s, op, x, indices, s.ints(op, "slice_sizes"))


def gather(
    s: RegionScope, op: StablehloOperation, x: HloInstruction, indices: HloInstruction, sizes: Sequence[int]
) -> HloInstruction:
    """A gather of slices of given sizes."""
    numbers = s.fields(op, "dimension_numbers")
    names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
    lists = {n: s.dims(op, numbers, n) for n in (*names, "start_index_map")}
    return s.b.gather(
        x,
        indices,
        **lists,
        index_vector_dim=s.number(op, numbers, "index_vector_dim"),
        slice_sizes=sizes,
        indices_are_sorted=s.flag(op, "indices_are_sorted"),
    )


@rule("stablehlo.scatter")
def _scatter(s: RegionScope, op: StablehloOperation) -> Instructions:
    operands = s.operands(op)
    count = len(operands) // 2
    if len(operands) != 2 * count + 1 or not count:
        s.fail(op, f"expected operands, indices and as many updates, not {len(operands)} operands")
    numbers = s.fields(op, "scatter_dimension_numbers")
    names = (
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
    )
    made = s.b.scatter(
        operands[:count],
        operands[count],
        operands[count + 1 :],
        s.reducer(op, 0, count),
        **{n: s.dims(op, numbers, n) for n in names},
        index_vector_dim=s.number(op, numbers, "index_vector_dim"),
        indices_are_sorted=s.flag(op, "indices_are_sorted"),
        unique_indices=s.flag(op, "unique_indices"),
    )
    return s.unpacked(made, op)


@rule("stablehlo.sort")
def _sort(s: RegionScope, op: StablehloOperation) -> Instructions:
    operands = s.operands(op)
    if not operands:
        s.fail(op, "expected operands")
    dimension = s.integer(op, "dimension", -1)
    rank = operands[0].array_shape.rank
    made = s.b.sort(
        operands,
        dimension + rank if dimension < 0 else dimension,
        s.region(op, 0),
        stable=s.flag(op, "is_stable"),
    )
    return s.unpacked(made, op)


@rule("stablehlo.tuple")
def _tuple(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.b.tuple(s.operands(op))


@rule("stablehlo.get_tuple_element")
def _get_tuple_element(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    return s.b.get_tuple_element(x, s.integer(op, "index"))


@rule("stablehlo.get_dimension_size")
def _get_dimension_size(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    """A constant, unless the size is known only when the program runs."""
    (x,) = s.operands(op, 1)
    shape, dimension = x.array_shape, s.integer(op, "dimension")
    if not 0 <= dimension < shape.rank:
        s.fail(op, f"dimension {dimension} of {shape.text(layout=False)}")
    if not shape.is_dynamic_dimension(dimension):
        size = shape.dimensions[dimension]
        if not 0 <= size < 2**31:
            s.fail(op, f"the size {size} is not a 32-bit integer" if size > 0 else "the size is unknown")
        return s.b.constant(np.int32(size))
    return s.instruction(_O.GET_DIMENSION_SIZE, (x,), dimensions=(dimension,))


@rule("stablehlo.set_dimension_size")
def _set_dimension_size(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, size = s.operands(op, 2)
    return s.instruction(_O.SET_DIMENSION_SIZE, (x, size), dimensions=(s.integer(op, "dimension"),))


@rule("stablehlo.torch_index_select")
def _torch_index_select(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    """Slices of one dimension at indices; with batch dimensions, those of each batch."""
    x, indices = s.operands(op, 2)
    dim, batch = s.integer(op, "dim"), s.integer(op, "batch_dims", 0)
    rank, wide = x.array_shape.rank, indices.array_shape.rank
    if not 0 <= batch <= dim < rank or batch > wide:
        s.fail(op, f"dim {dim} with {batch} batch dimensions of {rank}")
    sizes = [1 if d == dim or d < batch else n for d, n in enumerate(x.array_shape.dimensions)]
    between = range(batch, dim)
    offset = [*between, *range(wide + dim - batch, wide + rank - batch - 1)]
    return s.b.gather(
        x,
        indices,
        offset_dims=offset,
        collapsed_slice_dims=[dim],
        start_index_map=[dim],
        operand_batching_dims=range(batch),
        start_indices_batching_dims=range(batch),
        index_vector_dim=wide,
        slice_sizes=sizes,
    )


@rule("stablehlo.rng")
def _rng(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    low, high, size = s.operands(op, 3)
    distribution = s.word(op, "rng_distribution").lower()
    known = s.constant_of(size)
    if known is not None and (known.ndim != 1 or known.dtype.kind not in "iu"):
        s.fail(op, f"expected a vector of sizes, not {size.shape.text(layout=False)}")
    sizes = s.result_shape(op).dimensions if known is None else [int(n) for n in known]
    return s.b.rng(f"rng_{distribution}", low, high, array(s.result_element(op), sizes))


_ALGORITHMS = {"DEFAULT": "rng_default", "THREE_FRY": "rng_three_fry", "PHILOX": "rng_philox"}


@rule("stablehlo.rng_bit_generator")
def _rng_bit_generator(s: RegionScope, op: StablehloOperation) -> Instructions:
    (state,) = s.operands(op, 1)
    if len(op.results) != 2:
        s.fail(op, "expected two results: the new state and the bits")
    algorithm = _ALGORITHMS.get(s.word(op, "rng_algorithm"))
    if algorithm is None:
        s.fail(op, f"expected an algorithm among {', '.join(_ALGORITHMS)}")
    return s.unpacked(s.b.rng_bit_generator(state, s.result_shape(op, 1), algorithm), op)
