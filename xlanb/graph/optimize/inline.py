"""Replace function calls by the nodes of their bodies, as TensorFlow does before clustering."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.errors import GraphValueError
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import find_op
from xlanb.graph.optimize.call_expansion import check_expansion

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
    body = function.body
    made = {op: _copied(graph, call, op) for op in body if op.type not in {"_Arg", "_Retval"}}
    tensors: dict[Tensor, Tensor] = {t: new.outputs[t.value_index] for op, new in made.items() for t in op.outputs}
    for op in body:
        if op.type == "_Arg":
            tensors[op.outputs[0]] = call.inputs[int(op.attrs["index"])]
    for op, new in made.items():
        for tensor in op.inputs:
            new.add_input(tensors[tensor])
        for waited in op.control_inputs:
            if waited in made:
                new.add_control_input(made[waited])
        for waited in call.control_inputs:
            new.add_control_input(waited)
    for op, new in made.items():
        for tensor, copy in zip(op.outputs, new.outputs, strict=True):
            copy.adopt_shape(tensor)
    results = sorted((op for op in body if op.type == "_Retval"), key=lambda op: int(op.attrs["index"]))
    effects = [new for op, new in made.items() if _has_effect(op)]
    _stand_for(call, [tensors[op.inputs[0]] for op in results], effects)
    return list(made.values())


def _copied(graph: Graph, call: Operation, op: Operation) -> Operation:
    name, count = f"{call.name}/{op.name}", 0
    while name in graph:
        count += 1
        name = f"{call.name}/{op.name}_{count}"
    types = [t.dtype for t in op.outputs]
    new = graph.add_op(op.type, name, (), types, op.attrs, device=op.device or call.device)
    new.source_file, new.source_line = op.source_file, op.source_line
    return new


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
