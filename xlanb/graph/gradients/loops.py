"""Backward loops: the state of a backward walk through while loops
(python/ops/control_flow_state.py).

Each forward loop gets an iteration counter; the backward loop counts down. The forward loop pushes
the values that the backward loop needs on a stack, and the backward loop pops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xlanb.errors import GraphTypeError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import concat, shape, zeros, zeros_like
from xlanb.graph.builders.control_flow_context import (
    CondContext,
    ControlFlowContext,
    WhileContext,
    close_loop,
    context_of,
    enter,
    is_exit,
    is_loop_constant,
    is_loop_switch,
    is_switch,
    leave,
    merge,
    next_iteration,
    output_context,
    set_context,
    switch,
    switch_beside,
)
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor, handed_on_from
from xlanb.graph.tensor_shape import TensorShape

_HANDED_ON = frozenset({"Switch", "RefSwitch", "Identity", "RefIdentity"})


def _inside(context: ControlFlowContext | None, make: Callable[[], Any]) -> Any:
    """Call `make` inside the context, if there is one."""
    if context is None:
        return make()
    context.enter()
    try:
        return make()
    finally:
        context.exit()


class GradLoopState:
    """A forward loop and its backward loop.

    Attributes:
        forward, backward: the loops. outer: the state of the enclosing loop.
        history: forward tensors -> their tensors in the backward loop.
        merges: Switches of the forward loop -> the Merges at the head of the backward one.
        unused, deferred: exits of the forward loop without a gradient, and exits that wait.
        pending: the number of exits whose gradients are missing.
    """

    def __init__(self, forward: WhileContext, outer: GradLoopState | None) -> None:
        self.forward = forward
        self.backward: WhileContext
        self.outer = outer
        self.history: dict[Tensor, Tensor] = {}
        self.merges: dict[Operation, Tensor] = {}
        self.unused: list[Tensor] = []
        self.deferred: list[Tensor] = []
        self.exits = list(forward.exits)
        self.pending = len(forward.exits)
        self._forward_sync: Operation | None = None
        self._backward_sync: Operation | None = None
        around = forward.outer
        count, self.forward_index = _inside(around, lambda: self._count_up(outer))
        if outer is not None and around is not None:
            around.values.add(count)
            history = outer.push(count)
            self.backward, self.index = _inside(outer.backward, lambda: self._count_down(outer.pop(history, count)))
        else:
            self.backward, self.index = _inside(around, lambda: self._count_down(count))

    def _count_up(self, outer: GradLoopState | None) -> tuple[Tensor, Tensor]:
        """Return the trip count of the forward loop, and the counter inside."""
        loop = self.forward
        start = constant(0, name="f_count")
        if outer is not None:
            start.op.add_control_input(outer.forward_index.op.inputs[0].op)
        loop.enter()
        loop.values.add(start)
        entered = enter(start, loop.name, parallel=loop.parallel, name="f_count")
        loop.enters.append(entered)
        merged = merge([entered, entered])
        ways = switch(merged, loop.pivot)
        back = close_loop(merged, math_ops.add(ways[1], 1))
        total = leave(ways[0], name="f_count")
        loop.exits.append(total)
        loop.give_out([total])
        loop.exit()
        return total, back

    def _count_down(self, count: Tensor) -> tuple[WhileContext, Tensor]:
        """The backward loop, and its counter."""
        forward = self.forward
        loop = WhileContext(
            forward.maximum_iterations, forward.parallel, back_prop=forward.back_prop, swap_memory=forward.swap_memory,
            name=forward.name,
            grad_state=self,
        )  # fmt: skip
        self.backward = loop
        one = constant(1, name="b_count")
        loop.enter()
        loop.values.add(count)
        entered = enter(count, loop.name, parallel=loop.parallel, name="b_count")
        loop.enters.append(entered)
        merged = merge([entered, entered])
        loop.pivot_for_pred = merged
        loop.pivot = call("LoopCond", call("GreaterEqual", merged, one), name="b_count")
        ways = switch(merged, loop.pivot)
        left = call("Sub", ways[1], one)
        loop.pivot_for_body = left
        back = close_loop(merged, left)
        end = leave(ways[0], name="b_count")
        loop.exits.append(end)
        if self.outer is not None:
            self.outer.backward_sync.add_control_input(end.op)
        loop.give_out([end])
        loop.exit()
        return loop, back

    @property
    def forward_sync(self) -> Operation:
        """The operation that a forward iteration waits for before the next one."""
        if self._forward_sync is None:
            self._forward_sync = self._sync("f_sync", self.forward, self.forward_index)
        return self._forward_sync

    @property
    def backward_sync(self) -> Operation:
        """The operation that a backward iteration waits for before the next one."""
        if self._backward_sync is None:
            self._backward_sync = self._sync("b_sync", self.backward, self.index)
        return self._backward_sync

    @staticmethod
    def _sync(name: str, loop: WhileContext, index: Tensor) -> Operation:
        with get_default_graph().control_dependencies(None):
            made = call_op("ControlTrigger", name=name)
        set_context(made, loop)
        index.op.add_control_input(made)
        return made

    # -- values of the forward loop ----------------------------------------------------------------

    def push(self, value: Tensor, *, dead: bool = False) -> Tensor:
        """Make a stack on which each forward iteration pushes `value`."""
        graph = self.forward_index.graph
        current = graph.scopes.context
        with graph.control_dependencies(None):
            held: Tensor = _inside(current, lambda: self._stack(value))
            inside = self.forward.add_value(held)

            def pushed() -> Operation:
                return call_op("StackPushV2", inside, value, swap_memory=self.forward.swap_memory)

            where = output_context(value.op)
            if where is self.forward:
                made = _inside(self.forward, pushed)
                self.forward_index.op.add_control_input(made)
            else:
                if not isinstance(where, CondContext):
                    raise GraphTypeError(
                        f"{value.name!r} is neither in the loop {self.forward.name!r} nor in a branch of it"
                    )
                made = _inside(where.outer if dead else where, pushed)
                if dead:
                    set_context(made, where)
                self.forward_sync.add_control_input(made)
            made.add_control_input(self.forward_index.op.inputs[0].op)
            return held

    @staticmethod
    def _stack(value: Tensor) -> Tensor:
        with value.graph.colocate_with(value):
            size = constant(-1, "int32")
            return call("StackV2", size, elem_type=value.dtype.base_dtype, stack_name="", name="f_acc")

    def pop(self, held: Tensor, value: Tensor, *, dead: bool = False) -> Tensor:
        """Pop the value of the forward iteration of this backward iteration."""
        stop = context_of(held.op)
        where = context_of(value.op)
        while where is not None and where is not stop and not isinstance(where, CondContext):
            where = where.outer
        branch = where if isinstance(where, CondContext) and where is not stop else None
        with held.graph.control_dependencies(None):
            self.backward.enter()
            if branch is not None:
                side = 1 - branch.branch if dead else branch.branch
                held = switch_beside(held, self._pred_of(branch))[side]
            popped = call("StackPopV2", held, elem_type=value.dtype.base_dtype)
            popped.give_shape(value.shape.as_tuple())
            self.backward.exit()
        if self.backward.parallel > 1:
            self.backward_sync.add_control_input(popped.op)
        return popped

    def _pred_of(self, branch: CondContext) -> Tensor:
        state: GradLoopState | None = self
        while state is not None:
            if branch.pred in state.history:
                return state.history[branch.pred]
            state = state.outer
        return branch.pred

    def real_value(self, value: Tensor) -> Tensor:
        """Return a forward tensor's value for the backward loop.

        Call it inside the backward loop.
        """
        if value not in self.history:
            self.history[value] = self._find(value)
        return self.history[value]

    def _find(self, value: Tensor) -> Tensor:
        current: Tensor = value
        state: GradLoopState = self
        while True:
            source = _constant_enter(current)
            if source is None:
                break
            current = source.inputs[0]
            if state.outer is None:
                return self.backward.add_value(current)
            state = state.outer
        if current.op.type == "Const":
            return constant(current.op.attrs["value"], current.dtype)
        self.backward.exit()
        held = state.push(current)
        self.backward.enter()
        popped = state.pop(held, current)
        return popped if state is self else self.backward.add_value(popped)

    # -- sums over all rounds ----------------------------------------------------------------------

    def accumulate(self, op: Operation, grad: Tensor) -> Tensor:
        """Sum the gradients of a loop-invariant value."""
        loop = self.backward
        loop.exit()
        start = self._zeros_for(op, grad)
        loop.enter()
        return self._summed([start], [grad.shape.as_tuple()], [lambda held: math_ops.add(held, grad)])[0]

    def _zeros_for(self, op: Operation, grad: Tensor) -> Tensor:
        loop, value = self.backward, op.inputs[0]
        if grad.shape.is_fully_defined():
            found: Tensor = _inside(
                loop.outer, lambda: constant(0, grad.dtype, shape=grad.shape.as_list(), name="b_acc")
            )
            return found
        if isinstance(loop.outer, WhileContext) and loop.outer.grad_state is not None and self.outer is not None:
            sizes = _inside(self.forward.outer, lambda: shape(value, optimize=False))
            held = self.outer.push(sizes)
            outer = self.outer
            made: Tensor = _inside(loop.outer, lambda: zeros(outer.pop(held, sizes), grad.dtype))
            return made
        result: Tensor = _inside(loop.outer, lambda: zeros(shape(value, optimize=False), grad.dtype))
        return result

    def _summed(self, starts: list[Tensor], dims: list[Any], adds: list[Callable[[Tensor], Tensor]]) -> list[Tensor]:
        """Accumulate `adds` onto `starts` over the backward iterations; return the final values."""
        loop = self.backward
        loop.values.update(starts)
        enters = [enter(start, loop.name, parallel=loop.parallel, name="b_acc") for start in starts]
        for entered, known in zip(enters, dims, strict=True):
            entered.give_shape(known)
        loop.enters += enters
        merges = [merge([entered, entered], name="b_acc") for entered in enters]
        ways = [switch(merged, loop.pivot) for merged in merges]
        added = [add(way[1]) for add, way in zip(adds, ways, strict=True)]
        backs = [next_iteration(value) for value in added]
        for merged, back in zip(merges, backs, strict=True):
            merged.op.close_cycle(1, back)
        results = [leave(way[0], name="b_acc") for way in ways]
        loop.exits += results
        loop.give_out(results)
        return results

    def accumulate_slices(self, op: Operation, grad: IndexedSlices) -> IndexedSlices:
        """Concatenate the slices of all iterations, after one row of zeros."""
        loop, dense = self.backward, grad.dense_shape
        loop.exit()
        starts = _inside(loop.outer, lambda: self._first_row(op, grad))
        loop.enter()
        indices, values = grad.indices, grad.values
        rest = values.shape.as_tuple()
        dims: list[Any] = [(None,), None if rest is None else (None, *rest[1:])]
        adds = [lambda held: concat([held, indices], 0), lambda held: concat([held, values], 0)]
        if dense is not None:
            dims.append(dense.shape.as_tuple())
            adds.append(lambda held: call("Maximum", dense, held))
        found = self._summed(starts, dims, adds)
        return IndexedSlices(found[1], found[0], found[2] if dense is not None else None)

    @staticmethod
    def _first_row(op: Operation, grad: IndexedSlices) -> list[Tensor]:
        """Return index 0, a row of zeros, and, if needed, a shape of zeros."""
        values, dense = grad.values, grad.dense_shape
        if values.shape.is_fully_defined():
            row = constant(0, values.dtype, shape=[1, *values.shape.as_list()[1:]], name="b_acc")
        else:
            row = zeros(concat([[1], _rest_of(op.inputs[0])], 0), values.dtype)
        starts = [constant([0], grad.indices.dtype), row]
        if dense is not None and dense.shape.is_fully_defined():
            starts.append(constant(0, dense.dtype, shape=dense.shape.as_list()))
        elif dense is not None:
            starts.append(zeros_like(call("Shape", op.inputs[0], out_type=dense.dtype), optimize=False))
        return starts


def _rest_of(tensor: Tensor) -> Any:
    """The shape of a tensor's rows; of a handle those of its variable, which says its shape."""
    if tensor.dtype.name != "resource":
        return shape(tensor, optimize=False)[1:]
    op = tensor.op
    while op.inputs:
        op = op.inputs[0].op
    return TensorShape(op.attrs["shape"])[1:]


