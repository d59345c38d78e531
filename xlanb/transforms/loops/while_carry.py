"""The elements that a while loop carries, for simplify-while-loops.

Which elements are needed, and copies of its computations over other tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.inlining import copy_body


def element(value: HloInstruction, index: int) -> HloInstruction:
    """Add a get-tuple-element of a tuple."""
    return value.parent.add(O.GET_TUPLE_ELEMENT, (value,), index=index)


def reads_elements_only(loop: HloInstruction) -> bool:
    """Whether body and condition read their parameter only through get-tuple-element."""
    parameters = [c.parameters[0] for c in (loop.attributes["body"], loop.attributes["condition"])]
    return all(not p.is_root and all(u.opcode is O.GET_TUPLE_ELEMENT for u in p.users) for p in parameters)


# -- what is needed --------------------------------------------------------------------------------


def removable_elements(loop: HloInstruction) -> set[int]:
    """Elements that the loop need not carry.

    An element alone is removable if it is unused after the loop and affects no other element; a
    group is if each is unused after the loop or passed through unchanged. Elements on which the
    condition or a side effect depends stay in either case.
    """
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    root: HloInstruction = body.root
    count = len(root.operands)
    used = _used_after(loop, count)
    inputs = {c: _inputs(c) for c in (body, condition)}
    needed = set(inputs[condition].get(condition.root, frozenset()))
    for c in (body, condition):
        for i in c.instructions:
            if i is not root and i.has_side_effect:
                needed |= inputs[c][i]
    shared = {n for k, o in enumerate(root.operands) for n in inputs[body][o] if n != k}
    dead = {n for n in range(count) if n not in used and n not in shared and n not in needed}
    kept_by = {n for n in used if not _passed_through(body, n)} | needed
    for group in _groups(body, condition):
        if not group & kept_by:
            dead |= group
    return dead


def _used_after(loop: HloInstruction, count: int) -> set[int]:
    if loop.is_root or any(u.opcode is not O.GET_TUPLE_ELEMENT for u in loop.users):
        return set(range(count))
    return {u.tuple_index for u in loop.users}


def _passed_through(body: HloComputation, n: int) -> bool:
    given = body.root.operands[n]
    return given.opcode is O.GET_TUPLE_ELEMENT and given.operands[0] is body.parameters[0] and given.tuple_index == n


def _inputs(c: HloComputation) -> dict[HloInstruction, frozenset[int]]:
    """The elements of the parameter that each instruction depends on within one iteration."""
    parameter, found = c.parameters[0], dict[HloInstruction, frozenset[int]]()
    for i in c.post_order():
        if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is parameter:
            found[i] = frozenset((i.tuple_index,))
        elif len(i.operands) == 1:
            found[i] = found[i.operands[0]]
        else:
            found[i] = frozenset().union(*(found[o] for o in i.operands))
    return found


def _groups(body: HloComputation, condition: HloComputation) -> Iterator[set[int]]:
    """Connected components of elements, by dependencies in either direction."""
    root = body.root
    parent: dict[HloInstruction, HloInstruction] = {}

    def find(i: HloInstruction) -> HloInstruction:
        while parent.setdefault(i, i) is not i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for c in (body, condition):
        parameter = c.parameters[0]
        for i in c.instructions:
            if i is root or i is parameter:
                continue
            reads = i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is parameter
            for o in (root.operands[i.tuple_index],) if reads else i.operands:
                if o is not parameter:
                    parent[find(i)] = find(o)
    groups: dict[HloInstruction, set[int]] = {}
    for n, o in enumerate(root.operands):
        groups.setdefault(find(o), set()).add(n)
    for c in (body, condition):
        for u in c.parameters[0].users:
            if u is not root:
                groups.setdefault(find(u), set()).add(u.tuple_index)
    yield from groups.values()


# -- other tuples ----------------------------------------------------------------------------------


def with_elements(source: HloComputation, shape: Shape, places: Mapping[int, int], *, is_body: bool) -> HloComputation:
    """A copy of a body or condition over a tuple of fewer elements.

    `places` maps each remaining element to its new index. Instructions that depend on the removed
    elements are left out.
    """
    new = source.module.add_computation(source.name)
    old = source.parameters[0]
    p = new.add(O.PARAMETER, (), shape, name=old.name, parameter_number=0)
    done: dict[HloInstruction, HloInstruction | None] = {old: p}
    for i in source.post_order():
        if i is old or (is_body and i is source.root):
            continue
        if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is old:
            place = places.get(i.tuple_index)
            done[i] = None if place is None else new.clone_instruction(i, (p,))
            if place is not None and place != i.tuple_index:
                new.update(_there(done[i]), attributes={"index": place})
        elif any(done[o] is None for o in i.operands):
            done[i] = None
        else:
            done[i] = copy = new.clone_instruction(i, [_there(done[o]) for o in i.operands])
            for q in i.control_predecessors:
                before = done[q]
                if before is not None:
                    new.add_control_dependency(before, copy)
    root = source.root
    if is_body:
        new.set_root(new.add(O.TUPLE, [_there(done[root.operands[n]]) for n in places], shape, like=root))
    else:
        new.set_root(_there(done[root]))
    return new


def _there(i: HloInstruction | None) -> HloInstruction:
    if i is None:
        raise AssertionError("the elements kept in a loop must not depend on the elements removed")
    return i


def rewritten(
    source: HloComputation,
    shape: Shape,
    to_old: Callable[[HloInstruction], HloInstruction],
    to_new: Callable[[HloInstruction, HloInstruction], HloInstruction],
) -> HloComputation:
    """A copy of a body or condition over another tuple.

    Args:
        source: the body or condition.
        shape: the new parameter's shape.
        to_old: returns the old parameter's value, given the new parameter.
        to_new: returns the new root, given the old root and the new parameter.
    """
    new = source.module.add_computation(source.name)
    p = new.add(O.PARAMETER, (), shape, name=source.parameters[0].name, parameter_number=0)
    root = copy_body(source, new, (to_old(p),), p)
    new.set_root(to_new(root, p))
    return new


def flattened(value: HloInstruction) -> HloInstruction:
    """A flat tuple of the leaves of a nested tuple."""
    leaves: list[HloInstruction] = []
    stack = [value]
    while stack:
        i = stack.pop()
        if isinstance(i.shape, TupleShape):
            stack.extend(element(i, n) for n in reversed(range(len(i.shape.shapes))))
        else:
            leaves.append(i)
    return value.parent.add(O.TUPLE, leaves, tuple_of([i.shape for i in leaves]))


def nested(flat: HloInstruction, shape: TupleShape) -> HloInstruction:
    """The nested tuple of a shape, from the flat tuple of its leaves."""
    leaves = iter(range(len(flat.shape.shapes))) if isinstance(flat.shape, TupleShape) else iter(())

    def build(s: Shape) -> HloInstruction:
        if not isinstance(s, TupleShape):
            return element(flat, next(leaves))
        return flat.parent.add(O.TUPLE, [build(t) for t in s.shapes], s)

    return build(shape)
