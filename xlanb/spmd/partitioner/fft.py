"""Partition an FFT along its own dimension, as XLA does, by decimation in time over the devices.

shuffle so that device i has every n-th element from i on    =>    transform locally    =>
multiply by a phase    =>    a second transform over the n devices: a loop that passes each device's
result around a ring
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.spmd.partitioner.builder import SpmdBuilder
from xlanb.spmd.partitioner.collectives import ReplicaGroups
from xlanb.spmd.partitioner.halo import exchange_halo, with_dimension
from xlanb.spmd.partitioner.offsets import MultiplyAddDivide
from xlanb.spmd.partitioner.utilities import create_r0, create_zero, make_tiled_partition_ordinals, round_up_to
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles

if TYPE_CHECKING:
    from xlanb.hlo.computation import HloComputation
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.shape import TupleShape
    from xlanb.spmd.hlo_sharding import HloSharding
    from xlanb.spmd.partitioner.state import PartitioningState

_O = HloOpcode


@handles("fft")
def handle_fft(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Transform along a dimension that all devices split; otherwise replicate the operand."""
    shape, n, sharding = hlo.operands[0].array_shape, v.state.num_partitions, v.sharding(hlo)
    length = shape.dimensions[-1] if shape.rank else 0
    split_by_all = not sharding.is_tile_maximal and sharding.dimensions[-1] == n
    plain = shape.rank >= 3 and hlo.get("fft_type") == "FFT" and length == hlo.ints("fft_length")[-1]
    if not plain or length % n or not split_by_all:
        v.default_action(hlo)
        return
    operand = v.partitioned(hlo.operands[0])
    state, b = operand.state, operand.state.b
    part = operand.pad_with_value(create_r0(hlo.array_shape.element_type, 0, b)).hlo
    own_shape = part.array_shape
    reason = "each device transforms every n-th element, then needs the results of all others"
    with state.because(hlo, 0, operand.sharding, sharding, reason):
        padded = _pad_to_multiple(part, n, sharding, state)
        shuffled = _shuffle(part if padded is None else padded, n, b)
        exchanged = state.collectives.all_to_all(
            (shuffled,), ReplicaGroups.iota(np.arange(n).reshape(1, n)), shuffled.array_shape.rank - 1
        )
        box = tuple(SliceDimension(0, size) for size in own_shape.dimensions)
        own = b.add(_O.SLICE, (exchanged,), own_shape, slice=box)
        lengths = (*hlo.ints("fft_length")[:-1], length // n)
        local = b.add(_O.FFT, (own,), own_shape, fft_type="FFT", fft_length=lengths)
        rotated = b.add(_O.MULTIPLY, (local, _phase(local, n, state)), own_shape)
        v.set_partitioned(hlo, _over_devices(rotated, n, sharding, state))


def _pad_to_multiple(
    hlo: HloInstruction, n: int, sharding: HloSharding, state: PartitioningState
) -> HloInstruction | None:
    """Pad so that n divides each part: parts take elements from later ones, zeros come last."""
    last = hlo.array_shape.rank - 1
    size = hlo.array_shape.dimensions[last]
    missing = round_up_to(size, n) - size
    if missing == 0:
        return hlo
    wide = exchange_halo(hlo, MultiplyAddDivide(), MultiplyAddDivide(missing, 2 * missing), last, sharding, state)
    if wide is None:
        return None
    b = state.b
    shape = with_dimension(wide.array_shape, last, size + missing)
    offsets = [b.s32(0)] * shape.rank
    ordinals = make_tiled_partition_ordinals(sharding, state.partition_id, b)
    offsets[last] = MultiplyAddDivide(missing).calculate(ordinals[last], b)
    return b.add(_O.DYNAMIC_SLICE, (wide, *offsets), shape, dynamic_slice_sizes=shape.dimensions)


def _shuffle(hlo: HloInstruction, n: int, b: SpmdBuilder) -> HloInstruction:
    """Shuffle 0 1 2 3 -> 0 2 1 3 for n = 2, by a dot with a permutation matrix."""
    shape = hlo.array_shape
    size = shape.dimensions[-1]
    index = _iota(size, b)
    by_device = b.add(_O.TRANSPOSE, (b.reshape(index, (size // n, n)),), None, dimensions=(1, 0))
    square = index.array_shape.with_dimensions((size, size))
    wanted = b.broadcast(b.reshape(by_device, (size,)), square, (1,))
    rows = b.add(_O.IOTA, (), square, iota_dimension=0)
    one_hot = b.add(_O.CONVERT, (b.compare(wanted, rows, "EQ"),), square.with_type(shape.element_type))
    contracted = shape.rank - 1
    return b.add(_O.DOT, (hlo, one_hot), shape, lhs_contracting_dims=(contracted,), rhs_contracting_dims=(0,))


def _iota(size: int, b: SpmdBuilder) -> HloInstruction:
    """Return 0, 1, ... as s32."""
    return b.add(_O.IOTA, (), array(PrimitiveType.S32, [size]), iota_dimension=0)


def _phase(hlo: HloInstruction, n: int, state: PartitioningState) -> HloInstruction:
    """Return exp(-2 pi i * device * k / (n * size)) for the k-th element of a device's part."""
    b, shape = state.b, hlo.array_shape
    angle = create_r0(shape.element_type, complex(0, -2 * math.pi / (n * shape.dimensions[-1])), b)
    wide = b.broadcast(angle, shape)
    device = b.add(_O.CONVERT, (state.partition_id,), state.partition_id.array_shape.with_type(shape.element_type))
    exponent = b.add(_O.MULTIPLY, (wide, b.broadcast(device, shape)), shape)
    numbers = b.add(_O.IOTA, (), shape, iota_dimension=shape.rank - 1)
    exponent = b.add(_O.MULTIPLY, (exponent, numbers), shape)
    return b.add(_O.EXPONENTIAL, (exponent,), shape)


def _over_devices(hlo: HloInstruction, n: int, sharding: HloSharding, state: PartitioningState) -> HloInstruction:
    """Transform over the devices in n steps around a ring.

    In each step a device adds the received value times its phase.
    """
    b, shape, module = state.b, hlo.array_shape, state.module
    count = b.constant(np.uint32(0))
    device = b.add(_O.CONVERT, (state.partition_id,), state.partition_id.array_shape.with_type(shape.element_type))
    carried = tuple_of((shape, shape, device.shape, device.shape, count.shape))
    body = _ring_body(hlo, n, sharding, state, carried)
    condition = module.add_computation("fft_collective_permute_condition")
    c = SpmdBuilder(condition, b.visiting)
    param = c.add(_O.PARAMETER, (), carried, name="param", parameter_number=0)
    condition.set_root(c.compare(c.get_tuple_element(param, 4), c.constant(np.uint32(n)), "LT"))
    zero = create_zero(shape, b)
    init = b.add(_O.TUPLE, (zero, hlo, device, device, count), carried)
    loop = b.add(_O.WHILE, (init,), carried, condition=condition, body=body)
    return b.get_tuple_element(loop, 0)


def _ring_body(
    hlo: HloInstruction, n: int, sharding: HloSharding, state: PartitioningState, carried: TupleShape
) -> HloComputation:
    """Write one step: (sum, value, device, the value's device, step count) -> the same after it."""
    computation = state.module.add_computation("fft_collective_permute_body")
    b = SpmdBuilder(computation, state.b.visiting)
    shape = hlo.array_shape
    param = b.add(_O.PARAMETER, (), carried, name="param", parameter_number=0)
    total, value, own, origin, turn = (b.get_tuple_element(param, i) for i in range(5))
    scale = create_r0(shape.element_type, complex(0, -2 * math.pi / n), b)
    exponent = b.add(_O.MULTIPLY, (scale, own), scale.shape)
    exponent = b.add(_O.MULTIPLY, (exponent, origin), scale.shape)
    phase = b.broadcast(b.add(_O.EXPONENTIAL, (exponent,), scale.shape), shape)
    term = b.add(_O.MULTIPLY, (phase, value), shape)
    total = b.add(_O.ADD, (term, total), shape)
    tiles = sharding.tile_assignment
    pairs = [(int(d), int(tiles[(*at[:-1], (at[-1] + 1) % n)])) for at, d in np.ndenumerate(tiles)]
    collectives = state.collectives.on(b)
    origin = collectives.collective_permute(origin, pairs)
    value = collectives.collective_permute(value, pairs)
    turn = b.add(_O.ADD, (turn, b.constant(np.uint32(1))), turn.shape)
    computation.set_root(b.add(_O.TUPLE, (total, value, own, origin, turn), carried))
    return computation
