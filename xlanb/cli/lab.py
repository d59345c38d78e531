"""`xlanb lab`: JupyterLab on the tutorials."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from subprocess import run
from typing import Any

from xlanb.cli.result import CommandResult
from xlanb.errors import XlanbError


def add_commands(commands: Any) -> None:
    """Add the command of this file to the command line."""
    lab = commands.add_parser("lab", help="open JupyterLab on the tutorials")
    lab.add_argument(
        "directory",
        nargs="?",
        default="notebooks",
        help="folder with notebooks (default: notebooks)",
    )
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    lab.set_defaults(command=_lab)


def _lab(options: argparse.Namespace) -> CommandResult:
    if find_spec("jupyterlab") is None:
        raise XlanbError("JupyterLab is not installed: pip install 'xlanb[lab]'")
    command = [sys.executable, "-m", "jupyter", "lab", options.directory]
    command += ["--no-browser"] * options.no_browser
    status = run(command, check=False).returncode
    return CommandResult("", {"status": status}, status)
