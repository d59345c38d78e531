"""Representations of public objects, by a hook that the view implements."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from xlanb.hooks import Hook

mimebundle: Final[Hook[[Any], dict[str, str]]] = Hook("display.mimebundle")
"""The representations of an object for a front end, by MIME type."""


table_html: Final[Hook[[Any], str]] = Hook("display.table_html")
"""A pandas table as HTML, every cell whole and escaped."""

figure: Final[Hook[..., Any]] = Hook("display.figure")
"""An object as a plotly figure; the second argument selects one of several."""


class Plottable:
    """Provide `plot()`; plotly is imported when it is called."""

    __slots__ = ()

    def plot(self) -> Any:
        """Plot the largest parts, the others as one, in a plotly Figure that fits a screen.

        Raises:
            XlanbError: there is nothing to draw.
            MissingLibraryError: plotly is not installed.
        """
        return figure(self)


shared_code: Final[Hook[[], AbstractContextManager[None]]] = Hook("display.shared_code")
"""The context in which objects show themselves in an IPython session that loaded no extension."""

_AROUND: list[Callable[[], AbstractContextManager[None]]] = []


def show_within(around: Callable[[], AbstractContextManager[None]]) -> None:
    """Show every object within a context of this kind, so that outputs of a notebook share code.

    Only the last registered one is used.
    """
    _AROUND[:] = [around]


def _around() -> AbstractContextManager[None]:
    if _AROUND:
        return _AROUND[0]()
    return shared_code() if "IPython" in sys.modules else nullcontext()


class Displayable:
    """Provide `_repr_mimebundle_`: HTML from `xlanb.view`, plain text from `str(self)` or a text
    view.

    The view is imported when a notebook first shows an object.
    """

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        with _around():
            bundle: dict[str, Any] = mimebundle(self)
        if include:
            bundle = {k: v for k, v in bundle.items() if k in include}
        if exclude:
            bundle = {k: v for k, v in bundle.items() if k not in exclude}
        return bundle
