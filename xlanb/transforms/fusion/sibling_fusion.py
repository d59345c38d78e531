"""Fuse loops over equal shapes that read the same arrays, or each other's results, into one loop.

    a = f32[64] fusion(x, y), kind=kLoop
    b = f32[64] fusion(x, z), kind=kLoop
      =>  f = (f32[64], f32[64]) fusion(x, y), kind=kLoop, calls={ ... ROOT tuple(a, b) }
          a = get-tuple-element(f), index=0
          b = get-tuple-element(f), index=1

Fusion recomputes for each result what they have in common: two halves of a round of a random number
generator, the moments of an optimizer. Here that is computed once, and each array is read once. A
loop that reads another's result (the step of an optimizer, its moments) gets it from a register,
unless something else lies between the two. XLA has passes of this kind for GPUs
(xla/service/gpu/transforms/multi_output_fusion.h); XLA:CPU runs none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

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
"""The most instructions in a loop.

With more values than registers, one loop is no faster than two.
"""
_RESULTS = 6
_SMALL = 64
"""The most elements of a value cheap enough to compute outside the loop: keys, rates, counters."""


class SiblingFusion(HloPass):
    """Merges loop fusions of equal shape that read a common array of that size, or each other."""

    name = "sibling-fusion"

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in module.computations:
            if graph.is_control(c):
                for group in list(_groups(c)):
                    _merge(group)


def _groups(c: HloComputation) -> Iterator[list[HloInstruction]]:
    """Groups of at least two fusions to merge, in the order of the computation."""
    loops = [i for i in c.post_order() if _is_plain_loop(i)]
    if len(loops) < 2:
        return
    reach: HloReachabilityMap | None = None
    order = {i: n for n, i in enumerate(c.post_order())}
    # A merge adds order between groups. Each merged group counts as one node, so that no two groups
    # can depend on each other.
    groups: list[_Group] = []
    alike: dict[Hashable, list[_Group]] = defaultdict(list)  # by what the loops go over
    for i in loops:
        over = (i.array_shape.dimensions, i.array_shape.minor_to_major)
        for group in alike[over]:
            if len(group.members) < _RESULTS and _fits(group.members, i):
                reach = reach or HloReachabilityMap(c)
                if not group.bits:
                    group.add_bits(group.members[0], reach)
                if _stays_acyclic(groups, group, i, reach):
                    group.members.append(i)
                    group.add_bits(i, reach)
                    break
        else:
            alike[over].append(_Group(i))
            groups.append(alike[over][-1])
    yield from (sorted(g.members, key=order.__getitem__) for g in groups if len(g.members) > 1)


def _is_plain_loop(i: HloInstruction) -> bool:
    """Whether each element of a fusion depends on the same element of its operands.

    It may also depend on small values.
    """
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
    """Whether the loop stays small, and `i` shares an operand of its size with the group or reads a
    result of it.
    """
    mine = i.array_shape.dimensions
    if not any(
        o.shape.is_array and o.array_shape.dimensions == mine and any(o is f or o in f.operands for f in group)
        for o in i.operands
    ):
        return False
    return sum(len(f.fused_computation) for f in (*group, i)) <= _MOST


class _Group:
    """Loops to merge: the bit set of them, and that of their dependencies."""

    __slots__ = ("before", "bits", "members")

    def __init__(self, first: HloInstruction) -> None:
        self.members = [first]
        self.bits = self.before = 0

    def add_bits(self, member: HloInstruction, reach: HloReachabilityMap) -> None:
        self.bits |= reach.bit(member)
        self.before |= reach.before(member)


def _stays_acyclic(groups: Sequence[_Group], group: _Group, i: HloInstruction, reach: HloReachabilityMap) -> bool:
    """Whether adding `i` to a group creates no cycle, with each other group merged into one.

    `i` may read members, but nothing else that depends on them.
    """
    others = [g for g in groups if g is not group and len(g.members) > 1]
    bit = before = reach.bit(i)
    for o in (*i.operands, *i.control_predecessors):
        if o not in group.members:
            before |= reach.before(o)
    return not _with_followers(group.bits, others) & before and not _with_followers(bit, others) & group.before


def _with_followers(bits: int, groups: Sequence[_Group]) -> int:
    """Add the groups that depend on a bit set, directly or through another group."""
    waiting = list(groups)
    while True:
        following = [g for g in waiting if g.before & bits]
        if not following:
            return bits
        waiting = [g for g in waiting if not g.before & bits]
        for g in following:
            bits |= g.bits


def _merge(group: Sequence[HloInstruction]) -> None:
    """Replace a group of fusions by one; equal instructions are computed once."""
    c = group[0].parent
    fused = c.module.add_computation("fused_computation", execution_thread=c.execution_thread)
    operands = tuple(dict.fromkeys(o for f in group for o in f.operands if o not in group))
    inside = {o: add_parameter(fused, n, o) for n, o in enumerate(operands)}
    known: dict[Hashable, HloInstruction] = {}
    for f in group:
        inside[f] = _copied(fused, f, inside, known)
    roots = tuple(inside[f] for f in group)
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
    """Copy a fusion's body into another computation, sharing equal instructions; its root."""
    made: dict[HloInstruction, HloInstruction] = {}
    for i in fusion.fused_computation.post_order():
        if i.opcode is O.PARAMETER:
            made[i] = inside[fusion.operands[i.parameter_number]]
            continue
        operands = tuple(made[o] for o in i.operands)
        key: Hashable = (i.opcode, operands, i.shape, tuple(sorted(i.attributes.items(), key=lambda a: a[0])))
        try:
            made[i] = known.get(key) or known.setdefault(key, fused.clone_instruction(i, operands))
        except TypeError:  # an unhashable attribute
            made[i] = fused.clone_instruction(i, operands)
    return made[fusion.fused_computation.root]
