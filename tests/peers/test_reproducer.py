"""A crash of the real XLA, made small and written down: a file that needs JAX alone ends its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xlanb.explorer import failing
from xlanb.explorer.reproducer import reproducer
from xlanb.hlo import HloOpcode, parse
from xlanb.peers.xla import real
from xlanb.reducer import reduction

pytestmark = pytest.mark.peer

# The kind of https://github.com/openxla/xla/issues/47366: a comparator that calls another computation. Around it a
# program that has nothing to do with it.
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
    """Reassociation: the real XLA folds (x + 1e8) - 1e8; with a tolerance of a last bit that is a difference."""
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
