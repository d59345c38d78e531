"""The search for out-of-bounds accesses: finds them, says where, and continues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect and fork")

SLICE = "HloModule m\nENTRY e {{ p = f32[{0}] parameter(0) ROOT r = f32[4] slice(p), slice={{[0:{0}:{1}]}} }}"


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import tests.fuzz.guard as g\n{code}"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_read_beside_an_array_is_found_and_named(tmp_path):
    """Vectors that read past the last lane, as they once did."""
    modules = [SLICE.format(19, 6), SLICE.format(4, 1)]
    out = run(
        "from pathlib import Path\nfrom xlanb.codegen import memory\n"
        "memory._strided_runs = lambda step, width: [*range(0, step * width, width)]\n"
        f"c = g.Campaign(1, 200.0, Path({str(tmp_path)!r}))\n"
        f"c.run(g.items((f'slice {{k}}', lambda t=t: t) for k, t in enumerate({modules!r})))\n"
        "print(dict(c.outcomes))"
    )
    lines = out.splitlines()
    assert lines[-1] == "{'died of SIGSEGV': 1, 'ran': 1}"
    assert lines[0] == "slice 0: died of SIGSEGV: reads behind argument 0 (1 thread, end, spread, stacks)"
    assert (tmp_path / "slice_0.hlo").read_text() == modules[0]
    assert (tmp_path / "slice_0.why").read_text().startswith(lines[0])


def test_a_result_that_depends_on_former_contents_is_found(tmp_path):
    out = run(
        "from pathlib import Path\nfrom tests.cpu import guard_pages\n"
        "plain = g.run_guarded\n"
        "g.run_guarded = lambda *a, fill, **k: [bytes([fill])] + plain(*a, fill=fill, **k)\n"
        f"c = g.Campaign(1, 200.0, Path({str(tmp_path)!r}))\n"
        f"c.run(g.items([('m', lambda: {SLICE.format(4, 1)!r})]))\nprint(c.found)"
    )
    assert "result 0 depends on what its memory held before (1 thread, end, spread, stacks)" in out


def test_the_command_line_checks_files_folders_and_random_modules(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.hlo").write_text(SLICE.format(4, 1))
    (tmp_path / "bad.hlo").write_text("HloModule broken\n")
    command = [sys.executable, "-m", "tests.fuzz.guard", tmp_path / "in", tmp_path / "bad.hlo"]
    command += ["--minutes", "0.05", "--seed", "7", "--jobs", "1", "--timeout", "200", "--folder", tmp_path / "found"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 7\n")
    counts = {what: int(count) for count, what in (line.split(maxsplit=1) for line in done.stdout.splitlines()[1:-1])}
    assert counts["refused"] >= 1  # bad.hlo, and goldens with calls of GPU libraries
    assert counts["ran"] >= 1
