"""Triangular solves as cuBLAS calls: results in the evaluator and on the emulated device."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError
from xlanb.hlo import parse

TEXT = """HloModule m

ENTRY e {
  a = f32[2,3,3] parameter(0)
  b = f32[2,3,4] parameter(1)
  ROOT x = f32[2,3,4] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=ADJOINT
}
"""


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 3, 3)).astype("f") + 4 * np.eye(3, dtype="f"), rng.standard_normal((2, 3, 4)).astype(
        "f"
    )


def test_a_compiled_solve_is_a_solve() -> None:
    a, b = _arrays()
    exe = xlanb.compile(parse(TEXT), target="a100")
    np.testing.assert_allclose(
        np.asarray(exe.emulate(a, b)), np.linalg.solve(np.swapaxes(np.tril(a), 1, 2), b), rtol=1e-5
    )


def test_arrays_that_do_not_fit_are_refused() -> None:
    call = TEXT.replace("triangular-solve(a, b)", "custom-call(a, b)").split(", left_side")[0]
    call += ', custom_call_target="__cublas$triangularSolve", backend_config={"left_side":false}\n}\n'
    with pytest.raises(EvaluationError, match="triangularSolve"):
        xlanb.evaluate(parse(call), *_arrays())
