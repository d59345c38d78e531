"""--xla_hlo_profile prints the time of each kernel after each run; the lines of the log that people grep for."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf

TEXT = """HloModule tower

ENTRY main {
  x = f32[64,64] parameter(0)
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="MatMul" op_name="layer/product"}
  ROOT t = f32[64,64] tanh(d)
}
"""
LINE = re.compile(
    r"\s*(\d+) cycles \(\s*([\d.]+)%\s+(\d+)Σ\) ::\s+([\d.]+) usec \(\s*([\d.]+) optimal\) ::\s+(\d+) flops ::.* (\d+) bytes ::.*:: (.*)"
)


def test_every_run_prints_its_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.eye(64, dtype=np.float32)
    with xlanb.flags("--xla_hlo_profile"):
        exe = xlanb.compile(TEXT)
    np.testing.assert_allclose(exe(x), np.tanh(x), rtol=1e-5)
    exe(x)
    profiles = capsys.readouterr().out.split("Execution profile for ")[1:]
    assert [p.split(":")[0] for p in profiles] == ["tower", "tower"]
    rows = [m.groups() for m in map(LINE.fullmatch, profiles[0].splitlines()[1:]) if m is not None]
    assert rows[0][7] == "[total] [entry]"
    assert rows[0][1:3] == ("100.00", "100")
    kernels = rows[1:]
    assert kernels
    assert sum(float(r[1]) for r in kernels) == pytest.approx(100, abs=0.1)
    assert int(kernels[-1][2]) == 100
    assert sum(int(r[5]) for r in kernels) == int(rows[0][5]) >= 2 * 64**3
    assert all(float(r[4]) > 0 for r in kernels)
    assert re.search(r":: +\d+% of (memory|compute) ::", profiles[0])
    assert any('metadata={op_name="layer/product"}' in r[7] for r in kernels)
    assert [float(r[3]) for r in kernels] == sorted((float(r[3]) for r in kernels), reverse=True)


def test_without_the_flag_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    xlanb.compile(TEXT)(np.eye(64, dtype=np.float32))
    assert capsys.readouterr().out == ""


def test_of_a_session_the_clusters_are_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    program = line_fit()
    with xlanb.flags("--tf_xla_auto_jit=2 --xla_hlo_profile"), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.loss, program.feeds)
    assert capsys.readouterr().out.count("Execution profile for cluster_0") == 1


def test_the_lines_that_people_grep_for(caplog: pytest.LogCaptureFixture) -> None:
    program = line_fit()
    with (
        caplog.at_level(logging.DEBUG, "xlanb"),
        xlanb.flags("--tf_xla_auto_jit=2"),
        tf.Session(program.graph) as session,
    ):
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.loss, program.feeds)
    lines = [(r.levelno, r.getMessage()) for r in caplog.records if r.name.startswith("xlanb")]
    for text in (
        "Graph after optimization",
        "_XlaLaunch",
        "XlaCompilationCache::Compile cluster_0(",
        "Running HLO pass pipeline optimization",
        "XlaCompiler::CompileFunction cluster_0",
    ):
        assert [level for level, line in lines if text in line][:1] == [logging.INFO], text
    assert [level for level, line in lines if "Found uncompilable node" in line][:1] == [logging.DEBUG]
    assert any(level == logging.DEBUG and "HLO pass algsimp" in line for level, line in lines)
