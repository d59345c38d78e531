"""Programs on a command line: files, functions of Python files, dump directories, text."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from xlanb.errors import ArgumentError, HloParseError, XlanbError, nearest
from xlanb.files import is_file, is_folder

_BEGINNING_BYTES = 2**16
"""Bytes of a file that suffice to distinguish StableHLO, after comments, from HLO."""
_FUNCTION = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")

_GIVEN: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()
"""The example arguments of a function's module: it runs on them by default."""

_STDIN_IS_FREE: ContextVar[bool] = ContextVar("_STDIN_IS_FREE", default=True)
"""False while standard input is used by a protocol."""


def add_program(parser: argparse.ArgumentParser, *, dump: bool = False, optional: bool = False) -> None:
    """Add the arguments that name a program; with `dump` a dump directory is one too."""
    forms = (
        "HLO: text or .pb, gzipped or not; - for text from standard input; StableHLO: text or "
        "bytecode; a function, FILE.py:NAME"
    )
    parser.add_argument("file", nargs="?" if optional else None, help=forms + "; or a dump directory" * dump)
    parser.add_argument(
        "--args",
        default="",
        help="a tuple of arguments for FILE.py:NAME, as a Python expression in the names of the file",
    )


@contextmanager
def without_stdin() -> Iterator[None]:
    """Refuse `-` as the name of a program inside the block."""
    token = _STDIN_IS_FREE.set(False)
    try:
        yield
    finally:
        _STDIN_IS_FREE.reset(token)


def module_of(name: str, args: str = "") -> Any:
    """The module of a file, of a function in a Python file, or of text (a name of several lines).

    Raises:
        XlanbError: it cannot be read, or the function cannot be lowered.
    """
    function = function_name(name)
    if function is not None:
        return _lowered(*function, args)
    if args:
        raise ArgumentError(f"--args {args}: {shown(name)} is not a function of a Python file (FILE.py:NAME)")
    from xlanb.dump import read_hlo
    from xlanb.frontends import stablehlo

    try:
        if name == "-" or "\n" in name:
            return stablehlo.parse_text(_stdin() if name == "-" else name)
        found = _stablehlo(Path(name))
        return read_hlo(name) if found is None else stablehlo.from_stablehlo(found)
    except HloParseError as error:
        error.add_note("standard input" if name == "-" else shown(name))
        raise


def shown(name: str) -> str:
    """Return a program's name for messages: text of several lines is not repeated."""
    return "the text" if "\n" in name else name


def function_name(name: str) -> tuple[Path, str] | None:
    """The file and the function of FILE.py:NAME; None for another name."""
    found = _FUNCTION.fullmatch(name)
    return None if found is None else (Path(found["file"]), found["name"])


def called(path: Path, name: str, args: str) -> tuple[Any, tuple[Any, ...]]:
    """A function that a Python file defines, and the arguments for it.

    Raises:
        ArgumentError: there is no such function, or the expression fails.
    """
    if not is_file(path):
        raise ArgumentError(f"{path}: no such file")
    scope = runpy.run_path(str(path))
    if name not in scope:
        names = [n for n, v in scope.items() if callable(v) and not n.startswith("_")]
        raise ArgumentError(f"{path} defines no {name!r}{nearest(name, names)}")
    try:
        # The user's own expression about the user's own file: it may raise anything.
        value = eval(args, scope) if args else ()  # noqa: S307
    except Exception as error:
        raise ArgumentError(f"--args {args}: {type(error).__name__}: {error}") from error
    return scope[name], value if isinstance(value, tuple) else (value,)


def given_arrays(module: Any) -> tuple[Any, ...]:
    """The arrays that a function's module was made for; none for other modules."""
    return _GIVEN.get(module, ())


def is_dump(name: str) -> bool:
    """Whether a program's name is that of a folder."""
    return name != "-" and "\n" not in name and is_folder(Path(name))


def trace_of(name: str, module: str | None = None, args: str = "", target: str = "cpu") -> Any:
    """Return the trace of a dumped module, or compile a program for `target`.

    Raises:
        XlanbError: the program cannot be read or compiled; --module without a dump.
    """
    if is_dump(name):
        from xlanb.explorer.dump_directory import read_dump

        if target != "cpu":
            raise ArgumentError(f"--target {target}: {name} is a dump, its target is fixed: leave out --target")
        return read_dump(name)[module or 0]
    if module:
        raise ArgumentError(
            f"--module {module}: {shown(name)} is not a dump directory: it holds one module, leave out --module"
        )
    return _compiled(name, args, target)


def _compiled(name: str, args: str, target: str) -> Any:
    from xlanb.explorer.live import Compilation

    program = module_of(name, args)
    compilation = Compilation(program, target=target)
    while (stage := compilation.step()) is not None:
        progress(f"{stage.index + 1} {stage.name}")
    progress("")
    compilation.trace.inputs = given_arrays(program)
    return compilation.trace


def progress(text: str) -> None:
    """Overwrite the line of progress on a terminal; write nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)


def _stablehlo(path: Path) -> bytes | None:
    """The content of a file of StableHLO, text or bytecode; None for another file."""
    from xlanb.frontends import stablehlo

    if not is_file(path):
        return None
    with path.open("rb") as file:
        start = file.read(_BEGINNING_BYTES)
    text = start.decode("utf-8", "replace")
    is_text = path.suffix == ".mlir" or stablehlo.is_stablehlo(text)
    return path.read_bytes() if is_text or start.startswith(stablehlo.BYTECODE) else None


def _lowered(path: Path, name: str, args: str) -> Any:
    """The module of a function that a Python file defines.

    Raises:
        XlanbError: there is no such function, `args` fails, or the function cannot be lowered.
    """
    from xlanb.runtime.program import to_module

    function, given = called(path, name, args)
    module = to_module(function, *given)
    _GIVEN[module] = module.flat_arguments(given)
    return module


def _stdin() -> str:
    """Read all of the standard input.

    Raises:
        XlanbError: it is empty (or was read before), is not text, or belongs to a protocol.
    """
    if not _STDIN_IS_FREE.get():
        raise ArgumentError("-: standard input is used by the protocol; pass the text itself")
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError:
        raise XlanbError("standard input: expected HLO text; write other formats to a file") from None
    if not text.strip():
        raise XlanbError("standard input: it is empty")
    return text
