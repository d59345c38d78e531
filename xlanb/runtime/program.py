"""Whole programs as one HloModule: HLO text, a TensorFlow graph with its fetches, or a Python function over arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlanb.errors import ArgumentError, ArgumentTypeError, FunctionResultError, GraphError, XlanbError
from xlanb.frontends.jax import is_jax, jax_module, refers_to_jax
from xlanb.frontends.mistakes import check_no_named, no_program, wrong_call
from xlanb.frontends.stablehlo import BYTECODE, parse_text
from xlanb.graph import dtypes
from xlanb.graph.builders.nest import flatten
from xlanb.graph.foreign import feeds_of, graph_of, is_foreign
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import needed_by
from xlanb.graph.tensor_shape import TensorShape
from xlanb.hlo import HloModule
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array
from xlanb.tf2xla.compiler import Argument, CompilationResult, argument_of, lower

_SOURCES = frozenset({"Placeholder", "PlaceholderV2", "_Arg"})
VARIABLES = frozenset({"VariableV2", "Variable", "VarHandleOp"})


def to_module(x: Any, /, *args: Any, **named: Any) -> HloModule:
    """The HloModule of whatever a user hands over.

    `x` is an HloModule, HLO or StableHLO text, a tensor, operation or list of them, or a function over `xlanb.tf` or JAX, with example arguments in `args`; what
    else `xlanb.from_jax` takes; or a program of TensorFlow as `Graph.from_tensorflow` takes it, with its arguments. For tensors, `named` gives
    values of placeholders (and of variables) by name where the graph does not say their shape.

    Raises:
        HloVerifierError: the module breaks a rule of HLO.
        XlanbError: it cannot be understood or lowered.
        TypeError: it is none of these.
    """
    if is_foreign(x):
        return _foreign_module(x, args, named)
    if isinstance(x, HloModule | str):
        check_no_named(named)
        return verified(_parsed(x, args) if isinstance(x, str) else x)
    if isinstance(x, Tensor | Operation) or (
        isinstance(x, list | tuple) and x and all(isinstance(t, Tensor | Operation) for t in x)
    ):
        return extract_module([x] if isinstance(x, Tensor | Operation) else list(x), named)
    if isinstance(x, bytes | bytearray) and x.startswith(BYTECODE):
        return verified(jax_module(x, *args, **named))
    if callable(x) or is_jax(x):
        return verified(function_module(x, args, named)[0])
    raise no_program(x)


def _parsed(text: str, args: Sequence[Any]) -> HloModule:
    try:
        return parse_text(text, args)
    except XlanbError as error:
        if "\n" not in text and "{" not in text:
            error.add_note("A text is read as HLO or StableHLO; of a file give what it holds: Path(name).read_text()")
        raise


def verified(module: HloModule) -> HloModule:
    """The module, checked: compiled code trusts its shapes, and would read beyond its arrays where they break their rules.

    Raises:
        HloVerifierError: the module breaks a rule of HLO.
    """
    module.verify(executable=True)
    return module


def function_module(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[HloModule, Any]:
    """The module of a Python function, over `xlanb.tf` or over JAX, not verified yet. With it, of the former, what it gave back.

    Where the function does not show which of the two it is over, the more likely one is tried first, the other where that fails.

    Raises:
        Exception: what the likelier try raised, where both fail.
    """
    guess = _Guess.of(function, args, named)
    try:
        return guess.traced(function, args, named)
    except Exception as error:
        second = guess.after(error)
        if second is None:
            raise
        first = error
    try:
        return second.traced(function, args, named)
    except Exception as error:  # noqa: BLE001 - the better one of the two is raised below
        # one that imports `xlanb.tf` when it is called is over that; else the first guess was the better one
        shown, other = (error, first) if guess.is_over_jax else (first, error)
        shown.add_note(f"Called with JAX's arrays it fails too: {type(other).__name__}: {other}")
        raise shown from shown.__cause__


def is_over_jax(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a function is, as far as its code and its arguments show, one of JAX's and not over `xlanb.tf`."""
    return not is_foreign(function) and _Guess.of(function, args, named).is_over_jax


