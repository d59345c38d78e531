"""StableHLO text through every door: compile, trace, evaluate, Compilation, the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import xlanb
from xlanb.cli import main

TEXT = """// printed by as_text()
module @jit_f {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "f.txt"
    file.write_text(TEXT)
    return str(file)


@pytest.mark.parametrize("door", [xlanb.compile, lambda t: lambda x: xlanb.evaluate(t, x)], ids=["compile", "evaluate"])
def test_programs_run(door):
    np.testing.assert_array_equal(door(TEXT)(X), X * X)


def test_programs_are_traced():
    assert xlanb.trace(TEXT).name == "jit_f"
    xlanb.Compilation(TEXT).finish()


def test_open_prints_the_hlo(path, capsys):
    assert main(["open", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith("HloModule jit_f")
    assert "multiply(%Arg_0, %Arg_0)" in out
    assert main(["open", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["instructions"] == 2


def test_open_shows_the_line_at_fault(tmp_path, capsys):
    file = tmp_path / "bad.mlir"
    file.write_text(TEXT.replace("%arg0, %arg0", "%arg0, %arg1"))
    assert main(["open", str(file)]) != 0
    error = capsys.readouterr().err
    assert "bad.mlir" in error
    assert "4:36: %arg1 is not defined here" in error


def test_the_command_line_takes_stablehlo(path, capsys):
    assert main(["opt", path, "--passes", "algsimp"]) == 0
    assert "HloModule jit_f" in capsys.readouterr().out
    assert main(["run", path, "--reference", "evaluator"]) == 0
    assert "agrees" in capsys.readouterr().out


def test_hlo_is_opened_too(tmp_path, capsys):
    file = tmp_path / "m.hlo"
    file.write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[2]{0} parameter(0)\n}\n")
    assert main(["open", str(file)]) == 0
    assert capsys.readouterr().out.startswith("HloModule m")


def test_bytecode_needs_jax():
    """In a process where JAX cannot be imported, as where it is not installed."""
    code = (
        "import sys; sys.modules['jax'] = sys.modules['jaxlib'] = None\n"
        "import xlanb\nfrom xlanb.errors import MissingPeerError\n"
        f"assert (xlanb.compile({TEXT!r})(__import__('numpy').ones(4, 'f4')) == 1).all()\n"
        "try:\n    xlanb.compile(b'ML\\xefR' + bytes(8))\n"
        "except MissingPeerError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "JAX is not installed" in done.stdout
