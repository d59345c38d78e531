"""Programs of JAX's libraries: by xlanb.jit and step by step as the explorer has them, and by JAX on the backend xlanb, with the results that JAX has on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import xlanb

pytest.importorskip("jax")
from tests.peers import library_programs
from tests.peers.library_programs import PROGRAMS, assert_agree, by_jax

ROOT = Path(__file__).parents[2]
# the libraries' own warnings, of what JAX is about to change, are not about xlanb
pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def installed(name: str) -> str:
    if PROGRAMS[name].missing:
        pytest.skip(f"{', '.join(PROGRAMS[name].missing)} not installed")
    return name


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_jax_gives(name: str) -> None:
    case = PROGRAMS[installed(name)]
    with case.precision():
        want = by_jax(*case.build())
        function, args = case.build()
        assert_agree(xlanb.jit(function)(*args), want, case.tolerance)
        function, args = case.build()
        compilation = xlanb.Compilation(function, *args)
        assert_agree(compilation.finish()(*args), want, case.tolerance)
        assert compilation.trace.changed


@pytest.fixture(scope="module")
def differences() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    names = [name for name, case in PROGRAMS.items() if not case.missing]
    done = subprocess.run(
        [sys.executable, library_programs.__file__, *names],
        env=os.environ | {"JAX_PLATFORMS": "xlanb,cpu", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_on_the_backend(differences: dict[str, str], name: str) -> None:
    assert differences[installed(name)] == ""
