"""tf.gradients: the backward pass, with TensorFlow's names and order
(python/ops/gradients_util.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders.array_ops import concat, identity, ones, shape, zeros_like
from xlanb.graph.builders.control_flow_context import is_exit, is_loop_switch
from xlanb.graph.builders.control_ops import tuple_
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.math_ops import add_n, cast
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import int32
from xlanb.graph.gradients.loops import walk_of, zeros_like_output
from xlanb.graph.gradients.registry import as_list, gradient_function
from xlanb.graph.operation import Operation, Tensor

Gradient = Tensor | IndexedSlices


class AggregationMethod:
    """Ways to add several gradients of one tensor: one AddN, or pairs."""

    ADD_N = 0
    DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
) -> list[Any]:
    """Differentiate sum(ys) by each of xs: tensors or IndexedSlices, None (or zeros) if
    independent.

    `xs` may be variables; `grad_ys` are incoming gradients of ys, ones by default.

    Raises:
        UnimplementedError: an op on the path has no gradient here.
        GraphTypeError, GraphValueError: invalid arguments.
    """
    y_list, x_list, stops = _as_list(ys), _as_list(xs), _as_list(stop_gradients or [])
    given = [None] * len(y_list) if grad_ys is None else _as_list(grad_ys)
    graph_of_all = [v for v in (*y_list, *x_list, *stops, *given) if v is not None]
    with name_scope(name, "gradients", graph_of_all) as scope:
        get_default_graph().unique_name("uid")
        targets = [_gradient_or_tensor(y, f"y_{i}") for i, y in enumerate(y_list)]
        sources = [_source(x) for x in x_list]
        starts = _default_grads([_tensor(t) for t in targets], given)
        walk = _Backprop(
            [_tensor(t) for t in targets], sources, stops, aggregation_method or 0,
            scope=scope, colocate=colocate_gradients_with_ops, gate=gate_gradients,
        )  # fmt: skip
        walk.start(starts)
        walk.run()
        return [walk.result(x, zero=unconnected_gradients == "zero") for x in sources]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _source(x: Any) -> Tensor:
    """Return the tensor to differentiate by: a resource variable's handle, a variable's reference,
    or x.
    """
    handle = getattr(x, "handle", None)
    return handle if isinstance(handle, Tensor) else convert_to_tensor(x, as_ref=True)


def _gradient_or_tensor(value: Any, name: str) -> Gradient:
    return value if isinstance(value, IndexedSlices) else convert_to_tensor(value, name=name)


def _tensor(value: Gradient) -> Tensor:
    return value.values if isinstance(value, IndexedSlices) else value


def _default_grads(ys: Sequence[Tensor], given: Sequence[Any]) -> list[Gradient]:
    if len(given) != len(ys):
        raise GraphValueError(f"{len(given)} grad_ys do not match {len(ys)} ys")
    found: list[Gradient] = []
    for i, (y, grad) in enumerate(zip(ys, given, strict=True)):
        label = f"grad_ys_{i}"
        if grad is None:
            if y.dtype.is_complex:
                raise GraphTypeError(f"the gradient of the complex tensor {y.name!r} needs grad_ys")
            if not (y.dtype.is_floating or y.dtype.is_integer):
                raise GraphTypeError(f"tensor {y.name!r} of type {y.dtype.name} has no gradient: it must be numeric")
            found.append(ones(shape(y), y.dtype.base_dtype, label))
            continue
        grad = _gradient_or_tensor(grad, f"grad_y_{i}")
        if grad.dtype.is_complex != y.dtype.is_complex:
            raise GraphTypeError(f"grad_ys[{i}] has type {grad.dtype.name}, {y.name!r} has {y.dtype.name}")
        if isinstance(grad, IndexedSlices):
            values, indices = identity(grad.values, f"{label}_values"), identity(grad.indices, f"{label}_indices")
            found.append(IndexedSlices(values, indices, grad.dense_shape))
        else:
            found.append(identity(grad, label))
    return found


def is_trainable(tensor: Tensor) -> bool:
    """Whether gradients flow through a tensor of this type."""
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype.name in {"resource", "variant"}


class _Backprop:
    """One walk: how many gradients each operation still waits for, and those it has."""

    def __init__(
        self,
        ys: list[Tensor],
        xs: list[Tensor],
        stops: list[Any],
        aggregation: int,
        *,
        scope: str,
        colocate: bool,
        gate: bool,
    ) -> None:
        self.ys = ys
        self.scope = scope
        self.graph = get_default_graph()
        self.aggregation = aggregation
        self.colocate = colocate
        self.gate = gate
        self.grads: dict[Operation, list[Any]] = {}
        from_ops = [x.op for x in xs]
        self.reached = _reachable(from_ops)
        self.loops, between = walk_of(_between([y.op for y in ys], self.reached))
        self.pending = _pending_counts(between)
        self.stop_ops = {op for op in from_ops if not any(self.pending.get(t.op, 0) > 0 for t in op.inputs)}
        self.stop_ops |= {s.op for s in stops}
        self.queue: deque[Operation] = deque()

    def start(self, grad_ys: Sequence[Gradient]) -> None:
        """Give the ys their gradients and queue those that wait for no other."""
        for y, grad in zip(self.ys, grad_ys, strict=True):
            self._add(y, grad)
        for op in dict.fromkeys(y.op for y in self.ys):
            if self.pending.get(op, 0) == 0 and op in self.reached:
                self.queue.append(op)
        if self.loops is not None:
            for tensor in self.loops.start(self.pending, set(self.queue)):
                self._add_zeros_for_exit(tensor)
                self.queue.append(tensor.op)

    def run(self) -> None:
        """Visit operations, each after all that read it."""
        while self.queue:
            op = self.queue.popleft()
            out_grads = self._within(op, partial(self._aggregated, op), before=True)
            in_grads = self._within(op, partial(self._in_grads, op, out_grads), before=False)
            for tensor, grad in zip(op.inputs, in_grads, strict=True):
                if grad is None:
                    continue
                if isinstance(grad, Tensor) and tensor.dtype.name != "resource":
                    _add_known_shape(op, tensor, grad)
                self._add(tensor, grad)
            for tensor in op.inputs:
                self._count(tensor)
        if self.loops is not None:
            self.loops.finish()

    def _within(self, op: Operation, make: Callable[[], Any], *, before: bool) -> Any:
        """Call `make` in the backward loop of the operation's loop, if it is in one."""
        return make() if self.loops is None else self.loops.within(op, make, before=before)

    def _count(self, tensor: Tensor) -> None:
        """One reader of a tensor was visited: its operation is next when that was the last one."""
        op = tensor.op
        if op not in self.pending:
            return
        self.pending[op] -= 1
        left = self.pending[op]
        # A loop's head is visited twice: from its exit, and from the end of its body.
        if left and not (self.loops is not None and left > 0 and is_loop_switch(op)):
            return
        if self.loops is None or not is_exit(op):
            self.queue.append(op)
            return
        ready, lacking = self.loops.exits_ready(tensor, self._has_grad)
        for exit_tensor in lacking:
            self._add_zeros_for_exit(exit_tensor)
        self.queue.extend(t.op for t in ready)

    def _has_grad(self, op: Operation) -> bool:
        return any(slot is not None and slot != [] for slot in self.grads.get(op, ()))

    def _add_zeros_for_exit(self, tensor: Tensor) -> None:
        if self.loops is not None and is_trainable(tensor):
            self._add(tensor, self.loops.zeros_for_exit(tensor))

    def result(self, x: Tensor, *, zero: bool) -> Gradient | None:
        """The gradient by x."""
        slots = self.grads.get(x.op)
        found: Gradient | None = slots[x.value_index] if slots else None
        return zeros_like(x) if found is None and zero else found

    def _add(self, tensor: Tensor, grad: Gradient) -> None:
        slots = self.grads.setdefault(tensor.op, [[] for _ in tensor.op.outputs])
        if isinstance(slots[tensor.value_index], list):
            slots[tensor.value_index].append(grad)
        else:  # a loop's head, visited before
            slots[tensor.value_index] = grad

    def _aggregated(self, op: Operation) -> list[Any]:
        """Return the sum of the collected gradients of each output."""
        slots = self.grads.setdefault(op, [[] for _ in op.outputs])
        for i, collected in enumerate(slots):
            if isinstance(collected, list):
                slots[i] = self._sum(op, collected) if collected else None
        return list(slots)

    def _sum(self, op: Operation, collected: list[Gradient]) -> Gradient:
        if len(collected) == 1:
            return collected[0]
        dense = [g for g in collected if isinstance(g, Tensor)]
        if len(dense) < len(collected):
            return _sum_slices(collected)
        if self.aggregation:
            with name_scope(f"{op.name}_gradient_sum"):
                total = dense[0]
                for grad in dense[1:]:
                    total = add_n([total, grad])
                return total
        return self._sum_by_device(dense)

    def _sum_by_device(self, tensors: list[Tensor]) -> Tensor:
        """AddN on each device, placed with its first tensor, then AddN of these."""
        by_device: dict[str, list[Tensor]] = {}
        for t in tensors:
            by_device.setdefault(t.device, []).append(t)
        sums = []
        for device in sorted(by_device):
            with self.graph.colocate_with(by_device[device][0], ignore_existing=True):
                sums.append(add_n(by_device[device]))
        return add_n(sums)

    def _in_grads(self, op: Operation, out_grads: list[Any]) -> list[Any]:
        none = [None] * len(op.inputs)
        if op in self.stop_ops or not any(g is not None for g in out_grads):
            return none
        function = gradient_function(op)
        if function is None:
            return none
        with self.graph.colocate_with(op if self.colocate else None):
            for i, tensor in enumerate(op.outputs):
                if out_grads[i] is None and is_trainable(tensor):
                    zero = zeros_like_output if self.loops is None else self.loops.zeros_for
                    out_grads[i] = zero(op, i)
            with name_scope(f"{op.name}_grad"), self.graph.attr_scope(self._jit_attrs(op)):
                found = as_list(function(op, *out_grads))
                if len(found) != len(op.inputs):
                    raise GraphValueError(
                        f"the gradient of op type {op.type!r} returned {len(found)} gradients for "
                        f"{len(op.inputs)} inputs: {op.describe()}"
                    )
                if self.gate and sum(g is not None for g in found) > 1:
                    with self.graph.device(None), self.graph.colocate_with(None, ignore_existing=True):
                        found = tuple_(found)
                return found

    def _jit_attrs(self, op: Operation) -> dict[str, Any]:
        """Return attributes that put a gradient in its op's jit scope, or in a scope of its own on
        request.
        """
        if not op.attrs.get("_XlaCompile"):
            return {}
        scope = op.attrs.get("_XlaScope", "")
        if scope and op.attrs.get("_XlaSeparateCompiledGradients"):
            scope = f"{scope}_grad_{self.scope.removesuffix('/').replace('/', '_')}"
        return {"_XlaCompile": True, "_XlaScope": scope}


