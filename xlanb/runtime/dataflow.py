"""Execute graphs with version-1 control flow node by node.

Uses frames, iterations and dead tensors (TensorFlow's executor.cc). A tensor belongs to an
iteration of a frame. Enter passes it into a new frame, NextIteration to the frame's next iteration,
Exit out of the frame. Switch makes one of its outputs dead. A node with a dead input is dead,
except Merge, which takes the first live input. Dead nodes are not run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import needed_by
from xlanb.stage import Stages

ENTER: Final = frozenset({"Enter", "RefEnter"})
EXIT: Final = frozenset({"Exit", "RefExit"})
NEXT: Final = frozenset({"NextIteration", "RefNextIteration"})
MERGE: Final = frozenset({"Merge", "RefMerge"})
SWITCH: Final = frozenset({"Switch", "RefSwitch"})
CONTROL_FLOW: Final = ENTER | EXIT | NEXT | MERGE | SWITCH | {"LoopCond"}
_HANDED_ON: Final = ENTER | EXIT | NEXT | {"LoopCond"}


class _Dead:
    """The value of a tensor on a branch not taken."""

    def __repr__(self) -> str:
        return "dead"


DEAD: Final = _Dead()
RunNode = Callable[[Operation, Sequence[Any]], Stages[Sequence[Any]]]
_Reader = tuple[Operation, int | None]  # and the number of its input; None: a control input


class DataflowPlan:
    """The part of a graph that runs for some fetches, and the consumers of each output.

    It is computed once.
    """

    def __init__(self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]) -> None:
        fed = set(feeds)
        self.feeds, self.fetches, self.targets = tuple(feeds), tuple(fetches), tuple(targets)
        needed = needed_by([*(t.op for t in fetches if t not in fed), *targets], fed)
        self.ops = [op for op in needed if not _is_given(op, fed)]
        kept = set(self.ops)
        self.readers: dict[Tensor, list[_Reader]] = {}
        self.waiting: dict[Operation, list[_Reader]] = {}
        self.inputs = {op: len(op.inputs) for op in self.ops}
        self.controls = {op: sum(c in kept for c in op.control_inputs) for op in self.ops}
        self.forward: dict[Operation, int] = {}
        self.enters: dict[str, int] = {}
        for op in self.ops:
            for index, tensor in enumerate(op.inputs):
                self.readers.setdefault(tensor, []).append((op, index))
            for before in op.control_inputs:
                self.waiting.setdefault(before, []).append((op, None))
            if op.type in MERGE:
                self.forward[op] = sum(t.op.type not in NEXT for t in op.inputs)
            if op.type in ENTER:
                name = str(op.attrs.get("frame_name", ""))
                self.enters[name] = self.enters.get(name, 0) + 1
        self.fed = fed

    @property
    def sources(self) -> list[Operation]:
        """Nodes without inputs and control inputs."""
        return [op for op in self.ops if not self.inputs[op] and not self.controls[op]]


def _is_given(op: Operation, fed: set[Tensor]) -> bool:
    return bool(op.outputs) and all(t in fed for t in op.outputs)


class _LoopFrame:
    """One execution of a loop: its iterations, and its pending inputs."""

    def __init__(self, parent: _Iteration | None, name: str, enters: int) -> None:
        self.parent = parent
        self.name = name
        self.enters_to_come = enters
        self.outstanding = 0  # nodes queued in it, and frames within it
        self.constants: list[tuple[Operation, Any]] = []
        self.iterations = {0: _Iteration(self, 0)}
        self.oldest = self.newest = 0
        self.dead_exits: dict[Operation, None] = {}
        self.live_exits: set[Operation] = set()

    def forget_finished(self) -> None:
        """Release iterations that can receive no more tensors."""
        while not self.enters_to_come and self.oldest < self.newest and not self.iterations[self.oldest].outstanding:
            del self.iterations[self.oldest]
            self.oldest += 1


class _Iteration:
    """The tensors that have arrived at the nodes in one iteration of a frame."""

    __slots__ = ("arrived", "children", "done", "frame", "index", "is_dead", "left", "outstanding")

    def __init__(self, frame: _LoopFrame, index: int) -> None:
        self.frame = frame
        self.index = index
        self.outstanding = 0  # nodes queued in it, and frames within it
        self.left: dict[Operation, int] = {}
        self.arrived: dict[Operation, list[Any]] = {}
        self.is_dead: dict[Operation, int] = {}
        self.done: set[Operation] = set()
        self.children: dict[str, _LoopFrame] = {}


class DataflowRun:
    """One run of a plan."""

    def __init__(self, plan: DataflowPlan, run_node: RunNode) -> None:
        self._plan = plan
        self._run_node = run_node
        self._ready: deque[tuple[Operation, _Iteration, list[Any] | None]] = deque()
        self._root = _LoopFrame(None, "", 0)
        self._fetched: dict[Tensor, Any] = {}
        self._wanted = set(plan.fetches)

    def run(self, values: Sequence[Any]) -> Stages[list[Any]]:
        """The values of the fetches.

        Raises:
            GraphError: A fetch is dead, or was never computed because its node waits for a missing
                input.
            XlanbError: A node fails.
        """
        top = self._root.iterations[0]
        for op in self._plan.sources:
            self._make_ready(op, top, [])
        for tensor, value in zip(self._plan.feeds, values, strict=True):
            self._give(tensor, value, top)
        while self._ready:
            op, where, inputs = self._ready.popleft()
            yield from self._step(op, where, inputs)
            where.frame.outstanding -= 1
            where.outstanding -= 1
            self._close(where.frame)
        found = [self._fetch(t, top) for t in self._plan.fetches]
        for op in self._plan.targets:
            if op not in top.done:
                raise GraphError(f"cannot run {op.name!r}: {self._stuck(op, top)}")
        return found

    def _step(self, op: Operation, where: _Iteration, inputs: list[Any] | None) -> Stages[None]:
        if inputs is None:
            outputs: Sequence[Any] = [DEAD] * len(op.outputs)
        elif op.type in SWITCH:
            outputs = _switched(op, inputs)
        elif op.type in MERGE:
            outputs = _merged(op, inputs)
        elif op.type in _HANDED_ON:
            outputs = inputs[:1]
        else:
            outputs = yield from self._run_node(op, inputs)
        self._propagate(op, where, outputs, is_dead=inputs is None)

    def _propagate(self, op: Operation, where: _Iteration, outputs: Sequence[Any], *, is_dead: bool) -> None:
        target = where
        if op.type in ENTER:
            target = self._child(op, where).iterations[0]
            if op.attrs.get("is_constant"):
                target.frame.constants.append((op, outputs[0]))
                for later in [i for i in target.frame.iterations.values() if i.index]:
                    self._deliver(op, outputs, later, is_dead=is_dead)
        elif op.type in EXIT:
            frame = where.frame
            if frame.parent is None:
                raise GraphError(f"node {op.name!r} ({op.type}) exits a loop, but no loop was entered")
            if is_dead:
                frame.dead_exits[op] = None
                return
            frame.live_exits.add(op)
            target = frame.parent
        elif op.type in NEXT:
            if is_dead:
                return
            target = self._next(op, where)
        self._deliver(op, outputs, target, is_dead=is_dead)
        if op.type in ENTER:
            target.frame.enters_to_come -= 1
            self._close(target.frame)

    def _deliver(self, op: Operation, outputs: Sequence[Any], target: _Iteration, *, is_dead: bool) -> None:
        for tensor, value in zip(op.outputs, outputs, strict=True):
            if tensor not in self._plan.fed:
                self._give(tensor, value, target)
        for reader, _ in self._plan.waiting.get(op, ()):
            self._arrive(reader, None, DEAD if is_dead else True, target)

    def _give(self, tensor: Tensor, value: Any, target: _Iteration) -> None:
        if target.frame is self._root and tensor in self._wanted:
            self._fetched[tensor] = value
        for reader, index in self._plan.readers.get(tensor, ()):
            self._arrive(reader, index, value, target)

    def _arrive(self, op: Operation, index: int | None, value: Any, where: _Iteration) -> None:
        """Deliver a value, or a control signal (index None), to a node; run it once it has all."""
        if op in where.done:
            return
        plan = self._plan
        if op not in where.left:
            where.left[op] = plan.controls[op] + (1 if op in plan.forward else plan.inputs[op])
            where.arrived[op] = [None] * plan.inputs[op]
        if op in plan.forward:
            self._arrive_at_merge(op, index, value, where)
            return
        where.left[op] -= 1
        if index is not None:
            where.arrived[op][index] = value
        if value is DEAD:
            where.is_dead[op] = 1
        if not where.left[op]:
            # A ControlTrigger is live even after dead nodes.
            is_dead = op in where.is_dead and op.type != "ControlTrigger"
            self._make_ready(op, where, None if is_dead else where.arrived[op])

    def _arrive_at_merge(self, op: Operation, index: int | None, value: Any, where: _Iteration) -> None:
        arrived = where.arrived[op]
        if index is None:
            where.left[op] -= 1
        elif value is DEAD:
            where.is_dead[op] = where.is_dead.get(op, 0) + 1
            if where.is_dead[op] == self._plan.forward[op] and where.index == 0:
                where.left[op] -= 1
        elif all(v is None for v in arrived):
            arrived[index] = value
            where.left[op] -= 1
        if not where.left[op]:
            self._make_ready(op, where, arrived if any(v is not None for v in arrived) else None)

    def _make_ready(self, op: Operation, where: _Iteration, inputs: list[Any] | None) -> None:
        where.done.add(op)
        where.left.pop(op, None)
        where.arrived.pop(op, None)
        where.frame.outstanding += 1
        where.outstanding += 1
        self._ready.append((op, where, inputs))

    def _child(self, op: Operation, where: _Iteration) -> _LoopFrame:
        name = str(op.attrs.get("frame_name", ""))
        found = where.children.get(name)
        if found is None:
            found = where.children[name] = _LoopFrame(where, name, self._plan.enters[name])
            where.frame.outstanding += 1
            where.outstanding += 1
        return found

    def _next(self, op: Operation, where: _Iteration) -> _Iteration:
        frame = where.frame
        if frame.parent is None:
            raise GraphError(
                f"node {op.name!r} ({op.type}) starts the next iteration of a loop, but no loop was entered"
            )
        found = frame.iterations.get(where.index + 1)
        if found is not None:
            return found
        frame.newest = where.index + 1
        new = frame.iterations[frame.newest] = _Iteration(frame, frame.newest)
        for enter, value in frame.constants:
            self._deliver(enter, [value], new, is_dead=value is DEAD)
        return new

    def _close(self, frame: _LoopFrame) -> None:
        """When a frame has nothing left to do, mark exits that were never live as dead outside."""
        frame.forget_finished()
        while frame.parent is not None and not frame.outstanding and not frame.enters_to_come:
            parent = frame.parent
            if parent.children.pop(frame.name, None) is None:
                return
            for op in frame.dead_exits:
                if op not in frame.live_exits:
                    self._deliver(op, [DEAD], parent, is_dead=True)
            frame = parent.frame
            frame.outstanding -= 1
            parent.outstanding -= 1
            frame.forget_finished()

    def _fetch(self, tensor: Tensor, top: _Iteration) -> Any:
        value = self._fetched.get(tensor)
        if value is DEAD:
            raise GraphError(
                f"cannot fetch {tensor.name!r}: it has no value because it is on a branch that was not taken"
            )
        if tensor not in self._fetched:
            raise GraphError(f"cannot fetch {tensor.name!r}: {self._stuck(tensor.op, top)}")
        return value

    def _stuck(self, op: Operation, top: _Iteration) -> str:
        """Why a node was not run: its predecessors outside of loops that produced no value."""
        for before in (op, *(t.op for t in op.inputs), *op.control_inputs):
            if before in top.arrived:
                missing = [t.name for t, v in zip(before.inputs, top.arrived[before], strict=True) if v is None]
                return (
                    f"node {before.name!r} ({before.type}) still waits for {', '.join(missing) or 'its control inputs'}"
                )
        return f"node {op.name!r} ({op.type}) was never run; is it inside a loop?"


def has_control_flow(ops: Iterable[Operation]) -> bool:
    """Whether any of the nodes is version-1 control flow."""
    return any(op.type in CONTROL_FLOW for op in ops)


def _switched(op: Operation, inputs: Sequence[Any]) -> list[Any]:
    """The data at the output that the condition selects.

    Raises GraphError if the condition is not a single bool.
    """
    if len(inputs) != 2 or np.ndim(inputs[1]) or np.asarray(inputs[1]).dtype != np.bool_:
        raise GraphError(
            f"{op.describe()}: expected data and one bool, got {len(inputs)} inputs, the last "
            f"{np.asarray(inputs[-1]).dtype}{list(np.shape(inputs[-1]))}"
        )
    return [DEAD, inputs[0]] if bool(np.asarray(inputs[1])) else [inputs[0], DEAD]


def _merged(op: Operation, inputs: Sequence[Any]) -> list[Any]:
    """The first live input and its index. Raises GraphError if there is none."""
    for index, value in enumerate(inputs):
        if value is not DEAD and value is not None:
            return [value, np.asarray(index, np.int32)]
    raise GraphError(f"{op.describe()}: none of its {len(inputs)} inputs is alive")
