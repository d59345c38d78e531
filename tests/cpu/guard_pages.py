"""Look for accesses out of bounds: compiled modules run with every array between two pages that nobody may touch.

    python tests/cpu/guard_pages.py PATH... [--limit N] [--timeout SECONDS]

A path is a file of HLO text, or of JSON lines (also .gz) whose objects have a "text". Each module runs twice: with its arrays, results and arena up against the page behind
them and small integers as inputs, then against the page before them with integers of any size, since an index may be any. A child process runs them; where it dies, the module is
named and the next child goes on with the one after it.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xlanb
from xlanb.cpu.bridge import bridge
from xlanb.cpu.executable import Executable
from xlanb.cpu.guard import OK
from xlanb.errors import XlanbError

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """`size` bytes between two pages without access; at the end of their pages or at the start."""

    def __init__(self, size: int, *, at_end: bool) -> None:
        pages = max(-(-size // _PAGE), 1)
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for at in (base, base + (pages + 1) * _PAGE):
            if _libc.mprotect(ctypes.c_void_p(at), _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = base + _PAGE + (pages * _PAGE - size if at_end else 0)
        self.size = size

    def fill(self, data: bytes) -> None:
        """Write the content."""
        ctypes.memmove(self.address, data, len(data))


def run_guarded(exe: Executable, inputs: list[Any], *, at_end: bool) -> None:
    """Run an executable once on guarded memory."""
    arguments, results = exe.calls.arguments, exe.calls.results
    kept = []
    tables = []
    for specs, values in ((arguments, inputs), (results, None)):
        table = (ctypes.c_void_p * max(len(specs), 1))()
        for k, spec in enumerate(specs):
            size = 0 if spec is None else spec.byte_size
            memory = Guarded(size, at_end=at_end)
            if values is not None and spec is not None:
                memory.fill(spec.taken(values[k]).tobytes())
            kept.append(memory)
            table[k] = memory.address
        tables.append(table)
    temp = Guarded(-(-exe.buffer_assignment.temp_size // 64) * 64, at_end=at_end)
    word = (ctypes.c_int64 * 2)()
    status = bridge().call(exe.code.address("run"), *tables, temp.address, 0, word)
    assert status == OK


def random_inputs(exe: Executable, *, wild: bool) -> list[Any]:
    """An array for each argument; integers are small unless `wild`."""
    rng = np.random.default_rng(0)
    made: list[Any] = []
    for spec in exe.calls.arguments:
        if spec is None:
            made.append(None)
        elif wild and spec.dtype.kind in "iu":
            made.append(
                np.frombuffer(rng.bytes(spec.shape.element_count * spec.dtype.itemsize), spec.dtype).reshape(
                    spec.dimensions
                )
            )
        elif spec.dtype.kind == "f" or spec.shape.element_type.is_floating:
            made.append(rng.standard_normal(spec.dimensions).astype(spec.dtype))
        else:
            made.append(rng.integers(0, 2, spec.dimensions).astype(spec.dtype))
    return made


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """(name, HLO text) of what a file holds."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        if ".jsonl" not in path.suffixes:
            yield path.name, file.read()
            return
        for number, line in enumerate(file):
            entry = json.loads(line)
            yield str(entry.get("id", number)), entry["text"]


class _TooLongError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooLongError


def check(text: str, seconds: float) -> str:
    """ "ran", or why not. A fault ends the process."""
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        exe = xlanb.compile(text)
        for at_end in (True, False):
            run_guarded(exe, random_inputs(exe, wild=not at_end), at_end=at_end)
    except _TooLongError:
        return "too long"
    except XlanbError:
        return "refused"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "ran"


def check_all(modules: list[tuple[str, str]], seconds: float) -> dict[str, list[str]]:
    """The names of the modules by what became of them."""
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(modules):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            for _, text in modules[at:]:
                try:
                    outcome = check(text, seconds)
                except Exception as error:  # noqa: BLE001 - reported
                    outcome = f"error: {type(error).__name__}"
                os.write(writer, f"{outcome}\n".encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                found.setdefault(line.strip(), []).append(modules[at][0])
                at += 1
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            sys.stderr.write(f"{modules[at][0]} died of {name}\n")
            found.setdefault(f"DIED: {name}", []).append(modules[at][0])
            at += 1
    return found


def main() -> int:
    """The command line; 1 where a module made the process die."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=5.0)
    options = parser.parse_args()
    modules = [m for path in options.paths for m in texts(path)]
    end = None if options.limit is None else options.skip + options.limit
    found = check_all(modules[options.skip : end], options.timeout)
    for outcome, names in sorted(found.items()):
        shown = "" if outcome in ("ran", "refused") else " " + " ".join(names[:20])
        sys.stdout.write(f"{len(names):6d}  {outcome}{shown}\n")
    return 1 if any(outcome.startswith("DIED") for outcome in found) else 0


if __name__ == "__main__":
    sys.exit(main())
