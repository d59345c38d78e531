"""Loop kernels: each thread computes some consecutive elements of the results, in the order in which they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.elemental import Leaf, array_of
from xlanb.codegen.indexing import Index, same_order
from xlanb.gpu.emitters.kernel import KernelFunction, Lowering
from xlanb.shape import ArrayShape

THREADS = 128
_Group = list[Leaf]


def emit_loop(lowering: Lowering) -> None:
    """Write and launch the loop kernel of an instruction or fusion: results of equal shape come out of one loop, the others one after the other."""
    groups = group_leaves(lowering)
    lowering.emitter = "loop"
    if not groups:
        return
    shapes = [_shape(lowering, g[0]) for g in groups]
    counts = [s.element_count for s in shapes]
    blocks = -(-max(counts) // THREADS)
    with lowering.kernel(blocks, THREADS) as k:
        for group, shape, count in zip(groups, shapes, counts, strict=True):
            with k.below(k.index, count, blocks * THREADS), k.f.aside():
                store_elements(k, group, Index(shape, flat=k.index))


def group_leaves(lowering: Lowering) -> list[_Group]:
    """The leaves of the results, those of equal shape and layout together."""
    groups: list[_Group] = []
    for leaf in lowering.leaves:
        shape = _shape(lowering, leaf)
        alike = next((g for g in groups if same_order(_shape(lowering, g[0]), shape)), None)
        if alike is None:
            groups.append([leaf])
        else:
            alike.append(leaf)
    return groups


def _shape(lowering: Lowering, leaf: Leaf) -> ArrayShape:
    return array_of(lowering.instruction, leaf)


def store_elements(k: KernelFunction, leaves: Sequence[Leaf], index: Index) -> None:
    """Compute the elements of some results at an index, then store them: a result may lie in the place of another's operand."""
    arrays = [k.output(leaf) for leaf in leaves]
    values = [k.e.element(k.lowering.root, index, leaf) for leaf in leaves]
    for array, value in zip(arrays, values, strict=True):
        array.store(index, value)
