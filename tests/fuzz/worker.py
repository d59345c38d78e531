"""A child process of a campaign: checks a batch of inputs under limits of time and memory."""

from __future__ import annotations

import base64
import hashlib
import json
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import TextIO

import numpy as np

from tests.fuzz.kinds import Check, Item, Kind, kinds

SECONDS = 10
"""Wall seconds for one input, if the process computes for at least half of them."""
WAITS = 6
"""The most multiples of `SECONDS` for an input if other processes use the machine."""
MEMORY = 4 << 30
"""Address space of a child in bytes: 2 GiB for an input, the rest for Python and LLVM."""


class TooLong(BaseException):
    """Raised by the alarm; not caught by handlers of Exception."""


def _alarm(seconds: float) -> None:
    """Raise TooLong after `seconds`; later if the process got less than half of a processor."""
    began, computed = time.monotonic(), time.process_time()

    def ring(_signal: int, _frame: FrameType | None) -> None:
        waited = time.monotonic() - began
        if time.process_time() - computed < seconds / 2 and waited < WAITS * seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds / 2)
        else:
            raise TooLong

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def judge(
    kind: Kind, item: Item, rng: np.random.Generator, seconds: float = SECONDS, check: Check | None = None
) -> str | None:
    """The find for an input, None if xlanb held; `check` defaults to the kind's own."""
    _alarm(seconds)
    try:
        return (check or kind.check)(item, rng)
    except TooLong:
        return f"hang: took longer than {seconds} s"
    except Exception as error:  # noqa: BLE001 - the find of a campaign
        return f"foreign {type(error).__name__} at {_place(error)}: {str(error)[:200]!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _place(error: BaseException) -> str:
    """The innermost line of the package in an exception's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "/xlanb/" in f.filename and "/tests/" not in f.filename]
    last = (inside or frames)[-1]
    return f"{last.filename.rpartition('/xlanb/')[2]}:{last.lineno}"


def random_of(kind: Kind, seed: int, batch: int) -> np.random.Generator:
    """The generator of a batch; depends on the campaign, not on the order of batches."""
    digest = hashlib.sha256(f"{kind.name} {seed} {batch}".encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))


def as_bytes(item: Item) -> bytes:
    """An item as file content."""
    return item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item


def limit_memory() -> None:
    """Limit the address space of this process, and disable core files."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_batch(kind: Kind, seed: int, batch: int, count: int, current: Path, out: TextIO) -> None:
    """Check `count` inputs; write [find, input in base64] to `out` for each.

    [null, null] means that xlanb held.
    """
    rng = random_of(kind, seed, batch)
    made = kind.mutants(rng)
    for _ in range(count):
        item = next(made)
        current.write_bytes(as_bytes(item))
        find = judge(kind, item, rng, check=kind.check_for(rng))
        line = json.dumps([find, None if find is None else base64.b64encode(as_bytes(item)).decode()])
        out.write(line + "\n")
        out.flush()


def main(arguments: list[str]) -> None:
    """`KIND FILE`: judge one stored input, print the find; called by the reducer."""
    kind, path = kinds()[arguments[0]], Path(arguments[1])
    warnings.simplefilter("ignore")
    limit_memory()
    find = judge(kind, kind.read(path.read_bytes()), np.random.default_rng(0))
    sys.stdout.write(f"{find or ''}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
