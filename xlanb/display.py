"""How an object of the public face shows itself: the view is looked up when a front end asks, never before."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Displayable:
    """Gives a class `_repr_mimebundle_`: HTML from `xlanb.view`, plain text from `str(self)` or its own text view.

    The rooms below do not import the view (it reads their records); this asks for it by name at the moment a notebook
    shows the object.
    """

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = import_module("xlanb.view.reprs").mimebundle(self)
        if include:
            bundle = {k: v for k, v in bundle.items() if k in include}
        if exclude:
            bundle = {k: v for k, v in bundle.items() if k not in exclude}
        return bundle
