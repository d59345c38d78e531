"""Control flow contexts: how nodes are built inside a TF1 branch or loop
(python/ops/control_flow_ops.py).

The active context processes each new operation: outside inputs pass through a Switch (branch) or a
constant Enter (loop), and an operation without inputs gets a control edge from the context's pivot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from xlanb.graph.builders.array_ops import identity
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


# ---------------------------------------------------------------------------------------- the nodes


def switch(data: Any, pred: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The data on the second output where `pred` is true, else on the first; the other is dead."""
    with name_scope(name, "Switch", [data, pred]) as scope:
        data = convert_to_tensor(data, name="data", as_ref=True)
        outputs = call_op("Switch", data, pred, name=scope).outputs
    return _shaped(outputs[0], data.shape), _shaped(outputs[1], data.shape)


def switch_beside(data: Tensor, pred: Tensor, name: str = "Switch") -> tuple[Tensor, Tensor]:
    """A Switch placed with its data; RefSwitch for a reference."""
    with data.graph.colocate_with(data, ignore_existing=True):
        if data.dtype.is_ref_dtype:
            first, second = call_op("RefSwitch", data, pred, name=name).outputs
            return _shaped(first, data.shape), _shaped(second, data.shape)
        return switch(data, pred, name)


def merge(inputs: Sequence[Tensor], name: str | None = None) -> Tensor:
    """The first input that is alive."""
    with name_scope(name, "Merge", list(inputs)) as scope:
        is_ref = all(t.dtype.is_ref_dtype for t in inputs)
        made = call("RefMerge" if is_ref else "Merge", list(inputs), name=scope)
    return _shaped(made, common_shape([t.shape for t in inputs]))


def enter(tensor: Any, frame: str, *, is_constant: bool = False, parallel: int = 10, name: str | None = None) -> Any:
    """A tensor (or slices) brought into a loop's frame."""
    if isinstance(tensor, IndexedSlices):
        parts = (tensor.values, tensor.indices, tensor.dense_shape)
        inside: list[Any] = [
            None if p is None else enter(p, frame, is_constant=is_constant, parallel=parallel) for p in parts
        ]
        return IndexedSlices(*inside)
    op_type = "RefEnter" if tensor.dtype.is_ref_dtype else "Enter"
    made = call(op_type, tensor, frame_name=frame, is_constant=is_constant, parallel_iterations=parallel, name=name)
    made.give_shape(tensor.shape.as_tuple())
    return made


def leave(tensor: Any, name: str | None = None) -> Any:
    """A tensor (or slices) brought out of a loop."""
    if isinstance(tensor, IndexedSlices):
        parts = (tensor.values, tensor.indices, tensor.dense_shape)
        outside: list[Any] = [None if p is None else leave(p) for p in parts]
        return IndexedSlices(*outside)
    return _shaped(call("RefExit" if tensor.dtype.is_ref_dtype else "Exit", tensor, name=name), tensor.shape)


def next_iteration(tensor: Tensor) -> Tensor:
    """Pass a tensor to the next iteration."""
    op_type = "RefNextIteration" if tensor.dtype.is_ref_dtype else "NextIteration"
    return _shaped(call(op_type, tensor), tensor.shape)


def close_loop(merged: Tensor, value: Tensor) -> Tensor:
    """Set the back edge of the Merge at a loop's head to `value`."""
    back = next_iteration(convert_to_tensor(value))
    merged.op.close_cycle(1, back)
    return back


def _shaped(tensor: Tensor, shape: TensorShape) -> Tensor:
    tensor.give_shape(shape.as_tuple())
    return tensor


def common_shape(shapes: Sequence[TensorShape]) -> TensorShape:
    """Return the dimensions on which all shapes agree."""
    dims = [s.as_tuple() for s in shapes]
    first = dims[0]
    if first is None or any(d is None or len(d) != len(first) for d in dims):
        return TensorShape(None)
    return TensorShape(
        [column[0] if len(set(column)) == 1 else None for column in zip(*(d or () for d in dims), strict=True)]
    )


