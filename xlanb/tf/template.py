"""tf.make_template: a function that makes variables at its first call and shares them afterwards.

Source: python/ops/template.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xlanb.graph.builders.variable_scope import variable_scope


class Template:
    """A function with a variable scope of its own."""

    def __init__(self, name: str, function: Callable[..., Any], unique_name: str | None = None) -> None:
        self._function = function
        with variable_scope(unique_name, name) as captured:
            self.variable_scope = captured
        self._was_called = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with variable_scope(self.variable_scope, reuse=True if self._was_called else None):
            result = self._function(*args, **kwargs)
            self._was_called = True
            return result

    @property
    def variables(self) -> list[Any]:
        """The variables that it made."""
        found: list[Any] = self.variable_scope.global_variables()
        return found

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that optimizers change."""
        found: list[Any] = self.variable_scope.trainable_variables()
        return found


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = True,
    unique_name_: str | None = None,
    **kwargs: Any,
) -> Template:
    """Wrap `func_` with `kwargs`; its get_variable makes variables once, below the scope
    `name_`.
    """
    return Template(name_, partial(func_, **kwargs) if kwargs else func_, unique_name_)
