"""Errors for arguments that are not programs, or wrong arguments: the fault, and the correct
call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from xlanb.boundary import let_pass
from xlanb.errors import ArgumentTypeError
from xlanb.patterns import pattern

_OF_A_CALL = pattern(r"positional argument|keyword argument|multiple values for")
"""Matches Python's own message for a call that does not match a signature."""


def no_program(x: Any) -> ArgumentTypeError:
    """The error for something that cannot be made HLO of."""
    kind = type(x).__name__
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        text = (
            f"an array ({kind}) is not a program: pass the function and its arguments, xlanb.explore(f, x) instead "
            "of xlanb.explore(f(x))"
        )
    elif callable(getattr(x, "apply", None)):
        text = (
            f"a {kind} is not a function: pass its apply method, with the parameters first, as in "
            "xlanb.explore(model.apply, params, x)"
        )
    else:
        text = (
            f"cannot create HLO from an object of type {kind}: pass a function and its arguments, HLO or StableHLO "
            "text, an HloModule, tensors, or a TensorFlow program"
        )
    return ArgumentTypeError(text)


def check_no_named(named: Mapping[str, Any]) -> None:
    """Raise ArgumentTypeError for keyword arguments of HLO or StableHLO: its parameters are
    positional, and options are passed differently.
    """
    if named:
        names = ", ".join(f"{name}=" for name in named)
        raise ArgumentTypeError(
            f"a program in HLO takes no keyword arguments ({names}); for options of the compiler write "
            "xlanb.cpu.compile_module(module, xlanb.cpu.CompileOptions(pipeline=...)), for flags xlanb.flags"
        )


def check_function(function: Any) -> None:
    """Refuse a module of Flax's linen that is not bound to its parameters.

    Raises:
        ArgumentTypeError: it is one; the message says how it is called.
    """
    linen = sys.modules.get("flax.linen")
    if linen is not None and isinstance(function, linen.Module) and function.scope is None:
        raise ArgumentTypeError(
            f"{type(function).__name__} is a flax.linen module, which does not hold its parameters: pass its apply "
            "method, with the parameters first, as in xlanb.jit(model.apply)(params, x) or "
            "xlanb.explore(model.apply, params, x)"
        )


def wrong_call(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], error: Exception
) -> ArgumentTypeError | None:
    """Return the error for arguments that do not match the signature; None if `error` has another
    cause.
    """
    if not isinstance(error, TypeError) or not _OF_A_CALL.search(str(error)):
        return None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of extensions have none
        return None
    try:
        signature.bind(*args, **named)
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        names = [p.name for p in signature.parameters.values() if p.default is p.empty]
        wrong = ArgumentTypeError(
            f"{str(error).rstrip('.')}. Give an example argument for each parameter, as in "
            f"xlanb.jit({name})({', '.join(names)}) or xlanb.explore({', '.join([name, *names])})"
        )
        let_pass(wrong)
        return wrong
    return None


def is_pending(value: Any) -> bool:
    """Whether a value is not computed yet: a generator, another iterator, or an awaitable."""
    return isinstance(value, Iterator | Awaitable | AsyncIterable)


def pending_result(function: Callable[..., Any], value: Any) -> ArgumentTypeError:
    """Return the error for a function that returns such a value, which would refer to tracers."""
    if inspect.iscoroutine(value):
        value.close()  # otherwise Python warns that it was never awaited
    name = getattr(function, "__name__", type(function).__name__)
    return ArgumentTypeError(
        f"{name} returns a {type(value).__name__}, whose values are not computed when it returns: compiled "
        "functions must return arrays, for example as list(...)"
    )
