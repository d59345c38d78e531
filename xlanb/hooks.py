"""Hooks: functions that a lower package calls and a higher one implements.

Imports go downwards only, and yet a `Trace` shows itself in a notebook and an `HloModule` verifies
itself: the lower package declares a `Hook`, the higher one registers its function with
`@hook.implement` when it is imported. `xlanb/__init__.py` names the module to import if a hook is
called before that.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; importing typing would take most of the time of `import xlanb`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Generic, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
else:
    P = R = None

    class Generic:
        """Replace typing.Generic at run time."""

        __slots__ = ()

        def __class_getitem__(cls, _: object) -> type:
            return cls


_PROVIDERS: dict[str, str] = {}


def set_providers(providers: Mapping[str, str]) -> None:
    """Name the module that implements each hook: {name of the hook: module}."""
    _PROVIDERS.update(providers)


class Hook(Generic[P, R]):
    """A function without a body, which calls the implementation registered by `implement`.

    Args:
        name: the name by which `set_providers` finds the module that implements it.
    """

    __slots__ = ("_implementation", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._implementation: Callable[P, R] | None = None

    def implement(self, function: Callable[P, R]) -> Callable[P, R]:
        """Register the implementation, as a decorator; the last one registered counts."""
        self._implementation = function
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return (self._implementation or self._load())(*args, **kwargs)

    def _load(self) -> Callable[P, R]:
        """Import the module that implements the hook.

        Raises:
            LookupError: no module is named for the hook, or the one named does not implement it.
        """
        provider = _PROVIDERS.get(self.name)
        if provider is None:
            raise LookupError(f"no module implements the hook {self.name!r}: see set_providers")
        import_module(provider)
        if self._implementation is None:
            raise LookupError(f"{provider} does not implement the hook {self.name!r}")
        return self._implementation


__all__ = ["Hook", "set_providers"]
