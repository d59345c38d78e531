"""Calls of JAX functions as modules: nested arguments in, nested results out, and `%%xla_jit --lang jax`."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.peers.jax_call import jax_call

jax = pytest.importorskip("jax")


def test_nested_arguments_and_results_keep_their_structure() -> None:
    def f(params, x, unused):
        return {"y": params["w"] @ x + params["b"], "z": (x, params["b"])}

    params = {"w": np.ones((2, 3), np.float32), "b": np.float32(1)}
    x = np.arange(3, dtype=np.float32)
    call = jax_call(f, params, x, 7)
    result = call.assemble(xlanb.compile(call.module)(*call.arguments))
    np.testing.assert_allclose(result["y"], [4, 4])
    np.testing.assert_array_equal(result["z"][0], x)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(XlanbError, match="nothing that JAX compiles"):
        jax_call(3)


def test_arguments_that_jit_drops_are_said() -> None:
    with pytest.raises(XlanbError, match="static, or not used"):
        jax_call(jax.jit(lambda x, _: x + 1), np.float32(1), np.float32(2))


def test_a_cell_that_ends_in_a_call_or_a_function() -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    from tests.notebook.shells import run

    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "xlanb")
    body = "import jax.numpy as jnp\nimport numpy as np\ndef f(p, x):\n    return jnp.tanh(p['w'] * x)\n"
    called, _ = run(shell, f"%%xla_jit -q --check --lang jax\n{body}f({{'w': np.float32(2)}}, x=np.float32(1))")
    given, _ = run(shell, f"%%xla_jit -q --lang jax --args ({{'w':2.0}},1.0)\n{body}f")
    InteractiveShell.clear_instance()
    np.testing.assert_allclose(called.result, np.tanh(2.0), rtol=1e-5)
    np.testing.assert_allclose(given.result, np.tanh(2.0), rtol=1e-5)
