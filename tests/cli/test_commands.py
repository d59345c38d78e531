"""The command line: its output and exit status."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import xlanb
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
    assert main(["report", file, "-o", str(tmp_path / "page.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"] > 10
    assert "<html" in (tmp_path / "page.html").read_text()


def test_without_a_command_it_says_how(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "usage: xlanb" in capsys.readouterr().err


@pytest.fixture
def dump(file, tmp_path):
    directory = tmp_path / "dump"
    with xlanb.flags(f"--xla_dump_to={directory} --xla_dump_hlo_pass_re=.*"):
        xlanb.compile(TEXT)
    return str(directory)


def test_ls_names_the_main_program(dump, capsys):
    assert main(["ls", dump]) == 0
    assert "1 module," in capsys.readouterr().out
    assert main(["ls", dump, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["module"], row["instructions_before"]) == ("m", 5)
    assert main(["ls", dump, "--files"]) == 0
    assert "the program as passed to XLA" in capsys.readouterr().out


def test_diff_compares_by_structure_and_says_so_by_its_status(file, tmp_path, capsys):
    other = tmp_path / "other.hlo"
    other.write_text(TEXT.replace(" s ", " sum ").replace("(s, s)", "(sum, sum)"))
    assert main(["diff", file, str(other)]) == 0
    other.write_text(TEXT.replace("multiply(s, s)", "multiply(s, a)"))
    assert main(["diff", file, str(other), "--json"]) == 1
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["counts"]["changed"] == 1


def test_diff_takes_dumps(dump, file, capsys):
    assert main(["diff", dump, dump]) == 0
    assert main(["diff", file, dump]) == 1
    assert main(["diff", dump, dump, "--after-pass", "nosuch"]) == 1
    assert "no stage 'nosuch'" in capsys.readouterr().err


def test_bisect_finds_nothing_in_what_is_right(file, dump, capsys):
    assert main(["bisect", file]) == 0
    assert "no pass changed the numbers" in capsys.readouterr().out
    assert main(["bisect", dump, "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed_by"] is None


@pytest.fixture
def wrong_rule():
    """`A * 1 => A` takes the operand of A for A."""
    from xlanb.transforms.algebraic_simplifier.arithmetic import ARITHMETIC

    rule = next(r for r in ARITHMETIC.rules if r.label == "A * 1 => A")
    right = vars(rule).copy()
    object.__setattr__(rule, "formula", lambda a: a.operands[0])
    yield rule
    vars(rule).clear()  # with what was computed from the formula
    vars(rule).update(right)


NEAR = """import numpy as np
import xlanb.tf as tf

def near(x):
    return tf.tanh((x + 1e8) - 1e8)

