"""What a compiled function has in its cache: signatures, and why each was compiled."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.display import Displayable

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.cpu.executable import Executable


@dataclass(frozen=True)
class Signature:
    """What code depends on: the structure of the arguments, type and shape of each leaf, the values of static arguments."""

    tree: Any
    leaves: tuple[tuple[Any, ...], ...]
    static: tuple[tuple[str, Any], ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def of(
        args: tuple[Any, ...], named: dict[str, Any], static: Sequence[tuple[str, Any]], names: Sequence[str]
    ) -> Signature:
        """The signature of a call."""
        places, values, tree = _flattened(args, named, names)
        return Signature(tree, tuple(_kind(v) for v in values), tuple(static), tuple(places))

    @property
    def text(self) -> str:
        """As in `x: float32[2,3], params['w']: float32[3,4], axis=0`."""
        shown = [f"{n}: {_shown(leaf)}" for n, leaf in zip(self.names, self.leaves, strict=True)]
        return ", ".join([*shown, *(f"{n}={v!r}" for n, v in self.static)])

    def why(self, others: Sequence[Signature]) -> str:
        """Why code for the others is none for this one: what differs from the most similar, the latest of those."""
        if not others:
            return "first call"
        differences = [self._differences(o) for o in reversed(others)]
        return "; ".join(d.text for d in min(differences, key=lambda found: sum(d.weight for d in found)))

    def _differences(self, other: Signature) -> list[_Difference]:
        if self.names != other.names:
            new = [n for n in self.names if n not in other.names]
            gone = [n for n in other.names if n not in self.names]
            words = f"{', '.join(new) or 'nothing'} added, {', '.join(gone) or 'nothing'} missing"
            return [_Difference(f"structure: {words}", 1000)]
        changed = [
            _change(n, old, new)
            for n, old, new in zip(self.names, other.leaves, self.leaves, strict=True)
            if old != new
        ]
        before = dict(other.static)
        changed += [
            _Difference(f"{n}: static value {before.get(n)!r} -> {v!r}", 1)
            for n, v in self.static
            if n not in before or before[n] != v
        ]
        return changed or [_Difference("structure: other containers", 1000)]


@dataclass(frozen=True)
class _Difference:
    """What differs between two signatures, and by how much."""

    text: str
    weight: int


@dataclass(frozen=True)
class CacheEntry:
    """Code for one signature: `why` it was compiled, in how many `seconds`. `structure` is what a function over xlanb.tf gave back."""

    signature: Signature
    executable: Executable = field(repr=False)
    structure: Any = field(repr=False)
    is_jax: bool
    why: str
    seconds: float


@dataclass(frozen=True)
class CacheInfo(Displayable):
    """What `xlanb.jit` keeps of a function: calls that found their code (`hits`), calls that had it compiled (`misses`), and the entries, oldest first."""

    name: str
    hits: int
    misses: int
    entries: tuple[CacheEntry, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each compilation: signature, why, seconds."""
        import pandas as pd

        rows = [{"signature": e.signature.text, "why": e.why, "seconds": e.seconds} for e in self.entries]
        return pd.DataFrame(rows, columns=["signature", "why", "seconds"])

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.hits} hits, {self.misses} compiled"]
        lines += [f"  {e.seconds * 1e3:8.1f} ms  {e.signature.text}\n               {e.why}" for e in self.entries]
        return "\n".join(lines)


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's positional arguments, where Python knows them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in positional)


def _flattened(args: tuple[Any, ...], named: dict[str, Any], names: Sequence[str]) -> tuple[list[str], list[Any], Any]:
    """The leaves of a call with their names, and the structure."""
    roots = [(names[n] if n < len(names) else f"argument {n}", a) for n, a in enumerate(args)] + list(named.items())
    if "jax" not in sys.modules:
        return [n for n, _ in roots], [v for _, v in roots], (len(args), tuple(named))
    from xlanb.frontends.jax import leaves_with_names

    return leaves_with_names(roots, (args, named))


def _kind(value: Any) -> tuple[Any, ...]:
    """What of a leaf code depends on: dtype and shape of an array, the type of a number, anything else itself."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return (value.dtype, tuple(value.shape), bool(getattr(value, "weak_type", False)))
    if isinstance(value, bool | int | float | complex):
        return (type(value),)
    if isinstance(value, list | tuple):
        array = np.asarray(value)
        return (array.dtype, array.shape, False)
    return ("static", value)


def _shown(kind: tuple[Any, ...]) -> str:
    if kind[0] == "static":
        return repr(kind[1])
    if len(kind) == 1:
        return str(kind[0].__name__)
    return f"{kind[0]}[{','.join(map(str, kind[1]))}]"


def _change(name: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> _Difference:
    """What changed from one kind of leaf to another: shape, dtype or value."""
    arrow = f"{_shown(old)} -> {_shown(new)}"
    if len(old) != 3 or len(new) != 3:
        return _Difference(f"{name}: {arrow}", 2)
    if old[:2] == new[:2]:
        return _Difference(f"{name}: {_shown(new)} {'became' if new[2] else 'is no longer'} weakly typed", 1)
    parts = [what for what, a, b in zip(("dtype", "shape"), old, new, strict=False) if a != b]
    return _Difference(f"{name}: {' and '.join(parts)} {arrow}", len(parts))
