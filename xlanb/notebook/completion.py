"""Tab completion: options of the magics and their values, names of passes and of flags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from xlanb.cpu.pipelines import pipeline
from xlanb.debug_options import flag_table

_PASS_OPTIONS = frozenset(("--disable", "--until", "--after", "--diff", "-d", "--after-pass", "-p"))
_MAGICS = ("%%xla_jit", "%%xla_pass", "%xla_open", "%xla_diff")


def complete_magics(shell: InteractiveShell) -> None:
    """Register the completion of xlanb's magics."""
    for magic in _MAGICS:
        shell.set_hook("complete_command", lambda _, event, magic=magic: _complete(shell, magic, event), str_key=magic)
    for name in ("%xla_flags", "xla_flags"):
        shell.set_hook("complete_command", lambda *_: _flags(), str_key=name)


def _complete(shell: InteractiveShell, magic: str, event: Any) -> list[str]:
    return completions(_parser(shell, magic), str(event.line))


def _actions(parser: Any) -> Sequence[Any]:
    known: Sequence[Any] = parser._actions  # noqa: SLF001 - argparse has no public list of its actions
    return known


def completions(parser: Any, line: str) -> list[str]:
    """Complete a magic's line, by the options of `parser`."""
    words = line.split()
    current = "" if line[-1:].isspace() else words[-1]
    before = words[-1] if not current else words[-2] if len(words) > 1 else ""
    if "=" in current:
        before, _, current = current.partition("=")
    action = next((a for a in _actions(parser) if before in a.option_strings), None)
    if action is not None and action.nargs != 0:
        return sorted(action.choices) if action.choices else pass_names() if before in _PASS_OPTIONS else []
    return _options(parser)


def _options(parser: Any) -> list[str]:
    return [o for a in _actions(parser) for o in a.option_strings if re.match(r"--\w", o)]


def _parser(shell: InteractiveShell, magic: str) -> Any:
    kind = "cell" if magic.startswith("%%") else "line"
    function = shell.find_magic(magic.lstrip("%"), kind)
    return function.parser


def pass_names() -> list[str]:
    """The passes of the default pipeline, in order, each once."""
    return list(dict.fromkeys(pipeline().names))


def _flags() -> Sequence[str]:
    return [f"{name}=" for name, _, _ in flag_table()] + ["reset"]
