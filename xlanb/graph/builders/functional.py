"""tf.map_fn, foldl, foldr and scan: loops over dimension 0
(python/ops/{map_fn,functional_ops}.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders import nest
from xlanb.graph.builders.array_ops import shape, stack
from xlanb.graph.builders.control_flow import while_loop
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.tensor_array import TensorArray
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.operation import Tensor


def _elements(elems: Any) -> tuple[list[Tensor], Any, int | None]:
    """The tensors, how many elements each has (a number where known), and that number."""
    flat = [convert_to_tensor(e, name="elem") for e in nest.flatten(elems)]
    if not flat:
        raise GraphValueError("elems must be a tensor, or a structure of tensors")
    for tensor in flat:
        if tensor.shape.rank == 0:
            raise GraphValueError(f"elems must have at least one dimension, {tensor.name!r} is a scalar")
    known = [t.shape.as_list()[0] if t.shape.rank is not None else None for t in flat]
    sizes = {k for k in known if k is not None}
    if len(sizes) > 1:
        raise GraphValueError(f"elems have different numbers of elements: {sorted(sizes)}")
    return flat, known[0] or shape(flat[0])[0], known[0]


def _rounds(flat: list[Tensor], elems: Any, known: int | None) -> list[Any] | None:
    """The elements one by one if the loop must be unrolled: in a function that is compiled as a
    whole, with known shapes.
    """
    if not get_default_graph().builds_function or known is None:
        return None
    return [nest.pack_like(elems, [t[i] for t in flat]) for i in range(known)]


def _stacked(like: Any, values: list[Any]) -> Any:
    """Stack structures of one form leaf by leaf."""
    columns = zip(*(nest.flatten(v) for v in values), strict=True)
    return nest.pack_like(like, [stack(column) for column in columns])


def _checked(function: Any) -> None:
    if not callable(function):
        raise GraphTypeError(f"{function!r} is not callable. Please provide a callable function.")


def map_fn(
    fn: Callable[[Any], Any], elems: Any, dtype: Any = None, parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
) -> Any:  # fmt: skip
    """Stack the results of `fn` on each element.

    `dtype` gives the result's structure and types, if they differ from those of `elems`.

    Raises:
        GraphTypeError: `fn` is not a function, or returns another structure.
    """
    _checked(fn)
    signature = elems if dtype is None else dtype
    with name_scope(name, "map", nest.flatten(elems)):
        flat, count, known = _elements(elems)
        rounds = _rounds(flat, elems, known)
        if rounds:
            return _stacked(signature, [fn(element) for element in rounds])
        arrays = [TensorArray(t.dtype, size=count) for t in flat]
        arrays = [a.unstack(t) for a, t in zip(arrays, flat, strict=True)]
        counter = constant(0)
        kinds = [t.dtype for t in flat] if dtype is None else [as_dtype(d) for d in nest.flatten(dtype)]
        results = [TensorArray(k, size=count, infer_shape=infer_shape) for k in kinds]

        def compute(i: Tensor, found: list[TensorArray]) -> Any:
            value = fn(nest.pack_like(elems, [a.read(i) for a in arrays]))
            nest.check_alike(
                signature, value, "the structure given to map_fn (dtype, else elems) and the result of `fn`"
            )
            written = [a.write(i, v) for a, v in zip(found, nest.flatten(value), strict=True)]
            return i + 1, written

        _, found = while_loop(
            lambda i, _: i < count, compute, (counter, results), parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory, maximum_iterations=count,
        )  # fmt: skip
        stacked = [a.stack() for a in found]
        return nest.pack_like(signature, [_known(t, known) for t in stacked])


def _known(tensor: Tensor, count: int | None) -> Tensor:
    if tensor.shape.rank is not None:
        tensor.set_shape([count, *tensor.shape.as_list()[1:]])
    return tensor


def foldl(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Compute fn(... fn(fn(initializer, first), second) ..., last); `initializer` defaults to the
    first.
    """
    return _fold("foldl", fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name)


