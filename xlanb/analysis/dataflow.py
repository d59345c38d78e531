"""The value in each part of each instruction's result, and which values must share a buffer.

A value is defined by one instruction at one leaf of its shape; tuples, get-tuple-elements, bitcasts
and calls only forward values. If a loop changes a carried element, or the branches of a conditional
differ, a phi is defined: by the parameters of body and condition and the loop itself, or by the
conditional. Passes use this SSA form.

Buffer assignment needs memory instead of values (`ssa_form=False`): an element that a loop changes
is one value, which the loop defines and both parameters hold.
Source: HloDataflowAnalysis (xla/hlo/analysis/hlo_dataflow_analysis.h), HloAliasAnalysis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.analysis.input_output_alias import parse_aliases
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape.shape import long_dimensions, memory_order

Leaf = tuple[int, ...]
FORWARDING = frozenset((O.BITCAST, O.OPT_BARRIER, O.ADD_DEPENDENCY, O.DOMAIN, O.COPY_START, O.COPY_DONE))
"""Opcodes whose result aliases their first operand.

They include asynchronous copies, except for their context, since nothing runs concurrently.
"""


@dataclass(frozen=True)
class HloUse:
    """An instruction that reads a value, at `leaf` of its operand `number`."""

    instruction: HloInstruction
    number: int
    leaf: Leaf


@dataclass(eq=False)
class HloValue:
    """The value that `instruction` defines at `leaf`.

    `live_out` holds the computations whose result it is part of.
    """

    instruction: HloInstruction
    leaf: Leaf
    is_phi: bool
    uses: list[HloUse] = field(default_factory=list)
    live_out: set[HloComputation] = field(default_factory=set)

    @property
    def is_entry_parameter(self) -> bool:
        """Whether it is an argument of the module."""
        return self.instruction.opcode is O.PARAMETER and self.instruction.parent.is_entry

    def __str__(self) -> str:
        return f"{self.instruction.name}{{{','.join(map(str, self.leaf))}}}{' phi' if self.is_phi else ''}"


Values = dict[Leaf, HloValue]


class HloDataflowAnalysis:
    """The values of a module in which each computation is called once (see FlattenCallGraph).

    Bodies of fusions and reducers have no values. Without `ssa_form` a loop defines what it changes
    for both of its computations, a conditional defines all of its result, a reshape that moves no
    bytes holds its operand's value, and `uses` and `live_out` are not computed.

    Time is linear in the module per level of nested loops, times the iterations (mostly two) until
    a loop's phis are known.
    """

    def __init__(self, module: HloModule, *, ssa_form: bool = True) -> None:
        self.at: dict[HloInstruction, Values] = {}
        self._ssa_form = ssa_form
        self._defined: dict[tuple[HloInstruction, Leaf, bool], HloValue] = {}
        self._phis: dict[HloInstruction, set[Leaf]] = {}
        entry = module.entry_computation
        self._visit(entry, [self._all_new(p) for p in entry.parameters])
        if ssa_form:
            self._link()

    @property
    def values(self) -> list[HloValue]:
        """All values in the module."""
        return list(dict.fromkeys(v for values in self.at.values() for v in values.values()))

    def value(self, i: HloInstruction, leaf: Leaf = ()) -> HloValue:
        """The value at a leaf of an instruction's result."""
        return self.at[i][leaf]

    def _visit(self, c: HloComputation, arguments: list[Values]) -> Values:
        """The values of a computation's root, given those of its parameters."""
        for i in c.post_order():
            self.at[i] = arguments[i.parameter_number] if i.opcode is O.PARAMETER else self._values_of(i)
        return self.at[c.root]

    def _values_of(self, i: HloInstruction) -> Values:
        if i.opcode is O.TUPLE:
            return {(n, *leaf): v for n, o in enumerate(i.operands) for leaf, v in self.at[o].items()}
        if i.opcode is O.GET_TUPLE_ELEMENT:
            n, whole = i.tuple_index, self.at[i.operands[0]]
            return {leaf: whole[n, *leaf] for leaf, _ in i.shape.leaves()}
        if i.opcode is O.COPY_START:  # (destination, source, context): the first two are one array
            copied = self.at[i.operands[0]][()]
            return {(0,): copied, (1,): copied, (2,): self._new(i, (2,), phi=False)}
        if i.opcode is O.COPY_DONE:
            return {(): self.at[i.operands[0]][0,]}
        if i.opcode in FORWARDING or (not self._ssa_form and is_plain_reshape(i)):
            return self.at[i.operands[0]]
        if i.opcode is O.CALL:
            return self._visit(i.to_apply, [self.at[o] for o in i.operands])
        if i.opcode is O.WHILE:
            return self._loop(i)
        if i.opcode is O.CONDITIONAL:
            return self._branches(i)
        return self._all_new(i)

    def _loop(self, loop: HloInstruction) -> Values:
        start, body, condition = self.at[loop.operands[0]], loop.attributes["body"], loop.attributes["condition"]
        phis = self._phis.setdefault(loop, set())
        while True:
            after = self._visit(body, [self._carried(loop, body.parameters[0], start)])
            changed = {leaf for leaf, v in after.items() if leaf not in phis and v is not start[leaf]}
            if not changed:
                break
            phis |= changed
        self._visit(condition, [self._carried(loop, condition.parameters[0], start)])
        return self._carried(loop, loop, start)

    def _carried(self, loop: HloInstruction, holder: HloInstruction, start: Values) -> Values:
        """The values in a loop, or in a parameter of its computations."""
        phis, i = self._phis[loop], holder if self._ssa_form else loop
        return {leaf: self._new(i, leaf, phi=True) if leaf in phis else v for leaf, v in start.items()}

    def _branches(self, i: HloInstruction) -> Values:
        results = [self._visit(c, [self.at[o]]) for c, o in zip(i.called_computations, i.operands[1:], strict=True)]
        return {
            leaf: v if self._ssa_form and all(r[leaf] is v for r in results) else self._new(i, leaf, phi=True)
            for leaf, v in results[0].items()
        }

    def _all_new(self, i: HloInstruction) -> Values:
        return {leaf: self._new(i, leaf, phi=False) for leaf, _ in i.shape.leaves()}

    def _new(self, i: HloInstruction, leaf: Leaf, *, phi: bool) -> HloValue:
        key = (i, leaf, phi)
        found = self._defined.get(key)
        if found is None:
            found = self._defined[key] = HloValue(i, leaf, phi)
        return found

    def _link(self) -> None:
        """Record uses, and the computations that return values."""
        for i, values in self.at.items():
            if i.is_root:
                for v in values.values():
                    v.live_out.add(i.parent)
            if i.opcode in FORWARDING or i.opcode in (O.TUPLE, O.GET_TUPLE_ELEMENT):
                continue
            for n, o in enumerate(i.operands):
                for leaf, v in self.at[o].items():
                    v.uses.append(HloUse(i, n, leaf))


