"""`xlanb bisect` and `reduce`: which pass changed the result, and the smallest module that
fails.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from xlanb.cli.execution import real_xla
from xlanb.cli.programs import (
    add_program,
    called,
    function_name,
    given_arrays,
    is_dump,
    module_of,
    progress,
    trace_of,
)
from xlanb.cli.result import CommandResult
from xlanb.errors import ArgumentError


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the command line."""
    _add_bisect(commands)
    _add_reduce(commands)


def _add_bisect(commands: Any) -> None:
    bisect = commands.add_parser("bisect", help="find the pass and the rule that changed the numbers")
    add_program(bisect, dump=True)
    bisect.add_argument(
        "--by",
        choices=("xlanb", "xla"),
        default="xlanb",
        help="whose passes: xlanb's, or the real XLA's (needs JAX)",
    )
    bisect.add_argument("--inputs", type=Path, help=".npz file with the arguments (default: --args, else random)")
    bisect.add_argument("--tolerance", type=float, help="relative error to tolerate")
    bisect.add_argument("--all", action="store_true", help="evaluate after every pass rather than halving")
    bisect.add_argument(
        "--reproducer",
        type=Path,
        metavar="FILE.py",
        help="write a Python file that reproduces the fault with a reduced module",
    )
    bisect.set_defaults(command=_bisect)


def _add_reduce(commands: Any) -> None:
    reduce = commands.add_parser("reduce", help="reduce a module that fails to a small one that still fails")
    add_program(reduce)
    fault = reduce.add_mutually_exclusive_group(required=True)
    fault.add_argument(
        "--against",
        choices=("evaluator", "xla"),
        help="fails if compiled code differs from this reference",
    )
    fault.add_argument("--without", metavar="PASS,..", help="fails if the result differs without these passes")
    fault.add_argument("--raises", metavar="PASS", help="fails if this pass raises an error")
    fault.add_argument(
        "--dies", choices=("xlanb", "xla"), help="fails if compiling or running with this crashes the process"
    )
    fault.add_argument("--test", metavar="FILE.py:NAME", help="fails if this function of a module returns true")
    reduce.add_argument(
        "--by",
        choices=("xlanb", "xla"),
        default="xlanb",
        help="with --against: the compiler to test (default: xlanb)",
    )
    reduce.add_argument("--inputs", type=Path, help=".npz file with the arguments (default: random)")
    reduce.add_argument("--tolerance", type=float, help="relative error to tolerate")
    reduce.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        help="time limit; the smallest module found is printed",
    )
    reduce.add_argument("-o", "--output", type=Path, help="write the module to this file")
    reduce.add_argument(
        "--reproducer",
        type=Path,
        metavar="FILE.py",
        help="write a Python file that reproduces the fault",
    )
    reduce.set_defaults(command=_reduce)


def _bisect(options: argparse.Namespace) -> CommandResult:
    from xlanb.explorer.bisection import inputs_of, start_of
    from xlanb.runtime.opt import arguments_for

    if options.by == "xla":
        trace, inputs = _real_trace(options)
    else:
        trace = trace_of(options.file, args=options.args)
        start = start_of(trace)
        inputs = tuple(arguments_for(start, options.inputs)) if options.inputs else inputs_of(trace, start)
    found = trace.bisect(*inputs, tolerance=options.tolerance, exhaustive=options.all)
    written = options.reproducer is not None and found.changed
    if written:
        found.reproducer().write(options.reproducer)
    text = found.summary(written=str(options.reproducer) if written else "", on_command_line=True)
    return CommandResult(text, _bisected(found), 1 if found.changed else 0)


def _bisected(found: Any) -> dict[str, Any]:
    """Return a Bisection as data: the guilty pass, and the error after each pass tried."""
    culprit = None
    if found.stage is not None:
        culprit = {"index": found.stage.index, "pass": found.stage.name}
        if found.rewrite is not None:
            cause = found.rewrite.cause
            culprit |= {"rule": cause.rule, "where": cause.where}
    return {
        "changed_by": culprit,
        "code": found.code is not None,
        "tolerance": found.tolerance,
        "checked": json.loads(found.errors.to_json(orient="records")),
    }


def _real_trace(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    """The compilation of a file by the real XLA, and the arrays that it ran on."""
    from xlanb.peers.xla import trace
    from xlanb.runtime.opt import arguments_for

    if is_dump(options.file):
        raise ArgumentError(
            f"--by xla: {options.file} is a dump: leave out --by xla, its passes are already those of XLA"
        )
    module = module_of(options.file, options.args)
    inputs = tuple(arguments_for(module, options.inputs or given_arrays(module) or None))
    return trace(module, *inputs, runs=1), inputs


def _fault(options: argparse.Namespace) -> Any:
    """The test that the options ask for."""
    from xlanb.explorer import failing
    from xlanb.transforms import PASSES

    if options.test is not None:
        function = function_name(options.test)
        if function is None:
            raise ArgumentError(f"--test {options.test}: expected FILE.py:NAME")
        return called(*function, "")[0]
    if options.raises is not None:
        return failing.raises(PASSES[options.raises]())
    if options.dies is not None:
        return failing.dies(real=options.dies == "xla")
    if options.without is not None:
        without = failing.without(*options.without.split(","))
        return failing.differs(failing.compiled, without, options.tolerance)
    run = failing.compiled if options.by == "xlanb" else real_xla()
    reference = failing.interpreted if options.against == "evaluator" else real_xla()
    return failing.differs(run, reference, options.tolerance)


def _reduce(options: argparse.Namespace) -> CommandResult:
    from xlanb.reducer import reduction
    from xlanb.runtime.opt import arguments_for

    module = module_of(options.file, options.args)
    arrays = arguments_for(module, options.inputs) if options.inputs else given_arrays(module)
    found = reduction(module, _fault(options), *arrays, seconds=options.seconds, progress=progress)
    progress("")
    text = str(found.module)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    if options.reproducer is not None:
        found.reproducer().write(options.reproducer)
    data = {
        "module": text, "instructions": found.module.instruction_count, "before": found.before,
        "tests": found.tests, "seconds": found.seconds, "finished": found.is_finished,
    }  # fmt: skip
    return CommandResult(str(found), data)
