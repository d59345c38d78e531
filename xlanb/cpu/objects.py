"""Compile LLVM IR to object code: selected passes, threads for several modules, a disk cache.

The cache holds routines that programs share, or all code if the user asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xlanb.codegen import llvm
from xlanb.codegen.cpus import thread_count
from xlanb.codegen.half import conversions
from xlanb.codegen.target import Target
from xlanb.codegen.translation import Passes, translate
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.object_cache import ObjectCache
from xlanb.errors import XlanbError
from xlanb.lazy_logging import logger
from xlanb.patterns import pattern
from xlanb.threads import Helper

_LOG = logger("xlanb.cpu")

LEVEL = 1
"""The level of LLVM passes and code; 2 and 3 gave no more speed and compiled twice as long."""


_PASSES = Passes(LEVEL, vectorize_slp=False, unroll=False)
"""LLVM's pipeline with the loop vectorizer, without slow passes that gain nothing.

These are unrolling and the SLP vectorizer.
"""
_LONG_BLOCK = 4000
"""Lines of a basic block from which on a unit is compiled at level 0.

LLVM's other levels take time quadratic in the length of a block (6,700 lines of f8 arithmetic: 4.2
s instead of 0.4), for code that runs 15 % faster.
"""
_END_OF_BLOCK = pattern(r"^[\w.]+:$|^}$", re.MULTILINE)
_TWO_THREADS = 150.0
"""Total weight (see Unit) of modules from which on a second thread pays."""


class Ahead:
    """Compiles modules in another thread while Python emits the rest of a program.

    One at a time; those that would have to wait are compiled with the others.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._is_on = min(target.threads, thread_count()) > 1 and ObjectCache.of_environment(target) is None
        self._helpers: dict[str, Helper] = {}
        self._objects: dict[str, bytes] = {}

    def start(self, unit: Unit) -> None:
        """Begin to compile a module, unless another is being compiled."""
        if not self._is_on or unit.text in self._helpers or len(self._objects) < len(self._helpers):
            return

        def work() -> None:
            try:
                self._objects[unit.text] = compile_unit(unit, self._target)
            except XlanbError as error:  # whoever compiles it again gets the same error
                _LOG.info("cannot compile a module ahead: %s", error)

        helper = Helper(work)
        try:
            helper.start()
        except RuntimeError as error:
            _LOG.info("nothing is compiled ahead: %s", error)
            return
        self._helpers[unit.text] = helper

    def has(self, unit: Unit) -> bool:
        """Whether a module was or is being compiled."""
        return unit.text in self._helpers

    def take(self, unit: Unit) -> bytes:
        """The object file of a module, when it is compiled.

        Raises:
            CompilationError: LLVM rejects the IR.
        """
        self._helpers[unit.text].wait()
        found = self._objects.get(unit.text)
        return compile_unit(unit, self._target) if found is None else found


def compile_units(
    units: Sequence[Unit],
    target: Target,
    meanwhile: Callable[[], object] | None = None,
    ahead: Ahead | None = None,
) -> list[bytes]:
    """The object file of each module, in order.

    `meanwhile` is called once, while other threads compile if there may be any. Modules that are
    compiled `ahead` are taken from there.

    Raises:
        CompilationError: LLVM rejects the IR.
    """
    if ahead is not None and any(map(ahead.has, units)):
        others = iter(compile_units([u for u in units if not ahead.has(u)], target, meanwhile))
        return [ahead.take(u) if ahead.has(u) else next(others) for u in units]
    disks = _disks(units, target)
    found = [disk.get(u.text, ready=u.ready) if disk else None for u, disk in zip(units, disks, strict=True)]
    made = iter(_compile([u for u, data in zip(units, found, strict=True) if data is None], target, meanwhile))
    out = []
    for u, disk, known in zip(units, disks, found, strict=True):
        data = next(made) if known is None else known
        if disk is not None and known is None:
            disk.put(u.text, data, ready=u.ready)
        out.append(data)
    return out


def _disks(units: Sequence[Unit], target: Target) -> list[ObjectCache | None]:
    """The cache of each module: the environment's, or the one of shared routines."""
    disk = ObjectCache.of_environment(target)
    if disk is not None:
        return [disk] * len(units)
    shared = ObjectCache.of_routines(target) if any(u.shared or u.everywhere for u in units) else None
    return [shared if u.shared or u.everywhere else None for u in units]


def _compile(units: Sequence[Unit], target: Target, meanwhile: Callable[[], object] | None) -> list[bytes]:
    if meanwhile is not None:
        busy = len(units) + 1
    else:
        busy = len(units) if sum(u.weight for u in units) >= _TWO_THREADS else 1
    batch = _Batch(units, target)
    helpers = [Helper(batch.help) for _ in range(min(target.threads, thread_count(), busy) - 1)]
    try:
        _start(helpers, begin=meanwhile is not None)
        if meanwhile is not None:
            meanwhile()
        batch.work()
    finally:
        batch.close()
        for h in helpers:
            h.stop()
    return batch.objects()


def _start(helpers: Sequence[Helper], *, begin: bool) -> None:
    """Start as many threads as possible; wait until they begin if the caller goes on in Python."""
    try:
        for h in helpers:
            h.begin() if begin else h.start()
    except RuntimeError as error:
        _LOG.info("LLVM runs on fewer than %d threads: %s", len(helpers) + 1, error)


class _Batch:
    """Units to be compiled by several threads, the largest first; a failure stops the others."""

    def __init__(self, units: Sequence[Unit], target: Target) -> None:
        self._units, self._target = units, target
        self._left = sorted(range(len(units)), key=lambda k: units[k].weight)
        self._done: dict[int, bytes] = {}
        self._failed: list[BaseException] = []

    def work(self) -> None:
        """Compile units until there are no more."""
        while True:
            try:
                k = self._left.pop()
            except IndexError:
                return
            self._done[k] = compile_unit(self._units[k], self._target)

    def help(self) -> None:
        """The work of a helper thread; the main thread raises its exception."""
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised again by `objects`
            self._failed.append(error)
            self.close()

    def close(self) -> None:
        """Prevent threads from starting another unit."""
        self._left.clear()

    def objects(self) -> list[bytes]:
        """The object files in the order of the units, after all threads have ended."""
        if self._failed:
            raise self._failed[0]
        return [self._done[k] for k in range(len(self._units))]


def compile_unit(unit: Unit, target: Target, *, relocation: str = "", level: int = LEVEL) -> bytes:
    """The object file of one module; `relocation` is "pic" for code to be linked.

    Raises:
        CompilationError: LLVM rejects the IR.
    """
    fast = unit.calls_only or _has_long_block(unit.text)
    model = llvm.TargetModel(target, 0 if fast else level, relocation)
    text = unit.text + conversions(unit.text, target)
    return translate(text, model, None if unit.ready else _PASSES)


def _has_long_block(text: str) -> bool:
    """Whether a basic block of a module has more than _LONG_BLOCK lines."""
    if text.count("\n") <= _LONG_BLOCK:  # most modules are this short
        return False
    start = 0
    for end in _END_OF_BLOCK.finditer(text):
        if text.count("\n", start, end.start()) > _LONG_BLOCK:
            return True
        start = end.end()
    return False
