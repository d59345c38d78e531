"""The Python lines that an instruction comes from, as a person is shown them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xlanb.hlo.attributes import StackFrame

_CELL = re.compile(r"ipykernel_\d+/\d+\.py$|^<ipython-input-")
_OF_LIBRARIES = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](?:IPython|ipykernel|jax|jaxlib|xlanb)[/\\]"
    r"|[/\\]lib[/\\]python3\.\d+[/\\](?!site-packages|dist-packages)"
    r"|^<frozen "
)
"""Files of the shell that runs a cell, of JAX, and of Python's own modules: a user did not write their lines."""


def place_text(file: str, line: int) -> str:
    """A Python line; a notebook's cell is called a cell, not by the file that its kernel makes of it."""
    if not file:
        return ""
    return f"{'cell' if _CELL.search(file) else file}:{line}"


def users_frames(stack: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The frames of a stack, innermost first, without those of the shell, of JAX and of Python's own modules, nor of what ran a notebook's cell; all where there are no others."""
    of_cells = [n for n, f in enumerate(stack) if f.function == "<module>" and _CELL.search(f.file)]
    inside = stack[: of_cells[0] + 1] if of_cells else stack
    return tuple(f for f in inside if not _OF_LIBRARIES.search(f.file)) or tuple(stack)
