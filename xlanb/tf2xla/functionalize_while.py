r"""Convert TF1 loops to While nodes: the nodes between Enter and Exit become two functions.

Enter -> Merge -> Switch -> body -> NextIteration -> Merge        While(cond=..., body=...)
                     \-> Exit

Source: TensorFlow's functionalize_while.cc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import op_has_side_effects
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf2xla.function_bodies import FunctionBody, call_function, free_name
from xlanb.tf2xla.functionalize_cond import functionalize_conds

ENTER = frozenset({"Enter", "RefEnter"})
EXIT = frozenset({"Exit", "RefExit"})
NEXT = frozenset({"NextIteration", "RefNextIteration"})
MERGE = frozenset({"Merge", "RefMerge"})
SWITCH = frozenset({"Switch", "RefSwitch"})


@dataclass(eq=False)
class WhileFrame:
    """One loop: its Enters, all its operations, and the frame around."""

    name: str
    outer: WhileFrame | None
    depth: int
    enters: list[Operation] = field(default_factory=list)
    ops: dict[Operation, None] = field(default_factory=dict)


@dataclass
class _Variable:
    """A loop variable: its Enter, its Merge, its NextIteration and its Exit."""

    enter: Operation
    merge: Operation | None = None
    switches: list[Operation] = field(default_factory=list)
    after: Operation | None = None
    exits: list[Operation] = field(default_factory=list)


def functionalize_loops(graph: Graph) -> None:
    """Make a While of each loop of the graph, inner ones first.

    Raises:
        GraphError: a loop does not have the form of tf.while_loop; names its frame and the node.
    """
    frames = _frames(graph)
    for frame in sorted(frames, key=lambda f: -f.depth):
        _replace(graph, frame)


def _frames(graph: Graph) -> list[WhileFrame]:
    """The loops, each operation in the innermost one that it belongs to."""
    found: dict[tuple[str, WhileFrame | None], WhileFrame] = {}
    place: dict[Operation, WhileFrame | None] = {}
    for op in graph.topological_order():
        before = [t.op for t in op.inputs if t.op in place] + [o for o in op.control_inputs if o in place]
        around = max((_seen_from_outside(o, place[o]) for o in before), key=_depth, default=None)
        if op.type in ENTER:
            key = (str(op.attrs.get("frame_name", "")), around)
            if key not in found:
                found[key] = WhileFrame(key[0], around, _depth(around) + 1)
            found[key].enters.append(op)
            around = found[key]
        elif op.type in EXIT and around is None:
            raise GraphError(f"node {op.name!r} ({op.type}) exits a loop, but no loop was entered")
        place[op] = around
        if around is not None:
            around.ops[op] = None
    return list(found.values())


def _depth(frame: WhileFrame | None) -> int:
    return 0 if frame is None else frame.depth


def _seen_from_outside(op: Operation, frame: WhileFrame | None) -> WhileFrame | None:
    """Return an operation's value in the outer frame: its Exit."""
    return frame.outer if frame is not None and op.type in EXIT else frame


def _replace(graph: Graph, frame: WhileFrame) -> None:
    variables = [_variable(frame, e) for e in frame.enters]
    condition = next((op for op in frame.ops if op.type == "LoopCond"), None)
    if condition is None:
        raise GraphError(f"the loop {frame.name!r} has no LoopCond")
    numbers: dict[Tensor, int] = {}
    for number, variable in enumerate(variables):
        for op in (variable.enter, variable.merge):
            if op is not None:
                numbers[op.outputs[0]] = number
        numbers.update((s.outputs[1], number) for s in variable.switches)
    inputs = [v.enter.inputs[0] for v in variables]

    heads = {o for v in variables for o in (v.enter, v.merge, v.after, *v.switches, *v.exits)} | {condition}

    def holds(op: Operation) -> bool:
        return op in frame.ops and op not in heads

    cond = FunctionBody(graph, free_name(graph, f"{frame.name}_cond"), numbers.get, holds)
    cond.result(cond.inside(condition.inputs[0]))
    functionalize_conds(cond.graph, is_body=True)
    body = FunctionBody(graph, free_name(graph, f"{frame.name}_body"), numbers.get, holds)
    body.copies(op for op in frame.ops if op not in heads and op_has_side_effects(op))
    for variable in variables:
        body.copies(o for o in (variable.after.control_inputs if variable.after else ()) if holds(o))
    for number, variable in enumerate(variables):
        body.result(body.inside(variable.after.inputs[0]) if variable.after else body.argument(number, inputs[number]))
    functionalize_conds(body.graph, is_body=True)
    waits = dict.fromkeys(o for v in variables for o in v.enter.control_inputs if o not in frame.ops)
    shapes = [
        (t.dtype, v.exits[0].outputs[0].shape if v.exits else t.shape) for v, t in zip(variables, inputs, strict=True)
    ]
    attrs: dict[str, object] = {
        "T": tuple(t.dtype for t in inputs),
        "cond": cond.finish(inputs),
        "body": body.finish(inputs),
        "output_shapes": tuple(shape for _, shape in shapes),
        "parallel_iterations": int(frame.enters[0].attrs.get("parallel_iterations", 10)),
    }
    made = call_function(graph, "While", frame.name, inputs, shapes, attrs, waits)
    made.source_file, made.source_line = condition.source_file, condition.source_line
    for number, variable in enumerate(variables):
        for left in variable.exits:
            left.outputs[0].replace_uses(made.outputs[number])
            _wait_for(made, left)
    if frame.outer is not None:
        frame.outer.ops[made] = None
    for op in frame.ops:
        _wait_for(made, op, but=frame.ops)
    _drop(graph, frame)


def _wait_for(new: Operation, old: Operation, but: Iterable[Operation] = ()) -> None:
    """Redirect control edges from the old node to the new one."""
    for waiting in [o for o in old.control_outputs if o not in but]:
        waiting.remove_control_input(old)
        if new is not waiting and new not in waiting.control_inputs:
            waiting.add_control_input(new)


def _drop(graph: Graph, frame: WhileFrame) -> None:
    gone = frame.ops
    for op in gone:
        reader = next((r for t in op.outputs for r in t.uses if r not in gone), None)
        if reader is not None:
            raise GraphError(
                f"node {reader.name!r} ({reader.type}) reads {op.name!r} , which is inside the loop "
                f"{frame.name!r}, from outside"
            )
    graph.remove_ops(gone)


def _variable(frame: WhileFrame, enter: Operation) -> _Variable:
    if enter.attrs.get("is_constant"):
        return _Variable(enter)
    heads = [o for o in enter.outputs[0].uses if o.type in MERGE and any(t.op.type in NEXT for t in o.inputs)]
    if not heads:
        return _Variable(enter)
    merge = heads[0]
    back = next(t.op for t in merge.inputs if t.op.type in NEXT)
    switches = [o for o in merge.outputs[0].uses if o.type in SWITCH and _is_loop_switch(o)]
    exits = [o for s in switches for o in s.outputs[0].uses if o.type in EXIT]
    if len(heads) > 1:
        raise GraphError(f"node {enter.name!r} initializes two variables of the loop {frame.name!r}")
    return _Variable(enter, merge, switches, back, exits)


def _is_loop_switch(op: Operation) -> bool:
    return op.inputs[1].op.type == "LoopCond"
