"""Include the step view's code once per notebook: in a session's first output, for later ones.

A front end that sends the cell's identifier with each request (JupyterLab, Notebook, VS Code) shows
all outputs on one page. The code goes into the first cell that shows something, into a cell that is
run again (its output, or the one with the code, may have been lost), and into every output whose
place is unknown: nbconvert, a terminal, Colab.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from xlanb import display
from xlanb.view.page import code_shared_by


class SharedCode:
    """Record which cells of a session have outputs, and which run of them included the code."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._runs: dict[str, int] = {}
        self._carriers: set[str] = set()

    def __call__(self) -> AbstractContextManager[None]:
        """The context that objects show themselves in."""
        return code_shared_by(self.is_elsewhere)

    def is_elsewhere(self) -> bool:
        """Whether another output on the page has the code."""
        cell, run = self._cell(), self._shell.execution_count
        if not cell or "google.colab" in sys.modules:  # Colab: each output is a page of its own
            return False
        is_again = self._runs.get(cell, run) != run
        self._runs[cell] = run
        if is_again or not self._carriers or cell in self._carriers:
            self._carriers.add(cell)
            return False
        return True

    def _cell(self) -> str:
        """Return the running cell's identifier, or "" if the front end sends none."""
        parent: Any = getattr(self._shell, "parent_header", None) or {}
        request = parent() if callable(parent) else parent
        metadata = request.get("metadata") or {} if isinstance(request, dict) else {}
        return str(metadata.get("cellId") or "")


_SHARED: list[SharedCode] = []


def share_code(shell: InteractiveShell) -> None:
    """Have the outputs of this shell share the code."""
    _SHARED[:] = [SharedCode(shell)]
    display.show_within(_SHARED[0])


@display.shared_code.implement
def shared() -> AbstractContextManager[None]:
    """Return the context for objects that show themselves, in a shell or outside of any."""
    _share_by_default()
    return _SHARED[0]() if _SHARED else nullcontext()


def is_elsewhere() -> bool:
    """Whether another output on the page has the code; False outside of a shell."""
    _share_by_default()
    return _SHARED[0].is_elsewhere() if _SHARED else False


def _share_by_default() -> None:
    """Share the code in the current shell too if the extension was not loaded."""
    shell = get_ipython()
    if not _SHARED and shell is not None:
        share_code(shell)
