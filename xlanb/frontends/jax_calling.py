"""Call compiled code as the JAX function is called: pytrees in, flat arrays to the code, pytrees out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.errors import ArgumentError

Array = NDArray[Any]


@dataclass(frozen=True)
class Leaf:
    """One array argument of a function: its name, as in `params['w']`, and its type as JAX has it (`dtype` may be that of a PRNG key)."""

    name: str
    dtype: Any
    shape: tuple[int, ...]


@dataclass(frozen=True)
class JaxCalling:
    """The calling convention of a JAX function.

    `leaves` are all array arguments in the order of `in_tree`, `kept` the numbers of those that are
    parameters of the module (JAX drops what is not used). `out_dtypes` are those of the results.
    `prepare` turns the arguments of a call into those that `in_tree` was made of: without static
    ones, say. `finish` turns the results of a call into what the function returns.
    """

    leaves: tuple[Leaf, ...]
    kept: tuple[int, ...]
    in_tree: Any
    out_tree: Any
    out_dtypes: tuple[Any, ...]
    prepare: Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    finish: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each parameter of the module."""
        return tuple(self.leaves[k].name for k in self.kept)

    @property
    def is_plain(self) -> bool:
        """Whether arguments and results are arrays, one by one, so that code can be called without a detour."""
        import jax

        count = len(self.leaves)
        flat_in = jax.tree_util.tree_structure((tuple(range(count)), {}))
        flat_out = jax.tree_util.tree_structure(0 if len(self.out_dtypes) == 1 else tuple(range(len(self.out_dtypes))))
        plain = self.prepare is None and self.finish is None and len(self.kept) == count
        keys = any(_is_key(d) for d in (*self.out_dtypes, *(leaf.dtype for leaf in self.leaves)))
        return bool(plain and not keys and self.in_tree == flat_in and self.out_tree == flat_out)

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The arrays that the module takes, of the arguments of a call.

        Raises:
            ArgumentError: the arguments have another structure than those that the code was made for.
        """
        import jax

        values, tree = jax.tree_util.tree_flatten((args, dict(named)))
        if tree != self.in_tree and self.prepare is not None:
            args, named = self.prepare(args, dict(named))
            values, tree = jax.tree_util.tree_flatten((args, dict(named)))
        if tree != self.in_tree:
            raise ArgumentError(self._differs(args, named))
        return [_as_parameter(values[k], self.leaves[k]) for k in self.kept]

    def assemble(
        self, results: Sequence[Any], args: tuple[Any, ...] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        """What the function returns, of the arrays that the module gives: NumPy arrays, or jax.Arrays where an argument was one."""
        import jax

        as_jax = any(isinstance(v, jax.Array) for v in jax.tree_util.tree_leaves((args, named or {})))
        arrays = [_as_result(r, d, as_jax=as_jax) for r, d in zip(results, self.out_dtypes, strict=True)]
        value = jax.tree_util.tree_unflatten(self.out_tree, arrays)
        return value if self.finish is None else self.finish(value, args, dict(named or {}))

    def _differs(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        """How the arguments of a call differ in structure from those that the code was made for."""
        import jax

        count = self.in_tree.num_leaves
        wanted = _places(jax.tree_util.tree_unflatten(self.in_tree, range(count)))
        got = _places((args, dict(named)))
        names = {place: leaf.name for place, leaf in zip(wanted, self.leaves, strict=True)}
        missing = [names[p] for p in wanted if p not in set(got)]
        extra = [p for p in got if p not in names]
        told = [f"{', '.join(missing[:5])} missing"] if missing else []
        told += [f"unexpected {', '.join(extra[:5])}"] if extra else []
        takes = ", ".join(leaf.name for leaf in self.leaves)
        return f"expected arguments of the structure ({takes}): {'; '.join(told) or 'other containers'}"


def _places(call: tuple[tuple[Any, ...], Mapping[str, Any]]) -> list[str]:
    """Where the leaves of the arguments of a call stand, as in `argument 0['w']`."""
    from jax.tree_util import keystr, tree_flatten_with_path

    args, named = call
    places = [f"argument {n}{keystr(path)}" for n, a in enumerate(args) for path, _ in tree_flatten_with_path(a)[0]]
    return places + [f"{k}{keystr(path)}" for k, v in named.items() for path, _ in tree_flatten_with_path(v)[0]]


def _is_key(dtype: Any) -> bool:
    """Whether a dtype is that of PRNG keys, which NumPy does not know."""
    return not isinstance(dtype, np.dtype) and hasattr(dtype, "_impl")


def _as_parameter(value: Any, leaf: Leaf) -> Any:
    """An argument as the module takes it: keys as their bits, numbers and arrays in the precision that JAX gives them."""
    import jax

    if _is_key(getattr(value, "dtype", None)):
        return np.asarray(jax.random.key_data(value))
    if isinstance(value, jax.ShapeDtypeStruct):
        raise ArgumentError(f"{leaf.name} is a shape without values: give an array of {leaf.dtype}{list(leaf.shape)}")
    if isinstance(value, bool | int | float | complex):
        return _as_scalar(value, leaf)
    array = np.asarray(value)
    wanted = leaf.dtype
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


def _as_result(array: Any, dtype: Any, *, as_jax: bool) -> Any:
    """A result as the function gives it: keys from their bits, a jax.Array where arguments were."""
    if not as_jax and not _is_key(dtype):
        return array
    import jax

    made = jax.numpy.asarray(array)
    return jax.random.wrap_key_data(made, impl=_key_impl(dtype)) if _is_key(dtype) else made


def _key_impl(dtype: Any) -> str:
    """The name of the generator that keys of a dtype are for; JAX tells it of arrays alone."""
    return str(dtype._impl.name)  # noqa: SLF001
