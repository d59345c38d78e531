"""The command line: `xlanb opt`, `xlanb run`, `xlanb report`, `xlanb lab`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import run as run_process

from xlanb.errors import XlanbError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0 well, 1 the input is at fault, 2 the command line is."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
    except XlanbError as error:
        print(f"xlanb: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"xlanb: {error}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xlanb", description="Compile HLO the way XLA does, one pass at a time.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    opt = commands.add_parser("opt", help="run HLO passes and print the module")
    _file(opt)
    opt.add_argument("--passes", help="names, separated by commas, in order (default: the CPU pipeline)")
    opt.add_argument("--print-after-all", action="store_true", help="print the module after every pass that changed it")
    opt.add_argument("--diff", action="store_true", help="print what every pass changed, as a unified diff")
    opt.set_defaults(command=_opt)

    run = commands.add_parser("run", help="compile a module, run it and print its results")
    _file(run)
    run.add_argument(
        "--inputs", type=Path, help=".npz file with the arguments, in the order of their names (default: random)"
    )
    run.add_argument("--reference", choices=("evaluator",), help="compare with the reference interpreter")
    run.add_argument("--iterations", type=int, default=1, help="how often to run; the median time is printed")
    run.add_argument("--profile", action="store_true", help="print the time of each kernel")
    run.set_defaults(command=_run)

    report = commands.add_parser("report", help="write the step view of a compilation as one HTML file")
    _file(report)
    report.add_argument("-o", "--output", type=Path, required=True, help="the HTML file")
    report.set_defaults(command=_report)

    lab = commands.add_parser("lab", help="open JupyterLab on the tutorials")
    lab.add_argument("directory", nargs="?", default="notebooks", help="folder with notebooks (default: notebooks)")
    lab.add_argument("--no-browser", action="store_true", help="print the address only")
    lab.set_defaults(command=_lab)
    return parser


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="HLO text; - for standard input")


def _text(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


def _opt(options: argparse.Namespace) -> int:
    tool = import_module("xlanb.runtime.opt")
    shown: str = tool.optimize_text(
        _text(options.file), options.passes, print_after_all=options.print_after_all, diff=options.diff
    )
    print(shown)
    return 0


def _run(options: argparse.Namespace) -> int:
    tool = import_module("xlanb.runtime.opt")
    outcome = tool.run_text(
        _text(options.file),
        options.inputs,
        options.iterations,
        profile=options.profile,
        compare=options.reference is not None,
    )
    print(outcome.text)
    return 0 if outcome.agrees else 1


def _report(options: argparse.Namespace) -> int:
    trace = import_module("xlanb.explorer.explore").trace(_text(options.file))
    trace.to_html(str(options.output))
    print(json.dumps({"file": str(options.output), "stages": len(trace), "changed": len(trace.changed)}))
    return 0


def _lab(options: argparse.Namespace) -> int:
    if find_spec("jupyterlab") is None:
        raise XlanbError("JupyterLab is not installed: pip install 'xlanb[lab]'")
    command = [sys.executable, "-m", "jupyter", "lab", options.directory]
    return run_process([*command, "--no-browser"] if options.no_browser else command, check=False).returncode