@dataclass(frozen=True)
class _Guess:
    """Whether a function is over JAX or over `xlanb.tf`; not `is_sure` where its arguments and the names in its code do not tell."""

    is_over_jax: bool
    is_sure: bool

    @staticmethod
    def of(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> _Guess:
        """Code that names neither (`lambda x: x + 1`) is over JAX where JAX is loaded and `xlanb.tf` is not."""
        if is_jax(function) or refers_to_jax(function) or not _are_arrays(args, named):
            return _Guess(is_over_jax=True, is_sure=True)
        return _Guess(is_over_jax="jax" in sys.modules and "xlanb.tf" not in sys.modules, is_sure=False)

    def after(self, error: Exception) -> _Guess | None:
        """The guess after this one failed; None where there is no other: the function may have imported what it is over when it was called."""
        if self.is_sure or ("xlanb.tf" if self.is_over_jax else "jax") not in sys.modules:
            return None
        if isinstance(error, ArgumentTypeError) or (isinstance(error, FunctionResultError) and not error.holds_tensors):
            return None
        return _Guess(is_over_jax=not self.is_over_jax, is_sure=True)

    def traced(
        self, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[HloModule, Any]:
        """The module of the function, were the guess right."""
        if self.is_over_jax:
            return jax_module(function, *args, **named), None
        try:
            return trace_function(function, args)
        except TypeError as error:
            wrong = wrong_call(function, args, named, error)
            if wrong is None:
                raise
            raise wrong from None


def _are_arrays(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a call has nothing but NumPy arrays and numbers, in order: what a function over `xlanb.tf` is called with."""
    return not named and all(isinstance(a, np.ndarray | np.generic | complex | float | int | list) for a in args)


def _foreign_module(x: Any, args: Sequence[Any], named: Mapping[str, Any]) -> HloModule:
    """The module of a program of TensorFlow: its arguments are the parameters, its weights literals; variables that it writes are parameters behind them, and results."""
    graph = graph_of(x, *args)
    if not graph.outputs:
        raise ArgumentError(
            f"a {type(x).__name__} does not say what is to be computed: give tensors of it, or Graph.from_tensorflow(...) and tensors of that"
        )
    values: dict[str, Any] = {**named, **{t.op.name: v for t, v in feeds_of(graph, args).items()}}
    read = {t.op.name for t in inputs_of(graph.outputs)}
    weights = {n: v for n, v in graph.initial_values.items() if n in read}
    every = {**weights, **values}
    feeds, result = extract_result(graph.outputs, every, literals=set(weights), inputs=graph.inputs)
    if not result.updates:
        return result.module
    written = {feeds[i].op.name for i in result.updates}
    return extract_result(graph.outputs, every, literals=set(weights) - written, inputs=graph.inputs)[1].module


def inputs_of(fetches: Sequence[Tensor | Operation]) -> list[Tensor]:
    """The placeholders and variables that fetches depend on, in the order of the graph."""
    tensors, targets = _split(fetches)
    needed = needed_by([*(t.op for t in tensors), *targets])
    graph = fetches[0].graph
    return [op.outputs[0] for op in graph.get_operations() if op in needed and op.type in _SOURCES | VARIABLES]


def extract_module(
    fetches: Sequence[Tensor | Operation], values: Mapping[str, Any] | None = None, name: str | None = None
) -> HloModule:
    """The module of `extract_result`."""
    return extract_result(fetches, values, name)[1].module


def extract_result(
    fetches: Sequence[Tensor | Operation],
    values: Mapping[str, Any] | None = None,
    name: str | None = None,
    literals: Collection[str] = (),
    inputs: Sequence[Tensor] = (),
) -> tuple[list[Tensor], CompilationResult]:
    """The program that computes `fetches` as one module: placeholders and variables are its parameters, in the order of the graph.

    Its root is a tuple: the fetched tensors, then the new values of variables that the program writes. Shapes come from the graph, or from `values`, arrays by
    name, where the graph leaves them open. Variables named in `literals` are no parameters: what `values` has for them stands in the module. Given back with it are the
    tensors that it was made for, in the order of the arguments. `inputs` come first among those, needed or not.

    Raises:
        GraphError: a shape is not known, or a node cannot be lowered; names the node.
    """
    values = dict(values or {})
    tensors, targets = _split(fetches)
    sources = dict.fromkeys([*inputs, *inputs_of(fetches)])
    feeds = [(t, _argument(t, values, is_literal=t.op.name in literals)) for t in sources]
    if values:
        raise ArgumentError(
            f"no placeholder or variable named {', '.join(map(repr, values))}; the program reads {', '.join(t.op.name for t, _ in feeds)}"
        )
    return [t for t, _ in feeds], lower(name or fetches[0].graph.name, feeds, tensors, targets)


def trace_function(function: Callable[..., Any], args: Sequence[Any]) -> tuple[HloModule, Any]:
    """Call `function` with placeholders of the shapes and dtypes of `args`; the module, and the structure that the function gave back.

    The module's root is a tuple of the results.

    Raises:
        GraphError: it gives back something that is no tensor.
    """
    arrays = [np.asarray(a) for a in args]
    graph, inputs, result = traced_graph(function, arrays)
    outputs = list(result) if isinstance(result, list | tuple) else [result]
    module = lower(graph.name, [(t, argument_of(a)) for t, a in zip(inputs, arrays, strict=True)], outputs).module
    return module, result


def traced_graph(
    function: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]]
) -> tuple[Graph, list[Tensor], Any]:
    """A graph of what `function` does with placeholders of the shapes and dtypes of `arrays`, the placeholders, and what it gave back.

    Raises:
        GraphError: it gives back something that is no tensor.
    """
    name = getattr(function, "__name__", "function").strip("<>")
    graph = Graph(name)
    graph.builds_function = True
    with graph.as_default():
        inputs = [
            graph.create_op(
                "Placeholder",
                (),
                [dtypes.as_dtype(a.dtype)],
                {"dtype": dtypes.as_dtype(a.dtype), "shape": TensorShape(a.shape)},
                f"arg{i}",
            ).outputs[0]
            for i, a in enumerate(arrays)
        ]
        result = function(*inputs)
    for output in list(result) if isinstance(result, list | tuple) else [result]:
        if not isinstance(output, Tensor) or output.graph is not graph:
            told = f"function {name!r} must give back tensors made from its arguments, not {output!r}"
            raise FunctionResultError(told, holds_tensors=any(isinstance(t, Tensor) for t in flatten(result)))
    return graph, inputs, result


def _split(fetches: Sequence[Tensor | Operation]) -> tuple[list[Tensor], list[Operation]]:
    return [f for f in fetches if isinstance(f, Tensor)], [f for f in fetches if isinstance(f, Operation)]


def _argument(tensor: Tensor, values: dict[str, Any], *, is_literal: bool = False) -> Argument:
    is_variable = tensor.op.type in VARIABLES
    kind = "variable" if is_variable else "parameter"
    dtype = tensor.op.attrs["dtype"] if tensor.op.type == "VarHandleOp" else tensor.dtype.base_dtype
    shape = (tensor.op.attrs.get("shape") or TensorShape(None)) if is_variable else tensor.shape
    given = values.pop(tensor.op.name, None)
    if given is not None:
        value = np.asarray(given, dtype.as_numpy_dtype)
        if not shape.is_compatible_with(value.shape):
            raise ArgumentError(f"{tensor.op.name!r} has shape {shape}, not {list(value.shape)}")
        found = argument_of(value, kind=kind, name=tensor.op.name)
        return replace(found, value=value) if is_literal else found
    dims = shape.as_tuple()
    if dims is None or None in dims:
        raise GraphError(
            f"the shape {shape} of {tensor.op.name!r} is not known: give an array for it by name, {tensor.op.name}=..."
        )
    return Argument(
        kind, array(from_dtype(dtype.as_numpy_dtype), [int(d) for d in dims if d is not None]), None, tensor.op.name
    )
