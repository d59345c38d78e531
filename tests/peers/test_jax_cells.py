"""Cells that end in a call of a JAX function: detected, run compiled, with the function's
result.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.notebook.shells import printed, run

jax = pytest.importorskip("jax")
pytest.importorskip("IPython")

BODY = "import jax, jax.numpy as jnp\nimport numpy as np\ndef f(p, x):\n    return {'y': jnp.tanh(p['w'] * x)}\n"
CALL = "f({'w': np.float32(2)}, x=np.float32(1))"


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("--lang jax", CALL),
        ("", CALL),
        ("", f"jax.jit({CALL.replace('(', ')(', 1)}"),
        ("--lang jax --args ({'w':2.0},1.0)", "f"),
        ("--args ({'w':2.0},1.0)", "jax.jit(f)"),
        ("-f f --args ({'w':2.0},1.0)", ""),
    ],
)
def test_a_call_is_compiled(shell, line, end):
    result, _ = run(shell, f"%%xla_jit -q --check -o seen {line}\n{BODY}{end}")
    assert result.success
    np.testing.assert_allclose(result.result["y"], np.tanh(2.0), rtol=1e-5)
    assert shell.user_ns["seen"].trace.program is not None


def test_a_call_that_jax_cannot_trace_is_made_as_it_is(shell):
    cell = f"%%xla_jit -q -o seen\n{BODY}def g(x):\n    return float(f({{'w': x}}, x)['y']) + 1\ng(np.float32(2))"
    result, _ = run(shell, cell)
    np.testing.assert_allclose(result.result, np.tanh(4.0) + 1, rtol=1e-5)
    assert not shell.user_ns["seen"].traces


def test_what_is_no_function_is_refused(shell):
    result, captured = run(shell, "%%xla_jit --lang jax\n7")
    assert not result.success
    assert "pass a function and its arguments" in printed(captured)


def test_hlo_is_found_by_itself(shell):
    cell = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] negate(p)\n}"
    result, _ = run(
        shell, f"%%xla_jit -q --args [np.ones(2,np.float32)]\n{cell}".replace("np.", "__import__('numpy').")
    )
    np.testing.assert_array_equal(result.result, [-1, -1])
