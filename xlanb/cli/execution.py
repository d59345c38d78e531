"""`xlanb run` and `profile`: compile a program, run it, compare it, time its kernels."""

from __future__ import annotations

import argparse
import json
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xlanb.cli.programs import add_program, given_arrays, module_of
from xlanb.cli.result import CommandResult
from xlanb.errors import ArgumentError
from xlanb.files import is_file


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the command line."""
    run = commands.add_parser("run", help="compile a module, run it and print its results")
    add_program(run, optional=True)
    _add_inputs(run)
    run.add_argument(
        "--reference",
        choices=("evaluator", "xla"),
        help="compare with the interpreter or the real XLA",
    )
    run.add_argument("--iterations", type=_count, default=1, help="how often to run; prints the median time")
    run.add_argument(
        "--devices",
        help="number of virtual devices; mpi: each process of `mpiexec -n N` is one (default: as specified by "
        "the module)",
    )
    run.add_argument("--profile", action="store_true", help="print the time of each kernel")
    run.add_argument(
        "--as-tensorflow",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT.py ...",
        help="run a script of TensorFlow 1 with its own arguments; `import tensorflow` is xlanb.tf",
    )
    run.set_defaults(command=_run)

    profile = commands.add_parser("profile", help="compile a module, run it and time each kernel")
    add_program(profile)
    _add_inputs(profile)
    profile.add_argument("--runs", type=_count, default=10, help="number of runs to average (default: 10)")
    profile.set_defaults(command=_profile)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inputs",
        type=Path,
        help=".npz file with the arguments, in the order of their names (default: random)",
    )


def _count(text: str) -> int:
    """A whole number from 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def evaluated(module: Any, arguments: list[Any]) -> Any:
    """The result of a module by the reference interpreter."""
    from xlanb.evaluator import evaluate

    return evaluate(module, *arguments)


def real_xla() -> Any:
    """Return a function that computes a module's result with the real XLA (needs JAX)."""
    from xlanb.peers.xla import real

    return real


def _run(options: argparse.Namespace) -> CommandResult:
    if options.as_tensorflow:
        return _script(options.as_tensorflow)
    if options.file is None:
        raise ArgumentError("run: expected a program, or --as-tensorflow SCRIPT.py")
    from xlanb.runtime.opt import run_module

    names = {"evaluator": "evaluator", "xla": "real XLA", None: ""}
    reference = None
    if options.reference is not None:
        reference = evaluated if options.reference == "evaluator" else real_xla()
    module = module_of(options.file, options.args)
    with _devices(options.devices) as (devices, prints):
        outcome = run_module(
            module,
            options.inputs or given_arrays(module) or None,
            options.iterations,
            profile=options.profile,
            reference=reference,
            name=names[options.reference],
            devices=devices,
        )
    if not prints:
        return CommandResult("", None)
    lines = [str(outcome)]
    if not outcome.agrees:
        bisect = f"xlanb bisect {_asked_about(options)}"
        lines.append(f"to find the pass and rule responsible: {bisect} --reproducer fault.py")
        if options.reference == "xla":
            lines.append(f"if it finds none, XLA's passes are responsible: {bisect} --by xla --reproducer fault.py")
    return CommandResult("\n".join(lines), outcome.data, 0 if outcome.agrees else 1)


def _script(words: list[str]) -> CommandResult:
    """Run a script as `python SCRIPT.py ...` does, with xlanb.tf for TensorFlow."""
    from xlanb.tf.import_hook import as_tensorflow

    if not is_file(Path(words[0])):
        raise ArgumentError(f"{words[0]}: no such file")
    print("xlanb: `import tensorflow` imports xlanb.tf in this script", file=sys.stderr)
    arguments, path = sys.argv, sys.path
    sys.argv, sys.path = words, [str(Path(words[0]).absolute().parent), *sys.path]
    try:
        with as_tensorflow():
            runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.argv, sys.path = arguments, path
    return CommandResult("", None)


def _asked_about(options: argparse.Namespace) -> str:
    """The words of the command line that say which program and which arrays."""
    args = ["--args", options.args] if options.args else []
    inputs = ["--inputs", str(options.inputs)] if options.inputs else []
    return shlex.join([options.file, *args, *inputs])


@contextmanager
def _devices(text: str | None) -> Iterator[tuple[int | None, bool]]:
    """Yield the number of devices by --devices, and whether this process prints.

    If one MPI process fails, all others end too.

    Raises:
        ArgumentError: it is neither a positive number nor mpi.
    """
    if text != "mpi":
        if text is not None and not (text.isdecimal() and int(text)):
            raise ArgumentError(f"--devices {text}: expected a positive number, or mpi")
        yield int(text) if text else None, True
        return
    from xlanb.spmd.devices.mpi import mpi, run_on_mpi
    from xlanb.spmd.devices.transport import running_by

    world = mpi().COMM_WORLD
    try:
        with running_by(run_on_mpi):
            yield world.size, world.rank == 0
    except BaseException as error:
        if world.size > 1:
            print(f"xlanb: device {world.rank}: {error}", file=sys.stderr, flush=True)
            world.Abort(1)
        raise


def _profile(options: argparse.Namespace) -> CommandResult:
    from xlanb.runtime.compile import compile as compile_program
    from xlanb.runtime.opt import arguments_for

    module = module_of(options.file, options.args)
    executable = compile_program(module)
    arrays = arguments_for(executable, options.inputs or given_arrays(module) or None)
    table = executable.profile(*arrays, runs=options.runs)
    table = table.sort_values("seconds", ascending=False)
    rows = json.loads(table.to_json(orient="records"))
    total = float(table["seconds"].sum())
    lines = [f"{executable.hlo_module.name}: {total * 1e6:,.1f} us in {len(rows)} kernels"]
    lines += [_kernel_line(row) for row in rows]
    return CommandResult("\n".join(lines), {"seconds": total, "kernels": rows})


def _kernel_line(row: dict[str, Any]) -> str:
    limit = row.get("of_limit")
    bound = f", {limit:.0%} of the {row['bound']} limit" if limit is not None else ""
    source = f"  {row['op_name']}" if row.get("op_name") else ""
    return f"{row['seconds'] * 1e6:>12,.1f} us {row['share']:>6.1%}  {row['instruction']}{bound}{source}"
