"""A crash of the real XLA, reduced and written down: a file that needs only JAX ends its
process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlanb.cli import main
from xlanb.explorer import failing
from xlanb.explorer.reproducer import reproducer
from xlanb.hlo import HloOpcode, parse
from xlanb.peers import xla
from xlanb.peers.xla import real
from xlanb.reducer import reduction

pytestmark = pytest.mark.peer

# As in https://github.com/openxla/xla/issues/47366: a comparator that calls another computation,
# inside an unrelated program.
CRASH = """HloModule scores

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

by_powers {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  i = f32[4] iota(), iota_dimension=0
  many = f32[4] broadcast(p), dimensions={}
  powers = f32[4] power(i, many)
  zero = f32[] constant(0)
  total = f32[] reduce(powers, zero), dimensions={0}, to_apply=add
  ROOT less = pred[] compare(total, q), direction=LT
}

ENTRY main {
  x = f32[16,8] parameter(0)
  w = f32[8,32] parameter(1)
  h = f32[16,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[16,32] tanh(h)
  zero = f32[] constant(0)
  s = f32[16] reduce(t, zero), dimensions={1}, to_apply=add
  e = f32[16] exponential(s)
  sorted = f32[16] sort(e), dimensions={0}, to_apply=by_powers
  n = f32[16] negate(sorted)
  c = f32[16] cosine(n)
  ROOT r = (f32[16], f32[16,32]) tuple(c, t)
}
"""


def test_a_crash_of_the_real_xla_is_reduced_and_written_down(tmp_path: Path) -> None:
    test = failing.dies(real=True, message="Map key not found")
    if not test(parse(CRASH)):
        pytest.fail("this version of XLA has the fault no more: choose another one for this test")
    small = reduction(CRASH, test, seconds=60)
    kinds = {i.opcode for i in small.module.instructions()}
    assert HloOpcode.SORT in kinds
    assert not kinds & {HloOpcode.DOT, HloOpcode.TANH, HloOpcode.COSINE}
    assert small.module.instruction_count <= 14
    made = small.reproducer()
    assert made.needs == ("jax",)
    assert "Map key not found" in made.text
    path = made.write(tmp_path / "crash.py")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, env=environment, timeout=120, check=False)
    assert ended.returncode == -signal.SIGABRT


def test_what_the_real_xla_computes_is_compared_with_what_was_expected(tmp_path: Path) -> None:
    """Reassociation: the real XLA folds (x + 1e8) - 1e8, a difference at a tolerance of one ulp."""
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[] constant(1e8)
  b = f32[4] broadcast(c), dimensions={}
  a = f32[4] add(x, b)
  ROOT s = f32[4] subtract(a, b)
}"""
    x = np.array([0.5, 1.25, 3.0, -7.0], np.float32)
    test = failing.differs(failing.interpreted, real, 1e-6)
    other = failing.differs(real, failing.interpreted, 1e-6)
    if not test(parse(text), x):
        pytest.fail("this version of XLA does not reassociate here: choose another program for this test")
    for fault, needs in ((test, "xlanb"), (other, "jax")):
        made = reproducer(text, fault, x)
        assert made.needs == (needs,)
        ended = subprocess.run(
            [sys.executable, "-c", made.text], capture_output=True, text=True, timeout=120, check=False
        )
        assert (ended.returncode, "Not equal to tolerance" in ended.stderr) == (1, True), ended.stderr


def test_what_the_real_xla_made_of_a_program_is_a_file_for_jax_alone(tmp_path: Path) -> None:
    """If jax.jit differs from the function itself, the rule is named; the file needs no xlanb."""
    jnp = pytest.importorskip("jax.numpy")

    def near(x: Any) -> Any:
        return jnp.cos(jnp.tanh((x + 1e8) - 1e8) * x)

    x = np.array([0.5, 1.25, 3.0, -7.0], np.float32)
    trace = xla.trace(near, x, runs=1)
    found = trace.bisect()
    assert found.is_replay
    assert found.stage is not None, "this version of XLA does not reassociate here: choose another program"
    assert "xlanb's algsimp changes them too on the same module" in str(found)
    assert "(A + C1) + C2 => A + (C1 + C2)" in str(found)
    made = found.reproducer(seconds=20)
    assert made.needs == ("jax",)
    assert "with XLA_FLAGS=--xla_disable_hlo_passes=algsimp the fault is gone" in made.text
    assert "cosine" not in made.text
    path = made.write(tmp_path / "fault.py")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for flags, status in (("", 1), ("--xla_disable_hlo_passes=algsimp", 0)):
        command = [sys.executable, str(path)]
        ended = subprocess.run(
            command, capture_output=True, env=environment | {"XLA_FLAGS": flags}, timeout=120, check=False
        )
        assert ended.returncode == status, ended.stderr


def test_results_of_the_real_xla_belong_to_the_arrays_that_it_ran_on() -> None:
    x = np.array([0.5, np.nan], np.float32)
    text = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT n = f32[2] negate(x)\n}"
    trace = xla.trace(text, x, runs=1)
    assert trace.results_on((x.copy(),)) is not None
    assert trace.results_on((x + 1,)) is None
    assert not trace.bisect().changed
    trace.results[0] = x
    found = trace.bisect()
    assert (found.stage, found.changed) == (None, True)
    assert not trace.bisect(x + 1).changed


def test_bisect_by_xla_takes_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("near.py").write_text(
        "import numpy as np\n\ndef near(x):\n    return (x + 1e8) - 1e8\n\nx = np.array([0.5, -7], np.float32)\n"
    )
    assert main(["bisect", "near.py:near", "--args", "x", "--by", "xla", "--reproducer", "fault.py"]) == 1
    assert "fault.py reproduces it" in capsys.readouterr().out
    assert "import xlanb" not in Path("fault.py").read_text()
