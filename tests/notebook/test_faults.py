"""A cell's output for an error that xlanb raises on purpose."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from tests.notebook.shells import printed, run


def test_an_error_of_ours_shows_the_users_lines_and_all_when_asked_again(shell: InteractiveShell) -> None:
    cell = "import xlanb\ndef mine(text):\n    return xlanb.hlo.parse(text)\n\nmine('HloModule m ENTRY')"
    _, captured = run(shell, cell)
    shown = printed(captured)
    assert "HloParseError" in shown
    assert "mine('HloModule m ENTRY')" in shown
    assert "return xlanb.hlo.parse(text)" in shown
    assert "parser.py" not in shown
    assert "use %tb to show the frames within xlanb" in shown
    _, captured = run(shell, "%tb")
    assert "parser.py" in printed(captured)


def test_an_error_of_a_magic_shows_no_frame_of_ours(shell: InteractiveShell) -> None:
    _, captured = run(shell, "%%xla_jit --disable fussion\n1 + 1")
    shown = printed(captured)
    assert "did you mean 'fusion'" in shown
    assert "magic.py" not in shown
    _, captured = run(shell, "%xla_open nowhere-at-all")
    assert "dump_directory.py" not in printed(captured)
    assert "DumpError" in printed(captured)


def test_a_bug_keeps_its_frames(shell: InteractiveShell) -> None:
    _, captured = run(shell, "%load_ext xlanb\n1 / 0")
    assert "ZeroDivisionError" in printed(captured)
