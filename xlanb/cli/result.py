"""The result of a command: text, the same as data, and the exit status."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from xlanb.errors import XlanbError


@dataclass(frozen=True)
class CommandResult:
    """The answer of one command.

    Attributes:
        text: for a terminal; empty if there is nothing to print.
        data: the same as JSON types; None if there is no answer to print.
        status: 0 success; 1 faulty input, or a failed comparison.
    """

    text: str
    data: Any
    status: int = 0


def json_text(data: Any) -> str:
    """Write strict JSON; a number that is not finite becomes the string "nan", "inf" or "-inf"."""
    return json.dumps(_finite(data), allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def explained(error: XlanbError) -> str:
    """Format an error as one message: its place, its class, its text."""
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return f"{where}{type(error).__name__}: {error}"
