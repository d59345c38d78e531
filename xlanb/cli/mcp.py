"""`xlanb mcp`: the commands as tools of a Model Context Protocol server, for agents and editors.

Each tool builds the words of one command and returns its text, cut to a length that an agent can
read. What a program, an error or a reason is called is therefore the same on the command line.
Semantics of the protocol: https://modelcontextprotocol.io/specification.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, NoReturn

from xlanb.cli.parser import add_answering
from xlanb.cli.programs import without_stdin
from xlanb.cli.result import CommandResult, explained, json_text
from xlanb.errors import ArgumentError, MissingLibraryError, XlanbError

SHORT = 4000
"""Default limit of characters in an answer."""

_INSTRUCTIONS = """\
xlanb compiles programs the way XLA does and explains the result. In every tool `program` is one of:
the text of an HLO or StableHLO module; the path of a file with one (.hlo, .txt, .pb, .mlir, also
gzipped); FILE.py:NAME, a function that jax.jit takes, with `args`, a Python expression in the names
of that file, for its arguments (the file is run); where the tool says so, a directory that
--xla_dump_to wrote. Begin with `passes` or `ls`; ask `why` about names that they show."""


def add_commands(commands: Any) -> None:
    """Add the command of this file to the command line."""
    mcp = commands.add_parser(
        "mcp", help="serve why, lineage, diff, bisect, ... to agents (Model Context Protocol, stdio)"
    )
    mcp.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> CommandResult:
    server().run("stdio")
    return CommandResult("", None)


def server() -> Any:
    """The server with its tools, not yet running.

    Raises:
        MissingLibraryError: the package mcp is not installed.
    """
    if find_spec("mcp") is None:
        raise MissingLibraryError("the package mcp is not installed: pip install 'xlanb[mcp]'")
    from mcp.server import MCPServer

    made = MCPServer("xlanb", instructions=_INSTRUCTIONS, log_level="WARNING")
    for tool in TOOLS:
        made.tool(structured_output=False)(tool)
    return made


def passes(
    program: str,
    args: str = "",
    module: str = "",
    target: str = "cpu",
    all_passes: bool = False,
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """List what each pass of a compilation did, in order, with the time it took.

    `program` may be a dump directory (then `module` names one of its modules; by default the main
    program). `target` is cpu or a GPU such as a100 or h100. With `all_passes` those that changed
    nothing are listed too.
    """
    words = ["passes", *_named("--module", module), *_named("--target", target)]
    words += ["--all"] * all_passes
    return _answer(words, [program], args, as_json, characters)


def why(
    program: str,
    names: list[str],
    args: str = "",
    module: str = "",
    target: str = "cpu",
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Say why two instructions were fused, merged or kept apart, or what was decided about one.

    `names` are one or two instructions, under any name that they had during the compilation. Each
    condition is listed with the value it had. `program` may be a dump directory of the real XLA;
    with no `names`, the answer is then where its fusions differ from what the conditions say.
    """
    words = ["why", *_named("--module", module), *_named("--target", target)]
    return _answer(words, [program, *names], args, as_json, characters)


