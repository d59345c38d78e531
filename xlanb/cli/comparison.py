"""`xlanb ls` and `diff`: list a dump directory, and compare two modules."""

from __future__ import annotations

import argparse
import json
from typing import Any

from xlanb.cli.programs import is_dump, module_of, shown, trace_of
from xlanb.cli.result import CommandResult


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the command line."""
    ls = commands.add_parser("ls", help="list a dump directory: the main program first")
    ls.add_argument("directory", help="a directory written by --xla_dump_to")
    ls.add_argument("--files", action="store_true", help="list every file with the meaning of its name")
    ls.set_defaults(command=_ls)

    diff = commands.add_parser("diff", help="compare two modules by structure: HLO files or dump directories")
    diff.add_argument("before", help="HLO file, FILE.py:NAME or dump directory")
    diff.add_argument("after", help="HLO file, FILE.py:NAME or dump directory")
    diff.add_argument("--args", default="", help="a tuple of arguments for both, if they are FILE.py:NAME")
    diff.add_argument("--after-pass", help="compare two dumps after this pass (default: after the last)")
    diff.set_defaults(command=_diff)


def _ls(options: argparse.Namespace) -> CommandResult:
    from xlanb.explorer.dump_directory import read_dump

    dump = read_dump(options.directory)
    table = dump.files if options.files else dump.modules
    data = json.loads(table.to_json(orient="records", date_format="iso"))
    if not options.files:
        return CommandResult(str(dump), data)
    lines = [f"{row.bytes:>12,}  {row.file}\n{'':>14}{row.what}" for row in table.itertuples()]
    return CommandResult("\n".join(lines), data)


def _diff(options: argparse.Namespace) -> CommandResult:
    from xlanb.explorer.diff import diff_modules

    sides = (options.before, options.after)
    if all(is_dump(side) for side in sides):
        found = trace_of(options.before).diff(trace_of(options.after))
        modules = found.at(options.after_pass) if options.after_pass else found.final
        text = str(modules if options.after_pass else found)
    else:
        before, after = (_record(side, options.args) for side in sides)
        modules = diff_modules(before, after, (shown(options.before), shown(options.after)))
        text = str(modules)
    groups = json.loads(modules.groups.to_json(orient="records"))
    data = {"equal": modules.is_equal, "counts": modules.counts, "groups": groups}
    return CommandResult(text, data, 0 if modules.is_equal else 1)


def _record(side: str, args: str) -> Any:
    """The record of a file's module, or of the last one of a dump's main program."""
    from xlanb.explorer.diff import last_module

    return last_module(trace_of(side)) if is_dump(side) else module_of(side, args).record()
