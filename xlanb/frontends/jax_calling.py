"""Call compiled code like the JAX function: pytrees in, flat arrays to the code, pytrees out."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.boundary import array_of
from xlanb.errors import ArgumentError
from xlanb.lazy_dataclass import dataclass

Array = NDArray[Any]


@dataclass(frozen=True)
class Leaf:
    """One array argument of a function: its name, as in `params['w']`, and its JAX type.

    `dtype` may be that of a PRNG key.
    """

    name: str
    dtype: Any
    shape: tuple[int, ...]


@dataclass(frozen=True)
class JaxResult:
    """The JAX type of one array of a function's result (`dtype` may be that of a PRNG key)."""

    dtype: Any
    shape: tuple[int, ...]
    is_weak: bool = False

    @functools.cached_property
    def aval(self) -> Any:
        """JAX's own object for it."""
        import jax

        return jax.core.ShapedArray(self.shape, self.dtype, weak_type=self.is_weak)

    @functools.cached_property
    def is_key(self) -> bool:
        """Whether it is an array of PRNG keys."""
        return _is_key(self.dtype)


@dataclass(frozen=True)
class JaxCalling:
    """The calling convention of a JAX function.

    `leaves` are all array arguments in the order of `in_tree`, `kept` the numbers of those that are
    parameters of the module (JAX drops unused ones). `results` are the types of the results.
    `prepare` converts a call's arguments to the structure of `in_tree`, for example without static
    ones. `finish` converts the results to the function's return value.
    """

    leaves: tuple[Leaf, ...]
    kept: tuple[int, ...]
    in_tree: Any
    out_tree: Any
    results: tuple[JaxResult, ...]
    prepare: Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    finish: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each parameter of the module."""
        return tuple(self.leaves[k].name for k in self.kept)

    @property
    def is_plain(self) -> bool:
        """Whether arguments and results are plain arrays, so that code can be called directly."""
        import jax

        count = len(self.leaves)
        flat_in = jax.tree_util.tree_structure((tuple(range(count)), {}))
        flat_out = jax.tree_util.tree_structure(0 if len(self.results) == 1 else tuple(range(len(self.results))))
        plain = self.prepare is None and self.finish is None and len(self.kept) == count
        keys = any(_is_key(d) for d in [*(r.dtype for r in self.results), *(leaf.dtype for leaf in self.leaves)])
        return bool(plain and not keys and self.in_tree == flat_in and self.out_tree == flat_out)

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Flatten a call's arguments to the arrays that the module takes.

        Raises:
            ArgumentError: the structure of the arguments differs from the compiled one.
        """
        import jax

        values, tree = jax.tree_util.tree_flatten((args, dict(named)))
        if tree != self.in_tree and self.prepare is not None:
            args, named = self.prepare(args, dict(named))
            values, tree = jax.tree_util.tree_flatten((args, dict(named)))
        if tree != self.in_tree:
            raise ArgumentError(self._differs(args, named))
        return self.parameters(values)

    def parameters(self, values: Sequence[Any]) -> list[Any]:
        """The arrays that the module takes, of the leaves of the arguments of a call."""
        return [_as_parameter(values[k], self.leaves[k]) for k in self.kept]

    def assemble(
        self,
        arrays: Sequence[Any],
        args: tuple[Any, ...] = (),
        named: Mapping[str, Any] | None = None,
        leaves: Sequence[Any] | None = None,
    ) -> Any:
        """Assemble the function's return value from the module's results.

        They are NumPy arrays, or jax.Arrays if an argument was one. `leaves` are those of the
        arguments, if the caller has them.
        """
        import jax

        given = jax.tree_util.tree_leaves((args, named or {})) if leaves is None else leaves
        place = _place_of(given)
        made = [_as_result(a, r, place) for a, r in zip(arrays, self.results, strict=True)]
        value = jax.tree_util.tree_unflatten(self.out_tree, made)
        return value if self.finish is None else self.finish(value, args, dict(named or {}))

    def of_arrays(self, code: Callable[..., Any], leaves: Sequence[Any], *, is_tuple: bool) -> ArrayCalling | None:
        """A fast caller for arguments with these types; None if more is needed: static arguments,
        keys, another precision.
        """
        import jax

        first = next((n for n, v in enumerate(leaves) if type(v) is _array_type()), None)
        fit = all(v.dtype == leaf.dtype for v, leaf in zip(leaves, self.leaves, strict=True))
        if first is None or not fit or len(self.kept) != len(leaves) or any(r.is_key for r in self.results):
            return None
        if self.prepare is not None or self.finish is not None:
            return None
        is_leaf = not is_tuple and self.out_tree == jax.tree_util.tree_structure(0)
        return ArrayCalling(code, first, self.results, None if is_leaf else self.out_tree, is_tuple=is_tuple)

    def _differs(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        """Describe how the structure of a call's arguments differs from the compiled one."""
        import jax

        count = self.in_tree.num_leaves
        wanted = _leaf_names(jax.tree_util.tree_unflatten(self.in_tree, range(count)))
        got = _leaf_names((args, dict(named)))
        names = {place: leaf.name for place, leaf in zip(wanted, self.leaves, strict=True)}
        missing = [names[p] for p in wanted if p not in set(got)]
        extra = [p for p in got if p not in names]
        told = [f"{', '.join(missing[:5])} missing"] if missing else []
        told += [f"unexpected {', '.join(extra[:5])}"] if extra else []
        takes = ", ".join(leaf.name for leaf in self.leaves)
        return f"expected arguments of the structure ({takes}): {'; '.join(told) or 'other containers'}"


class ArrayCalling:
    """Call code with arrays of its parameters' types, and put results on an argument's device.

    That is the device of argument number `first`, the first jax.Array. `out_tree` is None if there
    is a single bare result; code returns a tuple if `is_tuple`.
    """

    __slots__ = ("_avals", "_code", "_first", "_is_tuple", "_latest", "_out_tree")

    def __init__(
        self, code: Callable[..., Any], first: int, results: tuple[JaxResult, ...], out_tree: Any, *, is_tuple: bool
    ) -> None:
        self._code, self._first, self._is_tuple, self._out_tree = code, first, is_tuple, out_tree
        self._avals = [r.aval for r in results]
        # The first argument's latest sharding, whether it was committed, and the place of results.
        # One tuple, because threads call concurrently.
        self._latest: tuple[Any, bool, Callable[..., Any], list[Any]] = (None, False, _put_anywhere, [])

    def call(self, leaves: Sequence[Any], _args: tuple[Any, ...], _named: dict[str, Any]) -> Any:
        """Return the function's results for these arrays, as jax.Arrays."""
        found = self._code(*map(_asarray, leaves))
        first = leaves[self._first]
        sharding, is_committed = first.sharding, first.committed
        known, was_committed, put, devices = self._latest
        if sharding is not known or is_committed is not was_committed:
            place = _place_in(sharding, is_committed)
            put, devices = place.put or _put_anywhere, place.devices
            self._latest = sharding, is_committed, put, devices
        if self._out_tree is None:
            return put(self._avals[0], sharding, [found], devices, is_committed)
        given = found if self._is_tuple else (found,)
        made = [put(t, sharding, [a], devices, is_committed) for t, a in zip(self._avals, given, strict=True)]
        return self._out_tree.unflatten(made)


def _put_anywhere(_aval: Any, _sharding: Any, arrays: list[Array], _devices: Any, _is_committed: bool) -> Any:
    """Make a jax.Array without `batched_device_put`.

    It is used if the first argument is not on one device, or this JAX version lacks that function.
    """
    import jax

    return jax.device_put(arrays[0], may_alias=True)


_asarray = np.asarray


def _leaf_names(call: tuple[tuple[Any, ...], Mapping[str, Any]]) -> list[str]:
    """Name the leaves of a call's arguments, as in `argument 0['w']`."""
    from jax.tree_util import keystr, tree_flatten_with_path

    args, named = call
    places = [f"argument {n}{keystr(path)}" for n, a in enumerate(args) for path, _ in tree_flatten_with_path(a)[0]]
    return places + [f"{k}{keystr(path)}" for k, v in named.items() for path, _ in tree_flatten_with_path(v)[0]]


def _is_key(dtype: Any) -> bool:
    """Whether a dtype is that of PRNG keys, which NumPy does not know."""
    return not isinstance(dtype, np.dtype) and hasattr(dtype, "_impl")


def _as_parameter(value: Any, leaf: Leaf) -> Any:
    """Convert an argument for the module: keys to their bits, numbers and arrays to JAX's
    precision.

    Raises:
        ArgumentError: it has no values, or its parameter's type cannot hold it.
    """
    kind, wanted = type(value), leaf.dtype
    if kind is np.ndarray and value.dtype == wanted:
        return value
    if kind is int or kind is float or kind is bool or kind is complex:
        return _as_scalar(value, leaf)
    if kind is _array_type() and value.dtype == wanted and isinstance(wanted, np.dtype):
        return np.asarray(value)
    import jax

    if isinstance(value, jax.core.Tracer):
        raise ArgumentError(
            f"{leaf.name} is traced by JAX: compiled code takes arrays. Transform the function before compiling it, "
            "as in xlanb.compile(jax.grad(f), x); xlanb.jit(f) can be used inside jax.grad, jax.vmap and jax.jit"
        )
    if _is_key(getattr(value, "dtype", None)):
        return np.asarray(jax.random.key_data(value))
    if isinstance(value, jax.ShapeDtypeStruct):
        raise ArgumentError(f"{leaf.name} is a shape without values: pass an array of {leaf.dtype}{list(leaf.shape)}")
    array = array_of(
        value, lambda error: ArgumentError(f"{leaf.name}: expected {leaf.dtype}, got {type(value).__name__}: {error}")
    )
    if array.dtype != wanted and isinstance(wanted, np.dtype) and jax.dtypes.canonicalize_dtype(array.dtype) == wanted:
        return array.astype(wanted)
    return array


def _as_scalar(value: complex, leaf: Leaf) -> Array:
    """A number of Python in the type of its parameter.

    Raises:
        ArgumentError: the type cannot hold it.
    """
    try:
        made = np.asarray(value, leaf.dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise ArgumentError(f"{leaf.name}: expected {leaf.dtype}, got {value!r}: {error}") from None
    return made


@dataclass(frozen=True, slots=True)
class _ResultPlacement:
    """The device of results: that of the first argument that is a jax.Array.

    `put` is None if arrays cannot be put there directly.
    """

    put: Callable[..., Any] | None
    sharding: Any
    devices: list[Any]
    is_committed: bool


def _place_of(arguments: Sequence[Any]) -> _ResultPlacement | None:
    """None where no argument is a jax.Array."""
    array_type = _array_type()
    for value in arguments:
        if type(value) is array_type:
            return _place_in(value.sharding, value.committed)
    return None


@functools.lru_cache(maxsize=64)
def _place_in(sharding: Any, is_committed: bool) -> _ResultPlacement:
    """Return the place for a sharding.

    `jax.device_put` takes ten times as long as the function it calls, which has no public name.
    """
    from jax.sharding import SingleDeviceSharding

    if isinstance(sharding, SingleDeviceSharding):
        return _ResultPlacement(_batched_device_put(), sharding, list(sharding.device_set), is_committed)
    return _ResultPlacement(None, None, [], False)


def _as_result(array: Any, result: JaxResult, place: _ResultPlacement | None) -> Any:
    """Convert a result: keys from their bits, a jax.Array if an argument is one.

    The array is fresh and has no other reference: if it is aligned, the jax.Array shares its
    memory.
    """
    if place is not None and place.put is not None and not result.is_key and array.dtype == result.dtype:
        return place.put(result.aval, place.sharding, [array], place.devices, place.is_committed)
    if place is None and not result.is_key:
        return array
    import jax

    made = jax.device_put(array, may_alias=True)
    return jax.random.wrap_key_data(made, impl=_key_impl(result.dtype)) if result.is_key else made


@functools.cache
def _array_type() -> Any:
    """The class of arrays of JAX, `jax.Array` being abstract."""
    import jax

    return type(jax.device_put(np.zeros(())))


@functools.cache
def _batched_device_put() -> Any:
    with contextlib.suppress(ImportError):
        return getattr(import_module("jaxlib._jax"), "batched_device_put", None)
    return None


def _key_impl(dtype: Any) -> str:
    """Return the name of the generator for keys of a dtype; JAX's public function takes only
    arrays.
    """
    return str(dtype._impl.name)  # noqa: SLF001