def is_squeeze(i: HloInstruction) -> bool:
    """Whether it is a reshape or bitcast that only adds or drops dimensions of size 1."""
    if i.opcode is not O.BITCAST and not is_plain_reshape(i):
        return False
    given, made = i.operands[0].shape, i.shape
    if not isinstance(given, ArrayShape) or not isinstance(made, ArrayShape):
        return False
    return given.element_type is made.element_type and _without_ones(given) == _without_ones(made)


def _without_ones(s: ArrayShape) -> tuple[list[int], list[int]]:
    """The sizes that are not 1, and their order in memory."""
    long = long_dimensions(s)
    return [s.dimensions[d] for d in long], [long.index(d) for d in memory_order(s)]


def is_plain_reshape(i: HloInstruction) -> bool:
    """Whether a reshape moves no bytes: row-major on both sides, and not dynamic.

    The sizes of a dynamic array are stored after its elements.
    """
    if i.opcode is not O.RESHAPE or involves_dynamic(i):
        return False
    a, b = i.operands[0].shape, i.shape
    return isinstance(a, ArrayShape) and isinstance(b, ArrayShape) and _row_major(a) and _row_major(b)


def _row_major(shape: ArrayShape) -> bool:
    return all(a > b for a, b in pairwise(memory_order(shape)))


