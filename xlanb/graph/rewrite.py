"""Rewriting graphs: copies, the part that some fetches need, and orders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xlanb.errors import GraphValueError
from xlanb.graph.default_graph import make_graph
from xlanb.graph.operation import Operation, Tensor

if TYPE_CHECKING:
    from xlanb.graph.functions import GraphFunction
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
    inside = set(kept)
    for op in kept:
        read = next((t.op for t in op.inputs if t.op not in inside), None)
        if read is not None:
            raise GraphValueError(f"cannot remove {read!r}: it is used by {op!r}")
    copies = copy_nodes(kept, new, lambda op: op.name)
    for op, copy in copies.items():
        copy.raw_attrs = op.raw_attrs
    adopt_shapes(copies)
    new.names.in_use = dict(graph.names.in_use)
    return new


def copy_nodes(
    ops: Iterable[Operation],
    graph: Graph,
    name_of: Callable[[Operation], str],
    outside: Mapping[Tensor, Tensor] | None = None,
    device: str = "",
) -> dict[Operation, Operation]:
    """Copy nodes into a graph, in order, with attributes, devices, Python lines and edges.

    Control edges from other nodes are dropped. Shapes are not copied (`adopt_shapes`).

    Args:
        ops: the nodes; they may read later ones.
        graph: where the copies are made; it may be the graph of the nodes.
        name_of: the name of a node's copy.
        outside: what the copies read in place of tensors, of these nodes or of others. A tensor of
            another node that is missing here must belong to `graph`.
        device: of copies of nodes that have none.

    Raises:
        GraphValueError: a name is taken, or a tensor that is read belongs to another graph.
    """
    copies: dict[Operation, Operation] = {}
    for op in ops:
        types = [t.dtype for t in op.outputs]
        copy = graph.add_op(op.type, name_of(op), (), types, op.attrs, device=op.device or device)
        copy.source_file, copy.source_line, copy.stack = op.source_file, op.source_line, op.stack
        copies[op] = copy
    stands = {t: copy.outputs[t.value_index] for op, copy in copies.items() for t in op.outputs} | dict(outside or {})
    for op, copy in copies.items():
        for tensor in op.inputs:
            read = stands.get(tensor, tensor)
            graph.check_own(read)
            copy.add_input(read)
        for waited in op.control_inputs:
            if waited in copies:
                copy.add_control_input(copies[waited])
    return copies


def adopt_shapes(copies: Mapping[Operation, Operation]) -> None:
    """Copy the known shapes of nodes to their copies; last, because adding inputs forgets them."""
    for op, copy in copies.items():
        for tensor, made in zip(op.outputs, copy.outputs, strict=True):
            made.adopt_shape(tensor)


def copy_body(
    function: GraphFunction,
    graph: Graph,
    arguments: Sequence[Tensor],
    name_of: Callable[[Operation], str],
    device: str = "",
) -> tuple[dict[Operation, Operation], list[Tensor]]:
    """Copy the nodes of a function's body into a graph, as `copy_nodes`.

    Returns:
        The copies by node, and the function's results for these arguments.
    """
    body = function.body
    stands = {op.outputs[0]: arguments[int(op.attrs["index"])] for op in body if op.type == "_Arg"}
    inner = [op for op in body if op.type not in {"_Arg", "_Retval"}]
    copies = copy_nodes(inner, graph, name_of, stands, device)
    results = sorted((op for op in body if op.type == "_Retval"), key=lambda op: int(op.attrs["index"]))
    ends = [op.inputs[0] for op in results]
    return copies, [stands[t] if t in stands else copies[t.op].outputs[t.value_index] for t in ends]


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
