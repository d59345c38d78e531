"""The name of a Python line, and its text."""

from __future__ import annotations

import linecache
from pathlib import Path

from xlanb.hlo.python_lines import place_text, source_text


def test_a_cell_is_called_as_the_notebook_calls_it(shell):
    shell.run_cell("import sys\nfile, line = sys._getframe().f_code.co_filename, 2", store_history=True)
    file = shell.user_ns["file"]
    number = shell.execution_count - 1
    assert place_text(file, 2) == f"In [{number}]:2"
    assert source_text(file, 2).startswith("file, line = sys._getframe()")
    assert source_text(f"In [{number}]", 1) == "import sys"
    assert source_text(f"In [{number}]", 99) == ""
    assert source_text("In [12345]", 1) == ""


def test_a_cell_of_another_session_has_no_number():
    assert place_text("/kernel/ipykernel_77/123.py", 6) == "cell:6"
    assert place_text("model.py", 3) == "model.py:3"
    assert place_text("", 3) == ""


def test_files_below_the_working_directory_are_relative_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place_text(str(tmp_path / "models" / "mlp.py"), 3) == "models/mlp.py:3"
    assert place_text(f"{tmp_path}_other/mlp.py", 3) == f"{tmp_path}_other/mlp.py:3"


def test_only_python_is_read(tmp_path: Path):
    source, secret = tmp_path / "model.py", tmp_path / "secret"
    for path in (source, secret):
        path.write_text("first\n    second\n", encoding="utf-8")
    assert source_text(str(source), 2) == "second"
    assert source_text(str(secret), 2) == ""
    assert source_text(str(tmp_path / "gone.py"), 2) == ""
    assert str(secret) not in linecache.cache
