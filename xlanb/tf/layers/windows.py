"""Sizes and layouts of windows, which convolutions and pooling share."""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError


def sizes_of(value: Any, count: int, what: str) -> list[int]:
    """The size along each dimension; a single one is that of all."""
    items = [value] * count if isinstance(value, int) else [int(v) for v in value]
    if len(items) != count:
        raise GraphValueError(f"The `{what}` argument must be {count} integers. Received: {value}")
    return items


def is_first(data_format: str) -> bool:
    """Whether channels come before the spatial dimensions."""
    if data_format not in {"channels_first", "channels_last"}:
        raise GraphValueError(f"data_format must be channels_first or channels_last, got {data_format!r}")
    return data_format == "channels_first"


def layout_of(rank: int, *, first: bool) -> str:
    """The layout under the name that ops have for it, as NHWC."""
    space = {1: "W", 2: "HW", 3: "DHW"}[rank]
    return f"NC{space}" if first else f"N{space}C"
