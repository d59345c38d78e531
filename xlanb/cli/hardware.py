"""`xlanb target`: compile a program by the real XLA for hardware that is not present."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from xlanb.cli.programs import add_program, called, function_name, module_of, progress
from xlanb.cli.result import CommandResult


def add_commands(commands: Any) -> None:
    """Add the command of this file to the command line."""
    target = commands.add_parser(
        "target",
        help="compile with the real XLA for other hardware, and print one table",
    )
    add_program(target)
    target.add_argument(
        "--target",
        required=True,
        metavar="T,..",
        help="h100, a100:8, 'tpu v5e:2x2', FILE.txtpb, or several separated by commas",
    )
    target.add_argument("--flags", default="", help="additional XLA_FLAGS for the compiler")
    target.add_argument("--python", default="", help="the Python of another environment whose XLA is used")
    target.add_argument("-o", "--output", type=Path, help="write the step view to this HTML file")
    target.set_defaults(command=_target)


def _target(options: argparse.Namespace) -> CommandResult:
    from xlanb.peers.targets.compare import side_by_side

    function = function_name(options.file)
    program, given = (
        called(*function, options.args) if function is not None else (module_of(options.file, options.args), ())
    )
    found = side_by_side(
        program,
        *given,
        targets=[n.strip() for n in options.target.split(",") if n.strip()],
        flags=options.flags,
        python=options.python,
        progress=progress,
    )
    progress("")
    if options.output is not None:
        from xlanb.view.page import write_page

        write_page(found.traces, str(options.output))
    return CommandResult(str(found), json.loads(found.facts.to_json(orient="columns")))
