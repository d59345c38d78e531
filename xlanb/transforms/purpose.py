"""What a pass does as a whole, read from its docstrings.

It is the rule of edits for which the pass names none. A pass has its own file, whose docstring
shows `before => after`; its class says in a sentence what it does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from inspect import unwrap
from pathlib import Path
from textwrap import dedent
from typing import Any

from xlanb.hlo.python_lines import place_text
from xlanb.tracing import Purpose

_PACKAGE = Path(__file__).parent.parent.parent
_LONGEST = 120
"""The longest rewrite, in characters, that is shown as a rule."""


def drawing(text: str) -> list[str]:
    """The lines of the first block of a docstring that shows before => after, or none."""
    for block in text.split("\n\n")[1:]:
        if "=>" in block:
            return dedent(block).strip("\n").splitlines()
    return []


def place_of(function: Callable[..., Any]) -> str:
    """The source location of a function.

    "xlanb/transforms/fusion/row_fusion.py:41", or "In [3]:1" in a notebook's cell; "" if Python did
    not compile it.
    """
    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return ""
    file = Path(code.co_filename)
    shown = file.relative_to(_PACKAGE).as_posix() if file.is_relative_to(_PACKAGE) else code.co_filename
    return place_text(shown, code.co_firstlineno)


@lru_cache(maxsize=512)
def purpose_of(made: Any) -> Purpose:
    """What a class of passes does.

    The `before => after` of its file if that is one short rewrite without shapes, else the first
    sentence of its own docstring, else its name.
    """
    function = unwrap(made.defining_function())
    document = getattr(sys.modules.get(made.__module__), "__doc__", None) or ""
    sentence = re.split(r"(?<=\.)\s|\n|;", (made.__doc__ or "").strip(), maxsplit=1)[0]
    rule = _one_line(drawing(document)) or sentence or made.name
    code = getattr(function, "__code__", None)
    return Purpose(rule, code.co_filename if code is not None else "", place_of(function))


def _one_line(lines: list[str]) -> str:
    """A `before => after` block as one line.

    "" if it has more than two lines or one rewrite, or contains shapes.
    """
    whole = " ".join(" ".join(lines).split())
    is_one = len(lines) == 1 or (len(lines) == 2 and lines[1].lstrip().startswith("=>"))
    return whole if is_one and len(whole) <= _LONGEST and whole.count("=>") == 1 and "[" not in whole else ""
