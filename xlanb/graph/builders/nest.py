"""Structures of values: lists, tuples, named tuples, dictionaries (TensorFlow's util/nest.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError


def is_nested(value: Any) -> bool:
    """Whether a value is a structure, and not one of the things that structures hold."""
    return isinstance(value, list | tuple | Mapping)


def flatten(structure: Any) -> list[Any]:
    """List the leaves of a structure in order; dictionaries by sorted keys.

    A single value is one leaf.
    """
    if isinstance(structure, Mapping):
        return [leaf for key in sorted(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, list | tuple):
        return [leaf for part in structure for leaf in flatten(part)]
    return [structure]


def pack_like(structure: Any, values: list[Any]) -> Any:
    """The same structure with other values.

    Raises:
        GraphValueError: not as many values as the structure holds.
    """
    if len(flatten(structure)) != len(values):
        raise GraphValueError(f"a structure of {len(flatten(structure))} values does not match {len(values)} values")
    return _packed(structure, iter(values))


def _packed(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        found = {key: _packed(structure[key], values) for key in sorted(structure)}
        return type(structure)((key, found[key]) for key in structure)  # type: ignore[call-arg]
    if isinstance(structure, list | tuple):
        parts = [_packed(part, values) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    return next(values)


def map_structure(function: Callable[..., Any], *structures: Any) -> Any:
    """Apply `function` to corresponding leaves of structures of one form; return the results in
    that form.
    """
    for other in structures[1:]:
        check_alike(structures[0], other)
    columns = zip(*(flatten(s) for s in structures), strict=True)
    return pack_like(structures[0], [function(*column) for column in columns])


def check_alike(first: Any, second: Any, what: str = "the two structures") -> None:
    """Raise GraphTypeError if structures differ in kind, GraphValueError if they differ in
    length.
    """
    if is_nested(first) != is_nested(second):
        raise GraphTypeError(f"{what} differ: {first!r} and {second!r}")
    if not is_nested(first):
        return
    if isinstance(first, Mapping) != isinstance(second, Mapping):
        raise GraphTypeError(f"{what} differ: {first!r} and {second!r}")
    keys = (set(first), set(second)) if isinstance(first, Mapping) else (len(first), len(second))
    if keys[0] != keys[1]:
        raise GraphValueError(f"{what} differ in structure: {first!r} and {second!r}")
    pairs = [(first[k], second[k]) for k in first] if isinstance(first, Mapping) else zip(first, second, strict=True)
    for a, b in pairs:
        check_alike(a, b, what)
