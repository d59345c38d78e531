"""The position of a step view as trait values, validated when set from Python or by a link."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import traitlets

from xlanb.errors import ArgumentError, XlanbError, nearest
from xlanb.explorer.trace import Trace


def trace_number(value: int | str, traces: Sequence[Trace]) -> int:
    """The number of a trace that is given by number or name.

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
    """The position of a stage that is given by position (negative: from the end) or by name, as `trace[...]` takes it.

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
    """A mapping or pandas Series from op names to numbers or texts, as plain data; values that are missing are left
    out.

    Raises:
        ArgumentError: it is no mapping, or names no op that is here.
    """
    items: Iterable[tuple[Any, Any]] | None = getattr(values, "items", lambda: None)()
    if items is None:
        raise ArgumentError(
            f"an overlay must be a dict or pandas Series from op names to numbers or texts, got a {type(values).__name__}"
        )
    plain = {str(name): _plain(value) for name, value in items}
    found = {name: value for name, value in plain.items() if value is not None}
    if not known.intersection(plain):
        first = next(iter(plain), "")
        raise ArgumentError(f"the overlay names no op of this graph, for example {first!r}{nearest(first, known)}")
    return found


def _plain(value: Any) -> float | str | None:
    """A number as a float, anything else as text; None for what is missing."""
    if isinstance(value, str | bool) or value is None:
        return None if value is None else str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
