"""Dots that share an operand, as one (xla/.../dot_merger.h).

    a = dot(x, y);  b = dot(x, z)    =>    m = dot(x, concatenate(y, z));  a = slice(m);  b = slice(m)

XLA runs it for backends where starting a small dot costs more than copying; XLA:CPU does not, so it is in no pipeline here either.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

_NUMBERS = (
    "lhs_batch_dims",
    "lhs_contracting_dims",
    "rhs_batch_dims",
    "rhs_contracting_dims",
    "operand_precision",
    "algorithm",
)


@dataclass(frozen=True)
class DotMerger(HloPass):
    """Merges pairs of canonical dots, one of which reads and writes at most `max_size_to_merge` bytes and neither of which needs the other."""

    name = "dot-merger"
    max_size_to_merge: int = 1 << 20

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            self._merge_all(c)

    def _merge_all(self, c: HloComputation) -> None:
        by_operand: dict[tuple[HloInstruction, int], list[HloInstruction]] = {}
        for i in c.post_order():
            if i.opcode is O.DOT and _is_canonical(i) and not i.control_predecessors and not i.control_successors:
                for side in range(2):
                    by_operand.setdefault((i.operands[side], side), []).append(i)
        for (_, side), dots in by_operand.items():
            while len(dots) > 1:
                first = dots.pop(0)
                for other in dots:
                    if self._may_merge(c, first, other):
                        dots.remove(other)
                        dots.insert(0, _merged(first, other, side))
                        break

    def _may_merge(self, c: HloComputation, a: HloInstruction, b: HloInstruction) -> bool:
        if a not in c or b not in c or a.shape.element_type is not b.shape.element_type or a.operands == b.operands:
            return False
        if any(a.attributes.get(n) != b.attributes.get(n) for n in _NUMBERS) or any(
            x.shape.element_type is not y.shape.element_type for x, y in zip(a.operands, b.operands, strict=True)
        ):
            return False
        return min(_bytes(a), _bytes(b)) <= self.max_size_to_merge and not _reads(a, b) and not _reads(b, a)


def _is_canonical(dot: HloInstruction) -> bool:
    batch = set(range(len(dot.ints("lhs_batch_dims"))))
    if set(dot.ints("lhs_batch_dims")) != batch or set(dot.ints("rhs_batch_dims")) != batch or len(dot.operands) != 2:
        return False
    return len(dot.ints("lhs_contracting_dims")) == 1 and all(
        o.array_shape.rank == len(batch) + 2 for o in dot.operands
    )


def _bytes(dot: HloInstruction) -> int:
    return sum(i.shape.byte_size for i in (dot, *dot.operands))


def _reads(user: HloInstruction, source: HloInstruction) -> bool:
    """Whether `user` needs the value of `source`, or waits for it; linear in what it needs."""
    seen, todo = {user}, [user]
    while todo:
        for o in (i := todo.pop()).operands + i.control_predecessors:
            if o is source:
                return True
            if o not in seen:
                seen.add(o)
                todo.append(o)
    return False


def _merged(first: HloInstruction, other: HloInstruction, shared: int) -> HloInstruction:
    b, c = Builder(first), first.parent
    batch = len(first.ints("lhs_batch_dims"))
    side = "rhs" if shared == 0 else "lhs"
    contracted = first.ints(f"{side}_contracting_dims")[0]
    outer = 2 * batch + 1 - contracted
    both = b.add(O.CONCATENATE, [d.operands[1 - shared] for d in (first, other)], dimensions=(outer,))
    operands = (first.operands[0], both) if shared == 0 else (both, first.operands[1])
    along = batch + 1 if shared == 0 else batch
    dims = list(first.array_shape.dimensions)
    split = dims[along]
    dims[along] += other.array_shape.dimensions[along]
    made = b.add(O.DOT, operands, first.array_shape.with_dimensions(dims), **first.attributes)
    starts, limits = [0] * len(dims), list(dims)
    limits[along], starts[along] = split, split
    for old, begin, end in ((first, [0] * len(dims), limits), (other, starts, dims)):
        c.replace(old, b.slice(made, begin, end))
    return made