# ----------------------------------------------------------------------------------------- contexts


class ControlFlowContext:
    """A branch or a loop: the tensors known inside, and the enclosing context.

    Attributes:
        name: for a loop, its frame's.
        outer: the enclosing context.
        values: tensors that may be used inside directly.
        external: tensors from outside -> their tensors inside.
    """

    def __init__(self, name: str) -> None:
        graph = get_default_graph()
        self.name = graph.unique_name(name)
        self.graph = graph
        self.outer: ControlFlowContext | None = graph.scopes.context
        self.values: set[Tensor] = set()
        self.external: dict[Tensor, Tensor] = {}
        self._entered: list[ControlFlowContext | None] = []

    def enter(self) -> None:
        """From now on operations are made inside."""
        scopes = get_default_graph().scopes
        self._entered.append(scopes.context)
        scopes.context = self

    def exit(self) -> None:
        """Undo `enter`."""
        get_default_graph().scopes.context = self._entered.pop()

    def loop(self) -> WhileContext | None:
        """Return the innermost loop that is, or encloses, this context."""
        return None if self.outer is None else self.outer.loop()

    def pivot_now(self) -> Tensor | None:
        """Return the pivot, from which operations without inputs get a control edge."""
        raise AssertionError("abstract")

    def add_value(self, value: Tensor) -> Tensor:
        """Return the tensor for `value` inside the context; make it if there is none."""
        raise AssertionError("abstract")

    def add_op(self, op: Operation) -> None:
        """Add a new operation to the context."""
        raise AssertionError("abstract")

    def give_out(self, tensors: Sequence[Tensor]) -> None:
        """Make these tensors available in the enclosing context."""
        if self.outer is not None:
            self.outer.values.update(tensors)

    def holds(self, op: Operation) -> bool:
        """Whether an operation is inside."""
        found = context_of(op)
        while found is not self and found is not None:
            found = found.outer
        return found is self

    def drop_outside_waits(self, op: Operation) -> tuple[list[Operation], list[Operation]]:
        """Remove control inputs from outside the loop; return those kept and those removed."""
        loop = self.loop()
        if loop is None:
            return list(op.control_inputs), []
        inside: list[Operation] = []
        outside: list[Operation] = []
        for other in op.control_inputs:
            found = output_context(other)
            (inside if found is not None and found.loop() is loop else outside).append(other)
        for other in outside:
            op.remove_control_input(other)
        return inside, outside


class LoopGradients(Protocol):
    """A forward loop and the backward loop of its gradients, as contexts and ops need them."""

    forward: WhileContext
    backward: WhileContext
    history: dict[Tensor, Tensor]
    merges: dict[Operation, Tensor]

    def real_value(self, value: Tensor) -> Tensor:
        """Return a forward tensor's value for the backward loop."""

    def push(self, value: Tensor, *, dead: bool = False) -> Tensor:
        """Make a stack of a value of all forward iterations."""

    def pop(self, held: Tensor, value: Tensor, *, dead: bool = False) -> Tensor:
        """Pop the value of the current backward iteration from the stack."""

    def accumulate(self, op: Operation, grad: Tensor) -> Tensor:
        """Sum the gradient of a loop invariant over all iterations."""

    def accumulate_slices(self, op: Operation, grad: IndexedSlices) -> IndexedSlices:
        """The same of slices."""


