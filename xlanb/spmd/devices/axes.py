"""Map operand dimensions to result dimensions.

Covers the operations that treat elements along a dimension independently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.devices.writing import dimensions


@dataclass(frozen=True, slots=True)
class DeviceAxis:
    """The result dimension that an operand dimension maps to; a window may slide along it."""

    dim: int
    window: WindowDimension | None = None


Axes = tuple[DeviceAxis | None, ...]
"""For each dimension of an operand: its place in the result, or None if it must be whole."""


def axes_of(i: HloInstruction) -> Sequence[Axes] | None:
    """Return where each operand's dimensions map to, or None for an operation without a rule."""
    rule = _identity if i.opcode.is_elementwise else _RULES.get(i.opcode)
    return rule(i) if rule is not None else None


def _ranks(i: HloInstruction) -> list[int]:
    return [len(dimensions(o)) for o in i.operands]


def _identity(i: HloInstruction) -> list[Axes]:
    return [tuple(map(DeviceAxis, range(rank))) for rank in _ranks(i)]


def _except(*wholes: Callable[[HloInstruction], Sequence[int]]) -> Callable[[HloInstruction], list[Axes]]:
    """Make a rule that maps each dimension to itself, except those that must be whole."""

    def rule(i: HloInstruction) -> list[Axes]:
        kept = {d for w in wholes for d in w(i)}
        return [tuple(None if k in kept else DeviceAxis(k) for k in range(rank)) for rank in _ranks(i)]

    return rule


def _broadcast(i: HloInstruction) -> list[Axes]:
    return [tuple(map(DeviceAxis, i.ints("dimensions")))]


def _transpose(i: HloInstruction) -> list[Axes]:
    order = i.ints("dimensions")
    return [tuple(DeviceAxis(order.index(k)) for k in range(len(order)))]


def _reduce(i: HloInstruction) -> list[Axes]:
    gone = i.ints("dimensions")
    kept = [k for k in range(_ranks(i)[0]) if k not in gone]
    array = tuple(None if k in gone else DeviceAxis(kept.index(k)) for k in range(_ranks(i)[0]))
    return [array if rank else () for rank in _ranks(i)]


def _pad(i: HloInstruction) -> list[Axes]:
    padded = [bool(p.low or p.high or p.interior) for p in i.attributes["padding"]]
    return [tuple(None if p else DeviceAxis(k) for k, p in enumerate(padded)), ()]


def _dot(i: HloInstruction) -> list[Axes] | None:
    if i.get("sparsity_config") or i.get("block_scaling_config") or len(i.operands) != 2:
        return None
    batch = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
    summed = i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")
    place, found = len(batch[0]), []
    for rank, batched, gone in zip(_ranks(i), batch, summed, strict=True):
        axes: list[DeviceAxis | None] = []
        for k in range(rank):
            if k in gone:
                axes.append(None)
            elif k in batched:
                axes.append(DeviceAxis(batched.index(k)))
            else:
                axes.append(DeviceAxis(place))
                place += 1
        found.append(tuple(axes))
    return found


def _gather(i: HloInstruction) -> list[Axes] | None:
    """Gather rows of a whole array by indices that may be sharded."""
    if i.get("operand_batching_dims") or i.get("start_indices_batching_dims"):
        return None
    vector, offsets = i.attributes["index_vector_dim"], i.ints("offset_dims")
    batch = iter(k for k in range(i.array_shape.rank) if k not in offsets)
    table, rank = _ranks(i)
    return [(None,) * table, tuple(None if k == vector else DeviceAxis(next(batch)) for k in range(rank))]


def _dynamic_slice(i: HloInstruction) -> list[Axes]:
    pairs = zip(i.array_shape.dimensions, dimensions(i.operands[0]), strict=True)
    array = tuple(DeviceAxis(k) if n == m else None for k, (n, m) in enumerate(pairs))
    return [array, *[()] * (len(i.operands) - 1)]


def _dynamic_update_slice(i: HloInstruction) -> list[Axes]:
    array, update = dimensions(i.operands[0]), dimensions(i.operands[1])
    axes = tuple(DeviceAxis(k) if n == m else None for k, (n, m) in enumerate(zip(array, update, strict=True)))
    return [axes, axes, *[()] * (len(i.operands) - 2)]


def _reduce_window(i: HloInstruction) -> list[Axes]:
    array = tuple(DeviceAxis(k, None if w == WindowDimension(1) else w) for k, w in enumerate(i.window.dimensions))
    return [array if rank else () for rank in _ranks(i)]


def _convolution(i: HloInstruction) -> list[Axes] | None:
    if len(i.operands) != 2 or i.get("sparsity_config") or i.get("block_scaling_config"):
        return None
    numbers, window = i.attributes["dim_labels"], i.window.dimensions
    image: list[DeviceAxis | None] = [None] * _ranks(i)[0]
    kernel: list[DeviceAxis | None] = [None] * _ranks(i)[1]
    if i.get("batch_group_count") in (None, 1):
        image[numbers.input_batch] = DeviceAxis(numbers.output_batch)
        if i.get("feature_group_count") in (None, 1):
            kernel[numbers.kernel_output_feature] = DeviceAxis(numbers.output_feature)
    for place, to, w in zip(numbers.input_spatial, numbers.output_spatial, window, strict=True):
        image[place] = DeviceAxis(to, w)
    return [tuple(image), tuple(kernel)]


_RULES: Final[dict[Op, Callable[[HloInstruction], Sequence[Axes] | None]]] = {
    Op.BROADCAST: _broadcast,
    Op.CONCATENATE: _except(lambda i: i.ints("dimensions")),
    Op.CONVOLUTION: _convolution,
    Op.COPY: _identity,
    Op.DOT: _dot,
    Op.DYNAMIC_SLICE: _dynamic_slice,
    Op.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Op.GATHER: _gather,
    Op.PAD: _pad,
    Op.REDUCE: _reduce,
    Op.REDUCE_WINDOW: _reduce_window,
    Op.REVERSE: _except(lambda i: i.ints("dimensions")),
    Op.SORT: _except(lambda i: i.ints("dimensions")),
    Op.TRANSPOSE: _transpose,
}
