"""Delta debugging of a module; a step is kept if the module is valid and the test still holds.

First, runs of the entry's instructions are removed, in ever smaller runs (Zeller and Hildebrandt's
ddmin). Then calls, fusions, loops and conditionals are inlined, and their contents reduced. Then
single instructions are bypassed, parameters merged and arrays made smaller. All of this is repeated
until nothing makes the module smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from xlanb.display import Displayable
from xlanb.errors import ArgumentError, XlanbError
from xlanb.hlo import HloModule, parse
from xlanb.hooks import Hook
from xlanb.reducer import simpler
from xlanb.reducer.case import Case, named_arrays
from xlanb.reducer.cutting import cut, names_of
from xlanb.reducer.sizes import resized, resized_value, resizing, sizes_of

Test = Callable[..., object]
_SIZES = (1, 2, 3, 4, 8, 16)
"""The sizes tried for a dimension, besides half of it."""


reproducer: Final[Hook[..., Any]] = Hook("reducer.reproducer")
"""The Python file that demonstrates that a test holds for a module and its arrays."""


class _OutOfTimeError(Exception):
    """The time limit is reached."""


@dataclass(frozen=True)
class ReducedModule(Displayable):
    """The result of a reduction.

    Attributes:
        module: the smallest module for which the test holds.
        arrays: the arrays that it is tested with; None if the test makes its own.
        is_finished: no step makes it smaller; otherwise the search ran out of time or was
            interrupted.
        seconds: wall time.
        test: the test.
    """

    module: HloModule
    arrays: tuple[Any, ...] | None
    before: int
    tests: int
    seconds: float
    is_finished: bool
    test: Test

    def reproducer(self) -> Any:
        """A Python file that shows the fault: `print` it or `.write("fault.py")` it.

        Raises:
            ArgumentError: the file cannot contain the test: its source is unknown, or it uses
                values that cannot be written.
        """
        return reproducer(self.module, self.test, *(self.arrays or ()))

    def __str__(self) -> str:
        left = "" if self.is_finished else "; stopped before the end"
        counts = f"{self.before} instructions -> {self.module.instruction_count}"
        return f"{counts}, {self.tests} tests, {self.seconds:.1f} s{left}\n\n{self.module}"

    def __repr__(self) -> str:
        return f"<Reduction: {self.before} instructions -> {self.module.instruction_count}>"


def reduction(
    module: HloModule | str,
    test: Test,
    *arrays: Any,
    seconds: float = 300.0,
    progress: Callable[[str], None] | None = None,
) -> ReducedModule:
    """The smallest module found for which the test holds.

    Args:
        module: a module, or HLO text.
        test: called with a module, and with arrays for its parameters if `arrays` are given.
            Returns whether the fault is still there; an XlanbError means no. It may change the
            module it gets.
        arrays: the module's arguments. Removed instructions become parameters, whose arrays are the
            values that the interpreter computes for them.
        seconds: the time limit, after which the best module so far is returned. Ctrl-C returns it
            at once.
        progress: called after each step that held.

    Raises:
        ArgumentError: the test does not hold for the module itself.
        XlanbError: the module is invalid.
    """
    given = parse(module) if isinstance(module, str) else module.clone()
    given.verify()
    start = Case(given, tuple(arrays) if arrays else None)
    search = _Search(start, test, time.monotonic() + seconds, progress)
    return search.run()


def reduce(
    module: HloModule | str,
    test: Test,
    *arrays: Any,
    seconds: float = 300.0,
    progress: Callable[[str], None] | None = None,
) -> HloModule:
    """The smallest HloModule found for which `test(module)` still holds.

    Every module that the test gets is verified. Arguments and errors are those of `reduction`,
    which also returns the arrays that the module is tested with.
    """
    return reduction(module, test, *arrays, seconds=seconds, progress=progress).module


class _Search:
    def __init__(self, case: Case, test: Test, end: float, progress: Callable[[str], None] | None) -> None:
        self.best = case
        self.tests = 0
        self._before = case.module.instruction_count
        self._test, self._end, self._progress = test, end, progress
        self._began = time.monotonic()

    def run(self) -> ReducedModule:
        first = self.best
        if not self._holds(first):
            raise ArgumentError("the test does not hold for the given module")
        finished = False
        try:
            self._strip()
            size = (first.size[0] + 1, 0)
            while self.best.size < size:
                size = self.best.size
                self._cut()
                self._open()
                self._steps(simpler.bypassed)
                self._steps(simpler.merged)
                self._resize()
            finished = True
        except (_OutOfTimeError, KeyboardInterrupt):
            pass  # keep the best so far
        seconds = time.monotonic() - self._began
        return ReducedModule(
            self.best.module, self.best.arrays, self._before, self.tests, seconds, finished, self._test
        )

    # -- one candidate -----------------------------------------------------------------------------

    def _holds(self, case: Case) -> bool:
        self.tests += 1
        copy = case.module.clone()
        return bool(self._test(copy) if case.arrays is None else self._test(copy, *case.arrays))

    def _try(self, make: Callable[[], Case | None]) -> bool:
        """Keep the result of `make` as the best if it is a module for which the test holds."""
        if time.monotonic() > self._end:
            raise _OutOfTimeError
        try:
            case = make()
            if case is None:
                return False
            case.module.verify()
            if not self._holds(case):
                return False
        except XlanbError:  # not a module, or one that the test cannot use
            return False
        self.best = case
        if self._progress is not None:
            count, seconds = case.module.instruction_count, time.monotonic() - self._began
            self._progress(f"{self._before} instructions -> {count}, {self.tests} tests, {seconds:.0f} s")
        return True

    # -- the steps ---------------------------------------------------------------------------------

    def _strip(self) -> None:
        """Drop attributes that do not affect results: all at once, or as many as possible."""
        whole, *kinds = simpler.strip()
        if not self._try(partial(self._stepped, whole)):
            for step in kinds:
                self._try(partial(self._stepped, step))

    def _cut(self) -> None:
        """Remove runs of the entry's instructions: halves first, single instructions last."""
        base = self.best
        values = self._values(base)
        kept, parts = names_of(base.module), 2
        while len(kept) > 1:
            runs = _split(kept, min(parts, len(kept)))
            choices: list[Sequence[str]] = (
                [*runs] if len(runs) <= 4 else []
            )  # a single one of many small runs rarely suffices
            choices += [[name for r in runs if r is not run for name in r] for run in runs] if len(runs) > 2 else []
            found = next((c for c in choices if self._try(partial(self._kept, base, c, values))), None)
            if found is not None:
                parts = 2 if len(found) <= len(kept) // 2 else max(parts - 1, 2)
                kept = list(found)
            elif parts >= len(kept):
                break
            else:
                parts *= 2

    def _kept(self, base: Case, names: Sequence[str], values: dict[str, Any]) -> Case | None:
        module, stands_for = cut(base.module, set(names))
        return base.with_values(module, {new: values[old] for new, old in stands_for.items() if old in values})

    def _open(self) -> None:
        """Inline called computations where that allows a smaller module."""
        left = True
        while left:
            left = False
            for step in list(simpler.inlined(self.best.module)):
                before = self.best
                if self._try(partial(self._stepped, step)):
                    self._cut()
                    if self.best.size < before.size:
                        left = True
                    else:
                        self.best = before

    def _steps(self, steps: Callable[[HloModule], Iterable[simpler.Step]]) -> None:
        """Apply all steps of a kind that hold, until none does."""
        again = True
        while again:
            again = False
            for step in list(steps(self.best.module)):
                before = self.best
                if self._try(partial(self._smaller, step)):
                    again |= self.best.size < before.size

    def _smaller(self, step: simpler.Step) -> Case | None:
        case = self._stepped(step)
        return case if case is not None and (case.size <= self.best.size) else None

    def _stepped(self, step: simpler.Step) -> Case | None:
        best = self.best
        copy = best.module.clone()
        copy.clear_schedule()
        copy.entry_layout = None
        copy.calling = None
        step(copy)
        return best.with_values(copy, named_arrays(best.module, best.arrays) if best.arrays is not None else {})

    def _resize(self) -> None:
        """Reduce dimensions, those with the most elements first."""
        for size in sizes_of(self.best.module):
            for new in sorted({*(s for s in _SIZES if s < size), size // 2}):
                if new and any(self._try(partial(self._resized, size, new, multiples=m)) for m in (False, True)):
                    break

    def _resized(self, old: int, new: int, *, multiples: bool) -> Case | None:
        best = self.best
        module = resized(best.module, resizing(old, new, multiples=multiples))
        if best.arrays is None:
            return Case(module)
        shapes = [p.shape for p in module.entry_computation.parameters]
        return Case(module, tuple(resized_value(a, s) for a, s in zip(best.arrays, shapes, strict=True)))

    def _values(self, case: Case) -> dict[str, Any]:
        try:
            return case.values()
        except XlanbError:
            return {} if case.arrays is None else named_arrays(case.module, case.arrays)


def _split(names: Sequence[str], parts: int) -> list[Sequence[str]]:
    """Runs of nearly equal length."""
    ends = [len(names) * (k + 1) // parts for k in range(parts)]
    return [names[a:b] for a, b in zip([0, *ends], ends, strict=False) if b > a]
