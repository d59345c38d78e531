"""The cell that made a widget: its text, and whether it was run again, which outdates the
widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from IPython.core.getipython import get_ipython

if TYPE_CHECKING:
    from xlanb.notebook.widget import StepWidget

_BY_CELL: dict[str, WeakSet[StepWidget]] = {}
_WATCHED: list[Any] = []
"""Shells with a callback before a cell runs: a kernel has one."""
AGAIN = "the cell of this view was run again"


def origin_of(widget: StepWidget) -> dict[str, str]:
    """Return the running cell, {"text": its source}, or {} outside of a notebook.

    The widget becomes stale when the cell runs again.
    """
    shell = get_ipython()
    request = shell.get_parent() if shell is not None and hasattr(shell, "get_parent") else {}
    if not isinstance(request, dict):
        return {}
    text, cell = (request.get("content") or {}).get("code"), _cell_id(request)
    if cell and shell is not None:
        _BY_CELL.setdefault(cell, WeakSet()).add(widget)
        if shell not in _WATCHED:
            _WATCHED.append(shell)
            shell.events.register("pre_run_cell", _outdate)
    return {"text": text} if isinstance(text, str) else {}


def _cell_id(request: dict[str, Any]) -> str:
    found = (request.get("metadata") or {}).get("cellId")
    return found if isinstance(found, str) else ""


def _outdate(info: Any) -> None:
    """Mark the widgets of a cell that runs again as stale."""
    for widget in list(_BY_CELL.pop(getattr(info, "cell_id", None) or "", ())):
        widget.stale = AGAIN
