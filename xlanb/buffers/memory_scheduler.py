"""Memory schedulers: choose the one of three orders that needs the least memory.

post order        operands just before their users
larger first      the same, but first the operand whose computation needs more memory, so that
                  small results are not live at that time
list scheduling   among the ready instructions, the one that frees the most bytes (those of
                  operands with no later use, minus those of its result)
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from xlanb.analysis.call_graph import CallGraph
from xlanb.errors import CompilationError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op

Order = list[HloInstruction]
_NO_BYTES = frozenset({Op.PARAMETER, Op.CONSTANT, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.BITCAST, Op.WHILE, Op.AFTER_ALL})
_NO_CODE = _NO_BYTES - {Op.WHILE}
LIST_SCHEDULING_LIMIT = 3000
"""With more instructions than this, only the post order is tried."""


def schedule_module(module: HloModule) -> dict[HloComputation, Order]:
    """An order for each computation.

    A valid order that the module already has (is_scheduled=true) is kept. For computations that do
    not run as sequences (bodies of fusions) any order is valid.
    """
    orders: dict[HloComputation, Order] = {}
    graph = CallGraph(module)
    for c in module.computations:
        given = _given(c)
        if given is None:
            given = schedule_computation(c) if graph.is_control(c) else _parameters_first(c.post_order())
        orders[c] = given
    return orders


def _given(c: HloComputation) -> Order | None:
    given = c.module.schedule.get(c)
    return list(given) if given is not None and _is_order(c, given) else None


def candidates(computation: HloComputation) -> list[Order]:
    """The distinct orders, parameters first, sorted by memory; only the module's own if it has one.

    Raises:
        CompilationError: control dependencies form a cycle.
    """
    given = _given(computation)
    if given is not None:
        return [given]
    found = {tuple(order): order for order in _orders(computation)}
    return sorted(found.values(), key=lambda order: peak_bytes(computation, order))


def schedule_computation(computation: HloComputation) -> Order:
    """The order of one computation with the lowest peak; parameters first.

    Raises:
        CompilationError: control dependencies form a cycle.
    """
    orders = _orders(computation)
    return orders[0] if len(orders) == 1 else min(orders, key=lambda order: peak_bytes(computation, order))


def _orders(computation: HloComputation) -> list[Order]:
    post = _parameters_first(computation.post_order())
    if len(post) > LIST_SCHEDULING_LIMIT or sum(i.opcode not in _NO_CODE for i in post) < 2:
        return [post]
    listed = _parameters_first(_list_schedule(computation, post))
    if len(listed) != len(post):
        stuck = "\n".join(f"  {i}" for i in post if i not in set(listed) and i.control_predecessors)
        raise CompilationError(f"control dependencies in {computation.name} form a cycle:\n{stuck}")
    return [post, _parameters_first(_larger_first(computation, post)), listed]


def peak_bytes(computation: HloComputation, order: Sequence[HloInstruction]) -> int:
    """The most bytes of results that are live at one time in an order.

    Parameters, constants and results that only alias others are not counted.
    """
    left = {i: i.user_count + (1 if i is computation.root else 0) for i in order}
    live = peak = 0
    for i in order:
        live += _bytes(i)
        peak = max(peak, live)
        for o in set(i.operands):
            left[o] -= 1
            if left[o] == 0:
                live -= _bytes(o)
    return peak


def _bytes(i: HloInstruction) -> int:
    return 0 if i.opcode in _NO_BYTES else i.shape.byte_size


def _parameters_first(order: Order) -> Order:
    return sorted((i for i in order if i.opcode is Op.PARAMETER), key=lambda p: p.parameter_number) + [
        i for i in order if i.opcode is not Op.PARAMETER
    ]


def _is_order(computation: HloComputation, order: Sequence[HloInstruction]) -> bool:
    """Whether it has every instruction once, after its dependencies."""
    if len(order) != len(computation) or any(i not in computation for i in order):
        return False
    done: set[HloInstruction] = set()
    for i in order:
        if any(o not in done for o in (*i.operands, *i.control_predecessors)):
            return False
        done.add(i)
    return len(done) == len(order)


def _larger_first(computation: HloComputation, post: Order) -> Order:
    """Depth-first order, visiting first operands with more other users below, then more bytes.

    As XLA's DFSMemoryScheduler.
    """
    weight: dict[HloInstruction, tuple[int, int]] = {}
    limit = len(post)
    total = sum(_bytes(i) for i in post)
    for i in post:
        below = [
            weight[o] for o in {*i.operands, *i.control_predecessors} if o in weight
        ]  # parameters are ready from the start
        others = max(i.user_count - 1, 0) + sum(w[0] for w in below)
        weight[i] = min(others, limit), min(_bytes(i) + sum(w[1] for w in below), total)
    place = {i: k for k, i in enumerate(post)}
    order: Order = []
    done: set[HloInstruction] = set()
    for start in reversed([i for i in post if not i.users and not i.control_successors]):
        stack = [(start, False)]
        while stack:
            i, is_ready = stack.pop()
            if i in done:
                continue
            if is_ready:
                done.add(i)
                order.append(i)
                continue
            stack.append((i, True))
            rest = [o for o in {*i.operands, *i.control_predecessors} if o not in done]
            stack += [(o, False) for o in sorted(rest, key=lambda o: (weight[o], -place[o]))]
    return order


def _list_schedule(computation: HloComputation, post: Order) -> Order:
    place = {i: k for k, i in enumerate(post)}
    waits = {i: len({*i.operands, *i.control_predecessors}) for i in post}
    left = {i: i.user_count + (1 if i is computation.root else 0) for i in post}

    def freed(i: HloInstruction) -> int:
        return sum(_bytes(o) for o in set(i.operands) if left[o] == 1) - _bytes(i)

    ready = [(-freed(i), place[i], i) for i in post if not waits[i]]
    heapq.heapify(ready)
    order: Order = []
    done: set[HloInstruction] = set()
    while ready:
        cost, at, i = heapq.heappop(ready)
        if i in done:
            continue
        now = -freed(i)
        if now < cost:  # it frees more than when it was queued
            heapq.heappush(ready, (now, at, i))
            continue
        done.add(i)
        order.append(i)
        for o in set(i.operands):
            left[o] -= 1
            if left[o] == 1:  # its last user now frees more
                for u in o.users:
                    if u not in done and not waits[u]:
                        heapq.heappush(ready, (-freed(u), place[u], u))
        for u in {*i.users, *i.control_successors}:
            waits[u] -= 1
            if not waits[u]:
                heapq.heappush(ready, (-freed(u), place[u], u))
    return order
