"""The stages that a live compilation has still to run, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from xlanb.explorer.coming import ComingStage


def coming_data(coming: Sequence[ComingStage]) -> list[list[Any]]:
    """Return runs of passes under one pipeline: [kind, enclosing pipelines, iterations left,
    names].
    """
    groups = groupby(coming, lambda c: (c.kind, c.pipeline, c.rounds))
    return [[kind, list(path), rounds, [c.name for c in run]] for (kind, path, rounds), run in groups]
