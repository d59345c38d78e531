"""Python functions over arrays, of JAX or `xlanb.tf`, as HloModules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlanb.errors import ArgumentTypeError, FunctionResultError
from xlanb.frontends.jax import is_jax, jax_module, modules_named_in, refers_to_jax, refers_to_tensorflow
from xlanb.frontends.mistakes import wrong_call
from xlanb.graph.extensions import make_tf_function
from xlanb.hlo import HloModule
from xlanb.lazy_dataclass import dataclass


def as_tf_function(x: Any) -> Any:
    """A Python function whose code refers to TensorFlow, as a tf.function; otherwise `x`."""
    if not callable(x) or is_jax(x) or not refers_to_tensorflow(x):
        return x
    from xlanb.graph.foreign import is_foreign

    return x if is_foreign(x) else make_tf_function(x)


def tuple_module(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> HloModule:
    """The same as `function_module`, but tensors of a function over `xlanb.tf` become a tuple.

    This applies to a tensor, and to a tuple or list of tensors; other structures are kept.
    """
    module = function_module(function, args, named)
    if getattr(module.calling, "is_flat", False):
        module.calling = None
    return module


def function_module(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> HloModule:
    """The module of a Python function over `xlanb.tf` or JAX, not verified yet.

    If it is unclear which of the two
    it uses, the likelier one is tried first, then the other.

    Raises:
        Exception: The likelier attempt's exception, if both fail.
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
        # a function that imports `xlanb.tf` when called uses it; otherwise the first guess was the
        # better one
        shown, other = (error, first) if guess.is_over_jax else (first, error)
        shown.add_note(f"It also fails when called with JAX arrays: {type(other).__name__}: {other}")
        raise shown from shown.__cause__


def is_over_jax(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a function uses JAX and not `xlanb.tf`, judged by its code and arguments."""
    from xlanb.graph.foreign import is_foreign

    return not is_foreign(function) and _Guess.of(function, args, named).is_over_jax


@dataclass(frozen=True)
class _Guess:
    """Whether a function uses JAX or `xlanb.tf`.

    It is not `is_sure` if neither its arguments nor the names in its code show it.
    """

    is_over_jax: bool
    is_sure: bool

    @staticmethod
    def of(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> _Guess:
        """Guess; code that names neither (`lambda x: x + 1`) is JAX if only JAX is loaded."""
        if is_jax(function) or refers_to_jax(function) or not _are_arrays(args, named):
            return _Guess(is_over_jax=True, is_sure=True)
        if any(name == "xlanb.tf" or name.startswith("xlanb.tf.") for name in modules_named_in(function)):
            return _Guess(is_over_jax=False, is_sure=True)
        return _Guess(is_over_jax="jax" in sys.modules and "xlanb.tf" not in sys.modules, is_sure=False)

    def after(self, error: Exception) -> _Guess | None:
        """The next guess after this one failed; None if there is none.

        The function may have imported what it uses when it was called.
        """
        if self.is_sure or ("xlanb.tf" if self.is_over_jax else "jax") not in sys.modules:
            return None
        if isinstance(error, ArgumentTypeError) or (isinstance(error, FunctionResultError) and not error.holds_tensors):
            return None
        return _Guess(is_over_jax=not self.is_over_jax, is_sure=True)

    def traced(self, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> HloModule:
        """The module of the function, assuming that the guess is right."""
        if self.is_over_jax:
            return jax_module(function, *args, **named)
        from xlanb.runtime.graph_program import trace_function

        try:
            return trace_function(function, args)
        except TypeError as error:
            wrong = wrong_call(function, args, named, error)
            if wrong is None:
                raise
            raise wrong from None


def _are_arrays(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether the arguments are only NumPy arrays and numbers, by position, as for `xlanb.tf`."""
    return not named and all(isinstance(a, np.ndarray | np.generic | complex | float | int | list) for a in args)