def _constant_enter(value: Tensor) -> Operation | None:
    op = handed_on_from(value, lambda op: op.type in _HANDED_ON).op
    return op if is_loop_constant(op) else None


class LoopWalk:
    """The states of all loops that one walk backwards goes through."""

    def __init__(self, between: list[Operation]) -> None:
        """`between`: the operations of the walk; exits of their loops are added to it."""
        self._states: dict[WhileContext, GradLoopState] = {}
        known = set(between)
        for op in between:  # grows while it is gone through
            if not is_exit(op):
                continue
            loop = context_of(op)
            if not isinstance(loop, WhileContext) or loop in self._states:
                continue
            around = None if loop.outer is None else loop.outer.loop()
            state = GradLoopState(loop, None if around is None else self._states.get(around))
            self._states[loop] = state
            for tensor in state.exits:
                if tensor.op not in known:
                    known.add(tensor.op)
                    between.append(tensor.op)

    def state_of(self, op: Operation, *, before: bool) -> GradLoopState | None:
        """Return the state of the operation's loop; for an Exit `before` its gradient, of the outer
        loop.
        """
        context = output_context(op) if before else context_of(op)
        loop = None if context is None else context.loop()
        return None if loop is None else self._states.get(loop)

    def within(self, op: Operation, make: Callable[[], Any], *, before: bool) -> Any:
        """Call `make` inside the backward loop that belongs to an operation."""
        state = self.state_of(op, before=before)
        return _inside(None if state is None else state.backward, make)

    def start(self, pending: dict[Operation, int], ready: set[Operation]) -> list[Tensor]:
        """Return exits without gradients of loops whose exits are all ready; count entering tensors
        once.
        """
        found: list[Tensor] = []
        for state in self._states.values():
            for tensor in state.exits:
                if not pending.get(tensor.op):
                    state.pending -= 1
                    if tensor.op not in ready:
                        state.unused.append(tensor)
                    if not state.pending:
                        found += state.unused
            for entered in state.forward.enters:
                if not pending.get(entered.op):
                    pending[entered.op] = 1
        return found

    def exits_ready(self, tensor: Tensor, has_grad: Callable[[Operation], bool]) -> tuple[list[Tensor], list[Tensor]]:
        """Return what can be visited when an Exit has all gradients, and which of it needs
        zeros.
        """
        state = self.state_of(tensor.op, before=False)
        if state is None:
            return [tensor], []
        state.deferred.append(tensor)
        state.pending -= 1
        if state.pending:
            return [], []
        with_grad = [t for t in state.deferred if has_grad(t.op)]
        state.unused += [t for t in state.deferred if not has_grad(t.op)]
        return with_grad + state.unused, list(state.unused) if with_grad else []

    def zeros_for_exit(self, tensor: Tensor) -> Tensor:
        """Return zeros like a loop's result, in the outer backward loop."""
        loop = context_of(tensor.op)
        around = loop.outer if loop is not None else None
        outer_loop = None if around is None else around.loop()
        outer = None if outer_loop is None else self._states.get(outer_loop)
        dims = tensor.shape
        if outer is not None and dims.is_fully_defined():
            made: Tensor = _inside(outer.backward, lambda: zeros(dims, tensor.dtype))
            return made
        if outer is not None:
            sizes = _inside(around, lambda: shape(tensor, optimize=False))
            held = outer.push(sizes)
            result: Tensor = _inside(outer.backward, lambda: zeros(outer.pop(held, sizes), tensor.dtype))
            return result
        return zeros(dims, tensor.dtype) if dims.is_fully_defined() else zeros_like(tensor, optimize=False)

    def zeros_for(self, op: Operation, index: int) -> Tensor | None:
        """Zeros in place of a gradient that does not come; None at a loop's head."""
        if is_loop_switch(op):
            return None
        context = context_of(op)
        loop = None if context is None else context.loop()
        state = None if loop is None else self._states.get(loop)
        if state is None or context is None:
            return zeros_like_output(op, index)
        value, dead = op.outputs[index], is_switch(op)
        if value.shape.is_fully_defined():
            found = constant(0, value.dtype, shape=value.shape.as_list())
            if dead and isinstance(context, CondContext):
                found = switch_beside(found, state.history[context.pred])[1 - context.branch]
            return found
        sizes = self._sizes(op, value, context, dead=dead)
        state.backward.exit()
        held = state.push(sizes, dead=dead)
        state.backward.enter()
        return zeros(state.pop(held, sizes, dead=dead), value.dtype)

    @staticmethod
    def _sizes(op: Operation, value: Tensor, context: ControlFlowContext, *, dead: bool) -> Tensor:
        """Return a value's shape, computed in the forward loop; if dead, on the other side of the
        branch.
        """
        if not dead or not isinstance(context, CondContext):
            found: Tensor = _inside(context, lambda: shape(value, optimize=False))
            return found

        def other() -> tuple[Tensor, Tensor]:
            side = switch_beside(op.inputs[0], context.pred)[1 - context.branch]
            return side, shape(side, optimize=False)

        made: tuple[Tensor, Tensor] = _inside(context.outer, other)
        side, sizes = made
        set_context(side.op, context)
        set_context(sizes.op, context)
        return sizes

    def finish(self) -> None:
        """Make backward loops without an incoming gradient forward zeros."""
        for state in self._states.values():
            for merged in state.merges.values():
                if merged.op.inputs[0] is merged.op.inputs[1]:
                    merged.op.close_cycle(1, self._zero_round(state, merged))

    @staticmethod
    def _zero_round(state: GradLoopState, merged: Tensor) -> Tensor:
        first, loop = merged.op.inputs[0], state.backward
        if first.shape.is_fully_defined():
            found: Tensor = _inside(loop, lambda: next_iteration(constant(0, first.dtype, shape=first.shape.as_list())))
            return found
        value = _inside(loop.outer, lambda: zeros(shape(first.op.inputs[0], optimize=False), first.dtype))
        result: Tensor = _inside(loop, lambda: next_iteration(value))
        return result


