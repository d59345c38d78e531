"""Nodes that order others: no_op, group, tuple, control dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlanb.errors import GraphTypeError
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import apply_op, call
from xlanb.graph.operation import Operation, Tensor, as_operation


def no_op(name: str | None = None) -> Operation:
    """Make an operation that does nothing, for control edges."""
    return apply_op("NoOp", name)


def group(*inputs: Any, name: str | None = None) -> Operation:
    """Make an operation that is done when all of `inputs` are; one per device first, if several.

    Raises:
        GraphTypeError: an input is neither operation, tensor, nor variable.
    """
    items = [as_operation(i) for i in _flat(inputs)]
    graph = items[0].graph if items else get_default_graph()
    with graph.as_default(), graph.name_scope(name or "group_deps") as scope:
        by_device: dict[str, list[Operation]] = {}
        for op in items:
            by_device.setdefault(op.device, []).append(op)
        if not items:
            return no_op(scope)
        if len(by_device) == 1:
            return _waiting(scope, items, next(iter(by_device)))
        parts = [_waiting(None, by_device[d], d) for d in sorted(by_device)]
        with graph.control_dependencies(parts):
            return no_op(scope)


def _waiting(name: str | None, waits: Sequence[Operation], device: str) -> Operation:
    graph = waits[0].graph
    with graph.control_dependencies(waits), graph.device(device):
        return no_op(name)


def _flat(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for v in values:
        if v is None:
            raise GraphTypeError("group expects operations, tensors and variables, got None")
        found += _flat(v) if isinstance(v, list | tuple) else [v]
    return found


def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: Iterable[Any] = ()) -> list[Any]:
    """The same tensors, each available only when all of them are (tf.tuple). None stays None."""
    items = [
        t if t is None or isinstance(t, Tensor | Operation | IndexedSlices) else convert_to_tensor(t) for t in tensors
    ]
    with name_scope(name, "tuple", [t for t in items if t is not None]):
        graph = get_default_graph()
        waits = [as_operation(t) for t in items if t is not None] + [as_operation(c) for c in control_inputs]
        order = {op: i for i, op in enumerate(graph)}
        gate = group(*sorted(set(waits), key=order.__getitem__))
        return [_gated(t, gate) for t in items]


def _gated(item: Any, gate: Operation) -> Any:
    if item is None:
        return None
    if isinstance(item, Operation):
        with item.graph.control_dependencies([gate]):
            return group(item)
    return with_dependencies([gate], item)


def with_dependencies(dependencies: Iterable[Operation], output: Any, name: str | None = None) -> Any:
    """The same tensor (or slices), available only when the dependencies are done."""
    with name_scope(name, "control_dependency", [output]) as scope:
        graph = get_default_graph()
        with graph.colocate_with(output), graph.control_dependencies(dependencies):
            if isinstance(output, IndexedSlices):
                return IndexedSlices(call("Identity", output.values, name=scope), output.indices, output.dense_shape)
            return call("Identity", output, name=scope)
