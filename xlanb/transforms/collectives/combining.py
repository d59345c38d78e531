"""Which collectives can be combined: compatible, independent and not too large together.

Source: xla/service/collective_combiner_utils.h.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from xlanb.analysis.reachability import HloReachabilityMap
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.replica_groups import replica_groups
from xlanb.shape.shape import tuple_of
from xlanb.transforms.builder import Builder

Key = Callable[[HloInstruction], Hashable | None]
Combine = Callable[[list[HloInstruction]], object]


def combine_by_key(c: HloComputation, key: Key, combine: Combine, *, most_bytes: int, most_operands: int) -> None:
    """Call `combine` with each run of two or more instructions of equal key.

    A run follows the post order. It ends before an instruction that depends on one of the run, and
    before one that would make it larger than `most_bytes` or `most_operands`. The next run begins
    with the first remaining instruction. Instructions whose key is None are skipped.
    """
    keys = {i: k for i in c.post_order() if (k := key(i)) is not None and _may_be_in_a_run(i, most_bytes)}
    while keys:
        run = _run(c, keys, most_bytes, most_operands)
        for i in run:
            del keys[i]
        if len(run) > 1:
            combine(run)


def _may_be_in_a_run(i: HloInstruction, most_bytes: int) -> bool:
    return len(i.operands) == 1 and i.shape.is_array and i.shape.byte_size <= most_bytes


def _run(
    c: HloComputation, keys: dict[HloInstruction, Hashable], most_bytes: int, most_operands: int
) -> list[HloInstruction]:
    order = HloReachabilityMap(c)
    run: list[HloInstruction] = []
    size = 0
    for i in c.post_order():
        if i not in keys or (run and keys[i] != keys[run[0]]):
            continue
        if size + i.shape.byte_size > most_bytes or any(order.is_reachable(one, i) for one in run):
            break
        run.append(i)
        size += i.shape.byte_size
        if len(run) >= most_operands:
            break
    return run


def reduction_key(i: HloInstruction) -> tuple[Hashable, ...] | None:
    """The key that two all-reduces or reduce-scatters must share to be combined.

    None if the instruction cannot be combined (xla/service/all_reduce_key.h).
    """
    if i.control_predecessors or i.control_successors:
        return None
    if len(i.to_apply) != 3 or len(i.to_apply.parameters) != 2:
        return None
    root = i.to_apply.root
    return (
        root.opcode,
        root.array_shape.element_type,
        i.attributes.get("channel_id") is not None,
        bool(i.attributes.get("use_global_device_ids")),
        replica_groups(i.attributes.get("replica_groups") or "{}"),
    )


def combined(run: list[HloInstruction]) -> HloInstruction:
    """Replace a run by one collective with all its operands and the first one's attributes."""
    first, c = run[0], run[0].parent
    operands = [i.operands[0] for i in run]
    one = c.add(first.opcode, operands, tuple_of(i.shape for i in run), like=first, **first.attributes)
    if any(i.sharding for i in run):
        c.update(one, sharding="{" + ", ".join(i.sharding or "{maximal device=0}" for i in run) + "}")
    for n, i in enumerate(run):
        c.replace_uses(i, Builder(i).element(one, n))
        c.remove(i)
    return one
