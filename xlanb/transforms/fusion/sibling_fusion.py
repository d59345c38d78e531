"""Fuse loops over the same elements that read the same arrays into one loop with several results.

    a = f32[64] fusion(x, y), kind=kLoop              f = (f32[64], f32[64]) fusion(x, y), kind=kLoop, calls={ ... ROOT tuple(a, b) }
    b = f32[64] fusion(x, z), kind=kLoop      =>      a = get-tuple-element(f), index=0
                                                      b = get-tuple-element(f), index=1

Fusion computes anew for each result what they have in common: two halves of a round of a random number generator, the moments and the step of an optimizer. Here that is
computed once, and each array is read once. XLA has passes of this kind for GPUs (xla/service/gpu/transforms/multi_output_fusion.h); XLA:CPU runs none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.reachability import HloReachabilityMap
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import add_parameter

_MOST = 160
"""Instructions of a loop: with more values than registers, one loop is no faster than two."""
_RESULTS = 6
_SMALL = 64
"""Elements of values cheap enough to be computed outside of the loop: keys, rates, counters."""


@dataclass(frozen=True)
class SiblingFusion(HloPass):
    """Makes one fusion of loop fusions over equal shapes that share an array of that size, where none needs the other."""

    name = "sibling-fusion"

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in module.computations:
            if graph.is_control(c):
                for group in list(_groups(c)):
                    _merge(group)


def _groups(c: HloComputation) -> Iterator[list[HloInstruction]]:
    """Fusions to be made one, at least two of them, in the order of the computation."""
    loops = [i for i in c.post_order() if _is_plain_loop(i)]
    if len(loops) < 2:
        return
    reach: HloReachabilityMap | None = None
    order = {i: n for n, i in enumerate(c.post_order())}
    # A merge orders what was free: merged groups count as one, so that no two of them come to wait for each other.
    groups: list[list[HloInstruction]] = []
    alike: dict[Hashable, list[list[HloInstruction]]] = defaultdict(list)  # by what the loops go over
    for i in loops:
        over = (i.array_shape.dimensions, i.array_shape.minor_to_major)
        for group in alike[over]:
            if len(group) < _RESULTS and _fits(group, i):
                reach = reach or HloReachabilityMap(c)
                if _stays_acyclic(groups, group, i, reach):
                    group.append(i)
                    break
        else:
            alike[over].append([i])
            groups.append(alike[over][-1])
    yield from (sorted(g, key=order.__getitem__) for g in groups if len(g) > 1)


def _is_plain_loop(i: HloInstruction) -> bool:
    """Whether a fusion is a loop whose elements are each made of the same elements of its operands, and of little besides."""
    if i.opcode is not O.FUSION or i.get("kind") != "kLoop" or not i.shape.is_array:
        return False
    if i.control_predecessors or i.control_successors or i.get("output_to_operand_aliasing"):
        return False
    shape = i.array_shape
    if shape.element_count <= _SMALL:
        return False
    for inner in i.fused_computation:
        if not inner.shape.is_array:
            return False
        whole = inner.array_shape.element_count > _SMALL
        if whole and (inner.array_shape.dimensions, inner.array_shape.minor_to_major) != (
            shape.dimensions,
            shape.minor_to_major,
        ):
            return False
        if whole and not (inner.opcode.is_elementwise or inner.opcode in (O.PARAMETER, O.BROADCAST, O.IOTA)):
            return False
    return True


def _fits(group: Sequence[HloInstruction], i: HloInstruction) -> bool:
    """Whether two loops over the same elements read an array of that size both, and are no more than one loop should be."""
    mine = i.array_shape.dimensions
    if not any(
        o.shape.is_array and o.array_shape.dimensions == mine and any(o in f.operands for f in group)
        for o in i.operands
    ):
        return False
    return sum(len(f.fused_computation) for f in (*group, i)) <= _MOST


def _stays_acyclic(
    groups: Sequence[Sequence[HloInstruction]],
    group: Sequence[HloInstruction],
    i: HloInstruction,
    reach: HloReachabilityMap,
) -> bool:
    """Whether neither the group nor what waits for it comes before `i` or after it, the other groups each taken as one."""
    others = [g for g in groups if g is not group and len(g) > 1]

    def after(start: Sequence[HloInstruction]) -> list[HloInstruction]:
        found = list(start)
        for at in found:  # which grows
            for g in others:
                if g[0] not in found and any(reach.is_reachable(at, m) for m in g):
                    found += g
        return found

    return not any(reach.is_reachable(a, i) for a in after(group)) and not any(
        reach.is_reachable(a, b) for a in after([i]) for b in group
    )


def _merge(group: Sequence[HloInstruction]) -> None:
    """One fusion takes the place of several; what they compute alike is there once."""
    c = group[0].parent
    fused = c.module.add_computation("fused_computation", execution_thread=c.execution_thread)
    operands = tuple(dict.fromkeys(o for f in group for o in f.operands))
    inside = {o: add_parameter(fused, n, o) for n, o in enumerate(operands)}
    known: dict[Hashable, HloInstruction] = {}
    roots = tuple(_copied(fused, f, inside, known) for f in group)
    shape = tuple_of(f.shape for f in group)
    fused.set_root(fused.add(O.TUPLE, roots, shape))
    merged = c.add(
        O.FUSION, operands, shape, name=f"{group[0].name}.siblings", like=group[0], kind="kLoop", calls=fused
    )
    for n, f in enumerate(group):
        c.replace(f, c.add(O.GET_TUPLE_ELEMENT, (merged,), f.shape, name=f.name, like=f, index=n))


def _copied(
    fused: HloComputation,
    fusion: HloInstruction,
    inside: dict[HloInstruction, HloInstruction],
    known: dict[Hashable, HloInstruction],
) -> HloInstruction:
    """The result of a fusion, computed in another computation with what is there already."""
    made: dict[HloInstruction, HloInstruction] = {}
    for i in fusion.fused_computation.post_order():
        if i.opcode is O.PARAMETER:
            made[i] = inside[fusion.operands[i.parameter_number]]
            continue
        operands = tuple(made[o] for o in i.operands)
        key: Hashable = (i.opcode, operands, i.shape, tuple(sorted(i.attributes.items(), key=lambda a: a[0])))
        try:
            made[i] = known.get(key) or known.setdefault(key, fused.clone_instruction(i, operands))
        except TypeError:  # an attribute without a hash
            made[i] = fused.clone_instruction(i, operands)
    return made[fusion.fused_computation.root]
