"""The commands that answer, and the parser that knows them."""

from __future__ import annotations

import argparse
from typing import Any

from xlanb.cli import aot, comparison, execution, faults, hardware, passes, traces

_ANSWERING = (passes, execution, traces, comparison, faults, hardware, aot)
"""In the order of the commands in `xlanb --help`."""


def add_answering(top: argparse.ArgumentParser) -> Any:
    """Add every command that returns a CommandResult; return the group for further commands."""
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for file in _ANSWERING:
        file.add_commands(commands)
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON")
    return commands
