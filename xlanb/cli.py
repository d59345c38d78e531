"""The command line: `xlanb opt`, `run`, `report`, `ls`, `diff`, `bisect`, `target`, `lab`.

Exit status: 0 well; 1 the input is at fault, or what was asked to agree does not; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from subprocess import run as run_process
from typing import Any
from weakref import WeakKeyDictionary

from xlanb.errors import ArgumentError, HloParseError, XlanbError, nearest
from xlanb.files import is_file, is_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
        sys.stdout.flush()
    except XlanbError as error:
        where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
        print(_readable(f"xlanb: {where}{type(error).__name__}: {error}"), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read has gone; what is still in the buffer must not raise when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(_readable(f"xlanb: {where}{error.strerror or error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _readable(text: str) -> str:
    """What a terminal may be given: a message may quote a file that is no text."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _count(text: str) -> int:
    """A whole number from 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xlanb", description="Compile HLO the way XLA does, one pass at a time.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    opened = commands.add_parser("open", help="verify HLO or StableHLO and print it as HLO, before any pass")
    _file(opened)
    opened.set_defaults(command=_open)

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
    run.add_argument("--reference", choices=("evaluator", "xla"), help="compare with the interpreter or the real XLA")
    run.add_argument("--iterations", type=_count, default=1, help="how often to run; the median time is printed")
    run.add_argument(
        "--devices",
        help="how many virtual devices the module runs on; mpi: each process of `mpiexec -n N` is one (default: as many as it says)",
    )
    run.add_argument("--profile", action="store_true", help="print the time of each kernel")
    run.set_defaults(command=_run)

    report = commands.add_parser("report", help="write the step view of a compilation or a dump as one HTML file")
    report.add_argument("file", help="HLO, - for standard input, a function FILE.py:NAME, or a dump directory")
    _args(report)
    report.add_argument("-o", "--output", type=Path, required=True, help="the HTML file")
    report.add_argument("--module", help="which module of a dump (default: the main program)")
    report.set_defaults(command=_report)

    ls = commands.add_parser("ls", help="list what lies in a dump directory: the main program first")
    ls.add_argument("directory", help="what --xla_dump_to wrote")
    ls.add_argument("--files", action="store_true", help="list every file with what its name means")
    ls.set_defaults(command=_ls)

    diff = commands.add_parser("diff", help="compare two modules by structure: HLO files or dump directories")
    diff.add_argument("before", help="HLO file or dump directory")
    diff.add_argument("after", help="HLO file or dump directory")
    diff.add_argument("--after-pass", help="of two dumps: compare after this pass (default: after the last)")
    diff.set_defaults(command=_diff)

    bisect = commands.add_parser("bisect", help="find the pass, and the rule in it, that moved the numbers")
    bisect.add_argument("file", help="HLO, - for standard input, a function FILE.py:NAME, or a dump directory")
    _args(bisect)
    bisect.add_argument(
        "--by", choices=("xlanb", "xla"), default="xlanb", help="whose passes: xlanb's, or the real XLA's (needs JAX)"
    )
    bisect.add_argument("--inputs", type=Path, help=".npz file with the arguments (default: --args, else random)")
    bisect.add_argument("--tolerance", type=float, help="largest relative error that counts as none")
    bisect.add_argument("--all", action="store_true", help="evaluate after every pass rather than halving")
    bisect.add_argument(
        "--reproducer",
        type=Path,
        metavar="FILE.py",
        help="write a Python file that shows the fault in its smallest case",
    )
    bisect.set_defaults(command=_bisect)

    why = commands.add_parser(
        "why", help="say why two instructions were fused or merged, or not: of ours or of the real XLA"
    )
    why.add_argument("file", help="HLO, - for standard input, a function FILE.py:NAME, or a dump directory")
    why.add_argument(
        "names", nargs="*", metavar="NAME", help="one or two instructions (of a dump, none: where it differs)"
    )
    _args(why)
    why.add_argument("--module", help="which module of a dump (default: the main program)")
    why.add_argument("--stage", default="fusion", help="without names: the pass of the real XLA (default: fusion)")
    why.set_defaults(command=_why)

    reduce = _reduce_parser(commands)
    target = _target_parser(commands)
    for command in (opened, opt, run, report, ls, diff, bisect, why, reduce, target):
        command.add_argument("--json", action="store_true", help="print JSON")

    lab = commands.add_parser("lab", help="open JupyterLab on the tutorials")
    lab.add_argument("directory", nargs="?", default="notebooks", help="folder with notebooks (default: notebooks)")
    lab.add_argument("--no-browser", action="store_true", help="print the address only")
    lab.set_defaults(command=_lab)
    return parser


def _target_parser(commands: Any) -> argparse.ArgumentParser:
    target: argparse.ArgumentParser = commands.add_parser(
        "target", help="compile by the real XLA for hardware that is not here, and print one table, side by side"
    )
    _file(target)
    target.add_argument(
        "--target",
        required=True,
        metavar="T,..",
        help="h100, a100:8, 'tpu v5e:2x2', FILE.txtpb, or several with commas between",
    )
    target.add_argument("--flags", default="", help="more XLA_FLAGS for the compiler")
    target.add_argument("--python", default="", help="the Python of another environment, whose XLA compiles")
    target.add_argument("-o", "--output", type=Path, help="an HTML file for the step view")
    target.set_defaults(command=_target)
    return target


def _reduce_parser(commands: Any) -> argparse.ArgumentParser:
    reduce: argparse.ArgumentParser = commands.add_parser(
        "reduce", help="make a module smaller as long as it fails: the smallest case of a fault"
    )
    _file(reduce)
    fault = reduce.add_mutually_exclusive_group(required=True)
    fault.add_argument("--against", choices=("evaluator", "xla"), help="compiled code gives another result than this")
    fault.add_argument("--without", metavar="PASS,..", help="it gives another result than without these passes")
    fault.add_argument("--raises", metavar="PASS", help="this pass raises an error")
    fault.add_argument("--dies", choices=("xlanb", "xla"), help="compiling or running by this ends the process")
    fault.add_argument("--test", metavar="FILE.py:NAME", help="a function of a module says that it fails")
    reduce.add_argument(
        "--by", choices=("xlanb", "xla"), default="xlanb", help="with --against: whose code it is (default: xlanb)"
    )
    reduce.add_argument("--inputs", type=Path, help=".npz file with the arguments (default: random)")
    reduce.add_argument("--tolerance", type=float, help="largest relative error that counts as none")
    reduce.add_argument("--seconds", type=float, default=300.0, help="time after which the smallest so far is printed")
    reduce.add_argument("-o", "--output", type=Path, help="a file for the module")
    reduce.add_argument("--reproducer", type=Path, metavar="FILE.py", help="write a Python file that shows the fault")
    reduce.set_defaults(command=_reduce)
    return reduce


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        help="HLO: text or .pb, gzipped or not; - for text on the standard input; StableHLO: text or bytecode; or a function, "
        "FILE.py:NAME",
    )
    _args(parser)


def _args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--args", default="", help="of FILE.py:NAME: a tuple of arguments, in the names of the file")


_BEGINNING_BYTES = 2**16
"""How much of a file tells StableHLO, behind comments, from HLO."""
_FUNCTION = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


def _module(name: str, args: str = "") -> Any:
    """The module of a file, or of a function in a Python file.

    Raises:
        XlanbError: it cannot be read, or the function cannot be lowered.
    """
    function = _FUNCTION.fullmatch(name)
    if function is not None:
        return _function(Path(function["file"]), function["name"], args)
    if args:
        raise ArgumentError(f"--args {args}: {name} is no function of a Python file (FILE.py:NAME)")
    from xlanb.dump import read_hlo
    from xlanb.frontends import stablehlo

    try:
        if name == "-":
            return stablehlo.parse_text(_stdin())
        found = _stablehlo(Path(name))
        return read_hlo(name) if found is None else stablehlo.from_stablehlo(found)
    except HloParseError as error:
        error.add_note("standard input" if name == "-" else name)
        raise


def _stablehlo(path: Path) -> bytes | None:
    """The content of a file of StableHLO, text or bytecode, by what it begins with; None for another file."""
    from xlanb.frontends import stablehlo

    if not is_file(path):
        return None
    with path.open("rb") as file:
        start = file.read(_BEGINNING_BYTES)
    is_text = path.suffix == ".mlir" or stablehlo.is_stablehlo(start.decode("utf-8", "replace"))
    return path.read_bytes() if is_text or start.startswith(stablehlo.BYTECODE) else None


def _function(path: Path, name: str, args: str) -> Any:
    """The module of a function that a Python file defines, for arguments that an expression gives in the file's own names.

    Raises:
        XlanbError: there is no such function, the expression fails, or the function cannot be lowered.
    """
    from xlanb.runtime.program import to_module

    function, given = _called(path, name, args)
    module = to_module(function, *given)
    _GIVEN[module] = module.flat_arguments(given)
    return module


def _called(path: Path, name: str, args: str) -> tuple[Any, tuple[Any, ...]]:
    """A function that a Python file defines, and the arguments for it.

    Raises:
        ArgumentError: there is no such function, or the expression fails.
    """
    if not is_file(path):
        raise ArgumentError(f"{path}: there is no such file")
    scope = runpy.run_path(str(path))
    if name not in scope:
        names = [n for n, v in scope.items() if callable(v) and not n.startswith("_")]
        raise ArgumentError(f"{path} defines no {name!r}{nearest(name, names)}")
    try:
        value = eval(args, scope) if args else ()  # noqa: S307 - the user's own expression about the user's own file
    except Exception as error:  # the user's expression may raise anything
        raise ArgumentError(f"--args {args}: {type(error).__name__}: {error}") from error
    return scope[name], value if isinstance(value, tuple) else (value,)


_GIVEN: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()
"""The arrays that a function's module was made for: it is run on them where no others are given."""


