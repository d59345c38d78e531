"""Reduce a find: delta debugging over lines or bytes, the check run in child processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.fuzz.kinds import Item, Kind
from tests.fuzz.worker import SECONDS, WAITS, as_bytes

_T = TypeVar("_T")
_BROAD = {"llvm", "proto", "text", "wrong"}
"""Classes whose detail is more specific than the name."""


_VALUES = re.compile(r"'[^'\n]*'|\d[\w.+-]*|\\n.*")
"""The parts of a message specific to an input: names, lines and numbers."""


def class_of(find: str) -> str:
    """The class of a find: the text before the first colon, and the rest without values."""
    kind, _, rest = find.partition(": ")
    if kind not in _BROAD:
        return kind
    detail = rest.partition("error: ")[2] if kind == "llvm" else rest.partition(": ")[0]
    return f"{kind}: {_VALUES.sub('', detail)[:60].strip()}"


def find_of(kind: Kind, item: Item) -> str:
    """The find for an input in a fresh process; "" if xlanb holds."""
    with tempfile.NamedTemporaryFile(suffix=kind.suffix) as file:
        Path(file.name).write_bytes(as_bytes(item))
        command = [sys.executable, "-m", "tests.fuzz.worker", kind.name, file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=(WAITS + 1) * SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return "hang, killed: no answer"
    if done.returncode < 0:
        return f"died of {signal.Signals(-done.returncode).name}: the process ended"
    return done.stdout.strip()


def reduced(kind: Kind, item: Item, find: str, seconds: float) -> Item:
    """A smaller input with a find of the same class; the input itself if none is found in time."""
    wanted, end = class_of(find), time.monotonic() + seconds
    if isinstance(item, str):
        lines = item.splitlines(keepends=True)
        return "".join(_smallest(lines, lambda kept: class_of(find_of(kind, "".join(kept))) == wanted, end))
    pieces = [item[k : k + 1] for k in range(len(item))]
    return b"".join(_smallest(pieces, lambda kept: class_of(find_of(kind, b"".join(kept))) == wanted, end))


def _smallest(pieces: Sequence[_T], holds: Callable[[Sequence[_T]], bool], end: float) -> Sequence[_T]:
    """Delete runs of pieces, halving their length each round, while the rest still holds."""
    size = max(len(pieces) // 2, 1)
    while pieces:
        at = 0
        while at < len(pieces):
            if time.monotonic() > end:
                return pieces
            fewer = [*pieces[:at], *pieces[at + size :]]
            if fewer and holds(fewer):
                pieces = fewer
            else:
                at += size
        if size == 1:
            return pieces
        size //= 2
    return pieces
