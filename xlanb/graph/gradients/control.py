"""Gradients of TF1 branches, loops and tensor arrays.

Source: python/ops/{control_flow_grad,tensor_array_grad}.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError, UnimplementedError
from xlanb.graph.builders.array_ops import identity
from xlanb.graph.builders.control_flow_context import (
    CondContext,
    ControlFlowContext,
    WhileContext,
    close_loop,
    context_of,
    enter,
    leave,
    merge,
    output_context,
    switch,
    switch_beside,
)
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.tensor_array import TensorArray
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor

not_differentiable(
    "LoopCond", "ControlTrigger", "StackV2", "StackPushV2", "StackPopV2", "StackCloseV2", "TensorArrayV3",
    "TensorArrayGradV3",
    "TensorArraySizeV3", "TensorArrayCloseV3",
)  # fmt: skip


def _current() -> ControlFlowContext | None:
    found: ControlFlowContext | None = get_default_graph().scopes.context
    return found


@register_gradient("Switch", "RefSwitch")
def _switch(op: Operation, *grads: Any) -> Any:
    context, current = context_of(op), _current()
    if isinstance(context, WhileContext):
        state = current.grad_state if isinstance(current, WhileContext | CondContext) else None
        if state is None:
            return None, None
        merged = state.merges.get(op)
        if merged is not None:
            if grads[1] is not None:
                close_loop(merged, convert_to_tensor(grads[1]))
            return None, None
        if grads[0] is None:
            return None, None
        first = convert_to_tensor(grads[0])
        state.merges[op] = merge([first, first], name="b_switch")
        return state.merges[op], None
    if isinstance(context, CondContext):
        if grads[1 - context.branch] is None:
            if op.inputs[0].dtype.name == "resource":
                taken = convert_to_tensor(grads[context.branch])
                return merge([taken, taken], name="cond_resource_grad"), None
            return None, None
        return merge([convert_to_tensor(g) for g in grads], name="cond_grad"), None
    false, true = switch(grads[0], op.inputs[1])[0], switch(grads[1], op.inputs[1])[1]
    return merge([false, true]), None


@register_gradient("Merge", "RefMerge")
def _merge(op: Operation, grad: Any, _: Any) -> Any:
    context, current = output_context(op.inputs[0].op), _current()
    if isinstance(context, WhileContext) and isinstance(current, WhileContext):
        return list(_switched(grad, current.pivot))
    if isinstance(context, CondContext):
        pred = context.pred
        state = current.grad_state if isinstance(current, WhileContext | CondContext) else None
        if state is not None:
            if pred not in state.history:
                state.backward.exit()
                held = state.push(pred)
                state.backward.enter()
                state.history[pred] = state.pop(held, pred)
            pred = state.history[pred]
        return list(_switched(grad, pred, name="cond_grad"))
    chosen = [call("Equal", op.outputs[1], i) for i in range(len(op.inputs))]
    return [_switched(grad, c)[1] for c in chosen]


def _switched(grad: Any, pred: Tensor, name: str = "Switch") -> tuple[Any, Any]:
    """Both ways of a gradient; of slices, of each of their parts."""
    if not isinstance(grad, IndexedSlices):
        return switch_beside(grad, pred, name)
    parts = [None if p is None else switch(p, pred) for p in (grad.values, grad.indices, grad.dense_shape)]
    ways: list[list[Any]] = [[None if p is None else p[i] for p in parts] for i in (0, 1)]
    return IndexedSlices(*ways[0]), IndexedSlices(*ways[1])


@register_gradient("Exit", "RefExit")
def _exit(op: Operation, grad: Any) -> Any:
    current, forward = _current(), context_of(op)
    if not isinstance(current, WhileContext) or not current.back_prop:
        return None
    if isinstance(forward, WhileContext) and forward.grad_state is not None:
        raise UnimplementedError(f"Second-order gradient for while loops not supported: {op.describe()}")
    parts = (grad.values, grad.indices, grad.dense_shape) if isinstance(grad, IndexedSlices) else (grad,)
    current.values.update(p for p in parts if p is not None)
    current.enter()
    result = enter(grad, current.name, parallel=current.parallel, name="b_exit")
    current.enters.append(result)
    current.exit()
    return result


@register_gradient("NextIteration", "RefNextIteration")
def _next_iteration(_: Operation, grad: Any) -> Any:
    return grad


@register_gradient("Enter", "RefEnter")
def _enter(op: Operation, grad: Any) -> Any:
    current = _current()
    if not isinstance(current, WhileContext) or not current.back_prop or current.grad_state is None:
        return grad
    if op.attrs.get("is_constant"):
        if isinstance(grad, IndexedSlices):
            return current.grad_state.accumulate_slices(op, grad)
        return current.grad_state.accumulate(op, grad)
    result = leave(grad)
    current.exits.append(result)
    current.give_out([result] if isinstance(result, Tensor) else [result.values, result.indices])
    return result


# ------------------------------------------------------------------------------------ tensor arrays


def _source(tensor: Tensor) -> str:
    """Which call of tf.gradients this is: one backward array is shared within it."""
    parts = tensor.name.split("/")
    places = [i for i, part in enumerate(parts) if part.startswith("gradients")]
    if not places:
        raise GraphValueError(
            f"a gradient through a TensorArray needs a scope that starts with 'gradients': {tensor.name!r}"
        )
    return "/".join(parts[: places[-1] + 1])


def _gradient_array(handle: Tensor, flow: Tensor, dtype: Any, source: str) -> TensorArray:
    array = TensorArray(dtype, handle=handle, flow=flow, colocate_with_first_write_call=False)
    return array.grad(source, flow)


def _barrier(op: Operation, flow: Tensor) -> Tensor:
    """Return the gradient's flow, after the forward writes."""
    out = identity(op.outputs[0], name="flow_out")
    with out.graph.control_dependencies([out.op]):
        return identity(flow, name="write_barrier")


@register_gradient("TensorArrayReadV3")
def _read(op: Operation, grad: Any) -> Any:
    handle, index, flow = op.inputs
    array = _gradient_array(handle, flow, op.attrs["dtype"], _source(grad))
    return None, None, array.write(index, grad).flow


@register_gradient("TensorArrayWriteV3")
def _write(op: Operation, flow: Any) -> Any:
    source = _source(flow)
    flow = _barrier(op, flow)
    array = _gradient_array(op.inputs[0], flow, op.attrs["T"], source)
    return None, None, array.read(op.inputs[1]), flow


@register_gradient("TensorArrayGatherV3")
def _gather(op: Operation, grad: Any) -> Any:
    handle, indices, flow = op.inputs
    array = _gradient_array(handle, flow, op.attrs["dtype"], _source(grad))
    return None, None, array.scatter(indices, grad).flow


@register_gradient("TensorArrayScatterV3")
def _scatter(op: Operation, flow: Any) -> Any:
    source = _source(flow)
    flow = _barrier(op, flow)
    array = _gradient_array(op.inputs[0], flow, op.attrs["T"], source)
    return None, None, array.gather(op.inputs[1]), flow


@register_gradient("TensorArrayConcatV3")
def _concat(op: Operation, grad: Any, _: Any) -> Any:
    handle, flow = op.inputs
    array = _gradient_array(handle, flow, op.attrs["dtype"], _source(grad))
    return None, array.split(grad, op.outputs[1]).flow


@register_gradient("TensorArraySplitV3")
def _split(op: Operation, flow: Any) -> Any:
    source = _source(flow)
    flow = _barrier(op, flow)
    array = _gradient_array(op.inputs[0], flow, op.attrs["T"], source)
    return None, array.concat(), None, flow
