"""Arguments given once to several layers (contrib/framework/python/ops/arg_scope.py)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeVar

from xlanb.contexts import bound
from xlanb.errors import GraphTypeError, GraphValueError

_Scope = Mapping[str, Mapping[str, Any]]
_CURRENT: ContextVar[_Scope] = ContextVar("xlanb_arg_scope", default=MappingProxyType({}))
F = TypeVar("F", bound=Callable[..., Any])


def _key(function: Callable[..., Any]) -> str:
    return str(getattr(function, "_key_op", f"{function.__module__}.{function.__name__}"))


def add_arg_scope(func: F) -> F:
    """Decorator: let `arg_scope` give this function arguments."""
    key = _key(func)

    @functools.wraps(func)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        given = _CURRENT.get().get(key, {})
        if not given:
            return func(*args, **kwargs)
        names = list(inspect.signature(func).parameters)[: len(args)]
        return func(*args, **{k: v for k, v in given.items() if k not in names} | kwargs)

    scoped._key_op = key  # type: ignore[attr-defined]  # noqa: SLF001 - TensorFlow's name
    return scoped  # type: ignore[return-value]


def has_arg_scope(func: Callable[..., Any]) -> bool:
    """Whether `arg_scope` may give it arguments."""
    return hasattr(func, "_key_op")


@contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[_Scope]:
    """Give these functions default arguments inside; a scope can be re-entered.

    Raises:
        GraphTypeError: neither functions nor a scope.
        GraphValueError: a function without such arguments, or arguments together with a scope.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise GraphValueError("expected no keyword arguments next to a dictionary: its scope is used as it is")
        scope: _Scope = list_ops_or_scope
    else:
        scope = _extended(list_ops_or_scope, kwargs)
    with bound(_CURRENT, scope):
        yield scope


def _extended(functions: Sequence[Callable[..., Any]], given: Mapping[str, Any]) -> _Scope:
    if not isinstance(functions, list | tuple | set):
        raise GraphTypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
    scope = dict(_CURRENT.get())
    for function in functions:
        if not has_arg_scope(function):
            raise GraphValueError(f"{function!r} is not decorated with @add_arg_scope")
        scope[_key(function)] = {**scope.get(_key(function), {}), **given}
    return scope


def current_arg_scope() -> _Scope:
    """The arguments that are given now, by function."""
    return _CURRENT.get()
