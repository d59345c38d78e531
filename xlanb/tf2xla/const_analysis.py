"""TensorFlow's backwards const analysis: inputs that must be compile-time constants.

Functions that a node calls are included.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor, handed_on_from
from xlanb.tf2xla.registry import kernel

_SHAPE_ONLY = frozenset({"Shape", "ShapeN", "Size", "Rank"})  # they need no value
# op: the attributes that name functions, and the number of inputs before the functions' own
_FUNCTIONAL: dict[str, tuple[tuple[str, ...], int]] = {
    "PartitionedCall": (("f",), 0),
    "StatefulPartitionedCall": (("f",), 0),
    "If": (("then_branch", "else_branch"), 1),
    "StatelessIf": (("then_branch", "else_branch"), 1),
    "Case": (("branches",), 1),
    "StatelessCase": (("branches",), 1),
    "While": (("cond", "body"), 0),
    "StatelessWhile": (("cond", "body"), 0),
    "XlaIf": (("then_branch", "else_branch"), 1),
    "XlaWhile": (("cond", "body"), 0),
}

_DEEPEST = 50  # functions within functions, as when they are lowered


def called_functions(op: Operation) -> Iterator[str]:
    """Names of the library's functions that a node calls."""
    for attribute in _FUNCTIONAL.get(op.type, ((), 0))[0]:
        value = op.attrs.get(attribute)
        for function in value if isinstance(value, tuple | list) else (value,):
            if function is not None:
                yield function.name


def constant_inputs(
    op: Operation, open_: frozenset[str] = frozenset(), known: dict[str, frozenset[int]] | None = None
) -> list[int]:
    """Return the positions of a node's inputs that must be compile-time constants.

    `open_` are the enclosing functions, `known` caches the results of others: each is analyzed
    once.
    """
    known = {} if known is None else known
    found = kernel(op.type)
    positions = set(found.constant_inputs(len(op.inputs)) if found else ())
    first = _FUNCTIONAL.get(op.type, ((), 0))[1]
    for name in called_functions(op):
        function = op.graph.functions.get(name)
        if function is not None and name not in open_ and len(open_) < _DEEPEST:
            if name not in known:
                known[name] = constant_arguments(function.body, open_ | {name}, known)
            positions.update(first + i for i in known[name])
    if op.type in ("While", "StatelessWhile", "XlaWhile"):  # what changes from round to round is never known
        body = op.graph.functions.get(op.get_attr("body").name)
        positions &= unchanged_arguments(body.body) if body is not None else set()
    return sorted(p for p in positions if p < len(op.inputs))


def constant_arguments(
    body: Graph, open_: frozenset[str] = frozenset(), known: dict[str, frozenset[int]] | None = None
) -> frozenset[int]:
    """Return the numbers of a function's arguments whose values its body needs at compile time."""
    known = {} if known is None else known
    must: set[Tensor] = set()
    arguments = set()
    for op in reversed(body.topological_order()):
        if op.type == "_Arg":
            if op.outputs[0] in must:
                arguments.add(int(op.attrs["index"]))
        elif any(t in must for t in op.outputs) and op.type not in _SHAPE_ONLY:
            must.update(op.inputs)
        elif op.type != "_Retval":
            must.update(op.inputs[i] for i in constant_inputs(op, open_, known))
    return frozenset(arguments)


def unchanged_arguments(body: Graph) -> frozenset[int]:
    """Return the numbers of the arguments that a loop's body returns unchanged."""
    found = set()
    for op in body:
        if op.type != "_Retval":
            continue
        source = handed_on_from(op.inputs[0], lambda o: o.type == "Identity").op
        if source.type == "_Arg" and source.attrs["index"] == op.attrs["index"]:
            found.add(int(op.attrs["index"]))
    return frozenset(found)
