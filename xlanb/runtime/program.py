"""Whole programs as one HloModule: HLO text, a TensorFlow graph with its fetches, or a Python function over arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.errors import ArgumentTypeError, FunctionResultError, XlanbError
from xlanb.frontends.jax import is_jax, jax_module, modules_named_in, refers_to_jax, refers_to_tensorflow
from xlanb.frontends.mistakes import check_no_named, no_program, wrong_call
from xlanb.frontends.stablehlo import BYTECODE, parse_text
from xlanb.graph.extensions import make_tf_function
from xlanb.hlo import HloModule


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
    if isinstance(x, HloModule) or (isinstance(x, str) and "\n" in x):  # a string of one line may be a path
        return _of_text_or_module(x, args, named)
    from xlanb.runtime import graph_program  # all of TensorFlow's ops: not loaded for HLO

    x = as_tf_function(x)
    if graph_program.is_foreign(x):
        batch = named.pop("batch", None)
        return verified(graph_program.foreign_module(x, args, named, batch))
    if isinstance(x, str):
        return _of_text_or_module(x, args, named)
    if fetches := graph_program.fetches_of(x):
        return graph_program.extract_module(fetches, named)
    if isinstance(x, bytes | bytearray) and x.startswith(BYTECODE):
        return verified(jax_module(x, *args, **named))
    if callable(x) or is_jax(x):
        return verified(function_module(x, args, named)[0])
    raise no_program(x)


def as_tf_function(x: Any) -> Any:
    """A Python function whose code names something of TensorFlow as a tf.function; else `x`."""
    if not callable(x) or is_jax(x) or not refers_to_tensorflow(x):
        return x
    from xlanb.graph.foreign import is_foreign

    return x if is_foreign(x) else make_tf_function(x)


def _of_text_or_module(x: HloModule | str, args: Sequence[Any], named: Mapping[str, Any]) -> HloModule:
    check_no_named(named)
    return verified(_parsed(x, args) if isinstance(x, str) else x)


def _parsed(text: str, args: Sequence[Any]) -> HloModule:
    try:
        return parse_text(text, args)
    except XlanbError as error:
        if "\n" not in text and "{" not in text:
            error.add_note(
                "A str is parsed as HLO or StableHLO text; to use a file, pass its content: Path(name).read_text()"
            )
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
        shown.add_note(f"It also fails when called with JAX arrays: {type(other).__name__}: {other}")
        raise shown from shown.__cause__


def is_over_jax(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a function is, as far as its code and its arguments show, one of JAX's and not over `xlanb.tf`."""
    from xlanb.graph.foreign import is_foreign

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
        if any(name == "xlanb.tf" or name.startswith("xlanb.tf.") for name in modules_named_in(function)):
            return _Guess(is_over_jax=False, is_sure=True)
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
        from xlanb.runtime.graph_program import trace_function

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
