"""Step through a dump directory in a page from disk: the real XLA's, or one written by xlanb."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import xlanb

sys.path.insert(0, str(Path(__file__).parent))
from stepper import Stepper

PROGRAM = """HloModule jit_step

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[32,64]{1,0} parameter(0)
  one = f32[] constant(1)
  ones = f32[32,64]{1,0} broadcast(one), dimensions={}
  y = f32[32,64]{1,0} multiply(x, ones)
  t = f32[32,64]{1,0} tanh(y)
  zero = f32[] constant(0)
  ROOT s = f32[32]{0} reduce(t, zero), dimensions={1}, to_apply=plus
}
"""
BY_JAX = "import jax; jax.jit(lambda x: (jax.numpy.tanh(x * 1.0)).sum(1))(jax.numpy.ones((32, 64)))"


@pytest.fixture
def dump(tmp_path):
    directory = tmp_path / "dump"
    flags = f"--xla_dump_to={directory} --xla_dump_hlo_pass_re=.*"
    if importlib.util.find_spec("jax"):
        environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        subprocess.run([sys.executable, "-c", BY_JAX], env=environment, check=True, capture_output=True)
    else:
        with xlanb.flags(flags):
            xlanb.compile(PROGRAM)
    return xlanb.read_dump(directory)


def test_a_dump_is_stepped_through_with_no_network(dump, context, tmp_path):
    context.set_offline(True)
    path = tmp_path / "dump.html"
    dump[0].to_html(str(path))
    stepper = Stepper(context.new_page())
    stepper.open(path)
    seen = [stepper.status]
    while stepper.button("Next pass").is_enabled():
        stepper.button("Next pass").click()
        seen.append(stepper.status)
    assert len(seen) == len(dump[0])
    assert any("fusion" in s or "algsimp" in s for s in seen)
    stepper.page.locator(".root").focus()
    stepper.press("t")
    assert stepper.tab == "Text"
    assert stepper.errors == []
    assert stepper.requests == []
