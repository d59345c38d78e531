"""Replace function calls by the nodes of their bodies, as TensorFlow does before clustering."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.errors import GraphValueError
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import find_op
from xlanb.graph.optimize.call_expansion import check_expansion
from xlanb.graph.rewrite import adopt_shapes, copy_body

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def inline_calls(graph: Graph) -> None:
    """Replace each PartitionedCall by its function's nodes, named "call/node".

    The call itself becomes an IdentityN (a NoOp without outputs), so that its tensors keep their
    names. Nodes with side effects run whenever the call ran. Functions marked `_noinline`, and
    recursive ones, remain calls.

    Raises:
        GraphValueError: a call does not match its function, or the graph grows too large
            (`check_expansion`).
    """
    check_expansion(f"graph {graph.name!r} cannot be inlined", list(graph), graph.functions)
    pending: list[tuple[Operation, frozenset[str]]] = [(op, frozenset()) for op in graph if op.type in _CALLS]
    while pending:
        call, outer = pending.pop()
        function = graph.functions.get(call.attrs["f"].name)
        if function is None or function.attrs.get("_noinline") or function.name in outer:
            continue
        made = _inline(graph, call, function)
        pending += [(op, outer | {function.name}) for op in made if op.type in _CALLS]


def _inline(graph: Graph, call: Operation, function: GraphFunction) -> list[Operation]:
    """The nodes that took the place of the call."""
    if len(call.inputs) != len(function.inputs) or len(call.outputs) != len(function.outputs):
        raise GraphValueError(
            f"{call.name!r} calls {function!r} with {len(call.inputs)} arguments for {len(call.outputs)} results"
        )
    copies, results = copy_body(
        function, graph, call.inputs, lambda op: _name(graph, f"{call.name}/{op.name}"), call.device
    )
    made = list(copies.values())
    for new in made:
        for waited in call.control_inputs:
            new.add_control_input(waited)
    adopt_shapes(copies)
    _stand_for(call, results, [new for op, new in copies.items() if _has_effect(op)])
    return made


def _name(graph: Graph, wanted: str) -> str:
    name, count = wanted, 0
    while name in graph:
        count += 1
        name = f"{wanted}_{count}"
    return name


def _has_effect(op: Operation) -> bool:
    definition = find_op(op.type)
    return definition is None or definition.is_stateful or op.type in _CALLS


def _stand_for(call: Operation, results: Sequence[Tensor], effects: Sequence[Operation]) -> None:
    """Make the call forward the results of its inlined body."""
    call.disconnect()
    call.raw_attrs = None
    call.type = "IdentityN" if results else "NoOp"
    call.attrs = {"T": tuple(t.dtype.base_dtype for t in results)} if results else {}
    for tensor in results:
        call.add_input(tensor)
    for op in effects:
        call.add_control_input(op)
