"""`xlanb report`, `why`, `lineage`: facts about instructions of a compilation or a dump."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from xlanb.cli.programs import add_program, trace_of
from xlanb.cli.result import CommandResult
from xlanb.errors import ArgumentError


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the command line."""
    report = commands.add_parser("report", help="write the step view of a compilation or a dump as one HTML file")
    _add_trace(report)
    report.add_argument("-o", "--output", type=Path, required=True, help="the HTML file")
    report.set_defaults(command=_report)

    why = commands.add_parser(
        "why",
        help="explain why two instructions were or were not fused or merged, by xlanb or the real XLA",
    )
    _add_trace(why)
    why.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="one or two instructions (for a dump, none: where the replay differs)",
    )
    why.add_argument(
        "--stage",
        default="fusion",
        help="without names: the pass of the real XLA to replay (default: fusion)",
    )
    why.set_defaults(command=_why)

    lineage = commands.add_parser(
        "lineage",
        help="show the origin of an instruction (ops, Python lines), and its later replacements",
    )
    _add_trace(lineage)
    lineage.add_argument("name", metavar="NAME", help="an instruction, or a TensorFlow node")
    lineage.set_defaults(command=_lineage)


def _add_trace(parser: argparse.ArgumentParser) -> None:
    add_program(parser, dump=True)
    parser.add_argument("--module", help="which module of a dump (default: the main program)")
    parser.add_argument("--target", default="cpu", help="cpu, or a GPU: a100, h100, ...")


def _trace(options: argparse.Namespace) -> Any:
    return trace_of(options.file, options.module, options.args, options.target)


def _report(options: argparse.Namespace) -> CommandResult:
    if not options.output.absolute().parent.is_dir():
        raise ArgumentError(f"-o {options.output}: no such folder: {options.output.parent}")
    trace = _trace(options)
    trace.to_html(str(options.output))
    size = options.output.stat().st_size
    stages, changed = len(trace), len(trace.changed)
    data = {"file": str(options.output), "stages": stages, "changed": changed, "bytes": size}
    text = (
        f"{options.output}: {trace.name}, {stages} stage{'s' * (stages != 1)}, "
        f"{changed} changed something, {size:,} bytes"
    )
    return CommandResult(text, data)


def _why(options: argparse.Namespace) -> CommandResult:
    trace = _trace(options)
    if options.names:
        why = trace.why(*options.names)
        return CommandResult(str(why), why.to_json())
    found = trace.replay(int(options.stage) if options.stage.isdigit() else options.stage)
    return CommandResult(str(found), json.loads(found.to_dataframe().to_json(orient="records")))


def _lineage(options: argparse.Namespace) -> CommandResult:
    found = _trace(options).lineage(options.name.removeprefix("%"))
    links = json.loads(found.to_dataframe().to_json(orient="records"))
    data = {
        "name": found.name, "nodes": found.nodes, "lines": found.lines,
        "from": found.sources, "became": found.results, "links": links,
    }  # fmt: skip
    return CommandResult(str(found), data)
