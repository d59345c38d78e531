"""Count a graph's nodes after inlining of function calls, before it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from xlanb.errors import GraphValueError
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.operation import Operation

LARGEST_GROWTH: Final = 1 << 17
"""The most nodes that inlining may add: 40 functions that call each other twice would add 10^12."""

_COUNTED: Final = 10**18
"""Larger numbers are not counted exactly: a number of 20,000 digits is not a useful message."""


def check_expansion(what: str, ops: Iterable[Operation], library: Mapping[str, GraphFunction]) -> None:
    """Raise GraphValueError if inlining the calls among `ops` adds too many nodes; `what` begins
    the message.

    Each function is visited once. A recursive call counts as one node.
    """
    if not library:
        return
    sizes: dict[str, int] = {}
    for name in _callees_first(ops, library):
        sizes[name] = _expanded(library[name].body, library, sizes)
    written = sum(len(library[name].body) for name in sizes)
    grown = sum(sizes[name] for op in ops for name in _called(op, library)) - written
    if grown > LARGEST_GROWTH:
        raise GraphValueError(
            f"{what}: inlining the calls between {len(sizes)} functions of {written} nodes would give "
            f"{'at least ' if grown >= _COUNTED // 2 else ''}{written + grown:,} nodes; expansion may add at "
            f"most {LARGEST_GROWTH:,} nodes"
        )


def _expanded(ops: Iterable[Operation], library: Mapping[str, GraphFunction], sizes: Mapping[str, int]) -> int:
    size = sum(1 + sum(sizes.get(name, 0) for name in _called(op, library)) for op in ops)
    return min(size, _COUNTED)


def _callees_first(ops: Iterable[Operation], library: Mapping[str, GraphFunction]) -> list[str]:
    """The functions that are called, however deep, each after those that its body calls."""
    order: dict[str, None] = {}
    opened = set[str]()
    stack = [name for op in ops for name in _called(op, library)]
    while stack:
        name = stack[-1]
        if name in order:
            stack.pop()
        elif name in opened:
            order[stack.pop()] = None
        else:
            opened.add(name)
            stack += [n for op in library[name].body for n in _called(op, library) if n not in opened]
    return list(order)


def _called(op: Operation, library: Mapping[str, GraphFunction]) -> Iterator[str]:
    if op.type in library:
        yield op.type
    for value in op.attrs.values():
        for ref in value if isinstance(value, tuple) else (value,):
            if isinstance(ref, FunctionRef) and ref.name in library:
                yield ref.name