def _add_known_shape(op: Operation, tensor: Tensor, grad: Tensor) -> None:
    if not grad.shape.is_compatible_with(tensor.shape):
        raise GraphValueError(
            f"the gradient {grad!r} does not have the shape of its input {tensor.name!r}: {op.describe()}"
        )
    grad.set_shape(tensor.shape)


def _reachable(from_ops: Iterable[Operation]) -> set[Operation]:
    """Operations that depend on `from_ops` through tensors that gradients flow through."""
    found: set[Operation] = set()
    pending = deque(from_ops)
    while pending:
        op = pending.popleft()
        if op not in found:
            found.add(op)
            pending.extend(user for t in op.outputs if is_trainable(t) for user in t.consumers())
    return found


def _between(to_ops: Iterable[Operation], reached: set[Operation]) -> list[Operation]:
    """Operations on the way, each once."""
    found: dict[Operation, None] = {}
    pending = deque(to_ops)
    while pending:
        op = pending.popleft()
        if op in reached and op not in found:
            found[op] = None
            pending.extend(t.op for t in op.inputs)
    return list(found)


def _pending_counts(between: Sequence[Operation]) -> dict[Operation, int]:
    """The operations on the way, each with the number of inputs that read it."""
    counts = dict.fromkeys(between, 0)
    for op in between:
        for t in op.inputs:
            if t.op in counts:
                counts[t.op] += 1
    return counts


def _sum_slices(collected: list[Gradient]) -> Gradient:
    """Concatenate slices; the result is dense if one of them is."""
    slices = [g for g in collected if isinstance(g, IndexedSlices)]
    if len(slices) < len(collected):
        return add_n(collected)
    indices = [s.indices for s in slices]
    if any(i.dtype is not int32 for i in indices):
        indices = [cast(i, "int64") for i in indices]
    return IndexedSlices(concat([s.values for s in slices], axis=0), concat(indices, axis=0), slices[0].dense_shape)
