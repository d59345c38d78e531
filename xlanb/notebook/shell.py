"""Helpers of the magics for the IPython shell: unquoting words, evaluating expressions."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics
from IPython.core.magic_arguments import parse_argstring

from xlanb.errors import ArgumentError, XlanbError


def shell_of(magics: Magics) -> InteractiveShell:
    """Return the shell that magics are registered in.

    Raises:
        XlanbError: they are not registered.
    """
    if magics.shell is None:
        raise XlanbError("the magics of xlanb are not registered in a shell: %load_ext xlanb")
    return magics.shell


def options_of(magic: Any, line: str) -> Any:
    """Parse the options of a magic's line.

    Raises:
        ArgumentError: a quote is not closed; UsageError: an option is unknown or malformed.
    """
    try:
        return parse_argstring(magic, line)
    except ValueError as error:
        raise ArgumentError(f"the options {line[:200]!r} cannot be read: {error}") from None


def unquoted(word: str) -> str:
    """A word without the quotes around it."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def evaluated(shell: InteractiveShell, expression: str | None) -> Any:
    """Evaluate an expression in the user's namespace; None if there is none."""
    if expression is None:
        return None
    return shell.ev(expression.strip("\"'") if expression[:1] in "\"'" else expression)