def lineage(
    program: str,
    name: str,
    args: str = "",
    module: str = "",
    target: str = "cpu",
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Say where an instruction came from (framework op, Python line) and what became of it.

    `name` is an instruction of any stage, a fusion or a TensorFlow node. `program` may be a dump
    directory.
    """
    words = ["lineage", *_named("--module", module), *_named("--target", target)]
    return _answer(words, [program, name], args, as_json, characters)


def ls(directory: str, as_json: bool = False, characters: int = SHORT) -> str:
    """List the modules of a dump directory, the main program first, with their sizes."""
    return _answer(["ls"], [directory], "", as_json, characters)


def diff(
    before: str,
    after: str,
    args: str = "",
    after_pass: str = "",
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Compare two modules, or two dump directories, by structure: names and order do not count.

    `after_pass` compares two dumps after that pass instead of after the last.
    """
    words = ["diff", *_named("--after-pass", after_pass)]
    return _answer(words, [before, after], args, as_json, characters)


def bisect(
    program: str,
    args: str = "",
    by: Literal["xlanb", "xla"] = "xlanb",
    inputs: str = "",
    tolerance: float | None = None,
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Find the pass, and the rewrite rule in it, after which the results are no longer the same.

    `by` says whose passes: xlanb's or the real XLA's. `inputs` is the path of an .npz file (random
    arrays by default); `tolerance` the largest relative error that counts as none.
    """
    words = ["bisect", "--by", by, *_named("--inputs", inputs)]
    words += [] if tolerance is None else ["--tolerance", repr(tolerance)]
    return _answer(words, [program], args, as_json, characters)


def reduce(
    program: str,
    fault: Literal["against", "without", "raises", "dies", "test"],
    value: str,
    args: str = "",
    seconds: float = 60.0,
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Make a module smaller as long as it still fails, and return the smallest.

    `fault` says what failing means: "against" (`value` evaluator or xla: compiled code gives
    another result), "without" (another result than without these passes, separated by commas),
    "raises" (this pass raises), "dies" (`value` xlanb or xla: the process ends), "test"
    (FILE.py:NAME, a function of a module, returns true). The search ends after `seconds`.
    """
    words = ["reduce", f"--{fault}", value, "--seconds", repr(seconds)]
    return _answer(words, [program], args, as_json, characters)


def target(
    program: str,
    targets: str,
    args: str = "",
    flags: str = "",
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Compile by the real XLA for hardware that is not here and put the results side by side.

    `targets` are separated by commas: h100, a100:8, tpu v5e:2x2, ... `flags` are more XLA_FLAGS.
    Needs JAX with the plugin of the target.
    """
    words = ["target", "--target", targets, *_named("--flags", flags)]
    return _answer(words, [program], args, as_json, characters)


def profile(
    program: str,
    args: str = "",
    inputs: str = "",
    runs: int = 10,
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Compile for this machine's CPU, run, and list the kernels by time.

    Each kernel is shown with its share and how near it comes to the machine's limit of memory or
    compute.
    """
    words = ["profile", "--runs", str(runs), *_named("--inputs", inputs)]
    return _answer(words, [program], args, as_json, characters)


def run(
    program: str,
    args: str = "",
    inputs: str = "",
    reference: Literal["", "evaluator", "xla"] = "",
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Compile for this machine's CPU, run, and print the results.

    `reference` compares them with the reference interpreter or with the real XLA.
    """
    words = ["run", *_named("--inputs", inputs), *_named("--reference", reference)]
    return _answer(words, [program], args, as_json, characters)


def optimize(
    program: str,
    pass_names: str = "",
    args: str = "",
    show_changes: bool = False,
    as_json: bool = False,
    characters: int = SHORT,
) -> str:
    """Run HLO passes over a module and return its text, or with `show_changes` each pass's diff.

    `pass_names` are XLA's names in order, separated by commas; by default the whole CPU pipeline.
    """
    words = ["opt", *_named("--passes", pass_names), *["--diff"] * show_changes]
    return _answer(words, [program], args, as_json, characters)


TOOLS: tuple[Callable[..., str], ...] = (
    passes, why, lineage, ls, diff, bisect, reduce, target, profile, run, optimize,
)  # fmt: skip


class _RaisingParser(argparse.ArgumentParser):
    """A parser that raises its errors: a wrong word must not end the server."""

    def error(self, message: str) -> NoReturn:
        """Raise ArgumentError."""
        raise ArgumentError(message)


def _named(option: str, value: str) -> list[str]:
    """Return an option with its value, or nothing if the value is empty."""
    return [f"{option}={value}"] if value else []


def _answer(words: Sequence[str], names: Sequence[str], args: str, as_json: bool, characters: int) -> str:
    """The answer of a command, cut to `characters`.

    Raises:
        ToolError: the command fails; its message says why.
    """
    from mcp.server.mcpserver.exceptions import ToolError

    top = _RaisingParser(prog="xlanb")
    add_answering(top)
    try:
        with without_stdin():
            options = top.parse_args([*words, *_named("--args", args), "--", *names])
            result: CommandResult = options.command(options)
    except XlanbError as error:
        raise ToolError(_cut(explained(error), characters)) from error
    except OSError as error:
        raise ToolError(str(error)) from error
    finally:
        # Output of a user's file goes to the standard error while the server runs, not later.
        sys.stdout.flush()
    return _cut(json_text(result.data) if as_json else result.text.rstrip("\n"), characters)


def _cut(text: str, characters: int) -> str:
    """Return the beginning of a text, with a note on the length of the rest."""
    if len(text) <= characters:
        return text
    kept = text[: max(characters, 0)]
    left = len(text) - len(kept)
    return f"{kept}\n... {left:,} more characters: use characters={len(text)} for all"
