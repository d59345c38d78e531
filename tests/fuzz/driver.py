"""A campaign: batches of every kind in child processes; finds are reduced, saved and counted."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tests.fuzz import worker
from tests.fuzz.kinds import Kind
from tests.fuzz.reduce import class_of, find_of, reduced

BATCH = 200
"""Inputs of one child process."""
_GRACE = 10.0
"""Seconds after the alarm until an unresponsive child is killed."""


class _Child:
    """A process that checks one batch; once `expendable`, its death is ignored."""

    def __init__(self, kind: Kind, pid: int, reader: int, current: Path) -> None:
        self.kind, self.pid, self.current = kind, pid, current
        self.began = self.last = time.monotonic()
        self.expendable = False
        self._reader, self._rest = reader, b""
        os.set_blocking(reader, False)

    def read(self) -> list[tuple[str | None, bytes]]:
        """(find, input) of each input checked since the last call."""
        try:
            while data := os.read(self._reader, 1 << 16):
                self._rest += data
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        if lines:
            self.last = time.monotonic()
        return [(find, base64.b64decode(data or "")) for find, data in map(json.loads, lines)]

    def close(self) -> None:
        """Forget the process, which has ended."""
        os.close(self._reader)
        self.current.unlink(missing_ok=True)


@dataclass
class Tally:
    """The statistics of one kind: inputs, the children's seconds (wall and CPU), finds by class."""

    inputs: int = 0
    seconds: float = 0.0
    computed: float = 0.0
    finds: Counter[str] = field(default_factory=Counter)

    def row(self, name: str) -> str:
        """One line of the report."""
        rate = self.inputs / self.computed if self.computed else 0.0
        return f"{name:16s} {self.inputs:9d} inputs in {self.computed:8.1f} s of CPU {rate:8.1f}/s {sum(self.finds.values()):6d} finds"


class Campaign:
    """Checks inputs of some kinds until the time is over, or until each kind has had its number.

    Reduced finds are saved as `folder/KIND/CLASS-DIGEST.SUFFIX`, with the reason next to them
    (.why); for each class the first `keep`.
    """

    def __init__(self, chosen: Sequence[Kind], seed: int, folder: Path, *, keep: int = 3) -> None:
        self.kinds = chosen
        self.seed = seed
        self.folder = folder
        self.keep = keep
        self.tallies = {k.name: Tally() for k in chosen}
        self._batches: Counter[str] = Counter()

    def run(self, seconds: float, count: int | None = None, jobs: int = 2, say: Callable[[str], None] = print) -> int:
        """Run; return the number of finds.

        `count` is the number of inputs of each kind at which to stop.
        """
        for kind in self.kinds:
            kind.prepare()
        end = time.monotonic() + seconds
        running: dict[int, _Child] = {}
        said = time.monotonic()
        while True:
            while len(running) < jobs and time.monotonic() < end:
                kind = self._next_kind(count, running.values())
                if kind is None:
                    break
                child = self._start(kind)
                running[child.pid] = child
            if not running:
                break
            self._wait(running, end)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                say("; ".join(f"{name} {t.inputs}" for name, t in self.tallies.items()))
        return sum(sum(t.finds.values()) for t in self.tallies.values())

    def report(self) -> str:
        """The statistics by kind and by class of find."""
        lines = []
        for name, tally in self.tallies.items():
            lines.append(tally.row(name))
            lines.extend(f"    {n:6d}  {what}" for what, n in tally.finds.most_common())
        return "\n".join(lines)

    def _next_kind(self, count: int | None, running: Iterable[_Child]) -> Kind | None:
        """The kind with the least time so far, among unfinished ones."""
        busy = Counter(c.kind.name for c in running)
        left = [k for k in self.kinds if count is None or self._batches[k.name] * BATCH < count]
        return min(left, key=lambda k: self.tallies[k.name].seconds + 5 * busy[k.name], default=None)

    def _start(self, kind: Kind) -> _Child:
        batch = self._batches[kind.name]
        self._batches[kind.name] += 1
        scratch = self.folder / "running"
        scratch.mkdir(parents=True, exist_ok=True)
        current = scratch / f"{kind.name}-{batch}"
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _check_batch(kind, self.seed, batch, current, writer)
        os.close(writer)
        return _Child(kind, pid, reader, current)

    def _wait(self, running: dict[int, _Child], end: float) -> None:
        """Read the children's output; kill those that hang, and all when the time is over."""
        time.sleep(0.05)
        for pid, child in list(running.items()):
            for find, data in child.read():
                self._count(child.kind, find, data)
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                del running[pid]
                self.tallies[child.kind.name].computed += used.ru_utime + used.ru_stime
                self._bury(child, status)
            elif time.monotonic() > end:
                child.expendable = True
                os.kill(pid, signal.SIGKILL)
            elif not child.expendable and time.monotonic() - child.last > worker.WAITS * worker.SECONDS + _GRACE:
                self._count(child.kind, "hang, killed: no answer", child.current.read_bytes())
                child.expendable = True
                os.kill(pid, signal.SIGKILL)

    def _bury(self, child: _Child, status: int) -> None:
        """Process the end of a child: its last lines, its time, and how it died."""
        for find, data in child.read():
            self._count(child.kind, find, data)
        self.tallies[child.kind.name].seconds += time.monotonic() - child.began
        if not child.expendable and status:
            how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status >> 8}"
            self._count(child.kind, f"died of {how}: the process ended", child.current.read_bytes())
        child.close()

    def _count(self, kind: Kind, find: str | None, data: bytes) -> None:
        tally = self.tallies[kind.name]
        tally.inputs += 1
        if find is None:
            return
        if find.startswith("hang: ") and find_of(kind, kind.read(data)) != find:
            find = find.replace("hang", "hang that did not repeat", 1)
        what = class_of(find)
        tally.finds[what] += 1
        if tally.finds[what] <= self.keep:
            self._save(kind, data, find)

    def _save(self, kind: Kind, data: bytes, find: str) -> None:
        slug = re.sub(r"\W+", "-", class_of(find))[:60].strip("-")
        path = self.folder / kind.name / f"{slug}-{hashlib.sha256(data).hexdigest()[:8]}{kind.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.with_suffix(".why").write_text(f"{find}\n", encoding="utf-8")

    def reduce_finds(self, seconds: float) -> None:
        """Reduce the first find of each class, all within `seconds`; keep the input (.whole)."""
        end, seen = time.monotonic() + seconds, set[tuple[str, str]]()
        for kind in self.kinds:
            for why in sorted((self.folder / kind.name).glob("*.why")):
                find = why.read_text(encoding="utf-8").strip()
                left = end - time.monotonic()
                if left < 1 or (kind.name, class_of(find)) in seen:
                    continue
                seen.add((kind.name, class_of(find)))
                path = why.with_suffix(kind.suffix)
                data = path.read_bytes()
                path.with_suffix(".whole").write_bytes(data)
                path.write_bytes(worker.as_bytes(reduced(kind, kind.read(data), find, min(left, 60.0))))


def _check_batch(kind: Kind, seed: int, batch: int, current: Path, out: int) -> NoReturn:
    """The child's side: check a batch, then exit without the parent's handlers."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        worker.limit_memory()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        with os.fdopen(out, "w", encoding="ascii") as file:
            worker.run_batch(kind, seed, batch, BATCH, current, file)
        status = 0
    except BaseException:  # noqa: BLE001 - a child must not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)
