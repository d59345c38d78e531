"""The Python lines that an instruction comes from, formatted for display."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xlanb.hlo.attributes import StackFrame
from xlanb.patterns import pattern

_CELL = pattern(r"ipykernel_\d+/\d+\.py$|^<ipython-input-")
_OF_LIBRARIES = pattern(
    r"[/\\](?:site|dist)-packages[/\\](?:IPython|ipykernel|jax|jaxlib|xlanb)[/\\]"
    r"|[/\\]lib[/\\]python3\.\d+[/\\](?!site-packages|dist-packages)"
    r"|^<frozen "
)
"""Files of the shell that runs a cell, of JAX, and of Python's own modules.

Their lines are not the user's.
"""


_NAMED_CELL = pattern(r"^In \[(\d+)\]$")


def place_text(file: str, line: int) -> str:
    """A Python location as "file:line", relative to the working directory if the file is below it.

    A notebook's cell has the name that the notebook shows, `In [3]:6`; `cell:6` if it is of another
    session.
    """
    if not file:
        return ""
    if _is_cell(file):
        return f"{cell_name(file) or 'cell'}:{line}"
    return f"{file.removeprefix(f'{os.getcwd()}{os.sep}')}:{line}"  # noqa: PTH109 - called for each instruction


def cell_name(file: str) -> str:
    """The name in this session of the cell that the kernel keeps in a file: "In [3]".

    "" for any other file.
    """
    shell = _shell()
    known = shell.compile.format_code_name(file) if shell is not None else None
    return known[1].replace("In[", "In [") if known is not None else ""


def source_text(file: str, line: int) -> str:
    """The text of a Python line without indentation; "" if unknown or not a Python file."""
    if found := _NAMED_CELL.match(file):
        history = getattr(_shell(), "history_manager", None)
        cells = history.input_hist_raw if history is not None else []
        lines = cells[int(found[1])].splitlines() if int(found[1]) < len(cells) else []
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""
    if not (file.endswith(".py") or _CELL.search(file)):
        return ""
    return linecache.getline(file, line).strip()


def _shell() -> Any:
    """IPython's shell, if code runs in one; does not import IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def users_frames(stack: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The user's frames of a stack, innermost first.

    Frames of the shell, JAX and Python's own modules, and those that ran a notebook's cell, are
    left out; all frames are returned if there are no others.
    """
    of_cells = [n for n, f in enumerate(stack) if f.function == "<module>" and _is_cell(f.file)]
    inside = stack[: of_cells[0] + 1] if of_cells else stack
    return tuple(f for f in inside if not _is_of_library(f.file)) or tuple(stack)


@lru_cache(maxsize=1 << 12)
def _is_of_library(file: str) -> bool:
    return _OF_LIBRARIES.search(file) is not None


@lru_cache(maxsize=1 << 12)
def _is_cell(file: str) -> bool:
    return _CELL.search(file) is not None
