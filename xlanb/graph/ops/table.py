"""Look up op types in the table; a row is parsed on first use."""

from __future__ import annotations

from functools import cache

from xlanb.errors import UnknownOpError, nearest
from xlanb.graph.ops import (
    array,
    control,
    data,
    datasets,
    images,
    linalg,
    math,
    nn,
    numeric,
    random,
    resources,
    sparse,
    state,
    strings,
    tables,
    training,
    updates,
    xla,
)
from xlanb.graph.ops.op_def import OpDef, parse_row

_MODULES = (
    array,
    control,
    data,
    datasets,
    images,
    linalg,
    math,
    nn,
    numeric,
    random,
    resources,
    sparse,
    state,
    strings,
    tables,
    training,
    updates,
    xla,
)


@cache
def _rows() -> dict[str, tuple[str, str]]:
    """Return row and documentation by op type.

    A row begins at the margin; the indented lines below it are its other attributes and its
    documentation.
    """
    found: dict[str, tuple[str, str]] = {}
    for module in _MODULES:
        name = ""
        for line in module.ROWS.splitlines():
            if line and not line[0].isspace():
                name = line[: line.index("(")]
                found[name] = (line, "")
            elif line.strip():
                row, doc = found[name]
                text = line.strip()
                is_open = row.count("[") != row.count("]")
                found[name] = (
                    (f"{row} {text}", doc) if is_open or text.startswith("[") else (row, f"{doc} {text}".strip())
                )
    return found


@cache
def find_op(name: str) -> OpDef | None:
    """The op type of that name, None if the table has none."""
    entry = _rows().get(name)
    return None if entry is None else parse_row(*entry)


def get_op(name: str) -> OpDef:
    """Return the op type of a name.

    Raises:
        UnknownOpError: the table has none; the message gives similar names.
    """
    found = find_op(name)
    if found is None:
        raise UnknownOpError(f"unknown TensorFlow op type {name!r}{nearest(name, _rows())}")
    return found


def op_names() -> list[str]:
    """All op types of the table, sorted."""
    return sorted(_rows())