def walk_of(between: Iterable[Operation]) -> tuple[LoopWalk | None, list[Operation]]:
    """Return the loops of a walk, or None, and its operations with those that the loops add."""
    ops = list(between)
    if not any(is_exit(op) and isinstance(context_of(op), WhileContext) for op in ops):
        return None, ops
    return LoopWalk(ops), ops


def zeros_like_output(op: Operation, index: int) -> Tensor:
    """Zeros like an output outside of loops; of a branch's Switch, on the branch's other side."""
    value = op.outputs[index]
    context = context_of(op)
    if not is_switch(op) or not isinstance(context, CondContext):
        return _zeros(value)
    other = switch(op.inputs[0], context.pred)[1 - context.branch]
    pivot = call("Identity", other)
    with value.graph.control_dependencies([pivot.op]):
        if value.dtype.name == "resource":
            return zeros(call("VariableShape", other), "float32")
    sizes = shape(other, optimize=False)
    with value.graph.control_dependencies([pivot.op]):
        return zeros(sizes, value.dtype)


def _zeros(tensor: Tensor) -> Tensor:
    """Zeros of the tensor's type and shape."""
    if tensor.dtype.name == "resource":
        return zeros(call("VariableShape", tensor), "float32")
    return zeros_like(tensor, optimize=False)
