"""A real IPython shell, and a cell's output."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output


def run(shell: InteractiveShell, cell: str) -> tuple[Any, CapturedIO]:
    """Run a cell as a notebook does."""
    with capture_output() as captured:
        result = shell.run_cell(cell, store_history=True)
    return result, captured


def printed(captured: CapturedIO) -> str:
    """Return the printed text, without colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", captured.stdout + captured.stderr)


def texts(captured: CapturedIO) -> str:
    """Return the printed and displayed text."""
    return captured.stdout + "".join(o.data.get("text/plain", "") for o in captured.outputs)
