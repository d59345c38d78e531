"""%xla_open and %xla_diff in a real IPython shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import xlanb
from xlanb.errors import InternalError, XlanbError
from xlanb.explorer.diff import ModuleDiff, TraceDiff
from xlanb.explorer.dump_directory import DumpDirectory
from xlanb.notebook.widget import StepWidget

PROGRAM = """HloModule jit_step

ENTRY main {
  x = f32[8]{0} parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8]{0} broadcast(zero), dimensions={}
  s = f32[8]{0} add(x, zeros)
  ROOT e = f32[8]{0} exponential(s)
}
"""


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    directory = tmp_path / "a dump"
    with xlanb.flags(f'"--xla_dump_to={directory}" --xla_dump_hlo_pass_re=.*'):
        xlanb.compile(PROGRAM)
    return directory


def run(shell: InteractiveShell, cell: str) -> tuple[Any, str]:
    with capture_output() as captured:
        result = shell.run_cell(cell)
    return result, captured.stdout + captured.stderr


def test_a_dump_opens_with_its_table(shell: InteractiveShell, dump: Path) -> None:
    result, _ = run(shell, f'%xla_open "{dump}"')
    assert isinstance(result.result, DumpDirectory)
    html = result.result._repr_mimebundle_()["text/html"]
    assert "main program: the only one" in html
    assert "xlanb-static" in html


def test_a_module_of_a_dump_opens_in_the_widget(shell: InteractiveShell, dump: Path) -> None:
    result, _ = run(shell, f'%xla_open "{dump}" -m jit_step')
    assert isinstance(result.result, StepWidget)
    assert result.result.traces[0]["algsimp"].removed == {"zero", "zeros", "s"}


def test_a_dump_goes_into_a_variable(shell: InteractiveShell, dump: Path) -> None:
    result, _ = run(shell, f'%xla_open "{dump}" -o d')
    assert result.result is None
    assert isinstance(shell.user_ns["d"], DumpDirectory)


def test_dumps_and_traces_are_compared(shell: InteractiveShell, dump: Path) -> None:
    shell.user_ns["t"] = xlanb.trace(PROGRAM)
    result, _ = run(shell, f'%xla_diff "{dump}" t')
    assert isinstance(result.result, TraceDiff)
    assert result.result.final.is_equal
    result, _ = run(shell, f'%xla_diff "{dump}" t -p algsimp')
    assert isinstance(result.result, ModuleDiff)


def test_modules_and_files_are_compared(shell: InteractiveShell, tmp_path: Path) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(PROGRAM)
    shell.user_ns["m"] = xlanb.hlo.parse(PROGRAM.replace("exponential", "tanh"))
    result, _ = run(shell, f"%xla_diff {file} m")
    assert {(m.kind, m.opcode) for m in result.result.matches if m.kind not in ("same", "moved")} == {
        ("removed", "exponential"),
        ("added", "tanh"),
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%xla_open nowhere", "nowhere is not a directory"),
        ("%xla_diff nothing nothing", "'nothing' is not a directory, a file or a variable"),
        ("%xla_diff print print", "%xla_diff takes traces, modules and dumps"),
    ],
)
def test_what_cannot_be_opened_says_so(shell: InteractiveShell, line: str, message: str) -> None:
    result, printed = run(shell, line)
    assert not result.success
    assert message in printed


@pytest.mark.parametrize(
    "line",
    [
        "%xla_open 'x",
        '%xla_diff a "b',
        "%xla_diff ~nobody_there/x m",
        "%xla_open ~nobody_there",
        f"%xla_open {'a' * 5000}",
        "%xla_open \ud800",
    ],
)
def test_lines_that_name_nothing_are_refused_with_a_message(shell, line):
    result, _ = run(shell, line)
    assert isinstance(result.error_in_exec, XlanbError)
    assert not isinstance(result.error_in_exec, InternalError)


@pytest.mark.parametrize("word", ["a\0b", "\udc80", "\ud800"])  # noqa: PT014 - ruff reads all halves as one character
def test_a_word_that_no_source_holds_is_refused(shell, word):
    with pytest.raises(XlanbError, match="is not a directory, a file or a variable"):
        shell.find_line_magic("xla_diff")(f"{word} x")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%xla_pass --name 'x\ndef f(module): pass\n", "No closing quotation"),
        ("%%xla_pass\nclass P(HloPass):\n    name = 'p'\n", "cannot create a pass from the class P"),
        ("%%xla_jit --args 3\nfrom xlanb import tf\ntf.nn.relu(tf.placeholder(tf.float32, [1]))\n", "must be a dict of feeds, got a int"),
    ],
    ids=["quote", "abstract", "args"],
)  # fmt: skip
def test_cells_of_the_wrong_form_are_refused_with_a_message(shell, cell, message):
    result, _ = run(shell, cell)
    assert isinstance(result.error_in_exec, XlanbError)
    assert message in str(result.error_in_exec)
