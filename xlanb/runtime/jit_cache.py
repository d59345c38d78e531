"""The cache of a compiled function: its signatures, and why each was compiled."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.display import Displayable
from xlanb.frontends.jax import flat_call, is_array, is_traced, names_of_leaves, trace_context, trace_context_names
from xlanb.frontends.jax_calling import JaxCalling
from xlanb.frontends.jax_wrapped import Static
from xlanb.graph.binding import python_signature
from xlanb.graph.extensions import flatten_foreign_call
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import TupleShape

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.cpu.executable import Executable


Key = tuple[Any, tuple[tuple[Any, ...], ...], tuple[tuple[int | str, Any], ...], tuple[Any, ...]]
"""The key of compiled code.

The structure of the arguments, type and shape of each leaf, the static arguments, JAX's settings.
"""


ArrayKey = tuple[Any, ...]
"""A faster key of a call with only arrays.

JAX's settings, the structure of the arguments (omitted for plain arrays), the type of each array.
"""


ArrayCall = Callable[[Sequence[Any], tuple[Any, ...], dict[str, Any]], Any]
"""Runs such a call: takes the arrays, positional and keyword arguments; returns the result."""


def array_key(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[ArrayKey | None, Sequence[Any]]:
    """The key of a call with only arrays, NumPy's or JAX's, and the arrays; else None as key."""
    leaves: Sequence[Any] = args
    key = [trace_context()]
    if named or not _are_arrays(args):
        if "jax" not in sys.modules:
            return None, args
        leaves, tree = flat_call(args, named)
        key.append(tree)
    for leaf in leaves:
        kind = type(leaf)
        if kind is _NumpyArray:
            key += (leaf.dtype, leaf.shape)
        elif kind in _array_types:
            key.append(leaf.aval)
        else:
            return None, leaves
    return tuple(key), leaves


def _are_arrays(args: tuple[Any, ...]) -> bool:
    for a in args:  # noqa: SIM110 - a generator would take twice as long
        if type(a) not in _array_types:
            return False
    return True


_NumpyArray = np.ndarray


@dataclass(frozen=True, slots=True)
class JitCall:
    """The arguments of one call: its cache key, and the leaves."""

    key: Key
    leaves: Sequence[Any]

    @staticmethod
    def of(args: tuple[Any, ...], named: dict[str, Any], static: Sequence[tuple[int | str, Any]]) -> JitCall:
        """A call with these arguments, without the `static` ones."""
        settings = trace_context()
        if "jax" in sys.modules:
            leaves, tree = flat_call(args, named)
        else:
            leaves, tree = [*args, *named.values()], (len(args), tuple(named))
        return JitCall((tree, tuple([_kind(v) for v in leaves]), tuple(static), settings), leaves)

    @staticmethod
    def of_foreign(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> JitCall:
        """A call of a TensorFlow function or model; Python values are compile-time constants."""
        names, leaves = flatten_foreign_call(function, args, named)
        return JitCall((tuple(names), tuple([_foreign_kind(v) for v in leaves]), (), ()), leaves)

    @property
    def is_traced(self) -> bool:
        """Whether it is inside a function that JAX traces."""
        return _TRACED in self.key[1]


@dataclass(frozen=True)
class JitSignature:
    """The cache key of code, with the names of the leaves and of the static arguments."""

    tree: Any
    leaves: tuple[tuple[Any, ...], ...]
    static: tuple[tuple[str, Any], ...]
    settings: tuple[Any, ...]
    names: tuple[str, ...]

    @staticmethod
    def of(call: JitCall, args: tuple[Any, ...], named: dict[str, Any], names: Sequence[str]) -> JitSignature:
        """The signature of a call; `names` are those of the function's parameters."""
        tree, leaves, static, settings = call.key
        by_number = {n: _name(n, names) for n in range(len(args))}
        taken = {n for n, _ in static}
        roots = [(by_number[n], a) for n, a in enumerate(args) if n not in taken]
        roots += [(k, v) for k, v in named.items() if k not in taken]
        places = names_of_leaves(roots) if "jax" in sys.modules else [n for n, _ in roots]
        shown = tuple((by_number[n] if isinstance(n, int) else n, v) for n, v in static)
        return JitSignature(tree, leaves, shown, settings, tuple(places))

    @staticmethod
    def of_foreign(call: JitCall) -> JitSignature:
        """The signature of a call of a TensorFlow function or model."""
        names, leaves, _, settings = call.key
        return JitSignature(names, leaves, (), settings, names)

    @property
    def text(self) -> str:
        """As in `x: float32[2,3], params['w']: float32[3,4], axis=0`."""
        shown = [f"{n}: {_shown(leaf)}" for n, leaf in zip(self.names, self.leaves, strict=True)]
        return ", ".join([*shown, *(f"{n}={v!r}" for n, v in self.static)])

    def why(self, others: Sequence[JitSignature]) -> str:
        """Why this signature needed its own code: the differences from the most similar other one.

        Of several, the latest.
        """
        if not others:
            return "first call"
        differences = [self._differences(o) for o in reversed(others)]
        return "; ".join(d.text for d in min(differences, key=lambda found: sum(d.weight for d in found)))

    def _differences(self, other: JitSignature) -> list[_Difference]:
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
        changed += self._changed_settings(other)
        changed += [
            _Difference(f"{n}: static value {before.get(n)!r} -> {v!r}", 1)
            for n, v in self.static
            if n not in before or before[n] != v
        ]
        return changed or [_Difference("structure: different containers", 1000)]

    def _changed_settings(self, other: JitSignature) -> list[_Difference]:
        if self.settings == other.settings:
            return []
        names = trace_context_names()
        if not len(names) == len(self.settings) == len(other.settings):
            return [_Difference("JAX's settings changed", 1)]
        pairs = zip(names, other.settings, self.settings, strict=True)
        return [_Difference(f"{name}: {old!r} -> {new!r}", 1) for name, old, new in pairs if old != new]


