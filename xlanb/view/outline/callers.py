"""Paths by Python functions, for ops of a training step outside of scopes and both passes.

jit(step)/mul, in optax's scale_by_adam, called by `step`   ->  ("optax", "scale_by_adam")
jit(step)/sub, in the user's function `apply_gradients`     ->  ("apply_gradients",)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from xlanb.hlo.attributes import OpMetadata, StackFrame
from xlanb.view.outline.scopes import Path

Calls = tuple[str, ...]
NOWHERE: Calls = ("",)
"""The calls of an op without a Python line: it belongs to its users."""
_JITTED = re.compile(r"jit\((\w+)\)/")
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_COMMON = 0.8  # a function with a larger share of a library's ops does not distinguish them
_FEWEST = 2  # ops of a distinguishing function


def calls_of(meta: OpMetadata) -> Calls:
    """Return the library and the functions from the compiled one to an op, the outermost first.

    () if the op is in the compiled function itself, or its calls are unknown; `NOWHERE` if it has
    no Python line.
    """
    if not meta.python_line[0]:
        return NOWHERE
    found = _JITTED.match(meta.op_name)
    if found is not None and meta.frame is not None:
        return _calls(meta.frame, found[1])
    package = _PACKAGE.search(meta.python_line[0]) if found is not None else None
    return (package[1],) if package is not None else ()


@lru_cache(maxsize=4096)
def _calls(frame: StackFrame, compiled: str) -> Calls:
    inner: list[StackFrame] = []
    at: StackFrame | None = frame
    while at is not None and at.function.rpartition(".")[2] != compiled:
        inner.append(at)
        at = at.caller
    if at is None or not inner:
        return ()
    inner.reverse()
    package = _PACKAGE.search(inner[0].file)
    names = [package[1]] if package is not None else []
    for f in inner:
        outer, _, rest = f.function.partition(".<locals>.")
        is_own = outer == at.function.partition(".<locals>.")[0]
        name = rest.replace("<locals>.", "").partition(".")[0] if is_own else outer
        if name and "<" not in name and name != compiled and name not in names:
            names.append(name)
    return tuple(names)


class CallerPaths:
    """The paths of the ops of one program; `calls` are those of all its ops without a scope."""

    def __init__(self, calls: Iterable[Calls]) -> None:
        known = [c for c in calls if c and c is not NOWHERE]
        self._is_known = bool(known)
        of_first = Counter(c[0] for c in known)
        lie_in = Counter((c[0], name) for c in known for name in c[1:])
        self._telling = {
            (first, name) for (first, name), count in lie_in.items() if _FEWEST <= count <= _COMMON * of_first[first]
        }

    def of(self, calls: Calls) -> Path | None:
        """Return the library or user function, and its outermost function that distinguishes the
        ops.
        """
        if not calls:
            return ()
        if calls is NOWHERE:
            return None if self._is_known else ()
        telling = next((name for name in calls[1:] if (calls[0], name) in self._telling), None)
        return (calls[0],) if telling is None else (calls[0], telling)