class CondContext(ControlFlowContext):
    """One side of a cond: `branch` is 1 if `pred` is true, 0 if it is false."""

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int) -> None:
        super().__init__("cond_text")
        self.pred = pred
        self.pivot = pivot
        self.branch = branch
        self.values |= {pred, pivot}
        self.external[pred] = pred
        set_context(pivot.op, self)

    @property
    def grad_state(self) -> LoopGradients | None:
        """The gradient state of the enclosing loop."""
        loop = self.loop()
        return None if loop is None else loop.grad_state

    def pivot_now(self) -> Tensor | None:
        """The side's pivot."""
        return self.pivot

    def add_value(self, value: Tensor) -> Tensor:
        """Return the branch's output of a Switch on the value."""
        if value in self.values:
            return self.external.get(value, value)
        self.values.add(value)
        result = value
        if self.outer is not None:
            result = self.outer.add_value(value)
            self.values.add(result)
            self.external[result] = result
        with self.graph.control_dependencies(None):
            result = switch_beside(result, self.pred)[self.branch]
        set_context(result.op, self)
        context: ControlFlowContext | None = self
        while context is not None:
            context.values.add(result)
            context = context.outer
        self.external[value] = result
        return result

    def add_op(self, op: Operation) -> None:
        """Pass inputs through Switches; add a control edge from the pivot to ops without inputs."""
        if not op.inputs:
            self.drop_outside_waits(op)
            if not any(self.holds(other) for other in op.control_inputs):
                op.add_control_input(self.pivot.op)
        else:
            for index, tensor in enumerate(op.inputs):
                back_edge = op.type == "Merge" and tensor.op.type == "NextIteration"
                inside = tensor if back_edge else self.add_value(tensor)
                if inside is not tensor:
                    op.set_input(index, inside)
            self.drop_outside_waits(op)
            if op.type in self.graph.functions:
                op.add_control_input(self.pivot.op)
        context: ControlFlowContext | None = self
        while context is not None:
            context.values.update(op.outputs)
            context = context.outer

    def result(self, value: Tensor) -> Tensor:
        """A result of the side: a value from outside gets a Switch of its own."""
        if value in self.values:
            return self.external.get(value, value)
        self.values.add(value)
        inside = value
        if self.outer is not None:
            inside = self.outer.add_value(value)
            self.values.add(inside)
            self.external[inside] = inside
        inside = switch_beside(inside, self.pred)[self.branch]
        self.external[value] = inside
        return inside


class WhileContext(ControlFlowContext):
    """A while loop, forward, or backward where `grad_state` is set.

    Attributes:
        pivot: the LoopCond. enters, exits: tensors at its ends.
    """

    def __init__(
        self, maximum_iterations: Tensor | None = None, parallel: int = 10, *, back_prop: bool = True,
        swap_memory: bool = False,
        name: str = "while_context", grad_state: LoopGradients | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name)
        self.maximum_iterations = maximum_iterations
        self.parallel = parallel
        self.back_prop = back_prop
        self.swap_memory = swap_memory
        self.grad_state = grad_state
        self.pivot: Any = None
        self.pivot_for_pred: Tensor | None = None
        self.pivot_for_body: Tensor | None = None
        self.enters: list[Any] = []
        self.exits: list[Any] = []

    def loop(self) -> WhileContext | None:
        """Itself."""
        return self

    def pivot_now(self) -> Tensor | None:
        """The condition's pivot, then the body's."""
        return self.pivot_for_body if self.pivot_for_body is not None else self.pivot_for_pred

    def add_value(self, value: Tensor) -> Tensor:
        """Make a constant Enter of the value; in a backward loop, of the forward loop's value in
        that iteration.
        """
        if value in self.values or context_of(value.op) is self:
            return self.external.get(value, value)
        self.values.add(value)
        backward = _current_loop()
        if backward is not None and backward.grad_state is not None:
            forward = output_context(value.op)
            if forward is not None and forward.loop() is backward.grad_state.forward:
                real = backward.grad_state.real_value(value)
                self.external[value] = real
                return real
        result: Tensor = value if self.outer is None else self.outer.add_value(value)
        with self.graph.control_dependencies(None):
            result = enter(result, self.name, is_constant=True, parallel=self.parallel)
        self.place_enters([result])
        self.values.add(result)
        self.external[value] = result
        return result

    def place_enters(self, enters: Sequence[Tensor]) -> None:
        """Put Enters into the loop, with the enclosing blocks' control inputs from outside of
        it.
        """
        for tensor in enters:
            waits = self.graph.scopes.control_inputs_for({tensor.op.inputs[0].op})
            set_context(tensor.op, self)
            for other in waits:
                if self._reaches(output_context(other)):
                    tensor.op.add_control_input(other)
            self.graph.scopes.note_made(tensor.op)

    def _reaches(self, wanted: ControlFlowContext | None) -> bool:
        """Whether a context encloses this one within the same outer loop."""
        context, outer_loop = self.outer, None if self.outer is None else self.outer.loop()
        while context is not wanted:
            if context is None or context is outer_loop:
                return False
            context = context.outer
        return True

    def add_op(self, op: Operation) -> None:
        """Pass inputs through constant Enters; add a control edge from the pivot to ops without
        inputs.

        Shapes of forward values are computed in the forward loop.
        """
        backward = _current_loop()
        if op.type in {"Shape", "Size", "Rank"} and backward is not None and backward.grad_state is not None:
            found = context_of(op.inputs[0].op)
            if found is not None and found.loop() is backward.grad_state.forward:
                set_context(op, found)
                _take_in(found, op)
                return
        self.take_in(op)

    def take_in(self, op: Operation) -> None:
        """`add_op` without exceptions."""
        pivot = self.pivot_now()
        if op.type in _CALLS and pivot is not None:
            op.add_control_input(pivot.op)
        for index, tensor in enumerate(op.inputs):
            inside = self.add_value(tensor)
            if inside is not tensor:
                op.set_input(index, inside)
        waits, outside = self.drop_outside_waits(op)
        is_free = all(is_loop_constant(t.op) for t in op.inputs) and not op.control_inputs
        if pivot is not None and ((not op.inputs and not waits) or (op.inputs and is_free)):
            op.add_control_input(pivot.op)
        self.values.update(op.outputs)
        if outside:
            with self.graph.control_dependencies(None):
                self.enter()
                inside_ops = [identity(other.outputs[0]).op for other in outside if other.outputs]
                self.exit()
            for other in inside_ops:
                op.add_control_input(other)


