"""Remove or inline loops that run at most once; remove unused loop-carried values.

while(tuple(x, x)) that passes both on unchanged         =>  while(tuple(x))
while(tuple((a, b), c))                                  =>  while(tuple(a, b, c))
while(tuple(i, x, unused))                               =>  while(tuple(i, x))
while(tuple(i, c)) whose body returns the constant c     =>  while(tuple(i)) over c
while(tuple(i, c)) that passes the constant scalar c on  =>  its body uses c itself
while(t) with trip count 0                               =>  t
while(t) with trip count 1                               =>  body(t)
while(tuple(i, j)), i counts from 0 by 1 and j by C      =>  only i counts: j is start + i * C

The first that applies is applied, one at a time, as in XLA; the pipeline repeats the pass for the
rest. Source: xla/service/while_loop_simplifier.h, the pass simplify-while-loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from xlanb.analysis.while_loop import trip_count
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import inline_call
from xlanb.transforms.loops.while_carry import (
    element,
    flattened,
    nested,
    reads_elements_only,
    removable_elements,
    rewritten,
    with_elements,
)
from xlanb.transforms.reason import reason
from xlanb.transforms.simplifiers.hlo_dce import HloDce

_COUNTERS = (
    PrimitiveType.S8,
    PrimitiveType.U8,
    PrimitiveType.S32,
    PrimitiveType.U32,
    PrimitiveType.S64,
    PrimitiveType.U64,
)
_SKIP_ONCE = ("skip-simplify-while-loops_trip-count-one", "true")


class WhileLoopSimplifier(HloPass):
    """Removes, inlines and narrows while loops, and simplifies their counters.

    A loop's computations must have no other caller.
    """

    name = "simplify-while-loops"
    triggers = frozenset((O.WHILE,))

    def apply(self, module: HloModule) -> None:
        loops = [i for c in module.computations for i in c.instructions if i.opcode is O.WHILE]
        if not loops:
            return
        callers = Counter(d for i in module.instructions() for d in i.called_computations)
        changed = False
        for i in loops:
            if i in i.parent and max(callers[i.attributes["body"]], callers[i.attributes["condition"]]) <= 1:
                changed |= _simplify(i)
        if changed:
            HloDce().apply(module)


def _simplify(loop: HloInstruction) -> bool:
    if loop.control_predecessors or loop.control_successors:
        return _propagate_constants(loop)
    if any(step(loop) for step in (_merge_repeated, _flatten, _drop_dead, _drop_constants)):
        return True
    if _exchanges(loop):
        return False
    propagated = _propagate_constants(loop)
    return _remove_loop(loop) or _merge_counters(loop) or propagated


def _exchanges(loop: HloInstruction) -> bool:
    """Whether the loop contains a send or receive."""
    exchanging = (O.SEND, O.SEND_DONE, O.RECV, O.RECV_DONE)
    pending = list(loop.called_computations)
    seen = set(pending)
    while pending:
        for i in pending.pop().instructions:
            if i.opcode in exchanging:
                return True
            new = [c for c in i.called_computations if c not in seen]
            seen.update(new)
            pending.extend(new)
    return False


def _body(loop: HloInstruction) -> HloComputation:
    found: HloComputation = loop.attributes["body"]
    return found


def _condition(loop: HloInstruction) -> HloComputation:
    found: HloComputation = loop.attributes["condition"]
    return found


def _is_of_tuples(loop: HloInstruction) -> bool:
    return loop.operands[0].opcode is O.TUPLE and _body(loop).root.opcode is O.TUPLE


def _passes_through(loop: HloInstruction, index: int) -> bool:
    given, parameter = _body(loop).root.operands[index], _body(loop).parameters[0]
    return given.opcode is O.GET_TUPLE_ELEMENT and given.operands[0] is parameter and given.tuple_index == index


# -- elements that are not needed ------------------------------------------------------------------


@reason("loop-carried elements that are always equal are carried once")
def _merge_repeated(loop: HloInstruction) -> bool:
    """Carry only one of several elements that start equal and stay equal.

    They are passed on unchanged, or updated at the same position with the same value.
    """
    if not _is_of_tuples(loop) or not reads_elements_only(loop):
        return False
    start = loop.operands[0].operands
    stay = _repeats((start[n], n) for n in range(len(start)) if _passes_through(loop, n))
    narrow = _without_repeats(loop, stay, result_of_survivor=False) if stay else loop
    root, start = _body(narrow).root, narrow.operands[0].operands
    updates = [
        ((start[n], *o.operands[1:]), n)
        for n, o in enumerate(root.operands)
        if o.opcode is O.DYNAMIC_UPDATE_SLICE and _reads(o.operands[0], _body(narrow).parameters[0], n)
    ]
    same = _repeats(updates)
    if same:
        narrow = _without_repeats(narrow, same, result_of_survivor=True)
    return narrow is not loop


def _reads(i: HloInstruction, parameter: HloInstruction, index: int) -> bool:
    return i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is parameter and i.tuple_index == index


def _repeats(keyed: Iterable[tuple[object, int]]) -> dict[int, int]:
    """Map the indices of later elements with a key to the index of the first."""
    first: dict[object, int] = {}
    return {n: first[key] for key, n in keyed if first.setdefault(key, n) != n}


def _without_repeats(loop: HloInstruction, survivor: Mapping[int, int], *, result_of_survivor: bool) -> HloInstruction:
    for c in (_body(loop), _condition(loop)):
        parameter = c.parameters[0]
        new: dict[int, HloInstruction] = {}
        for u in parameter.users:
            kept = survivor.get(u.tuple_index)
            if kept is not None:
                if kept not in new:
                    new[kept] = element(parameter, kept)
                c.replace_uses(u, new[kept])
                c.remove_dead(u)
    live = [n for n in range(len(_tuple(loop).shapes)) if n not in survivor]
    return _narrowed(loop, live, survivor if result_of_survivor else {})


@reason("an unused element is not carried")
def _drop_dead(loop: HloInstruction) -> bool:
    """Remove elements that the condition, side effects and users of the loop do not need."""
    if (
        not isinstance(loop.shape, TupleShape)
        or _body(loop).root.opcode is not O.TUPLE
        or not loop.shape.shapes
        or not reads_elements_only(loop)
    ):
        return False
    dead = removable_elements(loop)
    live = [n for n in range(len(loop.shape.shapes)) if n not in dead]
    if not dead or not live:
        return False
    _narrowed(loop, live, {})
    return True


def _narrowed(loop: HloInstruction, live: list[int], survivor: Mapping[int, int]) -> HloInstruction:
    """The loop over the `live` elements only.

    Users of another element get its initial value, or the result of its survivor.
    """
    parent, start, old = loop.parent, loop.operands[0], _tuple(loop)
    shape = tuple_of([old.shapes[n] for n in live])
    places = {n: k for k, n in enumerate(live)}
    condition = with_elements(_condition(loop), shape, places, is_body=False)
    body = with_elements(_body(loop), shape, places, is_body=True)
    first = parent.add(O.TUPLE, [_start(start, n) for n in live], shape)
    new = _like(loop, first, body, condition)
    parts = [
        element(new, places[survivor.get(n, n)]) if survivor.get(n, n) in places else element(start, n)
        for n in range(len(old.shapes))
    ]
    _take_place(loop, parent.add(O.TUPLE, parts, old))
    return new


def _start(start: HloInstruction, n: int) -> HloInstruction:
    return start.operands[n] if start.opcode is O.TUPLE else element(start, n)


def _tuple(loop: HloInstruction) -> TupleShape:
    shape = loop.shape
    if not isinstance(shape, TupleShape):
        raise TypeError(f"{loop.name} does not carry a tuple")
    return shape


def _like(
    loop: HloInstruction, start: HloInstruction, body: HloComputation, condition: HloComputation
) -> HloInstruction:
    new = loop.parent.clone_instruction(loop, (start,), start.shape)
    new.parent.update(new, attributes={"body": body, "condition": condition})
    return new


def _take_place(loop: HloInstruction, result: HloInstruction) -> None:
    parent, operands = loop.parent, loop.operands
    parent.replace_uses(loop, result)
    # The new loop has its side effects.
    parent.remove(loop)
    for o in operands:
        parent.remove_dead(o)


# -- constants -------------------------------------------------------------------------------------


@reason("a constant element is not carried")
def _drop_constants(loop: HloInstruction) -> bool:
    """Stop carrying elements that start as a constant and stay the same constant."""
    if not _is_of_tuples(loop):
        return False
    start = loop.operands[0].operands
    same = {
        k: first
        for k, (first, again) in enumerate(zip(start, _body(loop).root.operands, strict=True))
        if first.opcode is O.CONSTANT and again.opcode is O.CONSTANT and first.literal == again.literal
    }
    if not same:
        return False
    if len(same) == len(start):
        _take_place(loop, loop.operands[0])
        return True
    old = _tuple(loop)
    live = [n for n in range(len(start)) if n not in same]
    shape = tuple_of([old.shapes[n] for n in live])

    def wide(narrow: HloInstruction) -> HloInstruction:
        c = narrow.parent
        parts = [
            (same[n] if c is loop.parent else c.clone_instruction(same[n]))
            if n in same
            else element(narrow, live.index(n))
            for n in range(len(start))
        ]
        return c.add(O.TUPLE, parts, old)

    def narrowed(full: HloInstruction) -> HloInstruction:
        return full.parent.add(O.TUPLE, [element(full, n) for n in live], shape)

    _rebuilt(loop, shape, wide, lambda root, _: narrowed(root), narrowed(loop.operands[0]))
    return True


def _rebuilt(
    loop: HloInstruction,
    shape: Shape,
    to_old: Callable[[HloInstruction], HloInstruction],
    to_new: Callable[[HloInstruction, HloInstruction], HloInstruction],
    start: HloInstruction,
) -> HloInstruction:
    """The loop over another tuple.

    Args:
        loop: the old loop.
        shape: the new tuple's shape.
        to_old: returns the old tuple, given the new one.
        to_new: returns the new tuple, given the body's old root and its new parameter.
        start: the initial value.
    """
    condition = rewritten(_condition(loop), shape, to_old, lambda root, _: root)
    body = rewritten(_body(loop), shape, to_old, to_new)
    new = _like(loop, start, body, condition)
    _take_place(loop, to_old(new))
    return new


@reason("an element that stays constant is replaced by the constant in the loop")
def _propagate_constants(loop: HloInstruction) -> bool:
    """Use a scalar constant that the loop passes on unchanged directly in body and condition."""
    if not _is_of_tuples(loop):
        return False
    start = loop.operands[0].operands
    constants = {
        n: i
        for n, i in enumerate(start)
        if i.opcode is O.CONSTANT and i.array_shape.is_scalar and _passes_through(loop, n)
    }
    changed = False
    for c in (_condition(loop), _body(loop)) if constants else ():
        for u in c.parameters[0].users:
            if u.opcode is O.GET_TUPLE_ELEMENT and u.tuple_index in constants:
                c.replace_uses(u, c.clone_instruction(constants[u.tuple_index]))
                changed = True
    return changed


# -- nested tuples ---------------------------------------------------------------------------------


@reason("a nested tuple is flattened")
def _flatten(loop: HloInstruction) -> bool:
    """Carry the leaves of a nested tuple."""
    if not _is_of_tuples(loop):
        return False
    old = _tuple(loop)
    if not any(isinstance(s, TupleShape) for s in old.shapes):
        return False
    start = flattened(loop.operands[0])
    _rebuilt(loop, start.shape, lambda flat: nested(flat, old), lambda root, _: flattened(root), start)
    return True


# -- loops that run never or once ------------------------------------------------------------------


@reason("a loop with trip count 0 or 1 is removed")
def _remove_loop(loop: HloInstruction) -> bool:
    count = trip_count(loop)
    if count is None or count > 1 or any(i.has_side_effect for i in _condition(loop).instructions):
        return False
    if count == 0:
        _take_place(loop, loop.operands[0])
        return True
    if _SKIP_ONCE in loop.frontend_attributes:
        return False
    if any(i.has_side_effect for i in _body(loop).instructions):
        return False
    inline_call(loop, _body(loop))
    return True


# -- counters --------------------------------------------------------------------------------------


@reason("equal induction variables are merged")
def _merge_counters(loop: HloInstruction) -> bool:
    """Replace elements that only grow by a constant by one trip counter per type."""
    merged = False
    for element_type in _COUNTERS:
        new = _merge_counters_of(loop, element_type)
        if new is not None:
            loop, merged = new, True
    return merged


def _merge_counters_of(loop: HloInstruction, element_type: PrimitiveType) -> HloInstruction | None:
    if not _is_of_tuples(loop):
        return None
    steps = {
        n: c for n, o in enumerate(_body(loop).root.operands) if (c := _step(loop, n, o, element_type)) is not None
    }
    start = loop.operands[0]
    trip = next((n for n, c in steps.items() if _is(c, 1) and _is(start.operands[n], 0)), None)
    counters = {n: c for n, c in steps.items() if n != trip}
    if len(steps) < 2:
        return None
    old = _tuple(loop)
    is_new = trip is None
    counter = len(old.shapes) if trip is None else trip
    scalar = next(iter(counters.values())).array_shape
    shape = tuple_of((*old.shapes, scalar)) if is_new else old

    def to_old(new: HloInstruction) -> HloInstruction:
        c = new.parent
        parts = [
            element(new, n)
            if n not in counters
            else _sum(element(new, n), element(new, counter), c.clone_instruction(counters[n]))
            for n in range(len(old.shapes))
        ]
        return c.add(O.TUPLE, parts, old)

    def to_new(root: HloInstruction, parameter: HloInstruction) -> HloInstruction:
        c = root.parent
        parts = [element(parameter if n in counters else root, n) for n in range(len(old.shapes))]
        if is_new:
            one = c.constant(scalar.element_type.dtype.type(1))
            parts.append(c.add(O.ADD, (element(parameter, counter), one), scalar))
        return c.add(O.TUPLE, parts, shape)

    if is_new:
        parts = [element(start, n) for n in range(len(old.shapes))]
        start = loop.parent.add(O.TUPLE, (*parts, loop.parent.constant(scalar.element_type.dtype.type(0))), shape)
    return _rebuilt(loop, shape, to_old, to_new, start)


def _step(loop: HloInstruction, n: int, given: HloInstruction, element_type: PrimitiveType) -> HloInstruction | None:
    """The scalar constant added to an element in each iteration; None if it changes otherwise."""
    if given.opcode is not O.ADD or given.array_shape.element_type is not element_type:
        return None
    parameter = _body(loop).parameters[0]
    for value, step in (given.operands, given.operands[::-1]):
        if _reads(value, parameter, n) and step.opcode is O.CONSTANT and step.array_shape.is_scalar:
            return step
    return None


def _is(i: HloInstruction, value: int) -> bool:
    return i.opcode is O.CONSTANT and not i.literal.is_elided and bool((i.literal.array == value).all())


def _sum(first: HloInstruction, counter: HloInstruction, step: HloInstruction) -> HloInstruction:
    """first + counter * step, in the shape of `first`."""
    c = first.parent
    return c.add(O.ADD, (first, c.add(O.MULTIPLY, (counter, step), first.shape)), first.shape)
