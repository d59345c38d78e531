"""Convert TF1 branches to If nodes (TensorFlow's functionalize_cond.cc).

    Switch(x, p) -> then / else -> Merge            If(p, x, then_branch=..., else_branch=...)

The state of a tensor is the set of its branches: pairs of a predicate and its value. A Merge ends
the branch in which its inputs differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import op_has_side_effects
from xlanb.graph.operation import Operation, Tensor, handed_on_from
from xlanb.tf2xla.function_bodies import FunctionBody, call_function, free_name

SWITCH = frozenset({"Switch", "RefSwitch"})
MERGE = frozenset({"Merge", "RefMerge"})
_STORES = frozenset({"StackV2", "TensorArrayV3"})
_ENDS = SWITCH | MERGE | {"_Arg", "_Retval"}
State = frozenset[tuple[Tensor, int]]


@dataclass
class _Cond:
    """The parts of an If: the Merges that end it, and operations with side effects in its
    branches.
    """

    pred: Tensor
    state: State
    merges: list[Operation] = field(default_factory=list)
    acting: list[Operation] = field(default_factory=list)


def functionalize_conds(graph: Graph, *, is_body: bool = False) -> None:
    """Make an If of each branch of the graph, inner ones first. Loops must be converted already.

    A result of a loop body (`is_body`) without a Merge is on a branch that is always taken when the
    loop runs.

    Raises:
        GraphError: the inputs of a Merge are not in the two branches of one predicate; names it.
    """
    if not any(op.type in SWITCH | MERGE for op in graph):
        return
    _hoist_stores(graph)
    done: set[Operation] = set()
    while True:
        states = _States(graph)
        for same in states.same:
            same.outputs[0].replace_uses(same.inputs[0])
            graph.remove_ops([same])
        if states.same or (is_body and states.pass_through()):
            continue
        found = states.innermost(done)
        if found is None:
            break
        _replace(graph, found, states)
        done.update(found.acting)
    _drop_dead(graph, states)


def _hoist_stores(graph: Graph) -> None:
    """Move stacks and arrays of constant size before the branch: two Ifs may write and read
    them.
    """
    for op in list(graph):
        if op.type not in _STORES or any(t.op.type != "Const" for t in op.inputs):
            continue
        for tensor in op.inputs:
            _wait_for_none(tensor.op)
        _wait_for_none(op)


def _wait_for_none(op: Operation) -> None:
    for waited in op.control_inputs:
        op.remove_control_input(waited)


class _States:
    """The state of each tensor and operation of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.of_op: dict[Operation, State] = {}
        self.of_tensor: dict[Tensor, State] = {}
        self.pred_state: dict[Tensor, State] = {}
        self.same: list[Operation] = []
        self.order = graph.topological_order()
        self.ends: dict[Operation, tuple[Tensor, State]] = {}
        for op in self.order:
            self._visit(op)

    def _visit(self, op: Operation) -> None:
        if op.type in MERGE:
            self._merge(op)
            return
        states = [self.of_tensor[t] for t in op.inputs] + [self.of_op[o] for o in op.control_inputs]
        state: State = frozenset().union(*states)
        if op.type == "ControlTrigger" and states:  # alive after a dead input
            state = states[0].intersection(*states)
        self.of_op[op] = state
        for tensor in op.outputs:
            self.of_tensor[tensor] = state
        if op.type in SWITCH:
            pred = _predicate(op)
            rest = frozenset(s for s in state if s[0] is not pred)
            self.pred_state[pred] = min(self.pred_state.get(pred, rest), rest, key=len)
            for branch in (0, 1):
                self.of_tensor[op.outputs[branch]] = rest | {(pred, branch)}

    def _merge(self, op: Operation) -> None:
        first, *others = [self.of_tensor[t] for t in op.inputs]
        state: State = first.intersection(*others)
        if all(s == first for s in others):
            self.same.append(op)
        else:
            differ = [p for p, b in first if (p, 1 - b) in others[0]]
            if len(others) != 1 or not differ:
                raise GraphError(
                    f"node {op.name!r} ({op.type}) merges {', '.join(t.name for t in op.inputs)}, which are not "
                    "on the two branches of one predicate"
                )
            pred = max(differ, key=lambda p: -len(self.pred_state[p]))
            self.ends[op] = (pred, state)
        waits = [self.of_op[o] for o in op.control_inputs]
        self.of_op[op] = state.union(*waits)
        for tensor in op.outputs:
            self.of_tensor[tensor] = self.of_op[op]

    def pass_through(self) -> bool:
        """Bypass the Switches of results that no Merge ends; return whether there were any."""
        ended = {pred for pred, _ in self.ends.values()}
        taken = {s for op in self.order if op.type == "_Retval" for s in self.of_op[op] if s[0] not in ended}
        found = False
        for op in self.order:
            for pred, branch in taken if op.type in SWITCH else ():
                if _predicate(op) is pred and op.outputs[branch].uses:
                    op.outputs[branch].replace_uses(op.inputs[0])
                    found = True
        return found

    def innermost(self, done: set[Operation]) -> _Cond | None:
        """Return the next If: in the most branches, and with no Merge that depends on another."""
        conds: dict[tuple[Tensor, State], _Cond] = {}
        for op, (pred, state) in self.ends.items():
            conds.setdefault((pred, state), _Cond(pred, state)).merges.append(op)
        for op, state in self.of_op.items():
            if state and op not in done and op_has_side_effects(op) and op.type not in _ENDS:
                pred = max((p for p, _ in state), key=lambda p: len(self.pred_state.get(p, frozenset())))
                outer = frozenset(s for s in state if s[0] is not pred)
                conds.setdefault((pred, outer), _Cond(pred, outer)).acting.append(op)
        if not conds:
            return None
        found = max(conds.values(), key=lambda c: len(c.state))
        found.merges = _first_of(found.merges)
        found.acting = [a for a in found.acting if not any(_reaches(m, [a]) for m in found.merges)]
        return found


