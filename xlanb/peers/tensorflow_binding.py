"""Bind TensorFlow functions to their variables: arguments to arrays, arrays to results.

Values are read from and assigned to `tf.Variable`s.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from xlanb.errors import ArgumentError
from xlanb.graph.binding import python_signature
from xlanb.graph.extensions import flatten_foreign_call

Array = np.ndarray[Any, Any]


@dataclass
class FunctionBinding:
    """A traced function, and how to call it.

    Attributes:
        name: of the function, for messages.
        inputs: (name, dtype name, dimensions) of each array that it takes.
        variables: the `tf.Variable` behind each variable node.
        structured_outputs: the return value of the trace: tensors, None and values in structures.
        signature: of the Python function; None if it takes only tensors, in order.
        leaves: the flattened arguments that it was traced for.
        freezes_weights, targets: see `xlanb.graph.binding.Binding`.
    """

    name: str
    inputs: tuple[tuple[str, str, tuple[int | None, ...] | None], ...]
    variables: dict[str, Any]
    structured_outputs: Any
    signature: inspect.Signature | None
    leaves: list[Any] = field(default_factory=list)
    freezes_weights: bool = False
    targets: tuple[str, ...] = ()

    def flatten(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Array]:
        """Return one array for each input.

        Raises:
            ArgumentError: the arguments do not fit the function, or a Python value is not the
                traced one.
        """
        leaves = flat_leaves(self.signature, args, named, self.name)
        if self.leaves and len(leaves) == len(self.leaves):
            for number, (traced, given) in enumerate(zip(self.leaves, leaves, strict=True)):
                if not is_tensor_like(traced) and not _same(traced, given):
                    raise ArgumentError(
                        f"{self.name} was traced for {traced!r} as argument {number}, which is a constant of "
                        f"its program, not for {given!r}: compile it again, or use xlanb.jit"
                    )
            arrays = [given for traced, given in zip(self.leaves, leaves, strict=True) if is_tensor_like(traced)]
        else:
            arrays = [leaf for leaf in leaves if is_tensor_like(leaf)]
        if len(arrays) != len(self.inputs):
            takes = ", ".join(f"{n}: {d}{_dims(s)}" for n, d, s in self.inputs)
            raise ArgumentError(f"{self.name} takes {len(self.inputs)} arrays ({takes}), not {len(arrays)}")
        return [_as_array(a, *what) for a, what in zip(arrays, self.inputs, strict=True)]

    def assemble(self, results: Sequence[Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The function's result: NumPy arrays, tensors of TensorFlow where an argument is one."""
        tf = import_module("tensorflow")
        wants_tensors = any(tf.is_tensor(v) or isinstance(v, tf.Variable) for v in _plain_leaves(args, named))
        values = iter(results)
        made = []
        for leaf in tf.nest.flatten(self.structured_outputs, expand_composites=True):
            if not tf.is_tensor(leaf) and not isinstance(leaf, tf.TensorSpec):
                made.append(leaf)
                continue
            value = next(values)
            made.append(tf.convert_to_tensor(value) if wants_tensors else value)
        return tf.nest.pack_sequence_as(self.structured_outputs, made, expand_composites=True)

    def read(self, name: str) -> Array:
        """The value of a variable, not copied."""
        variable = self.variables[name]
        return np.asarray(variable.read_value() if hasattr(variable, "read_value") else variable)

    def write(self, values: Mapping[str, Any]) -> None:
        """Assign to variables."""
        for name, value in values.items():
            self.variables[name].assign(value)


def flat_leaves(
    signature: inspect.Signature | None, args: tuple[Any, ...], named: Mapping[str, Any], name: str
) -> list[Any]:
    """Flatten a call's arguments as TensorFlow does: defaults filled in, named ones last.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    tf = import_module("tensorflow")
    if signature is None:
        return list(tf.nest.flatten((args, dict(named)), expand_composites=True))
    bound = _bind(signature, args, named, name)
    return list(tf.nest.flatten((bound.args, bound.kwargs), expand_composites=True))


def _bind(
    signature: inspect.Signature, args: tuple[Any, ...], named: Mapping[str, Any], name: str
) -> inspect.BoundArguments:
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise ArgumentError(f"{name}{signature}: {error}") from None
    bound.apply_defaults()
    return bound


@flatten_foreign_call.implement
def flatten_call(program: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """The leaves of a call's arguments, defaults filled in, with names such as `x`, `batch['ids']`.

    Raises:
        ArgumentError: the program does not take these arguments.
    """
    function = getattr(program, "python_function", None)
    signature = None if function is None else python_signature(function)
    roots: list[tuple[str, Any]] = [(f"argument {i}", a) for i, a in enumerate(args)]
    roots += named.items()
    if signature is not None:
        name = str(getattr(program, "__name__", "function"))
        roots = list(_bind(signature, args, named, name).arguments.items())
    found = [pair for root in roots for pair in _named_leaves(*root)]
    return [name for name, _ in found], [leaf for _, leaf in found]


def _named_leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named_leaves(f"{name}[{key!r}]", item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _named_leaves(f"{name}[{i}]", item)
    else:
        yield name, value


def is_tensor_like(value: Any) -> bool:
    """Whether a leaf is an input of the traced function, and not a constant of it."""
    return isinstance(value, np.ndarray | np.generic) or hasattr(value, "numpy") or type(value).__name__ == "TensorSpec"


def _plain_leaves(args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    tf = import_module("tensorflow")
    return list(tf.nest.flatten((args, dict(named))))


def _same(traced: Any, given: Any) -> bool:
    return traced is given or (type(traced) is type(given) and bool(traced == given))


def _dims(shape: tuple[int | None, ...] | None) -> str:
    return "" if shape is None else f"[{', '.join('?' if d is None else str(d) for d in shape)}]"


def _as_array(value: Any, name: str, dtype: str, shape: tuple[int | None, ...] | None) -> Array:
    array = np.asarray(value)
    if array.dtype.name != dtype and dtype not in ("string", "resource", "variant"):
        raise ArgumentError(f"{name}: expected {dtype}{_dims(shape)}, got {array.dtype}{list(array.shape)}")
    return array
