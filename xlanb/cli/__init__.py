"""The command line, `xlanb COMMAND`: each file of this folder contains related commands.

Exit status: 0 success; 1 faulty input, or a failed comparison; 2 a wrong command line. A command
returns a `CommandResult`; `main` prints it as text, or as JSON with `--json`: one object or list,
in which a number that is not finite is the string "nan", "inf" or "-inf". An error is then an
object too, with its class as `error` and its text as `message`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from xlanb.cli import lab, mcp
from xlanb.cli.parser import add_answering
from xlanb.cli.result import CommandResult, explained, json_text
from xlanb.errors import XlanbError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and print its answer.

    Args:
        arguments: the words behind `xlanb`; those of the process by default.

    Returns:
        The exit status.
    """
    options = _parsed(arguments)
    as_json = getattr(options, "json", False)
    try:
        result: CommandResult = options.command(options)
        text = json_text(result.data) if as_json and result.data is not None else result.text
        if text:
            print(text.rstrip("\n"))
        sys.stdout.flush()
    except XlanbError as error:
        return _fail(explained(error), type(error).__name__ if as_json else "")
    except BrokenPipeError:
        # The reader has closed the pipe; the buffer must not raise when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", type(error).__name__ if as_json else "")
    except KeyboardInterrupt:
        return 130
    return result.status


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; names may also follow options, as in `why F --args X A`.

    argparse itself ends a list of words at the first option.
    """
    top = _parser()
    options, left = top.parse_known_args(arguments)
    if left and (not hasattr(options, "names") or any(word.startswith("-") for word in left)):
        top.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        options.names += left
    return options


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="xlanb", description="Compile HLO the way XLA does, one pass at a time.")
    commands = add_answering(top)
    mcp.add_commands(commands)
    lab.add_commands(commands)
    return top


def _fail(message: str, kind: str = "") -> int:
    """Print an error; if its `kind` is given, as JSON too."""
    if kind:
        print(json_text({"error": kind, "message": _readable(message)}), flush=True)
    print(_readable(f"xlanb: {message}"), file=sys.stderr)
    return 1


def _readable(text: str) -> str:
    """Text without control characters: a message may quote a file that is not text."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