def _predicate(switch: Operation) -> Tensor:
    """Return the predicate of a Switch, before the Identity that each branch makes of it."""
    return handed_on_from(switch.inputs[1], lambda op: op.type == "Identity")


def _first_of(merges: list[Operation]) -> list[Operation]:
    """Return those that need none of the others."""
    if len(merges) < 2:
        return merges
    return [m for m in merges if not any(o is not m and _reaches(o, [m]) for o in merges)]


def _reaches(start: Operation, goals: Iterable[Operation]) -> bool:
    """Whether data or control leads from an operation to any of the others."""
    wanted = set(goals)
    pending, seen = [start], {start}
    while pending:
        op = pending.pop()
        for reader in [r for t in op.outputs for r in t.uses] + list(op.control_outputs):
            if reader in wanted:
                return True
            if reader not in seen:
                seen.add(reader)
                pending.append(reader)
    return False


def _replace(graph: Graph, cond: _Cond, states: _States) -> None:
    arguments: dict[Tensor, int] = {}
    bodies = [_branch_body(graph, cond, (cond.pred, branch), states, arguments) for branch in (0, 1)]
    outputs = [t for m in cond.merges for t in m.outputs[:2] if t is m.outputs[0] or t.uses]
    exported = [(t, b) for b in (0, 1) for t in _read_later(cond, states, b)]
    for branch, body in enumerate(bodies):
        here = (cond.pred, branch)
        body.copies(op for op in cond.acting if here in states.of_op[op])
        for merge in cond.merges:
            _give_merged(body, merge, next(i for i, t in enumerate(merge.inputs) if here in states.of_tensor[t]))
        for tensor, home in exported:
            body.result(body.inside(tensor) if home == branch else _nothing(body, tensor))
    given = list(arguments)
    results = [(t.dtype.base_dtype, t.shape) for t in [*outputs, *(t for t, _ in exported)]]
    attrs: dict[str, object] = {
        "Tcond": cond.pred.dtype,
        "Tin": tuple(t.dtype for t in given),
        "Tout": tuple(d for d, _ in results),
        "else_branch": bodies[0].finish(given),
        "then_branch": bodies[1].finish(given),
        "output_shapes": tuple(s for _, s in results),
    }
    waits = dict.fromkeys(o for m in cond.merges for o in m.control_inputs)
    made = call_function(graph, "If", _name(cond), [cond.pred, *given], results, attrs, waits)
    _hand_over(graph, cond, states, made, outputs, exported)


