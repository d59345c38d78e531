"""The page that a notebook saves with a live step widget: the same view without a kernel.

A saved notebook, or nbconvert's output, has no kernel and usually no widget state. So the widget
has two outputs: itself, and a page that hides itself while the widget is shown. The page is written
again when the widget becomes idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data

from xlanb.notebook.shared_code import is_elsewhere
from xlanb.view.page import code_shared_by

_REST_SECONDS = 1.0
"""Seconds after the last change: quick steps write one page, not ten."""

_SHOWN: WeakSet[SavedPage] = WeakSet()


class SavedPage:
    """The second output; `make` writes its HTML.

    `at_end_of_cell` is also called if the cell's own code changed something.
    """

    def __init__(self, make: Callable[[], str], at_end_of_cell: Callable[[], None] | None = None) -> None:
        self._make = make
        self._at_end_of_cell = at_end_of_cell
        self._display_id = ""
        self._is_lean = False
        self._is_stale = False
        self._timer: asyncio.TimerHandle | None = None

    def show(self) -> None:
        """Show it below existing outputs.

        A second call makes another output; the first is unchanged.
        """
        self._display_id = uuid4().hex
        self._is_lean = is_elsewhere()  # fixed: later rewrites belong to the same cell
        self._is_stale = False
        self._publish(update=False)
        _SHOWN.add(self)
        if (shell := get_ipython()) is not None:
            shell.events.register("post_run_cell", _flush_all)  # once: it knows its callbacks

    def touch(self) -> None:
        """Schedule writing after a change: at the end of the running cell, or shortly."""
        if not self._display_id:
            return
        self._is_stale = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._timer = asyncio.get_running_loop().call_later(_REST_SECONDS, self.flush)
        except RuntimeError:  # no loop: the end of the cell will do
            self._timer = None

    def flush(self) -> None:
        """Write it again if something has changed."""
        if self._is_stale:
            self._is_stale = False
            self._publish(update=True)

    def end_of_cell(self) -> None:
        """The cell that runs is done."""
        if self._is_stale and self._at_end_of_cell is not None:
            self._at_end_of_cell()
        self.flush()

    def _publish(self, *, update: bool) -> None:
        # No plain text: a terminal, which has the widget's own, would print it too.
        with code_shared_by(lambda: self._is_lean):
            html = self._make()
        publish_display_data({"text/html": html}, {}, transient={"display_id": self._display_id}, update=update)


def in_notebook() -> bool:
    """Whether outputs go to a notebook, not to a terminal."""
    return hasattr(get_ipython(), "kernel")


def is_interactive() -> bool:
    """Whether somebody works in the notebook: runners of whole notebooks do not answer
    `input()`.
    """
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return False
    content = (kernel.get_parent() or {}).get("content") or {}
    return bool(content.get("allow_stdin"))


def _flush_all(_: Any = None) -> None:
    for page in list(_SHOWN):
        page.end_of_cell()
