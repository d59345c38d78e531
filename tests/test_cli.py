"""The command line: what it prints, and what its exit status says."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from xlanb.cli import main

TEXT = """HloModule m

ENTRY e {
  a = f32[3] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[3] broadcast(zero), dimensions={}
  s = f32[3] add(a, zeros)
  ROOT r = f32[3] multiply(s, s)
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return str(path)


def test_opt_runs_the_passes_that_are_named(file, capsys):
    assert main(["opt", file, "--passes=algsimp,dce"]) == 0
    out = capsys.readouterr().out
    assert "multiply(%a, %a)" in out
    assert "add(" not in out


def test_opt_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(TEXT))
    assert main(["opt", "-", "--passes=dce"]) == 0
    assert "add(%a, %zeros)" in capsys.readouterr().out


def test_opt_shows_each_change(file, capsys):
    assert main(["opt", file, "--passes=dce,algsimp", "--diff", "--print-after-all"]) == 0
    out = capsys.readouterr().out
    assert "--- before algsimp" in out
    assert "// ---- after algsimp" in out
    assert "after dce" not in out


def test_a_misspelt_pass_names_the_nearest(file, capsys):
    assert main(["opt", file, "--passes=algsmp"]) == 1
    assert "did you mean 'algsimp'" in capsys.readouterr().err


def test_bad_text_is_an_error_with_its_place(tmp_path, capsys):
    (tmp_path / "bad.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[ parameter(0) }")
    assert main(["opt", str(tmp_path / "bad.hlo")]) == 1
    assert "2:" in capsys.readouterr().err


def test_a_missing_file_is_an_error(capsys):
    assert main(["run", "/no/such/file.hlo"]) == 1
    assert "no/such/file" in capsys.readouterr().err


def test_run_takes_inputs_and_compares(file, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", a=np.array([1, 2, 3], np.float32))
    assert main(["run", file, "--inputs", str(tmp_path / "x.npz"), "--reference", "evaluator", "--profile"]) == 0
    out = capsys.readouterr().out
    assert "[1. 4. 9.]" in out
    assert "(agrees)" in out
    assert "kernel" in out


def test_run_refuses_inputs_that_do_not_fit(file, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", a=np.ones(4, np.float32))
    assert main(["run", file, "--inputs", str(tmp_path / "x.npz")]) == 1
    assert "ArgumentError" in capsys.readouterr().err


def test_report_writes_one_page(file, tmp_path, capsys):
    assert main(["report", file, "-o", str(tmp_path / "page.html")]) == 0
    assert json.loads(capsys.readouterr().out)["stages"] > 10
    assert "<html" in (tmp_path / "page.html").read_text()


def test_without_a_command_it_says_how(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "usage: xlanb" in capsys.readouterr().err