def _give_merged(body: FunctionBody, merge: Operation, position: int) -> None:
    """Return a Merge's value on one branch from its body, and its value_index if used."""
    body.result(body.inside(merge.inputs[position]))
    if len(merge.outputs) > 1 and merge.outputs[1].uses:
        attrs = {"dtype": as_dtype("int32"), "value": np.asarray(position, np.int32)}
        body.result(body.graph.add_op("Const", body.graph.unique_name("value_index"), attrs=attrs).outputs[0])


def _nothing(body: FunctionBody, like: Tensor) -> Tensor:
    """Make a FakeParam for a value that the other branch lacks and nobody reads there."""
    attrs = {"dtype": like.dtype, "shape": like.shape}
    return body.graph.add_op("FakeParam", body.graph.unique_name("nothing"), (), [like.dtype], attrs).outputs[0]


def _read_later(cond: _Cond, states: _States, branch: int) -> list[Tensor]:
    """Return values of side-effecting operations in a branch that another If reads."""
    later = {m for m in states.ends if m not in cond.merges}
    return [
        t
        for op in cond.acting
        if (cond.pred, branch) in states.of_op[op] and _reaches(op, later)
        for t in op.outputs
        if t.uses and t.dtype.has_numpy_dtype and not t.dtype.is_ref_dtype
    ]


def _hand_over(
    graph: Graph,
    cond: _Cond,
    states: _States,
    made: Operation,
    outputs: list[Tensor],
    exported: list[tuple[Tensor, int]],
) -> None:
    """Redirect data and control users of the converted nodes to the If."""
    for old, new in zip(outputs, made.outputs, strict=False):
        old.replace_uses(new)
    for (old, branch), new in zip(exported, made.outputs[len(outputs) :], strict=True):
        name = graph.unique_name(f"{made.name}/Switch")
        switch = graph.add_op("Switch", name, [new, cond.pred], [new.dtype] * 2, {"T": new.dtype})
        switch.outputs[branch].give_shape(new.shape.as_tuple())
        old.replace_uses(switch.outputs[branch])
    for op in [*cond.merges, *cond.acting]:
        for waiting in list(op.control_outputs):
            if not any(p is cond.pred for p, _ in states.of_op.get(waiting, frozenset())):
                waiting.remove_control_input(op)
                waiting.add_control_input(made)
    graph.remove_ops(cond.merges)


def _branch_body(
    graph: Graph, cond: _Cond, here: tuple[Tensor, int], states: _States, arguments: dict[Tensor, int]
) -> FunctionBody:
    def argument_of(tensor: Tensor) -> int | None:
        if tensor.op.type in SWITCH and _predicate(tensor.op) is cond.pred and tensor.value_index == here[1]:
            return arguments.setdefault(tensor.op.inputs[0], len(arguments))
        if here in states.of_tensor[tensor]:
            return None
        return arguments.setdefault(tensor, len(arguments))

    def holds(op: Operation) -> bool:
        return here in states.of_op[op] and op.type not in SWITCH

    return FunctionBody(graph, free_name(graph, f"{_name(cond)}_{('else', 'then')[here[1]]}"), argument_of, holds)


def _name(cond: _Cond) -> str:
    return (cond.merges or cond.acting)[0].name.replace("Merge", "If") if cond.merges else f"{cond.acting[0].name}_If"


def _drop_dead(graph: Graph, states: _States) -> None:
    """Remove nodes that remain in a branch: their values reach no Merge."""
    for op in graph:
        if op.type == "_Retval" and states.of_op[op]:
            dead = op.inputs[0]
            raise GraphError(
                f"tensor {dead.name!r} ({dead.op.type}) is on a branch that is not always taken: it has no "
                "value outside of the branch"
            )
    graph.remove_ops([op for op in graph if states.of_op.get(op) or op.type in SWITCH])
