"""The position of a step view as trait values, validated when set from Python or by a link."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import traitlets

from xlanb.errors import ArgumentError, XlanbError, nearest
from xlanb.explorer.trace import Trace


def trace_number(value: int | str, traces: Sequence[Trace]) -> int:
    """Return the number of a trace, given by number or name.

    Raises:
        TraitError: there is none.
    """
    names = [t.name for t in traces]
    if isinstance(value, str):
        if value in names:
            return names.index(value)
        raise traitlets.TraitError(f"no compilation {value!r}{nearest(value, names)}")
    if not 0 <= value < max(len(names), 1):
        raise traitlets.TraitError(
            f"no compilation {value}: there are {len(names)}, numbered from 0: {', '.join(names)}"
        )
    return value


def stage_position(value: int | str, trace: Trace | None) -> int:
    """Return the position of a stage, given by position (negative: from the end) or name.

    Raises:
        TraitError: there is none.
    """
    count = 0 if trace is None else len(trace)
    if isinstance(value, str):
        if trace is None:
            raise traitlets.TraitError(f"no stage {value!r}: nothing has been compiled yet")
        try:
            return trace[value].index
        except XlanbError as error:
            raise traitlets.TraitError(str(error)) from None
    if value == 0 or -count <= value < count:
        return value % count if count else 0
    raise traitlets.TraitError(f"no stage {value}: there are {count} so far, numbered 0 to {count - 1}")


def op_name(value: str, known: Mapping[str, Any] | frozenset[str]) -> str:
    """The name of an instruction or node, or "" for none.

    Raises:
        TraitError: no stage has one of that name.
    """
    if value and value not in known:
        raise traitlets.TraitError(f"no op {value!r} at any stage{nearest(value, known)}")
    return value


def overlay_values(values: Any, known: frozenset[str]) -> dict[str, float | str]:
    """Convert a mapping or pandas Series of op names to plain numbers or texts, without missing
    values.

    Raises:
        ArgumentError: it is not a mapping, or has an unknown op name.
    """
    items: Iterable[tuple[Any, Any]] | None = getattr(values, "items", lambda: None)()
    if items is None:
        raise ArgumentError(
            "an overlay must be a dict or pandas Series from op names to numbers or texts, got a "
            f"{type(values).__name__}"
        )
    plain = {str(name): _plain(value) for name, value in items}
    found = {name: value for name, value in plain.items() if value is not None}
    if not known.intersection(plain):
        first = next(iter(plain), "")
        raise ArgumentError(f"the overlay names no op of this graph, for example {first!r}{nearest(first, known)}")
    return found


def _plain(value: Any) -> float | str | None:
    """Convert a number to a float, other values to text, and missing ones to None."""
    if isinstance(value, str | bool) or value is None:
        return None if value is None else str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
