"""Functions with arguments or results other than arrays: Equinox and Flax NNX modules, strings,
functions.

Anything but an array is static: it is part of the program, as in `equinox.filter_jit`. The state of
NNX modules is passed and returned as arrays, and the modules are updated after a call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from xlanb.frontends.mistakes import is_pending, pending_result
from xlanb.lazy_dataclass import dataclass

_Call = tuple[tuple[Any, ...], dict[str, Any]]


class Static:
    """A value that is not an array, as a pytree without leaves; compared by its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static):
            return NotImplemented
        if self.value is other.value:
            return True
        try:
            return bool(self.value == other.value)
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class PreparedFunction:
    """A function on pytrees of arrays, with its example arguments.

    It also has functions that prepare later calls and finish their results; None if nothing is to
    be done.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]
    prepare: Callable[[tuple[Any, ...], dict[str, Any]], _Call] | None = None
    finish: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None = None


def prepared(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> PreparedFunction:
    """The function and its arguments as `jax.jit` takes them."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and (_is_nnx(function) or _holds_module(nnx, (args, named))):
        return _of_nnx(nnx, function, args, named)
    keep_numbers = type(function).__module__.partition(".")[0] != "equinox"  # filter_jit has numbers for static
    (given, words), rest = marked((args, named), numbers=keep_numbers)
    if not rest:
        return PreparedFunction(_returning_arrays(function), args, named)

    @functools.wraps(function)
    def call(*a: Any, **k: Any) -> Any:
        values, by_name = unmarked((a, k))
        return _marked_result(function, function(*values, **by_name), numbers=False)

    def prepare(a: tuple[Any, ...], k: dict[str, Any]) -> _Call:
        made: _Call = marked((a, k), numbers=keep_numbers)[0]
        return made

    return PreparedFunction(call, given, words, prepare)


def _returning_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with results other than arrays marked as static."""

    @functools.wraps(function)
    def call(*a: Any, **k: Any) -> Any:
        return _marked_result(function, function(*a, **k), numbers=True)

    return call


def _marked_result(function: Callable[..., Any], result: Any, *, numbers: bool) -> Any:
    """The result of a traced function, with non-arrays marked as static.

    Raises:
        ArgumentTypeError: a part of it is yet to be computed, such as a generator.
    """
    for leaf in import_module("jax").tree_util.tree_leaves(result, is_leaf=is_pending):
        if is_pending(leaf):
            raise pending_result(function, leaf)
    return marked(result, numbers=numbers)[0]


def unmark_result(value: Any, _args: tuple[Any, ...], _named: dict[str, Any]) -> Any:
    """Finish a call: restore results that are not arrays."""
    return unmarked(value)


def has_static(tree: Any) -> bool:
    """Whether a PyTreeDef holds marked values."""
    jax = import_module("jax")
    value = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    leaves = jax.tree_util.tree_leaves(value, is_leaf=lambda x: isinstance(x, Static))
    return any(isinstance(x, Static) for x in leaves)


def marked(tree: Any, *, numbers: bool) -> tuple[Any, bool]:
    """The tree with each leaf that is not an array (nor, with `numbers`, a number) as Static;
    whether there was one.
    """
    jax = import_module("jax")
    _register()
    found = []

    def mark(leaf: Any) -> Any:
        if _is_array(leaf) or (numbers and isinstance(leaf, bool | int | float | complex)):
            return leaf
        found.append(leaf)
        return Static(leaf)

    return jax.tree_util.tree_map(mark, tree), bool(found)


def unmarked(tree: Any) -> Any:
    """The tree with the values of Static in their places."""
    jax = import_module("jax")
    return jax.tree_util.tree_map(
        lambda x: x.value if isinstance(x, Static) else x, tree, is_leaf=lambda x: isinstance(x, Static)
    )


@functools.cache
def _register() -> None:
    import_module("jax").tree_util.register_static(Static)


def _is_array(x: Any) -> bool:
    jax = import_module("jax")
    return isinstance(x, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct) or hasattr(x, "__jax_array__")


def _is_nnx(function: Any) -> bool:
    return type(function).__module__.startswith("flax.nnx")


def _holds_module(nnx: Any, tree: Any) -> bool:
    jax = import_module("jax")
    found = jax.tree_util.tree_leaves(tree, is_leaf=lambda x: isinstance(x, nnx.Module))
    return any(isinstance(x, nnx.Module) for x in found)


def _of_nnx(nnx: Any, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> PreparedFunction:
    """f(model, x) -> f'(variables, arrays): module variables and other arrays in.

    Results and new variables are returned.
    """
    inner = getattr(function, "fun", function) if _is_nnx(function) else function
    graph, variables, arrays = nnx.split((args, named), nnx.Variable, ...)

    @functools.wraps(inner, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def call(variables: Any, arrays: Any) -> Any:
        a, k = nnx.merge(graph, variables, arrays)
        result = _marked_result(inner, inner(*a, **k), numbers=True)
        return result, nnx.state((a, k), nnx.Variable)

    del call.__wrapped__  # its arguments are not those of the function

    def prepare(a: tuple[Any, ...], k: dict[str, Any]) -> _Call:
        return tuple(nnx.split((a, k), nnx.Variable, ...)[1:]), {}

    def finish(value: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Any:
        result, new = value
        nnx.update((a, k), new)
        return unmarked(result)

    return PreparedFunction(call, (variables, arrays), {}, prepare, finish)
