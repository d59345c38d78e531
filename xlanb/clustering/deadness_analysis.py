"""TensorFlow's deadness_analysis.cc: when each output is alive, as a formula.

The nodes of one cluster must all be alive at the same time. Switch makes one output dead and Merge
forwards the live input. In a loop, the Merge at its head is a symbol at first; if the back edge is
that symbol and a condition, the head is the recurrence {start,&,condition}. First all heads of a
frame are assumed to be alive together; if that is inconsistent, each is analyzed alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from xlanb.clustering.control_flow import ControlFlowFrame, full_frame, root_frame
from xlanb.clustering.liveness_predicates import AND, AND_RECURRENCE, SYMBOL, Liveness, LivenessFactory
from xlanb.clustering.node_graph import (
    CONSTANT,
    CONTROL,
    ENTER,
    EXIT,
    MERGE,
    NEXT_ITERATION,
    SINK,
    SOURCE,
    SWITCH,
    Edge,
    NodeGraph,
)
from xlanb.errors import GraphValueError

_RECV = frozenset({"_Recv", "_HostRecv"})


class DeadnessAnalysis:
    """Formulas of all outputs of a graph.

    Raises:
        GraphValueError: a loop is malformed; the message names the node.
    """

    def __init__(self, graph: NodeGraph, frames: list[ControlFlowFrame]) -> None:
        self._graph = graph
        self._frames = frames
        self._factory = LivenessFactory()
        self._alive: dict[tuple[int, int], Liveness] = {}
        self._heads: dict[str, int] = {}
        order = self._order()
        for part in self._by_root_frame(order):
            is_loop = bool(root_frame(part[0], frames))
            if not (is_loop and self._populate(part, optimistic=True)):
                self._populate(part, optimistic=False)

    def of(self, node: int, port: int = CONTROL) -> Liveness:
        """When an output is alive; by default the node itself."""
        return self._alive[node, port]

    # ---------------------------------------------------------------------------------------- order

    def _order(self) -> list[int]:
        """Topological, each outermost loop in one piece."""
        graph = self._graph
        waiting = [len(edges) for edges in graph.in_edges]
        enters: dict[str, int] = {}
        exits: dict[str, int] = {}
        for node in graph.ids.values():
            if graph.is_(node, MERGE):
                waiting[node] -= sum(graph.is_(e.src, NEXT_ITERATION) for e in graph.in_edges[node])
            for counts, types in ((enters, ENTER), (exits, EXIT)):
                if self._is_at_root(node, types):
                    name = self._frames[node].name
                    counts[name] = counts.get(name, 0) + 1
        order, ready = [], deque([SOURCE])
        ready_enters: dict[str, list[int]] = {}
        ready_exits: list[int] = []
        while ready:
            node = ready.popleft()
            order.append(node)
            for out in self._released(node, waiting):
                if self._is_at_root(out, ENTER):
                    ready_enters.setdefault(self._frames[out].name, []).append(out)
                elif self._is_at_root(out, EXIT):
                    ready_exits.append(out)
                else:
                    ready.append(out)
            if not ready and ready_exits:
                ready.extend(ready_exits)
                ready_exits = []
            elif not ready:
                complete = next((n for n, nodes in ready_enters.items() if len(nodes) == enters[n]), None)
                ready.extend(ready_enters.pop(complete) if complete is not None else ())
        if ready_enters or ready_exits or len(order) < len(graph) - 1:
            self._complain(order)
        return order

    def _released(self, node: int, waiting: list[int]) -> Iterable[int]:
        for edge in self._graph.out_edges[node]:
            if edge.dst == SINK or (self._is_back_edge(edge)):
                continue
            waiting[edge.dst] -= 1
            if not waiting[edge.dst]:
                yield edge.dst

    def _is_back_edge(self, edge: Edge) -> bool:
        return self._graph.is_(edge.src, NEXT_ITERATION) and self._graph.is_(edge.dst, MERGE)

    def _is_at_root(self, node: int, types: frozenset[str]) -> bool:
        return self._graph.is_(node, types) and self._frames[node].parent == SOURCE

    def _complain(self, order: list[int]) -> None:
        left = sorted(set(self._graph.ids.values()) - set(order))
        names = ", ".join(repr(self._graph.name(n)) for n in left[:5])
        raise GraphValueError(f"malformed loops in the graph, some Enter or Exit nodes are unreachable: {names}")

    def _by_root_frame(self, order: list[int]) -> list[list[int]]:
        parts: list[list[int]] = []
        last = None
        for node in order:
            name = root_frame(node, self._frames)
            if name != last:
                parts.append([])
            parts[-1].append(node)
            last = name
        return parts

    # ------------------------------------------------------------------------------------- formulas

    def _populate(self, nodes: Sequence[int], *, optimistic: bool) -> bool:
        """Compute the formulas of one part; False, with no results, if the optimistic guess
        fails.
        """
        graph = self._graph
        again: set[int] = set()
        for node in nodes:
            self._visit(node, None, optimistic=optimistic)
            if graph.is_(node, NEXT_ITERATION):
                again.update(e.dst for e in graph.out_edges[node] if graph.is_(e.dst, MERGE))
        for node in nodes:
            if node in again:
                self._visit(node, again, optimistic=False)
        if optimistic and not self._converged(nodes):
            wanted = set(nodes)
            self._alive = {key: value for key, value in self._alive.items() if key[0] not in wanted}
            self._heads.clear()
            return False
        return True

    def _converged(self, nodes: Sequence[int]) -> bool:
        """Whether all heads of a frame came out as one and the same recurrence."""
        of_frame: dict[str, Liveness] = {}
        for node in nodes:
            if self._graph.is_(node, MERGE) and self._back_edge(node) is not None:
                found = self._alive[node, 0]
                if found.kind != AND_RECURRENCE or of_frame.setdefault(self._frames[node].name, found) is not found:
                    return False
        return True

    def _back_edge(self, merge: int) -> Edge | None:
        found = [e for e in self._graph.in_edges[merge] if self._graph.is_(e.src, NEXT_ITERATION)]
        if len(found) > 1:
            names = ", ".join(self._graph.name(e.src) for e in found)
            raise GraphValueError(f"{self._graph.op(merge).describe()} has several NextIteration inputs: {names}")
        return found[0] if found else None

    def _set(self, node: int, ports: Iterable[int], formula: Liveness, again: set[int] | None) -> None:
        for port in ports:
            known = self._alive.get((node, port))
            if known is formula:
                continue
            self._alive[node, port] = formula
            if known is not None and again is not None:
                again.update(e.dst for e in self._graph.out_edges[node])

    def _inputs(self, node: int, *, data_only: bool = False) -> list[Liveness]:
        edges = self._graph.in_edges[node]
        return [self._alive[e.src, e.port] for e in edges if not (data_only and e.port == CONTROL)]

    def _visit(self, node: int, again: set[int] | None, *, optimistic: bool) -> None:
        graph = self._graph
        if graph.is_(node, SWITCH):
            self._visit_switch(node, again)
        elif graph.is_(node, MERGE):
            self._visit_merge(node, again, optimistic=optimistic)
        elif graph.type(node) == "ControlTrigger":
            self._set(node, (CONTROL,), self._factory.true(), None)
        else:
            operands = self._inputs(node)
            if graph.is_(node, _RECV):
                operands.append(self._factory.symbol(f"{graph.name(node)}:0"))
            count = 0 if node == SOURCE else len(graph.op(node).outputs)
            self._set(node, (*range(count), CONTROL), self._factory.all_of(operands), again)

    def _visit_switch(self, node: int, again: set[int] | None) -> None:
        op, inputs = self._graph.op(node), self._inputs(node)
        if len(op.inputs) < 2:
            raise GraphValueError(f"{op.describe()} has no predicate")
        make = self._factory
        if op.type == "_SwitchN":
            for port in range(len(op.outputs) - 1):
                taken = self._condition(node, port)
                self._set(node, (port,), make.all_of([*inputs, taken]), again)
                inputs.append(make.negation(taken))
            self._set(node, (len(op.outputs) - 1,), make.all_of(inputs), again)
        else:
            is_true = self._condition(node, None)
            self._set(node, (0,), make.all_of([*inputs, make.negation(is_true)]), again)
            self._set(node, (1,), make.all_of([*inputs, is_true]), again)
        self._set(node, (CONTROL,), make.all_of(inputs), again)

    def _condition(self, switch: int, branch: int | None) -> Liveness:
        """Return the formula that the switch's input 1 is true, or equals `branch`."""
        tensor = self._graph.op(switch).inputs[1]
        value = tensor.op.attrs.get("value") if tensor.op.type in CONSTANT else None
        if value is not None and getattr(value, "size", 0) == 1:
            holds = bool(value.item()) if branch is None else int(value.item()) == branch
            return self._factory.true() if holds else self._factory.false()
        if branch is None:
            return self._factory.symbol(tensor.name, must_be_true=True)
        return self._factory.symbol(tensor.name, value=branch)

    def _visit_merge(self, node: int, again: set[int] | None, *, optimistic: bool) -> None:
        known = self._alive.get((node, 0))
        if known is None:
            back = [e for e in self._graph.in_edges[node] if self._graph.is_(e.src, NEXT_ITERATION)]
            if any((e.src, e.port) not in self._alive for e in back if e.port != CONTROL):
                head = self._heads.setdefault(self._frames[node].name, node) if optimistic else node
                formula = self._factory.symbol(f"{self._graph.name(head)}:0")
            else:
                formula = self._factory.any_of(self._inputs(node, data_only=True))
            self._set(node, (0, 1, CONTROL), formula, again)
        elif known.kind == SYMBOL:
            self._close_loop(node, known, again)

    def _close_loop(self, node: int, symbol: Liveness, again: set[int] | None) -> None:
        back = self._back_edge(node)
        step = None if back is None else self._step(symbol, self._alive[back.src, back.port])
        if step is None:
            return
        starts = [self._alive[e.src, e.port] for e in self._graph.in_edges[node] if e != back]
        start = self._factory.any_of(starts)
        formula = self._factory.recurrence(start, step, full_frame(node, self._frames))
        self._set(node, (0, 1, CONTROL), formula, again)

    def _step(self, symbol: Liveness, back: Liveness) -> Liveness | None:
        """X where `back` is `symbol & X` and X does not mention the symbol."""
        if back.kind != AND or symbol not in back.operands:
            return None
        rest = [o for o in back.operands if o is not symbol]
        if any(part is symbol for o in rest for part in o.parts()):
            return None
        return self._factory.all_of(rest)
