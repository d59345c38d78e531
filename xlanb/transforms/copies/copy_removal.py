"""Which copies can be removed (CopyRemover in xla/service/copy_insertion.cc).

The values of each buffer form a list in the order in which they are written. A copy reads a value s
of one list and begins a value d of another. Without the copy the two lists become one:

    {s0 .. s, d+1 .. dm, s+1 .. sn}     where d is the first of its list
    {d0 .. d-1, s0 .. s, d+1 .. dm}     where s is the last of its list

The copy can be removed if in that order every value is read for the last time before the next one
is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cmp_to_key

from xlanb.analysis.dataflow import HloDataflowAnalysis, HloUse, HloValue, Leaf, buffers
from xlanb.analysis.ordering import DependencyHloOrdering
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.reason import reason


@dataclass(eq=False)
class _ValueNode:
    """A value in its buffer.

    Removing copies changes its uses and the computations that return it.
    """

    value: HloValue
    uses: list[HloUse]
    live_out: set[HloComputation]
    buffer: list[_ValueNode] = field(default_factory=list)


@reason("the source of the copy is dead when the copy is written")
def remove_copies(module: HloModule, aliases: Iterable[tuple[int, Leaf, Leaf]] = ()) -> None:
    """Remove the copies of a module that no two values need.

    Each copy costs a number of comparisons equal to the product of the lengths of its two lists.
    Lists grow with the loops that a value passes through, not with the module.

    Args:
        aliases: (parameter, leaf of it, leaf of the result) for each input-output alias.
    """
    remover = _CopyRemover(module, aliases)
    is_changing = True
    while is_changing:
        is_changing = False
        for c in module.computations:
            for i in c:
                if i.opcode is O.COPY and i in remover.copies and remover.may_go(i):
                    _remove(i)
                    is_changing = True


def _remove(copy: HloInstruction) -> None:
    c = copy.parent
    c.drop_control_dependencies(copy)
    c.replace_uses(copy, copy.operands[0])
    c.remove(copy)


class _CopyRemover:
    def __init__(self, module: HloModule, aliases: Iterable[tuple[int, Leaf, Leaf]]) -> None:
        dataflow = HloDataflowAnalysis(module)
        self._order = DependencyHloOrdering(module)
        self._node: dict[HloValue, _ValueNode] = {}
        lists = _with_aliases(module, dataflow, buffers(dataflow), aliases)
        for values in lists:
            nodes = [
                _ValueNode(v, list(v.uses), set(v.live_out)) for v in sorted(values, key=cmp_to_key(self._compare))
            ]
            for n in nodes:
                n.buffer = nodes
                self._node[n.value] = n
        self.copies: dict[HloInstruction, tuple[_ValueNode, _ValueNode]] = {}
        for i in dataflow.at:
            if i.opcode is O.COPY and i.shape.is_array and i.shape == i.operands[0].shape:
                self.copies[i] = self._node[dataflow.value(i.operands[0])], self._node[dataflow.value(i)]

    def _compare(self, a: HloValue, b: HloValue) -> int:
        if self._order.is_defined_before(a, b):
            return -1
        return 1 if self._order.is_defined_before(b, a) else 0

    def may_go(self, copy: HloInstruction) -> bool:
        """Whether a copy can be removed; if so its two lists are merged."""
        source, target = self.copies[copy]
        old, new = source.buffer, target.buffer
        s, d = old.index(source), new.index(target)
        if old is new:
            if d != s + 1:
                return False
            merged = [*old]
        elif d == 0 and self._are_before(old[: s + 1], new[1:]) and self._are_before(new, old[s + 1 :]):
            merged = [*old[: s + 1], *new, *old[s + 1 :]]
        elif (
            d != 0
            and s == len(old) - 1
            and self._are_before(new[:d], old)
            and self._are_before([*old, target], new[d + 1 :])
        ):
            merged = [*new[:d], *old, *new[d:]]
        else:
            return False
        self._merge(copy, source, target, merged)
        return True

    def _merge(self, copy: HloInstruction, source: _ValueNode, target: _ValueNode, merged: list[_ValueNode]) -> None:
        source.uses = [u for u in source.uses if u.instruction is not copy] + target.uses
        source.live_out |= target.live_out
        merged.remove(target)
        for n in merged:
            n.buffer = merged
        del self.copies[copy]
        for other, (a, b) in self.copies.items():
            if a is target:
                self.copies[other] = source, b

    def _are_before(self, earlier: Sequence[_ValueNode], later: Sequence[_ValueNode]) -> bool:
        return all(self._is_before(a, b) for b in later for a in earlier)

    def _is_before(self, a: _ValueNode, b: _ValueNode) -> bool:
        """Whether `a` is read for the last time before `b` is written."""
        if any(self._order.is_nested(b.value.instruction, c) and not _begins(b, c) for c in a.live_out):
            return False
        if not a.uses:
            return bool(a.live_out) or self._order.is_defined_before(a.value, b.value)
        return all(self._order.use_is_before(u, b.value) for u in a.uses)


def _begins(b: _ValueNode, c: HloComputation) -> bool:
    """Whether a value is the phi of loop body `c`, written when the last iteration is over."""
    return b.value.is_phi and b.value.instruction.parent is c and b.value.instruction.opcode is O.PARAMETER


def _with_aliases(
    module: HloModule,
    dataflow: HloDataflowAnalysis,
    lists: list[list[HloValue]],
    aliases: Iterable[tuple[int, Leaf, Leaf]],
) -> list[list[HloValue]]:
    """The buffers, with those of aliased parameters and results merged."""
    entry = module.entry_computation
    for number, leaf, result in aliases:
        a, b = dataflow.at[entry.parameters[number]][leaf], dataflow.at[entry.root][result]
        first, second = (next(x for x in lists if v in x) for v in (a, b))
        if first is not second:
            lists = [x for x in lists if x is not first and x is not second] + [first + second]
    return lists
