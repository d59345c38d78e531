"""Rewriting graphs: copies, the part that some fetches need, and orders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from xlanb.errors import GraphValueError
from xlanb.graph.default_graph import make_graph
from xlanb.graph.operation import Operation, Tensor

if TYPE_CHECKING:
    from xlanb.graph.graph import Graph


def copy_graph(graph: Graph, keep: Collection[Operation] | None = None, name: str | None = None) -> Graph:
    """Copy a graph (or the nodes in `keep`) with names, attributes, order and Python lines.

    Control edges from nodes that are not kept are dropped; the function library, collections and
    seed are shared.

    Raises:
        GraphValueError: a kept node reads one that is not kept.
    """
    kept = graph.get_operations() if keep is None else [op for op in graph if op in keep]
    new = make_graph()
    new.name = name or graph.name
    new.functions = dict(graph.functions)
    new.seed = graph.seed
    new.graphdef_rest = graph.graphdef_rest
    for op in kept:
        copy = new.add_op(op.type, op.name, dtypes=[t.dtype for t in op.outputs], attrs=op.attrs, device=op.device)
        copy.source_file, copy.source_line, copy.raw_attrs = op.source_file, op.source_line, op.raw_attrs
    for op in kept:
        copy = new.get_operation_by_name(op.name)
        for tensor in op.inputs:
            if tensor.op.name not in new:
                raise GraphValueError(f"cannot remove {tensor.op!r}: it is used by {op!r}")
            copy.add_input(new.get_operation_by_name(tensor.op.name).outputs[tensor.value_index])
        for waited in op.control_inputs:
            if waited.name in new:
                copy.add_control_input(new.get_operation_by_name(waited.name))
    _carry_shapes(kept, new)
    new.names.in_use = dict(graph.names.in_use)
    return new


def _carry_shapes(ops: Iterable[Operation], new: Graph) -> None:
    """Shapes that are known stay known; last, because adding inputs forgets them."""
    for op in ops:
        for tensor, copy in zip(op.outputs, new.get_operation_by_name(op.name).outputs, strict=True):
            copy.adopt_shape(tensor)


def needed_by(targets: Iterable[Operation], stop: Collection[Tensor] = ()) -> set[Operation]:
    """Return the operations that the targets need by data and control edges; `stop` tensors are
    fed.

    An operation is not needed for outputs that are all fed, but may be needed for others.
    """
    given = set(stop)
    found: set[Operation] = set()
    pending = list(targets)
    while pending:
        op = pending.pop()
        if op in found:
            continue
        found.add(op)
        pending += (t.op for t in op.inputs if t not in given)
        pending += op.control_inputs
    return found


def subgraph(
    graph: Graph, fetches: Iterable[Operation | Tensor], feeds: Mapping[Tensor, Tensor] | Collection[Tensor] = ()
) -> Graph:
    """Copy the part of the graph that the fetches need.

    A fed operation with one output becomes a Placeholder of the same name, type and shape. If it
    has several outputs, the whole operation is kept, with its inputs.
    """
    fed = set(feeds)
    targets = [f.op if isinstance(f, Tensor) else f for f in fetches]
    keep = needed_by([t for t in targets if not _is_fed(t, fed)], fed) | {t for t in targets if _is_fed(t, fed)}
    cut: dict[Operation, Tensor] = {}
    for tensor in fed:
        read = tensor.op in keep or any(r in keep for r in tensor.uses)
        if not read:
            continue
        if _is_fed(tensor.op, fed):
            cut[tensor.op] = tensor
            keep.add(tensor.op)
        else:
            keep |= needed_by([tensor.op], fed)
    return _copy_cut(graph, keep, cut)


def _is_fed(op: Operation, fed: Collection[Tensor]) -> bool:
    return len(op.outputs) == 1 and op.outputs[0] in fed


def _copy_cut(graph: Graph, keep: set[Operation], cut: Mapping[Operation, Tensor]) -> Graph:
    """Copy the kept part, with placeholders for fed operations."""
    for op, tensor in cut.items():
        if op.type in {"Placeholder", "PlaceholderWithDefault"}:
            keep |= needed_by(t.op for t in op.inputs)
        elif op.inputs or op.control_inputs:
            return _with_placeholders(graph, keep, cut)
        del tensor
    return copy_graph(graph, keep)


def _with_placeholders(graph: Graph, keep: set[Operation], cut: Mapping[Operation, Tensor]) -> Graph:
    whole = copy_graph(graph)
    names = {op.name for op in keep}
    for op, tensor in cut.items():
        if op.type != "Placeholder":
            copy = whole.get_operation_by_name(op.name)
            shape = tensor.shape
            copy.disconnect()
            copy.type = "Placeholder"
            copy.raw_attrs = None
            copy.attrs = {"dtype": tensor.dtype.base_dtype, "shape": shape}
            copy.outputs[0].dtype = tensor.dtype.base_dtype
    return copy_graph(whole, {op for op in whole if op.name in names})


def topological_order(graph: Graph) -> list[Operation]:
    """All operations, each after its inputs; among the ready ones, in the graph's order.

    Raises:
        GraphValueError: a cycle other than through NextIteration; the message names its nodes.
    """
    ops = graph.get_operations()
    waiting = {op: len(set(_predecessors(op))) for op in ops}
    order = [op for op in ops if not waiting[op]]
    for op in order:
        for reader in dict.fromkeys([*(r for t in op.outputs for r in t.uses), *op.control_outputs]):
            if op in _predecessors(reader):
                waiting[reader] -= 1
                if not waiting[reader]:
                    order.append(reader)
    if len(order) < len(ops):
        done = set(order)
        raise GraphValueError(
            f"the graph has a cycle outside of loops: {_cycle([op for op in ops if op not in done], done)}"
        )
    return order


def _predecessors(op: Operation) -> list[Operation]:
    back = op.type in {"Merge", "RefMerge"}
    data = [t.op for t in op.inputs if not (back and t.op.type in {"NextIteration", "RefNextIteration"})]
    return [*data, *op.control_inputs]


def _cycle(left: list[Operation], done: set[Operation]) -> str:
    """Names along one cycle among the operations that are left."""
    path: dict[Operation, None] = {}
    op = left[0]
    while op not in path:
        path[op] = None
        op = next(p for p in _predecessors(op) if p not in done)
    names = [o.name for o in path]
    cycle = names[names.index(op.name) :]
    shown = cycle[:12]
    return " <- ".join([*shown, *(["..."] if len(cycle) > len(shown) else []), op.name])


def edit(graph: Graph, change: Callable[[Graph], bool]) -> Graph:
    """Return a changed copy, or the graph itself if `change` returns False."""
    copy = copy_graph(graph)
    return copy if change(copy) else graph