x = np.array([0.5, 3, -7], np.float32)
"""


def test_numbers_that_differ_lead_to_the_rule_and_a_file(tmp_path, monkeypatch, capsys):
    """What `run` prints is the next command; it takes the same arrays, and names the rule."""
    monkeypatch.chdir(tmp_path)
    Path("near.py").write_text(NEAR)
    assert main(["run", "near.py:near", "--args", "x", "--reference", "evaluator"]) == 1
    out = capsys.readouterr().out
    command = next(line for line in out.splitlines() if "xlanb bisect" in line).partition("xlanb ")[2]
    assert main(shlex.split(command)) == 1
    out = capsys.readouterr().out
    assert "rewrite (A + C1) + C2 => A + (C1 + C2)" in out
    assert "fault.py reproduces it" in out
    done = subprocess.run([sys.executable, "fault.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "[0.5]" in done.stdout or "[0.5 " in done.stdout, "the arrays of --args"
    assert main(["bisect", "near.py:near", "--args", "x", "--json"]) == 1
    moved = json.loads(capsys.readouterr().out)["changed_by"]
    assert (moved["pass"], moved["rule"]) == ("algsimp", "(A + C1) + C2 => A + (C1 + C2)")


def test_a_run_against_xla_names_whose_passes_may_be_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("near.py").write_text(NEAR)
    monkeypatch.setattr("xlanb.cli.execution.real_xla", lambda: lambda module, arrays: xlanb.evaluate(module, *arrays))
    assert main(["run", "near.py:near", "--args", "x", "--reference", "xla"]) == 1
    assert "xlanb bisect near.py:near --args x --by xla --reproducer fault.py" in capsys.readouterr().out


def test_a_dump_has_its_own_compiler(dump, capsys):
    assert main(["bisect", dump, "--by", "xla"]) == 1
    assert "is a dump" in capsys.readouterr().err


def test_bisect_writes_a_file_that_shows_the_fault(wrong_rule, tmp_path, capsys):
    python, text = tmp_path / "fault.py", tmp_path / "ones.hlo"
    text.write_text(
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  one = f32[] constant(1)\n"
        "  b = f32[4] broadcast(one), dimensions={}\n  t = f32[4] tanh(x)\n  ROOT y = f32[4] multiply(t, b)\n}\n"
    )
    assert main(["bisect", str(text), "--reproducer", str(python)]) == 1
    assert f"rewrite {wrong_rule.label}" in capsys.readouterr().out
    assert f"rule: {wrong_rule.label}" in python.read_text()


def test_reduce_prints_the_smallest_module_that_fails(file, tmp_path, capsys):
    check = tmp_path / "check.py"
    check.write_text("def fails(module):\n    return any(i.opcode.text == 'multiply' for i in module.instructions())\n")
    small = tmp_path / "small.hlo"
    assert main(["reduce", file, "--test", f"{check}:fails", "-o", str(small)]) == 0
    assert "5 instructions -> 2" in capsys.readouterr().out
    assert xlanb.hlo.parse(small.read_text()).entry_computation.root.opcode.text == "multiply"
    python = tmp_path / "fault.py"
    assert main(["reduce", file, "--test", f"{check}:fails", "--json", "--reproducer", str(python)]) == 0
    assert "def fails(module):" in python.read_text()
    assert json.loads(capsys.readouterr().out)["instructions"] == 2


@pytest.mark.parametrize("fault", [["--against", "evaluator"], ["--without", "fusion"], ["--raises", "algsimp"]])
def test_reduce_says_where_nothing_fails(fault, file, capsys):
    assert main(["reduce", file, *fault]) == 1
    assert "does not hold" in capsys.readouterr().err


def test_reduce_wants_a_function_that_is_there(file, capsys):
    assert main(["reduce", file, "--test", "nothing"]) == 1
    assert "FILE.py:NAME" in capsys.readouterr().err


def test_report_takes_a_dump(dump, tmp_path, capsys):
    page = tmp_path / "dump.html"
    assert main(["report", dump, "-o", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"] > 4
    assert page.read_text().startswith("<!doctype html>")


def test_json_for_scripts(file, capsys):
    assert main(["opt", file, "--json", "--passes=algsimp,dce"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(p["pass"], p["changed"]) for p in told["passes"]] == [("algsimp", True), ("dce", False)]
    assert main(["run", file, "--json", "--reference=evaluator"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"]
    assert told["results"][0]["shape"] == [3]


def test_binary_and_compressed_files_are_read(tmp_path, capsys):
    path = tmp_path / "m.hlo.pb.gz"
    path.write_bytes(gzip.compress(xlanb.hlo.parse(TEXT).to_proto()))
    assert main(["opt", str(path), "--passes=dce"]) == 0
    assert "add(%a, %zeros)" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_traceback(file):
    command = f"{sys.executable} -m xlanb opt {file} --passes=dce --print-after-all --json | true"
    done = subprocess.run(
        ["/bin/sh", "-c", f"for k in 1 2 3; do {command}; done"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["opt", "."], "is a directory"),
        (["run", "{hlo}", "--inputs", "{hlo}"], "is not an .npz file"),
        (["report", "{hlo}", "-o", "{folder}/nowhere/x.html"], "no such folder:"),
        (["report", "{hlo}", "-o", "{folder}/x.html", "--module", "m"], "is not a dump directory"),
        (["report", "{folder}/empty", "-o", "{folder}/x.html"], "no file is named like an XLA dump"),
        (["opt", "{folder}/bad.hlo"], "bad.hlo: HloParseError: 1:"),
    ],
)
def test_mistakes_are_told_with_the_file(arguments, words, tmp_path, capsys):
    hlo = tmp_path / "m.hlo"
    hlo.write_text("HloModule m\nENTRY e { ROOT x = f32[4] parameter(0) }")
    (tmp_path / "bad.hlo").write_bytes(b"\x1b[2J no HLO")
    (tmp_path / "empty").mkdir()
    given = [a.format(hlo=hlo, folder=tmp_path) for a in arguments]
    assert main(given) == 1
    told = capsys.readouterr().err
    assert words in told
    assert "\x1b" not in told, "a terminal is not given what a file holds"


def test_an_empty_standard_input_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", StringIO(""))
    assert main(["opt", "-"]) == 1
    assert "it is empty" in capsys.readouterr().err


def test_iterations_are_counted_from_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["run", "m.hlo", "--iterations", "0"])
    assert "not a positive whole number" in capsys.readouterr().err
