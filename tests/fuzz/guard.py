"""Search for out-of-bounds accesses: run compiled modules with every array between guard pages.

    python -m tests.fuzz.guard [PATH...] [--minutes M] [--seed S] [--jobs J] [--timeout SECONDS]

A path is a file of HLO text, a folder of them, or a file of JSON lines (also .gz) whose objects
have a "text"; all of these are checked. Then, for M minutes, the modules of the tests (for at most
half of the time) and random ones of a seed, which is printed.

Each module is compiled for one thread and for two, with temporaries separated, adjacent to the
guard page after or before them; sometimes with stack arrays and constants separated too, without
passes, or for narrower vectors than the machine has (see tests/cpu/guard_pages.py). It runs with
small integers and with arbitrary ones, since an index may be anything; with the same inputs twice,
on memory filled with zeros and with ones, which must not affect its results. Children run the
modules; if one dies, the module is reported with the array and the end that was exceeded, and
stored in build/guard.
"""

from __future__ import annotations

import argparse
import errno
import gzip
import json
import os
import re
import resource
import secrets
import selectors
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from tests.cpu.guard_pages import Mode, arrays, random_inputs, run_guarded
from tests.fuzz.random_modules import random_module
from xlanb.errors import CompilationError, XlanbError

_BATCH = 25
"""Modules per child."""
_HUNG = 60.0
"""Seconds without output after which a child is killed."""
_MEMORY = 6 << 30
_BROKEN = re.compile("LLVM rejects|LLVM cannot generate object code|cannot be loaded")
"""Messages of a CompilationError that no module should raise."""
_MODES = (
    (Mode(1, at_end=True, stacks=True), Mode(2, at_end=False, constants=True)),
    (Mode(1, at_end=False, bits=128), Mode(2, at_end=True, constants=True)),
    (Mode(1, at_end=True, spread=False), Mode(2, at_end=True, passes=False, stacks=True)),
    (Mode(1, at_end=False, constants=True), Mode(2, at_end=True, bits=256, stacks=True)),
    (Mode(1, at_end=True, passes=False), Mode(2, at_end=False, stacks=True)),
    (Mode(1, at_end=True, bits=128, stacks=True), Mode(2, at_end=True, spread=False)),
    (Mode(1, at_end=False, passes=False, bits=256), Mode(2, at_end=True, stacks=True)),
)
"""The modes of consecutive modules, in turn."""
_GOOD = ("ran", "refused", "too long", "too large")


@dataclass(frozen=True)
class Item:
    """A module to check: a name, a function that returns its text, and its modes."""

    name: str
    text: Callable[[], str]
    modes: tuple[Mode, ...]


# -- modules ---------------------------------------------------------------------------------------


