"""Build pipelines from a table: a row names a pipeline and its passes, in order.

    ("simplification*", ("algsimp dce", ("inner", ("cse@layout",))))

A name with `*` is repeated until nothing changes; `name@variant` is a pass created with options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import AnyPass, DeferredPass, HloPassFix, HloPassPipeline

Row: TypeAlias = tuple[str, tuple[object, ...]]
"""A pipeline's name, and its parts: names of passes in one string, or rows of nested pipelines."""


def build(
    row: Row, names_of: Callable[[str], Iterable[str]], named: Callable[[str], HloPass | DeferredPass]
) -> AnyPass | None:
    """Build the pipeline of a row; None if no pass of it is left.

    Args:
        row: a row of the table.
        names_of: returns the names in a part ("algsimp dce"), without excluded ones.
        named: returns the pass of a name, or of a name with a variant.
    """
    title, parts = row
    passes: list[AnyPass | DeferredPass] = []
    for part in parts:
        if isinstance(part, tuple):
            inner = build((str(part[0]), part[1]), names_of, named)
            passes += [inner] if inner is not None else []
        else:
            passes += [named(name) for name in names_of(str(part))]
    if not passes:
        return None
    built = HloPassPipeline(title.rstrip("*"), passes)
    return HloPassFix(built) if title.endswith("*") else built


def names_in(rows: Iterable[Row]) -> list[str]:
    """The names of all passes in a table, in order, with repetitions."""
    found: list[str] = []
    for _, parts in rows:
        for part in parts:
            found += names_in([(str(part[0]), part[1])]) if isinstance(part, tuple) else str(part).split()
    return found
