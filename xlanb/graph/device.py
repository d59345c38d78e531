"""Device names, "/job:a/replica:0/task:0/device:XLA_CPU:0", and short forms of them."""

from __future__ import annotations

import re

from xlanb.errors import GraphValueError

_PART = re.compile(
    r"(?P<key>job|replica|task):(?P<value>[A-Za-z0-9_.*-]+)$|(?:device:)?(?P<kind>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<number>\d+|\*))?$"
)


def parse_device(name: str) -> dict[str, str]:
    """Split a device name: job, replica, task, and device as "KIND:N" ("KIND:*" without a number).

    Raises:
        GraphValueError: this is not a device name.
    """
    parts: dict[str, str] = {}
    for piece in name.split("/"):
        if not piece:
            continue
        match = _PART.match(piece)
        if match is None:
            raise GraphValueError(f"unknown part {piece!r} in the device name {name!r}")
        if match["key"]:
            parts[match["key"]] = match["value"]
        else:
            parts["device"] = f"{match['kind'].upper()}:{match['number'] or '*'}"
    return parts


def merge_devices(outer: str, inner: str) -> str:
    """The inner name's parts, filled up with the outer's."""
    parts = {**parse_device(outer), **parse_device(inner)}
    return "".join(f"/{key}:{parts[key]}" for key in ("job", "replica", "task", "device") if key in parts)