def texts(path: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """(name, HLO text) of the modules in a file or folder."""
    if path.is_dir():
        for file in sorted(path.rglob("*.hlo")):
            yield from texts(file)
        return
    if ".jsonl" not in path.suffixes:
        yield str(path), path.read_text
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for number, line in enumerate(data.splitlines()):
        entry = json.loads(line)
        yield f"{path.name}:{entry.get('id', number)}", partial(str, entry["text"])


def items(named: Iterable[tuple[str, Callable[[], str]]]) -> Iterator[Item]:
    """Modules with the modes of each."""
    for k, (name, text) in enumerate(named):
        yield Item(name, text, _MODES[k % len(_MODES)])


def randoms(seed: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Random modules, endlessly."""
    number = 0
    while True:
        yield f"random {seed} {number}", partial(_random, seed, number)
        number += 1


def _random(seed: int, number: int) -> str:
    return random_module(np.random.default_rng([seed, number]))


# -- one module ------------------------------------------------------------------------------------


class _TooLongError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooLongError


def check(item: Item, seconds: float) -> str:
    """ "ran", or why not. A fault ends the process."""
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        text = item.text()
        for mode in item.modes:
            outcome = _run(mode, text)
            if outcome != "ran":
                return outcome
    except _TooLongError:
        return "too long"
    except XlanbError as error:
        return "LLVM refuses it" if isinstance(error, CompilationError) and _BROKEN.search(str(error)) else "refused"
    except MemoryError:
        return "too large"
    except Exception as error:  # noqa: BLE001 - reported
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return "too large"
        return f"error: {type(error).__name__}: {error}".replace("\n", " ")[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "ran"


def _run(mode: Mode, text: str) -> str:
    """Run a module in one mode: three runs."""
    exe = mode.compile(text)
    inputs = random_inputs(exe, wild=False)
    first = run_guarded(exe, inputs, at_end=mode.at_end, fill=0)
    second = run_guarded(exe, inputs, at_end=mode.at_end, fill=0xFF)
    run_guarded(exe, random_inputs(exe, wild=True), at_end=mode.at_end, fill=0xA5)
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        if a != b and not exe.program.host:
            return f"result {k} depends on what its memory held before ({mode})"
    return "ran"


# -- children --------------------------------------------------------------------------------------


@dataclass
class _Child:
    """A process that checks several modules in sequence."""

    pid: int
    output: int
    left: list[Item]
    heard: float = field(default_factory=time.monotonic)
    said: bytes = b""


def _fork(todo: list[Item], seconds: float) -> _Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        for item in todo:
            os.write(writer, f"{check(item, seconds)}\n".encode())
        os._exit(0)
    os.close(writer)
    os.set_blocking(reader, False)
    return _Child(pid, reader, todo)


class Campaign:
    """Checks modules in children, `jobs` at a time.

    `found` holds (name, problem), `folder` the modules.
    """

    def __init__(self, jobs: int, seconds: float, folder: Path) -> None:
        self.jobs, self.seconds, self.folder = jobs, seconds, folder
        self.outcomes: Counter[str] = Counter()
        self.found: list[tuple[str, str]] = []

    def run(self, source: Iterable[Item], until: float = float("inf")) -> None:
        """Check all of a source, or what can be started before `until`."""
        rest = iter(source)
        children: list[_Child] = []
        again: list[list[Item]] = []
        while True:
            while len(children) < self.jobs:
                todo = again.pop() if again else list(islice(rest, _BATCH)) if time.monotonic() < until else []
                if not todo:
                    break
                children.append(_fork(todo, self.seconds))
            if not children:
                return
            self._listen(children)
            for child in list(children):
                if time.monotonic() >= until:
                    child.left[1:] = []
                if self._ended(child):
                    children.remove(child)
                    again += [child.left] if child.left else []

    def _listen(self, children: Sequence[_Child]) -> None:
        with selectors.DefaultSelector() as ready:
            for child in children:
                ready.register(child.output, selectors.EVENT_READ, child)
            for key, _ in ready.select(1.0):
                child = key.data
                child.said += os.read(child.output, 1 << 16)
                child.heard = time.monotonic()
        for child in children:
            *lines, child.said = child.said.split(b"\n")
            for line in lines:
                if child.left:
                    self._note(child.left.pop(0), line.decode())

    def _ended(self, child: _Child) -> bool:
        """Whether a child has ended or was killed; records the module that it died of."""
        hung = time.monotonic() - child.heard > max(_HUNG, 3 * self.seconds)
        if hung or not child.left:
            os.kill(child.pid, signal.SIGKILL)
        pid, status = os.waitpid(child.pid, 0 if hung or not child.left else os.WNOHANG)
        if not pid:
            return False
        self._listen([child])
        os.close(child.output)
        if child.left and (hung or os.WIFSIGNALED(status)):
            item = child.left.pop(0)
            name = "hung" if hung else signal.Signals(os.WTERMSIG(status)).name
            self._note(
                item, f"hung for {_HUNG:.0f} s" if hung else f"died of {name}: {'; '.join(locate(item)) or 'not again'}"
            )
        return True

    def _note(self, item: Item, outcome: str) -> None:
        self.outcomes[outcome if outcome in _GOOD else outcome.split(":", maxsplit=1)[0]] += 1
        if outcome in _GOOD:
            return
        self.found.append((item.name, outcome))
        self.folder.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "_" for c in item.name)[-80:]
        (self.folder / f"{name}.hlo").write_text(item.text())
        (self.folder / f"{name}.why").write_text(f"{item.name}: {outcome}\n")
        sys.stdout.write(f"{item.name}: {outcome}\n")
        sys.stdout.flush()


def locate(item: Item) -> list[str]:
    """The arrays that a module exceeds, by mode: each is guarded alone in a child."""
    out = []
    for mode in item.modes:
        for name in _names(item, mode):
            if not _survives(partial(_run_only, item, mode, name)):
                write = not _survives(partial(_run_only, item, mode, f"{name}!"))
                side = "behind" if mode.at_end else "before"
                out.append(f"{'writes' if write else 'reads'} {side} {name} ({mode})")
    return out


def _names(item: Item, mode: Mode) -> list[str]:
    """The arrays of a module; none if compiling it crashes."""
    reader, writer = os.pipe()

    def tell() -> None:
        os.write(writer, "\n".join(arrays(mode.compile(item.text()))).encode())

    alive = _survives(tell)
    os.close(writer)
    with os.fdopen(reader) as names:
        return names.read().split("\n") if alive else []


def _run_only(item: Item, mode: Mode, only: str) -> None:
    exe = mode.compile(item.text())
    for wild in (False, True):
        run_guarded(exe, random_inputs(exe, wild=wild), at_end=mode.at_end, only=only)


def _survives(work: Callable[[], object]) -> bool:
    """Whether a child that does some work is not killed by a signal, within a minute."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(60)
        work()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return not os.WIFSIGNALED(status) or os.WTERMSIG(status) == signal.SIGALRM


# -- the command line ------------------------------------------------------------------------------


def main() -> int:
    """The command line; returns 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--minutes", type=float, default=0.0, help="for the tests' modules and random ones")
    parser.add_argument("--seed", type=int, default=None, help="a number; a new one each time where it is left out")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for a module")
    parser.add_argument("--folder", type=Path, default=Path("build/guard"), help="where modules that fail are kept")
    options = parser.parse_args()
    os.environ |= {"XLANB_NUM_THREADS": "2", "XLANB_CACHE_DIR": ""}
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    begin = time.monotonic()
    campaign = Campaign(options.jobs, options.timeout, options.folder)
    campaign.run(items(m for path in options.paths for m in texts(path)))
    if options.minutes:
        sys.stdout.write(f"seed {seed}\n")
        sys.stdout.flush()
        goldens = list(texts(Path(__file__).parents[1]))
        order = np.random.default_rng(seed).permutation(len(goldens))
        now = time.monotonic()
        campaign.run(items(goldens[int(k)] for k in order), now + 30 * options.minutes)
        campaign.run(items(randoms(seed)), now + 60 * options.minutes)
    for outcome, count in campaign.outcomes.most_common():
        sys.stdout.write(f"{count:7d}  {outcome}\n")
    sys.stdout.write(f"{sum(campaign.outcomes.values()):7d}  modules in {time.monotonic() - begin:.0f} s\n")
    return 1 if campaign.found else 0


if __name__ == "__main__":
    sys.exit(main())