def buffers(dataflow: HloDataflowAnalysis) -> list[list[HloValue]]:
    """The values of a module, grouped by the buffer that they must share.

    Values share a buffer that a loop carries, that the branches of a conditional return, or that
    are updated in place.
    """
    parent: dict[HloValue, HloValue] = {v: v for v in dataflow.values}

    def find(v: HloValue) -> HloValue:
        while parent[v] is not v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for i in dataflow.at:
        for a, b in _tied(dataflow, i):
            parent[find(b)] = find(a)
    groups: dict[HloValue, list[HloValue]] = {}
    for v in parent:
        groups.setdefault(find(v), []).append(v)
    return list(groups.values())


def _tied(dataflow: HloDataflowAnalysis, i: HloInstruction) -> Iterator[tuple[HloValue, HloValue]]:
    """Pairs of values that `i` requires to share a buffer."""
    at = dataflow.at
    if i.opcode is O.WHILE:
        body, condition = i.attributes["body"], i.attributes["condition"]
        for other in (i, body.parameters[0], condition.parameters[0], body.root):
            for leaf, v in at[i.operands[0]].items():
                yield v, at[other][leaf]
    elif i.opcode is O.CONDITIONAL:
        for c in i.called_computations:
            for leaf, v in at[i].items():
                yield v, at[c.root][leaf]
    else:
        for number, leaf in in_place_pairs(i):
            yield at[i.operands[number]][()], at[i][leaf]


def _parameter_of(i: HloInstruction) -> int | None:
    """The number of the parameter behind bitcasts, or None."""
    while i.opcode is O.BITCAST:
        i = i.operands[0]
    return i.parameter_number if i.opcode is O.PARAMETER else None


def in_place_pairs(i: HloInstruction) -> list[tuple[int, Leaf]]:
    """(operand, leaf of the result) pairs that share memory.

    They come from a dynamic-update-slice or scatter, also as (part of) the root of a fusion, and
    from aliasing attributes. Source: HloDataflowAnalysis::GetInPlaceInputOutputPairs.
    """
    if i.opcode is O.DYNAMIC_UPDATE_SLICE:
        return [(0, ())]
    if i.opcode is O.SCATTER:
        n = len(i.operands) // 2
        return [(k, (k,) if n > 1 else ()) for k in range(n)]
    given = i.attributes.get("output_to_operand_aliasing")
    if given:
        return [(a.parameter, a.result_leaf) for a in parse_aliases(given) if not a.parameter_leaf]
    if i.opcode is not O.FUSION:
        return []
    root = i.fused_computation.root
    many = root.opcode is O.TUPLE
    pairs: list[tuple[int, Leaf]] = []
    for k, r in enumerate(root.operands if many else (root,)):
        while r.opcode is O.BITCAST:
            r = r.operands[0]
        if r.opcode is O.SCATTER and r.shape.is_tuple:
            if not many:  # only arrays that are not in nested tuples
                updated = [_parameter_of(o) for o in r.operands[: len(r.operands) // 2]]
                pairs += [(number, (m,)) for m, number in enumerate(updated) if number is not None]
        elif r.opcode in (O.DYNAMIC_UPDATE_SLICE, O.SCATTER):
            parameter = _parameter_of(r.operands[0])
            if parameter is not None:
                pairs.append((parameter, (k,) if many else ()))
    return pairs


def can_share(use: HloUse, value: HloValue) -> bool:
    """Whether the user at `use` may write its result `value` over the operand it reads.

    Source: CanShareOperandBufferWithUser.
    """
    i, operand = use.instruction, use.instruction.operands[use.number]
    if use.leaf or not operand.shape.is_array or operand.shape != _shape_at(i, value.leaf):
        return False
    if i.opcode is O.FUSION:
        if (use.number, value.leaf) in in_place_pairs(i):
            return True
        return _used_elementwise(i.fused_computation.parameters[use.number])
    if i.opcode in (O.DYNAMIC_UPDATE_SLICE, O.SCATTER, O.CUSTOM_CALL):
        return (use.number, value.leaf) in in_place_pairs(i) and i.operands.count(operand) == 1
    return is_elementwise(i)


def _shape_at(i: HloInstruction, leaf: Leaf) -> object:
    return next((s for at, s in i.shape.leaves() if at == leaf), None)


def _used_elementwise(parameter: HloInstruction) -> bool:
    todo, seen = [parameter], {parameter}
    while todo:
        for u in todo.pop().users:
            if u in seen:
                continue
            if u.opcode is not O.TUPLE and not is_elementwise(u):
                return False
            seen.add(u)
            todo.append(u)
    return True
