"""A pipeline as a tree of numbered passes, and a pipeline with its passes reordered by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import XlanbError
from xlanb.transforms.pipeline import AnyPass, HloPassFix, HloPassPipeline


def pass_tree(pipeline: HloPassPipeline) -> list[dict[str, Any]]:
    """Return passes and pipelines in order, each {"id", "name", "loop"}, with "inside" if any.

    Ids count in the order of the walk; `loop` means that it runs to a fixed point.
    """
    count = 0

    def entry(p: AnyPass) -> dict[str, Any]:
        nonlocal count
        count += 1
        made: dict[str, Any] = {"id": count - 1, "name": p.name, "loop": isinstance(p, HloPassFix)}
        inner = p.inner if isinstance(p, HloPassFix) else p
        if isinstance(inner, HloPassPipeline):
            made["inside"] = [entry(q) for q in inner.passes]
        return made

    return [entry(p) for p in pipeline.passes]


def reordered(pipeline: HloPassPipeline, order: Sequence[Any]) -> HloPassPipeline:
    """Return a pipeline with its passes in another order; unnamed passes are omitted.

    Entries are [id] or [id, [entries inside]], with the ids of `pass_tree`.

    Raises:
        XlanbError: an id is unknown or repeated, or a pass has entries inside.
    """
    known: list[AnyPass] = []

    def number(p: AnyPass) -> None:
        known.append(p)
        inner = p.inner if isinstance(p, HloPassFix) else p
        for q in inner.passes if isinstance(inner, HloPassPipeline) else ():
            number(q)

    for p in pipeline.passes:
        number(p)
    seen: set[int] = set()

    def built(entry: Any) -> AnyPass:
        at, inside = _entry(entry)
        if not 0 <= at < len(known) or at in seen:
            raise XlanbError(
                f"invalid order of passes: entry {at} of {len(known)} "
                f"{'occurs twice' if at in seen else 'does not exist'}"
            )
        seen.add(at)
        p = known[at]
        inner = p.inner if isinstance(p, HloPassFix) else p
        if not isinstance(inner, HloPassPipeline):
            if inside:
                raise XlanbError(f"invalid order of passes: {p.name} is a pass, it cannot contain others")
            return p
        made = HloPassPipeline(inner.name, [built(e) for e in inside])
        return HloPassFix(made, p.limit) if isinstance(p, HloPassFix) else made

    return HloPassPipeline(pipeline.name, [built(e) for e in order])


def _entry(entry: Any) -> tuple[int, Sequence[Any]]:
    """Return an entry from a front end.

    Raises:
        XlanbError: it is malformed.
    """
    if isinstance(entry, list | tuple) and entry and isinstance(entry[0], int):
        inside = entry[1] if len(entry) > 1 else ()
        if isinstance(inside, list | tuple):
            return entry[0], inside
    raise XlanbError(f"invalid order of passes: {entry!r} is neither [id] nor [id, [entries]]")
