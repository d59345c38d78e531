"""`%%xla_jit --target`: the cell's program for absent hardware."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from tests.notebook.shells import printed, run, texts
from xlanb.peers.targets.trace import TargetTrace

pytest.importorskip("jax")
pytest.importorskip("IPython")
pytestmark = pytest.mark.target
HAS_GPU = find_spec("jax_plugins") is not None and find_spec("jax_plugins.xla_cuda12") is not None
gpu = pytest.mark.skipif(not HAS_GPU, reason="XLA:GPU is not installed: pip install 'xlanb[gpu]'")

BODY = "import jax, jax.numpy as jnp\nx = jnp.ones((64, 64))\ndef f(x):\n    return jax.nn.softmax(x @ x)\n"
HLO = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] negate(p)\n}"


@gpu
@pytest.mark.parametrize(
    ("line", "cell"),
    [("", f"{BODY}f(x)"), ("--args x", f"{BODY}f"), ("-f f --args x", BODY), ("", HLO)],
    ids=["call", "function", "named", "hlo"],
)
def test_the_program_at_the_end_is_compiled(shell: Any, line: str, cell: str) -> None:
    result, _ = run(shell, f"%%xla_jit --target h100 -q -o seen {line}\n{cell}")
    assert result.success, result.error_in_exec
    assert result.result is None
    trace = shell.user_ns["seen"].trace
    assert isinstance(trace, TargetTrace)
    assert "ENTRY" in trace.final_text


@gpu
def test_several_targets_are_shown_together(shell: Any) -> None:
    result, captured = run(shell, f"%%xla_jit --target 'h100,a100' -o seen\n{BODY}f(x)")
    assert result.success
    assert [t.target.name for t in shell.user_ns["seen"].traces] == ["h100", "a100"]
    assert "estimated us" in texts(captured)


@gpu
def test_what_is_no_program_is_refused(shell: Any) -> None:
    result, captured = run(shell, f"%%xla_jit --target h100\n{BODY}y = 3\ny + 1")
    assert not result.success
    assert "needs a cell that ends in a program" in printed(captured)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--target h1000", "did you mean 'h100'"),
        ("--target h100 --check", "--check: a program for h100 is only compiled, not run"),
        ("--target h100 -r 3", "--repeat: a program"),
        ("--target ','", "--target is empty: give h100"),
    ],
)
def test_wrong_options_are_refused_before_the_cell_runs(shell: Any, line: str, message: str) -> None:
    result, captured = run(shell, f"%%xla_jit {line}\nran = True")
    assert not result.success
    assert message in printed(captured)
    assert "ran" not in shell.user_ns


@gpu
def test_ours_stands_beside_the_real_one(shell: Any) -> None:
    result, captured = run(shell, f"%%xla_jit --target 'xlanb a100,a100' -o seen\n{BODY}f(x)")
    assert result.success, result.error_in_exec
    own, real = shell.user_ns["seen"].traces
    assert own.stages[-1].kind == real.stages[-1].kind == "gpu_program"
    assert isinstance(real, TargetTrace)
    assert "xlanb a100" in texts(captured)