def _stdin() -> str:
    """All of the standard input.

    Raises:
        XlanbError: there is nothing (left) in it, or it is no text.
    """
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError:
        raise XlanbError("standard input: HLO text is wanted; write other forms to a file") from None
    if not text.strip():
        raise XlanbError("standard input: nothing to read there")
    return text


def _trace(name: str, module: str | None = None, args: str = "") -> Any:
    """The trace of a dumped module, or of a compilation that runs now."""
    from xlanb.explorer.dump_directory import read_dump
    from xlanb.explorer.live import Compilation

    if name != "-" and is_folder(Path(name)):
        dump = read_dump(name)
        return dump[module or 0]
    if module:
        raise ArgumentError(f"--module {module}: {name} is no directory of dumps, and holds one module")
    program = _module(name, args)
    compilation = Compilation(program)
    while (stage := compilation.step()) is not None:
        _progress(f"{stage.index + 1} {stage.name}")
    _progress("")
    compilation.trace.inputs = _GIVEN.get(program, ())
    return compilation.trace


def _progress(text: str) -> None:
    """One line on a terminal, written over and over; nothing where the output is no terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)


def _open(options: argparse.Namespace) -> int:
    module = _module(options.file, options.args)
    module.verify(executable=True)
    text = str(module)
    if options.json:
        print(json.dumps({"name": module.name, "instructions": module.instruction_count, "module": text}))
    else:
        print(text.rstrip("\n"))
    return 0


def _opt(options: argparse.Namespace) -> int:
    from xlanb.runtime.opt import optimize

    done = optimize(
        _module(options.file, options.args), options.passes, print_after_all=options.print_after_all, diff=options.diff
    )
    if options.json:
        print(json.dumps({"module": done.text, "passes": done.rows, "shown": done.shown}))
    else:
        print(("\n".join(done.shown) if options.print_after_all or options.diff else done.text).rstrip("\n"))
    return 0


def _evaluated(module: Any, arguments: list[Any]) -> Any:
    from xlanb.evaluator import evaluate

    return evaluate(module, *arguments)


def _real() -> Any:
    from xlanb.peers.xla import real

    return real


def _run(options: argparse.Namespace) -> int:
    from xlanb.runtime.opt import run_module

    names = {"evaluator": "evaluator", "xla": "real XLA", None: ""}
    name, reference = names[options.reference], None
    if options.reference is not None:
        reference = _evaluated if options.reference == "evaluator" else _real()
    module = _module(options.file, options.args)
    with _devices(options.devices) as (devices, prints):
        outcome = run_module(
            module,
            options.inputs or _GIVEN.get(module),
            options.iterations,
            profile=options.profile,
            reference=reference,
            name=name,
            devices=devices,
        )
    if not prints:
        return 0
    print(json.dumps(outcome.data) if options.json else str(outcome))
    if not outcome.agrees and not options.json:
        print(f"which pass and which rule did it: xlanb bisect {_asked_about(options)} --reproducer fault.py")
        if options.reference == "xla":
            print(
                f"if that says that none did, it was XLA's: xlanb bisect {_asked_about(options)} --by xla --reproducer fault.py"
            )
    return 0 if outcome.agrees else 1


def _asked_about(options: argparse.Namespace) -> str:
    """The words of the command line that say which program and which arrays."""
    given = [options.file, *(["--args", options.args] if options.args else [])]
    return shlex.join([*given, *(["--inputs", str(options.inputs)] if options.inputs else [])])


@contextmanager
def _devices(text: str | None) -> Iterator[tuple[int | None, bool]]:
    """How many devices --devices asks for, and whether this process prints; in an MPI process that fails all others end too.

    Raises:
        ArgumentError: it is neither a number nor mpi.
    """
    if text != "mpi":
        if text is not None and not (text.isdecimal() and int(text)):
            raise ArgumentError(f"--devices {text}: expected a number from 1 on, or mpi")
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


def _report(options: argparse.Namespace) -> int:
    if not options.output.absolute().parent.is_dir():
        raise ArgumentError(f"-o {options.output}: there is no folder {options.output.parent}")
    trace = _trace(options.file, options.module, options.args)
    trace.to_html(str(options.output))
    size = options.output.stat().st_size
    told = {"file": str(options.output), "stages": len(trace), "changed": len(trace.changed), "bytes": size}
    words = f"{trace.name}, {len(trace)} stage{'s' * (len(trace) != 1)}, {len(trace.changed)} changed something, {size:,} bytes"
    print(json.dumps(told) if options.json else f"{told['file']}: {words}")
    return 0


def _why(options: argparse.Namespace) -> int:
    trace = _trace(options.file, options.module, options.args)
    if not options.names:
        found = trace.replay(int(options.stage) if options.stage.isdigit() else options.stage)
        print(found.to_dataframe().to_json(orient="records") if options.json else found)
        return 0
    why = trace.why(*options.names)
    print(json.dumps(why.to_json()) if options.json else why)
    return 0


def _ls(options: argparse.Namespace) -> int:
    from xlanb.explorer.dump_directory import read_dump

    dump = read_dump(options.directory)
    table = dump.files if options.files else dump.modules
    if options.json:
        print(table.to_json(orient="records", date_format="iso"))
    elif options.files:
        print("\n".join(f"{row.bytes:>12,}  {row.file}\n{'':>14}{row.what}" for row in table.itertuples()))
    else:
        print(dump)
    return 0


def _diff(options: argparse.Namespace) -> int:
    from xlanb.explorer.diff import diff_modules

    directories = [is_folder(Path(p)) for p in (options.before, options.after)]
    if all(directories):
        found = _trace(options.before).diff(_trace(options.after))
        modules = found.at(options.after_pass) if options.after_pass else found.final
        shown: object = modules if options.after_pass else found
    else:
        records = [
            _final(path) if is_directory else _module(path).record()
            for path, is_directory in zip((options.before, options.after), directories, strict=True)
        ]
        modules = shown = diff_modules(records[0], records[1], (options.before, options.after))
    if options.json:
        groups = json.loads(modules.groups.to_json(orient="records"))
        print(json.dumps({"equal": modules.is_equal, "counts": modules.counts, "groups": groups}))
    else:
        print(shown)
    return 0 if modules.is_equal else 1


def _final(directory: str) -> Any:
    from xlanb.explorer.diff import last_module

    return last_module(_trace(directory))


def _bisect(options: argparse.Namespace) -> int:
    from xlanb.explorer.bisection import inputs_of, start_of
    from xlanb.runtime.opt import arguments_for

    if options.by == "xla":
        trace, inputs = _real_trace(options)
    else:
        trace = _trace(options.file, args=options.args)
        start = start_of(trace)
        inputs = tuple(arguments_for(start, options.inputs)) if options.inputs else inputs_of(trace, start)
    found = trace.bisect(*inputs, tolerance=options.tolerance, exhaustive=options.all)
    written = options.reproducer is not None and found.moved
    if written:
        found.reproducer().write(options.reproducer)
    if options.json:
        guilty = None if found.stage is None else {"index": found.stage.index, "pass": found.stage.name}
        rule = {} if found.rewrite is None else {"rule": found.rewrite.cause.rule, "where": found.rewrite.cause.where}
        rows = json.loads(found.errors.to_json(orient="records"))
        told = {"moved": guilty and guilty | rule, "code": found.code is not None, "tolerance": found.tolerance}
        print(json.dumps(told | {"checked": rows}))
    else:
        print(found.summary(written=str(options.reproducer) if written else "", on_command_line=True))
    return 1 if found.moved else 0


def _real_trace(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    """The compilation of a file by the real XLA, and the arrays that it ran on."""
    from xlanb.peers.xla import trace
    from xlanb.runtime.opt import arguments_for

    if options.file != "-" and is_folder(Path(options.file)):
        raise ArgumentError(f"--by xla: {options.file} is a dump: its passes are looked at without that")
    module = _module(options.file, options.args)
    inputs = tuple(arguments_for(module, options.inputs or _GIVEN.get(module)))
    return trace(module, *inputs, runs=1), inputs


def _fault(options: argparse.Namespace) -> Any:
    """The test that the options ask for."""
    from xlanb.explorer import failing
    from xlanb.transforms import PASSES

    if options.test is not None:
        found = _FUNCTION.fullmatch(options.test)
        if found is None:
            raise ArgumentError(f"--test {options.test}: expected FILE.py:NAME")
        return _called(Path(found["file"]), found["name"], "")[0]
    if options.raises is not None:
        return failing.raises(PASSES[options.raises]())
    if options.dies is not None:
        return failing.dies(real=options.dies == "xla")
    if options.without is not None:
        return failing.differs(failing.compiled, failing.without(*options.without.split(",")), options.tolerance)
    run = failing.compiled if options.by == "xlanb" else _real()
    reference = failing.interpreted if options.against == "evaluator" else _real()
    return failing.differs(run, reference, options.tolerance)


def _reduce(options: argparse.Namespace) -> int:
    from xlanb.reducer import reduction
    from xlanb.runtime.opt import arguments_for

    module = _module(options.file, options.args)
    arrays = arguments_for(module, options.inputs) if options.inputs else _GIVEN.get(module, ())
    found = reduction(module, _fault(options), *arrays, seconds=options.seconds, progress=_progress)
    _progress("")
    text = str(found.module)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    if options.reproducer is not None:
        found.reproducer().write(options.reproducer)
    if options.json:
        told = {"module": text, "instructions": found.module.instruction_count, "before": found.before}
        print(json.dumps({**told, "tests": found.tests, "seconds": found.seconds, "finished": found.is_finished}))
    else:
        print(str(found).rstrip("\n"))
    return 0


def _target(options: argparse.Namespace) -> int:
    from xlanb.peers.targets.beside import side_by_side

    function = _FUNCTION.fullmatch(options.file)
    program, given = (
        _called(Path(function["file"]), function["name"], options.args)
        if function is not None
        else (_module(options.file, options.args), ())
    )
    names = [n.strip() for n in options.target.split(",") if n.strip()]
    found = side_by_side(program, *given, targets=names, flags=options.flags, python=options.python, progress=_progress)
    _progress("")
    if options.output is not None:
        from xlanb.view.page import write_page

        write_page(found.traces, str(options.output))
    print(found.facts.to_json(orient="columns") if options.json else found)
    return 0


def _lab(options: argparse.Namespace) -> int:
    if find_spec("jupyterlab") is None:
        raise XlanbError("JupyterLab is not installed: pip install 'xlanb[lab]'")
    command = [sys.executable, "-m", "jupyter", "lab", options.directory]
    return run_process([*command, "--no-browser"] if options.no_browser else command, check=False).returncode