def foldr(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """As foldl, from the last element to the first."""
    return _fold("foldr", fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name)


def _fold(
    kind: str,
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any,
    parallel: int,
    back_prop: bool,
    swap: bool,
    name: str | None,
) -> Any:
    _checked(fn)
    with name_scope(name, kind, nest.flatten(elems)):
        flat, count, known = _elements(elems)
        rounds = _rounds(flat, elems, known)
        if rounds:
            rounds = rounds if kind == "foldl" else rounds[::-1]
            held, rest = (rounds[0], rounds[1:]) if initializer is None else (initializer, rounds)
            for element in rest:
                held = fn(held, element)
            return held
        arrays = [TensorArray(t.dtype, size=count).unstack(t) for t in flat]

        def read(i: Any) -> Any:
            return nest.pack_like(elems, [a.read(i) for a in arrays])

        if kind == "foldl":
            first = read(0) if initializer is None else initializer
            start = constant(1 if initializer is None else 0)

            def step(i: Tensor, a: Any) -> list[Any]:
                value = fn(a, read(i))
                return [i + 1, value]

            def more(i: Tensor, _: Any) -> Tensor:
                held: Tensor = i < count
                return held
        else:
            start = count - 1 if initializer is None else count
            first = read(start) if initializer is None else initializer

            def step(i: Tensor, a: Any) -> list[Any]:
                i = i - 1
                return [i, fn(a, read(i))]

            def more(i: Tensor, _: Any) -> Tensor:
                held: Tensor = i > 0
                return held

        _, found = while_loop(
            more,
            step,
            [start, first],
            parallel_iterations=parallel,
            back_prop=back_prop,
            swap_memory=swap,
            maximum_iterations=count,
        )
        return found


def scan(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Stack all intermediate values of foldl; with `reverse`, from the end.

    Raises:
        GraphTypeError: `fn` is not a function, or returns another structure than its first
            argument.
    """
    _checked(fn)
    like = elems if initializer is None else initializer
    with name_scope(name, "scan", nest.flatten(elems)):
        flat, count, known = _elements(elems)
        rounds = _rounds(flat, elems, known)
        if rounds:
            return _unrolled_scan(fn, rounds[::-1] if reverse else rounds, initializer, like, reverse=reverse)
        arrays = [TensorArray(t.dtype, size=count, element_shape=_rest(t)) for t in flat]
        arrays = [a.unstack(t) for a, t in zip(arrays, flat, strict=True)]
        first = count - 1 if reverse else 0
        if initializer is None:
            begin = [a.read(first) for a in arrays]
        else:
            begin = [convert_to_tensor(v) for v in nest.flatten(initializer)]
        done = 1 if initializer is None else 0
        found = [
            TensorArray(t.dtype, size=count, element_shape=t.shape if infer_shape else None, infer_shape=infer_shape)
            for t in begin
        ]
        if initializer is None:
            found = [a.write(first, t) for a, t in zip(found, begin, strict=True)]

        def compute(i: Tensor, values: list[Tensor], results: list[TensorArray]) -> Any:
            element = nest.pack_like(elems, [a.read(i) for a in arrays])
            value = fn(nest.pack_like(like, values), element)
            nest.check_alike(like, value, "the initial value and the result of `fn`")
            out = nest.flatten(value)
            written = [a.write(i, v) for a, v in zip(results, out, strict=True)]
            return i - 1 if reverse else i + 1, out, written

        start = count - 1 - done if reverse else done
        _, _, ends = while_loop(
            (lambda i, *_: i >= 0) if reverse else (lambda i, *_: i < count), compute, (start, begin, found),
            parallel_iterations=parallel_iterations, back_prop=back_prop, swap_memory=swap_memory,
            maximum_iterations=count,
        )  # fmt: skip
        stacked = [a.stack() for a in ends]
        return nest.pack_like(like, [_known(t, known) for t in stacked])


def _rest(tensor: Tensor) -> Any:
    return tensor.shape[1:] if tensor.shape.rank is not None else None


def _unrolled_scan(
    fn: Callable[[Any, Any], Any], rounds: list[Any], initializer: Any, like: Any, *, reverse: bool
) -> Any:
    values = [rounds[0]] if initializer is None else []
    held = rounds[0] if initializer is None else initializer
    for element in rounds[len(values) :]:
        held = fn(held, element)
        values.append(held)
    return _stacked(like, values[::-1] if reverse else values)