def _take_in(context: ControlFlowContext, op: Operation) -> None:
    if isinstance(context, WhileContext):
        context.take_in(op)
    else:
        context.add_op(op)


# ---------------------------------------------------------------------------------------- questions


def context_of(op: Operation) -> ControlFlowContext | None:
    """The context that an operation was made in."""
    found: ControlFlowContext | None = op.graph.scopes.contexts.get(op)
    return found


def set_context(op: Operation, context: ControlFlowContext | None) -> None:
    """Record the context of an operation."""
    op.graph.scopes.contexts[op] = context


def output_context(op: Operation) -> ControlFlowContext | None:
    """Return the context of an operation's outputs: for a loop's Exit, the outer one."""
    found = context_of(op)
    return found.outer if found is not None and is_exit(op) else found


def _current_loop() -> WhileContext | None:
    context = get_default_graph().scopes.context
    return None if context is None else context.loop()


def is_exit(op: Operation) -> bool:
    """Whether it leaves a loop."""
    return op.type in {"Exit", "RefExit"}


def is_switch(op: Operation) -> bool:
    """Whether it is a Switch."""
    return op.type in {"Switch", "RefSwitch"}


def is_loop_constant(op: Operation) -> bool:
    """Whether it brings a value into a loop that is the same in each round."""
    return op.type in {"Enter", "RefEnter"} and bool(op.attrs.get("is_constant"))


def is_loop_switch(op: Operation) -> bool:
    """Whether it is the Switch at a loop's head, and not one of a branch inside."""
    if not is_switch(op) or not isinstance(context_of(op), WhileContext):
        return False
    readers = [reader for t in op.outputs for reader in t.consumers()]
    contexts = [_reading_context(r) for r in readers]
    return not (bool(op.outputs) and all(isinstance(c, CondContext) for c in contexts))


def _reading_context(op: Operation) -> ControlFlowContext | None:
    """Return the context in which an operation reads its inputs: for a loop's Enter, the outer
    one.
    """
    found = context_of(op)
    return found.outer if found is not None and op.type in {"Enter", "RefEnter"} else found
