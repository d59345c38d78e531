"""Partition custom calls by what is known of their targets (HandleCustomCall).

Calls of unknown targets run on whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.batched_call import batch_dims_of, handle_batched_call
from xlanb.spmd.partitioner.elementwise import handle_elementwise
from xlanb.spmd.partitioner.rotate import ROTATE_RIGHT, handle_rotate_right
from xlanb.spmd.partitioner.sorted_top import handle_top_k
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, set_sharding, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction

Handler = Callable[[SpmdPartitioningVisitor, "HloInstruction"], None]


def handle_move_to_device(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Keep the operand's sharding and reshard the result.

    The call then directly follows its operand.
    """
    sharding = sharding_of(hlo.operands[0])
    moved = v.b.clone(hlo, (v.partitioned(hlo.operands[0]).hlo,), make_partitioned_shape(hlo.shape, sharding))
    v.set_partitioned(hlo, v.arrived(hlo, moved, sharding, hlo.shape))


def handle_manual(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Keep a call in a manual region as it is.

    It counts as on the first device, like everything there.
    """
    operands = [v.partitioned(o).hlo for o in hlo.operands]
    call = v.b.clone(hlo, operands, hlo.shape)
    set_sharding(call, HloSharding.assign_device(0).normalize_tuple(hlo.shape))
    v.set_partitioned(hlo, call)


_HANDLERS: Final[dict[str, Handler]] = {
    "TopK": handle_top_k,
    "MoveToHost": handle_elementwise,
    "MoveToDevice": handle_move_to_device,
    "PinToDevice": handle_move_to_device,
    "PinToDeviceSram": handle_move_to_device,
}
"""Handlers by target, for calls outside manual regions and not on one device."""


@handles("custom-call")
def handle_custom_call(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition a call by its target; an unknown target gets whole arrays on every device."""
    target = hlo.attributes.get("custom_call_target")
    sharding = sharding_of(hlo)
    if target == ROTATE_RIGHT:
        handle_rotate_right(v, hlo)
    elif sharding.has_unique_device:
        v.default_action(hlo)
    elif sharding.is_manual:
        handle_manual(v, hlo)
    elif batch_dims_of(hlo):
        handle_batched_call(v, hlo)
    else:
        _HANDLERS.get(str(target), SpmdPartitioningVisitor.default_action)(v, hlo)
