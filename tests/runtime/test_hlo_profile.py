"""--xla_hlo_profile prints kernel times after each run; log lines that users grep for."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.cpu.executable import Executable
from xlanb.cpu.profile import is_blurred
from xlanb.cpu.records import KernelTime
from xlanb.runtime import hlo_profile, launch

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


def test_the_service_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_logged_platforms", set())

    def run() -> list[str]:
        program = line_fit()
        caplog.clear()
        with xlanb.flags("--tf_xla_auto_jit=2"), tf.Session(program.graph) as session:
            session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
            session.run(program.loss, program.feeds)
        return [r.getMessage() for r in caplog.records if "platform Host" in r.msg % r.args or "StreamExec" in r.msg]

    with caplog.at_level(logging.WARNING, "xlanb"):
        assert run() == []  # nothing asks for it
    with caplog.at_level(logging.INFO, "xlanb"):
        service, device = run()
        assert run() == []
    assert service.startswith("XLA service 0x")
    assert service.endswith("initialized for platform Host (this does not guarantee that XLA will be used). Devices:")
    assert device == "  StreamExecutor device (0): Host, Default Version"


def test_what_is_too_short_for_the_clock_has_no_rate_and_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of a tenth of the clock's grain: 1640 % of the memory bandwidth is meaningless."""
    runs: list[int] = []

    def kernel_times(_exe: Executable, _arrays: Any, count: int, **_named: Any) -> tuple[list[KernelTime], list[int]]:
        runs.append(count)
        return [KernelTime("k", "t", 1e-9, 3280, 64, limit=1.64e-8, bound="memory", grain=1e-8)], [1]

    monkeypatch.setattr(hlo_profile, "kernel_times", kernel_times)
    text = hlo_profile.profile_text(xlanb.compile(TEXT), (np.eye(64, dtype=np.float32),))
    assert runs == [1, 200]
    for line in text.splitlines()[1:]:
        assert "< grain of the clock" in line
        assert not re.search(r"% of|\d [KMGT]?B/s|\d [KMGT]?FLOP/s", line)


def test_a_share_of_a_limit_needs_a_time_that_the_clock_can_tell() -> None:
    short = KernelTime("k", "k", 1e-8, 1600, limit=1.64e-7, bound="memory", grain=2e-8)
    assert (short.is_measured, short.of_limit) == (False, None)
    long = KernelTime("k", "k", 4e-7, 1600, limit=1e-7, bound="memory", grain=2e-8)
    assert long.of_limit == pytest.approx(0.25)
    assert [is_blurred([t]) for t in (short, long)] == [True, False]


CELL_TEXT = """HloModule m

ENTRY e {
  x = f32[64,64] parameter(0)
  ROOT t = f32[64,64] tanh(x), metadata={op_name="jit(f)/tanh" source_file="/tmp/ipykernel_71/123.py" source_line=6}
}
"""


def test_a_kernel_names_the_cell_of_its_line_not_the_file_that_the_shell_keeps() -> None:
    exe = xlanb.compile(CELL_TEXT)
    times, _ = hlo_profile.kernel_times(exe, (np.eye(64, dtype=np.float32),), 1)
    assert [t.source for t in times] == ["cell:6"]
    assert xlanb.trace(CELL_TEXT).lineage("t").lines == ("cell:6",)