@dataclass(frozen=True)
class _Difference:
    """A difference between two signatures, and its weight."""

    text: str
    weight: int


@dataclass(frozen=True)
class CacheEntry:
    """Code for one signature: `why` it was compiled, and in how many `seconds`."""

    signature: JitSignature
    executable: Executable = field(repr=False)
    has_calling: bool
    why: str
    seconds: float

    @functools.cached_property
    def _direct(self) -> JaxCalling | None:
        """The calling convention, if the leaves of a call can be passed directly; else None.

        None if the arguments must be prepared, or if it is not a JAX function.
        """
        calling = self.executable.source_module.calling
        return calling if isinstance(calling, JaxCalling) and calling.in_tree == self.signature.tree else None

    @functools.cached_property
    def _is_tuple(self) -> bool:
        return isinstance(self.executable.calls.signature.result, TupleShape)

    def with_arrays(self, leaves: Sequence[Any]) -> ArrayCall:
        """A function that runs later calls with arrays of the same types and structure."""
        executable, run = self.executable, self.run
        if self.has_calling and self._direct is not None:
            if self._direct.is_plain and all(type(v) is np.ndarray for v in leaves):
                return lambda _, args, __: executable(*args)
            calling = self._direct.of_arrays(executable.flat, leaves, is_tuple=self._is_tuple)
            if calling is not None:
                return calling.call
        return lambda leaves, args, named: run(args, named, leaves)

    def run(self, args: tuple[Any, ...], named: dict[str, Any], leaves: Sequence[Any]) -> Any:
        """The function's result for these arguments; `leaves` are theirs if none is static."""
        if self._direct is not None:
            found = self.executable.flat(*self._direct.parameters(leaves))
            return self._direct.assemble(found if self._is_tuple else (found,), args, named, leaves)
        if self.has_calling:
            return self.executable(*args, **named)
        return self.executable(*(np.asarray(a) for a in args))[0]


@dataclass(frozen=True)
class CacheInfo(Displayable):
    """The cache of a jitted function: `hits`, `misses` (compilations), entries, oldest first."""

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
    """The names of a function's positional arguments, if known."""
    signature = python_signature(function)
    parameters = () if signature is None else signature.parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in positional)


def _name(number: int, names: Sequence[str]) -> str:
    return names[number] if number < len(names) else f"argument {number}"


_TRACED = ("traced",)


_array_types: set[type] = {np.ndarray}
"""Classes whose instances are all arrays, collected from the values seen."""


def _kind(value: Any) -> tuple[Any, ...]:
    """The properties of a leaf that code depends on.

    dtype and shape of an array, the type of a number, anything else itself.
    """
    if type(value) in _array_types:
        return (value.dtype, value.shape, type(value) is not np.ndarray and value.weak_type)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if "jax" in sys.modules:
            if is_traced(value):
                return _TRACED
            if is_array(value) and hasattr(value, "weak_type"):  # key arrays have none
                _array_types.add(type(value))
        return (value.dtype, tuple(value.shape), bool(getattr(value, "weak_type", False)))
    if isinstance(value, bool | int | float | complex):
        return (type(value),)
    if isinstance(value, list | tuple):
        array = np.asarray(value)
        return (array.dtype, array.shape, False)
    return ("static", Static(value))


def _foreign_kind(value: Any) -> tuple[Any, ...]:
    """The same for a TensorFlow call, in which a number is a constant of the program."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return (np.dtype(getattr(value.dtype, "as_numpy_dtype", value.dtype)), tuple(value.shape), False)
    return ("static", Static(value))


def _shown(kind: tuple[Any, ...]) -> str:
    if kind[0] == "static":
        return repr(kind[1])
    if len(kind) == 1:
        return str(kind[0].__name__)
    return f"{kind[0]}[{','.join(map(str, kind[1]))}]"


def _change(name: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> _Difference:
    """The difference between two kinds of leaf: shape, dtype or value."""
    arrow = f"{_shown(old)} -> {_shown(new)}"
    if len(old) != 3 or len(new) != 3:
        return _Difference(f"{name}: {arrow}", 2)
    if old[:2] == new[:2]:
        return _Difference(f"{name}: {_shown(new)} {'became' if new[2] else 'is no longer'} weakly typed", 1)
    parts = [what for what, a, b in zip(("dtype", "shape"), old, new, strict=False) if a != b]
    return _Difference(f"{name}: {' and '.join(parts)} {arrow}", len(parts))
