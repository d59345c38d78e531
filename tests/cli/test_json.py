"""`--json`: every answering command prints one strict JSON value of readable length."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb.cli import main
from xlanb.cli.mcp import SHORT
from xlanb.cli.parser import add_answering

TEXT = """HloModule m

ENTRY e {
  a = f32[3] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[3] broadcast(zero), dimensions={}
  s = f32[3] add(a, zeros)
  l = f32[3] log(s)
  ROOT r = f32[3] multiply(l, l)
}
"""
COMMANDS = {
    "open": ("open {hlo}", ["instructions", "module", "name"]),
    "opt": ("opt {hlo} --passes algsimp,dce", ["module", "passes", "shown"]),
    "passes": ("passes {hlo}", ["name", "passes", "stages"]),
    "run": ("run {hlo} --reference evaluator", ["agrees", "results"]),
    "profile": ("profile {hlo} --runs 2", ["kernels", "seconds"]),
    "report": ("report {hlo} -o {folder}/page.html", ["stages"]),
    "why": ("why {hlo} l r", []),
    "lineage": ("lineage {hlo} r", ["became", "from", "links", "name"]),
    "ls": ("ls {dump}", None),
    "diff": ("diff {hlo} {hlo}", ["counts", "equal", "groups"]),
    "bisect": ("bisect {hlo}", ["changed_by", "checked", "code", "tolerance"]),
    "reduce": ("reduce {hlo} --test {check}:fails", ["instructions"]),
    "aot": (
        "aot {hlo} --cpp-class M --out-function-object {folder}/m.o --out-header {folder}/m.h",
        ["bytes", "class", "header", "object"],
    ),
}
"""Each command's line, and keys of the object that it prints (None: it prints a list)."""
ELSEWHERE = {"target"}
"""Needs the real XLA for hardware that is not here: tests/targets run it."""


@pytest.fixture
def names(tmp_path: Path) -> dict[str, str]:
    hlo, check, dump = tmp_path / "m.hlo", tmp_path / "check.py", tmp_path / "dump"
    hlo.write_text(TEXT)
    check.write_text("def fails(m):\n    return any(str(i.opcode) == 'log' for i in m.instructions())\n")
    with xlanb.flags(f"--xla_dump_to={dump} --xla_dump_hlo_pass_re=.*"):
        xlanb.compile(TEXT)
    return {"hlo": str(hlo), "check": str(check), "dump": str(dump), "folder": str(tmp_path)}


def strict(text: str) -> Any:
    """A JSON value, in which NaN and Infinity are no numbers."""

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_every_command_that_answers_is_tried_here():
    parsers = add_answering(argparse.ArgumentParser())
    assert set(parsers.choices) == set(COMMANDS) | ELSEWHERE


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_one_short_json_value(command, names, capsys):
    line, keys = COMMANDS[command]
    assert main([*line.format(**names).split(), "--json"]) == 0
    printed = capsys.readouterr().out
    found = strict(printed)
    if keys is None:
        assert isinstance(found, list)
        assert found
    else:
        assert set(keys) <= set(found)
    assert len(printed) < SHORT


def test_numbers_that_are_not_finite_are_strings(names, tmp_path, capsys):
    inputs = tmp_path / "x.npz"
    np.savez(inputs, np.array([np.nan, 0, 1], np.float32))
    assert main(["run", names["hlo"], "--inputs", str(inputs), "--json"]) == 0
    printed = capsys.readouterr().out
    assert '"nan"' in printed
    assert '"inf"' in printed
    strict(printed)


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("opt {folder}/none.hlo", "DumpError", "none.hlo"),
        ("opt {hlo} --passes algsimpl", "UnknownPassError", "algsimp"),
        ("open {check}", "HloParseError", "check.py"),
        ("ls {folder}/nowhere", "DumpError", "nowhere"),
        ("report {hlo} -o {folder}/no/x.html", "ArgumentError", "no/x.html"),
        ("aot {hlo} --cpp-class M --out-function-object {folder}/no/m.o", "FileNotFoundError", "no/m.o"),
    ],
)
def test_an_error_is_json_too(line, kind, words, names, capsys):
    assert main([*line.format(**names).split(), "--json"]) == 1
    told = capsys.readouterr()
    found = strict(told.out)
    assert found["error"] == kind
    assert words in found["message"]
    assert found["message"] in told.err
