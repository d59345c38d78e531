"""Programs of JAX's libraries by xlanb.jit, step by step, and by JAX on the backend xlanb.

The results are JAX's on the CPU.
"""

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
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
# Too large for the extra `peers`; run the programs that need them by
# `python tests/peers/library_programs.py NAME`.
BY_HAND = {"distrax", "jaxopt"}
# One program of each library; the others take minutes together.
QUICK = {
    "linen_mlp_training_step_with_adam",
    "nnx_training_step",
    "optax_lbfgs_until_convergence",
    "equinox_training_step",
    "haiku_dynamic_unroll",
    "diffrax_adaptive_ode",
    "lineax_solvers",
    "optimistix_least_squares_and_root",
    "numpyro_variational_step",
    "blackjax_random_walk_and_hmc",
    "jraph_graph_network_step",
    "penzai_model_with_named_axes",
}
NAMES = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in PROGRAMS.items()
        if not BY_HAND & set(case.needs)
    ],
)


def installed(name: str) -> str:
    if PROGRAMS[name].missing:
        pytest.skip(f"{', '.join(PROGRAMS[name].missing)} not installed")
    return name


@NAMES
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
def differences(request: pytest.FixtureRequest) -> dict[str, str]:
    """Of all programs that are tested on the backend, in one process."""
    asked = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_programs_run_on_the_backend"
    ]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    names = [name for name in asked if not PROGRAMS[name].missing]
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


@NAMES
def test_programs_run_on_the_backend(differences: dict[str, str], name: str) -> None:
    assert differences[installed(name)] == ""
