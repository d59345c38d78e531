"""cholesky and triangular-solve by kernels, in both layouts, against the interpreter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xlanb.cpu import CompileOptions, compile_module
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

CASES = [((), 1), ((), 6), ((3,), 5), ((2, 9), 4), ((), 33), ((2,), 40), ((5,), 17), ((), 130), ((0,), 3), ((2,), 0)]
LAYOUTS = {"rows": lambda r: range(r)[::-1], "columns": lambda r: [r - 2, r - 1, *range(r - 2)[::-1]]}


def text(dims, order):
    layout = ",".join(str(d) for d in LAYOUTS[order](len(dims)))
    return f"[{','.join(map(str, dims))}]{{{layout}}}"


def build(lines):
    return parse("HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n")


def run(module, *arguments):
    exe = compile_module(module, CompileOptions(pipeline=HloPassPipeline("none")))
    assert not exe.program.host or not exe.hlo_module.entry_computation.root.shape.element_count
    return exe(*arguments)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky(width, positive, dtype, order, lower):
    del width
    for batch, n in CASES:
        shape = text((*batch, n, n), order)
        module = build([f"a = {dtype}{shape} parameter(0)", f"ROOT c = {dtype}{shape} cholesky(a), lower={lower}"])
        a = positive(batch, n, np.float32 if dtype == "f32" else np.float64)
        if len(batch) == 1 and batch[0] > 2:
            a[1] = -a[1]
            a[2, n - 1, n - 1] = -1
        got, want = run(module, a), evaluate(module, a)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0, atol=(1e-5 if dtype == "f32" else 1e-13) * (1 + n / 8))


@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("batch", [3, 70])
def test_a_matrix_with_nan_has_no_cholesky_factor(positive, batch, order, lower):
    shape = text((batch, 4, 4), order)
    module = build([f"a = f32{shape} parameter(0)", f"ROOT c = f32{shape} cholesky(a), lower={lower}"])
    a = positive((batch,), 4, np.float32)
    a[0, 2, 2] = np.nan
    a[1, 2, 1], a[2, 1, 2] = np.nan, np.nan
    got, want = run(module, a), evaluate(module, a)
    assert np.isnan(got).all((1, 2)).tolist() == [True, lower == "true", lower == "false"] + [False] * (batch - 3)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("left", "lower", "unit"), list(product(("true", "false"), repeat=3)))
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(width, rng, left, lower, unit, transpose):
    del width
    for k, (batch, n) in enumerate(CASES):
        m = (3, 1, 20, 9)[k % 4]
        orders = [(a, b) for a in LAYOUTS for b in LAYOUTS][k % 4]
        shapes = (*batch, n, n), (*batch, *((n, m) if left == "true" else (m, n)))
        a, b = (text(s, order) for s, order in zip(shapes, orders, strict=True))
        dtype, real = (("f32", np.float32), ("f64", np.float64))[k % 2]
        module = build([
            f"a = {dtype}{a} parameter(0)", f"b = {dtype}{b} parameter(1)",
            f"ROOT x = {dtype}{b} triangular-solve(a, b), left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={transpose}",
        ])  # fmt: skip
        given = [rng.standard_normal(s).astype(real) for s in shapes]
        given[0] = (given[0] / max(n, 1) + np.eye(n)).astype(real)
        got, want = run(module, *given), evaluate(module, *given)
        np.testing.assert_allclose(got, want, rtol=0, atol=(2e-5 if dtype == "f32" else 1e-13) * (1 + n / 8))


@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize(("batch", "n"), [((), 3), ((2,), 9), ((), 66)])
def test_complex_cholesky(rng, order, lower, batch, n):
    shape = text((*batch, n, n), order)
    module = build([f"a = c128{shape} parameter(0)", f"ROOT c = c128{shape} cholesky(a), lower={lower}"])
    x = rng.standard_normal((*batch, n, n)) + 1j * rng.standard_normal((*batch, n, n))
    a = x @ x.conj().swapaxes(-1, -2) + n * np.eye(n)
    if batch:
        a[0, n - 1, n - 1] = -1
    got, want = run(module, a), evaluate(module, a)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-13 * n)
    for factor in (got[0], want[0]) if batch else ():  # as in XLA:CPU
        assert np.isnan(factor.real).all()
        assert (factor.imag == 0).all()
        assert not np.signbit(factor.imag).any()


@pytest.mark.parametrize(("left", "lower", "unit"), list(product(("true", "false"), repeat=3)))
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("orders", list(product(LAYOUTS, repeat=2)))
def test_complex_triangular_solve(rng, left, lower, unit, transpose, orders):
    n, m = 20, 7
    shapes = (n, n), ((n, m) if left == "true" else (m, n))
    a, b = (text(s, order) for s, order in zip(shapes, orders, strict=True))
    module = build([
        f"a = c64{a} parameter(0)", f"b = c64{b} parameter(1)",
        f"ROOT x = c64{b} triangular-solve(a, b), left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={transpose}",
    ])  # fmt: skip
    given = [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(np.complex64) for s in shapes]
    given[0] = (given[0] / n + np.eye(n)).astype(np.complex64)
    exe = compile_module(module, CompileOptions(pipeline=HloPassPipeline("none")))
    # BLAS does not conjugate without transposing, which operands of different layouts would need
    assert bool(exe.program.host) == (transpose == "ADJOINT" and orders[0] != orders[1])
    np.testing.assert_allclose(exe(*given), evaluate(module, *given), rtol=0, atol=1e-4)
