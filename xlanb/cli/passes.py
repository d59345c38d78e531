"""`xlanb open`, `opt`, `passes`: a program as HLO, and the effect of passes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from xlanb.cli.programs import add_program, module_of, trace_of
from xlanb.cli.result import CommandResult


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the command line."""
    opened = commands.add_parser("open", help="verify HLO or StableHLO and print it as HLO, before any pass")
    add_program(opened)
    opened.set_defaults(command=_open)

    opt = commands.add_parser("opt", help="run HLO passes and print the module")
    add_program(opt)
    opt.add_argument("--passes", help="names, separated by commas, in order (default: the CPU pipeline)")
    opt.add_argument(
        "--print-after-all",
        action="store_true",
        help="print the module after every pass that changed it",
    )
    opt.add_argument("--diff", action="store_true", help="print what every pass changed, as a unified diff")
    opt.set_defaults(command=_opt)

    passes = commands.add_parser("passes", help="list what each pass of a compilation or a dump did, and its time")
    add_program(passes, dump=True)
    passes.add_argument("--module", help="which module of a dump (default: the main program)")
    passes.add_argument("--target", default="cpu", help="cpu, or a GPU: a100, h100, ...")
    passes.add_argument("--all", action="store_true", help="also list passes that changed nothing")
    passes.set_defaults(command=_passes)


def _open(options: argparse.Namespace) -> CommandResult:
    module = module_of(options.file, options.args)
    module.verify(executable=True)
    text = str(module)
    count = module.instruction_count
    return CommandResult(text, {"name": module.name, "instructions": count, "module": text})


def _opt(options: argparse.Namespace) -> CommandResult:
    from xlanb.runtime.opt import optimize

    done = optimize(
        module_of(options.file, options.args),
        options.passes,
        print_after_all=options.print_after_all,
        diff=options.diff,
    )
    text = "\n".join(done.shown) if options.print_after_all or options.diff else done.text
    return CommandResult(text, {"module": done.text, "passes": done.rows, "shown": done.shown})


def _passes(options: argparse.Namespace) -> CommandResult:
    trace = trace_of(options.file, options.module, options.args, options.target)
    table = trace.to_dataframe()
    if not options.all:
        table = table[table["changed"]]
    rows = json.loads(table.reset_index().to_json(orient="records"))
    total = len(trace)
    lines = [f"{trace.name}: {total} stages, {len(trace.changed)} changed something"]
    lines += [f"{row['stage']:>4}  {_milliseconds(row['ms'])}  {_line(row)}" for row in rows]
    return CommandResult("\n".join(lines), {"name": trace.name, "stages": total, "passes": rows})


def _milliseconds(ms: float | None) -> str:
    return f"{'':>11}" if ms is None else f"{ms:>8.2f} ms"


def _line(row: dict[str, Any]) -> str:
    return f"{row['name']}: {row['summary']}" if row["summary"] else row["name"]
