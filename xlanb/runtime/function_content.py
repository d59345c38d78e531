"""A function's identity: its exact content, including called functions, without names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.limits import stored
from xlanb.graph.operation import Operation


def content(ops: Iterable[Operation]) -> str:
    """A digest of nodes: names, types, inputs and attributes."""
    return _digest(ops, {})


def attributes(op: Operation) -> str:
    """A node's attributes, exactly; functions by their content."""
    return repr(_attributes(op, {}))


def _digest(ops: Iterable[Operation], known: dict[str, str]) -> str:
    found = sha256()
    for op in ops:
        found.update(f"{op.name}={_type(op, known)}{op.node_inputs}{_attributes(op, known)}\n".encode())
    return found.hexdigest()


def _type(op: Operation, known: dict[str, str]) -> str:
    function = op.graph.functions.get(op.type)
    return op.type if function is None else _function(function, known)


def _attributes(op: Operation, known: dict[str, str]) -> list[tuple[str, str]]:
    return sorted((name, _exactly(value, op.graph.functions, known)) for name, value in op.attrs.items())


def _function(function: GraphFunction, known: dict[str, str]) -> str:
    if function.name not in known:
        known[function.name] = f"calls itself: {function.name}"  # placeholder until its own digest is known
        known[function.name] = _digest(function.body, known)
    return known[function.name]


def _exactly(value: Any, functions: Mapping[str, GraphFunction], known: dict[str, str]) -> str:
    if isinstance(value, np.ndarray):
        # a digest of tensors, as their text leaves out most values
        part = stored(value)
        held = repr(part.tolist()).encode() if part.dtype.kind == "O" else part.tobytes()
        return f"{value.dtype}{value.shape}{part.shape}{sha256(held).hexdigest()}"
    if isinstance(value, FunctionRef):
        function = functions.get(value.name)
        inner = sorted((k, _exactly(v, functions, known)) for k, v in value.attrs.items())
        return f"function {value.name if function is None else _function(function, known)}{inner}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_exactly(v, functions, known) for v in value)}]"
    return str(value)
