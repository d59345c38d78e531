"""Insert copies where two live values would share a buffer (xla/service/copy_insertion.h).

    while(tuple(x, y)), body={tuple(y', x')}
      =>  x and y copied at the beginning of the body or at its end, whichever is needed
    ENTRY { ROOT p = f32[4] parameter(0) }
      =>  ROOT c = copy(p)
    dynamic-update-slice(x, u, i) and add(x, x)
      =>  dynamic-update-slice(copy(x), u, i)

1. Copies separate all values that share memory: what a loop changes (copied before the loop and, in
   order, at the beginning and end of its body), results of a conditional's branches, operands that
   are updated in place, and results that alias parameters.
2. Each copy without which no two values are live in one buffer at once is removed.
3. Values that must not be written are copied: parameters and constants that share a buffer or are
   results, and results that occur twice.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.dataflow import HloDataflowAnalysis, HloValue, Leaf, buffers, in_place_pairs
from xlanb.analysis.input_output_alias import Alias, read_aliases
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import TupleShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.calls.flatten_call_graph import FlattenCallGraph
from xlanb.transforms.copies.copy_removal import remove_copies
from xlanb.transforms.reason import reason
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.simplifiers.tuple_simplifier import TupleSimplifier

Copies = dict[Leaf, HloInstruction]


class CopyInsertion(HloPass):
    """Adds the copies that loops, conditionals and in-place updates need to share buffers."""

    name = "copy-insertion"

    def apply(self, module: HloModule) -> None:
        if _shares_sequences(module):
            FlattenCallGraph().apply(module)
        aliases = read_aliases(module)
        version = module.version
        _separate_all(module)
        _separate_aliases(module.entry_computation, aliases)
        if module.version != version:
            TupleSimplifier().apply(module)
            HloDce().apply(module)
        remove_copies(module, [(a.parameter, a.parameter_leaf, a.result_leaf) for a in aliases])
        version = module.version
        _copy_what_is_not_ours(module, aliases)
        if module.version != version:
            TupleSimplifier().apply(module)
            HloDce().apply(module)


def _shares_sequences(module: HloModule) -> bool:
    """Whether the body of a loop, branch or call has another caller.

    Reducers and the like have no buffers, so they may be shared.
    """
    graph = CallGraph(module)
    sites = (s for sites in graph.sites.values() for s in sites if s.is_control)
    return any(len(graph.callers[c]) > 1 or s.computations.count(c) > 1 for s in sites for c in s.computations)


def deep_copy(
    i: HloInstruction, wanted: Callable[[Leaf], bool] = lambda _: True, made: Copies | None = None, at: Leaf = ()
) -> HloInstruction:
    """Copy every array of a value, or the leaves that are `wanted`, and note the copies in `made`.

    Tokens are not copied.
    """
    c, shape = i.parent, i.shape
    if isinstance(shape, TupleShape):
        elements = [c.add(O.GET_TUPLE_ELEMENT, (i,), index=n) for n in range(len(shape.shapes))]
        return c.add(O.TUPLE, [deep_copy(e, wanted, made, (*at, n)) for n, e in enumerate(elements)], shape)
    if not shape.is_array or not wanted(at):
        return i
    copy = c.add(O.COPY, (i,), shape)
    if made is not None:
        made[at] = copy
    return copy


def _separate_all(module: HloModule) -> None:
    dataflow = HloDataflowAnalysis(module)
    for c in module.post_order():
        for i in c.post_order():
            if i not in dataflow.at:
                continue
            if i.opcode is O.WHILE:
                _separate_loop(dataflow, i)
            elif i.opcode is O.CONDITIONAL:
                _separate_branches(dataflow, i)
            _separate_updated(i)


@reason("copy before an in-place update, for users of the old value")
def _separate_updated(i: HloInstruction) -> None:
    for n in dict.fromkeys(n for n, _ in in_place_pairs(i)):
        i.parent.replace_operand(i, n, deep_copy(i.operands[n]))


@reason("a loop updates its state in place: copied before the loop and at the end of its body")
def _separate_loop(dataflow: HloDataflowAnalysis, loop: HloInstruction) -> None:
    start, body = loop.operands[0], loop.attributes["body"]
    before = dataflow.at[start]
    changed = {leaf for leaf, v in dataflow.at[loop].items() if v is not before[leaf]}
    if not changed:
        return
    loop.parent.replace_operand(loop, 0, deep_copy(start, changed.__contains__))
    _separate_ends(body, body.parameters[0], changed)


def _separate_ends(body: HloComputation, parameter: HloInstruction, changed: set[Leaf]) -> None:
    """Add copies at the beginning and the end of a body, each end after its beginning."""
    early, late = Copies(), Copies()
    users = parameter.users
    root = body.root
    inside = deep_copy(parameter, changed.__contains__, early)
    body.replace_uses(parameter, inside, users=users)
    if root is parameter:
        root = inside
    body.set_root(deep_copy(root, changed.__contains__, late))
    for leaf, copy in late.items():
        body.add_control_dependency(early[leaf], copy)


@reason("branches return their results in the same buffers: each branch copies those that differ")
def _separate_branches(dataflow: HloDataflowAnalysis, i: HloInstruction) -> None:
    differing = {leaf for leaf, v in dataflow.at[i].items() if v.is_phi and v.instruction is i}
    if differing:
        for c in i.called_computations:
            c.set_root(deep_copy(c.root, differing.__contains__))


@reason("a parameter and a result share memory: copied between reading one and writing the other")
def _separate_aliases(entry: HloComputation, aliases: list[Alias]) -> None:
    """Add copies at aliased parameters and results."""
    if not aliases:
        return
    early: dict[int, Copies] = {}
    for p in entry.parameters:
        leaves = {a.parameter_leaf for a in aliases if a.parameter == p.parameter_number}
        if leaves:
            users, was_root = p.users, p.is_root
            copy = deep_copy(p, leaves.__contains__, early.setdefault(p.parameter_number, {}))
            entry.replace_uses(p, copy, users=users)
            if was_root:
                entry.set_root(copy)
    late = Copies()
    results = {a.result_leaf for a in aliases}
    entry.set_root(deep_copy(entry.root, results.__contains__, late))
    for a in aliases:
        before, after = early[a.parameter].get(a.parameter_leaf), late.get(a.result_leaf)
        if before is not None and after is not None:
            entry.add_control_dependency(before, after)


@reason("constants and parameters must not be written, and results must not alias")
def _copy_what_is_not_ours(module: HloModule, aliases: list[Alias]) -> None:
    dataflow = HloDataflowAnalysis(module)
    donated = {(a.parameter, a.parameter_leaf) for a in aliases}
    wanted: dict[HloInstruction, set[Leaf]] = {}

    def is_read_only(v: HloValue) -> bool:
        if v.instruction.opcode is O.CONSTANT:
            return True
        return v.is_entry_parameter and (v.instruction.parameter_number, v.leaf) not in donated

    shared = buffers(dataflow)
    group = {v: n for n, values in enumerate(shared) for v in values}
    for values in shared:
        for v in values:
            if len(values) > 1 and is_read_only(v):
                wanted.setdefault(v.instruction, set()).add(v.leaf)
    root, seen = module.entry_computation.root, set()
    for leaf, v in dataflow.at[root].items():
        if is_read_only(v) or group[v] in seen:
            wanted.setdefault(root, set()).add(leaf)
        seen.add(group[v])
    for i, leaves in wanted.items():
        users, was_root = i.users, i.is_root
        copy = deep_copy(i, leaves.__contains__)
        if copy is not i:
            i.parent.replace_uses(i, copy, users=users)
            if was_root:
                i.parent.set_root(copy)
