"""jax.numpy.linalg and jax.scipy.linalg on CPUs: evaluated and compiled by us, and run by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb

pytestmark = pytest.mark.peer
jax = pytest.importorskip("jax")
jnp, lax, jsl = jax.numpy, jax.lax, jax.scipy.linalg

Maker = Callable[[np.random.Generator, Any], Any]


def general(*shape: int) -> Maker:
    def make(rng: np.random.Generator, dtype: Any) -> Any:
        x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0)
        return x.astype(dtype)

    return make


def positive(*shape: int) -> Maker:
    def make(rng: np.random.Generator, dtype: Any) -> Any:
        x = general(*shape)(rng, dtype)
        return (x @ x.swapaxes(-1, -2).conj() + shape[-1] * np.eye(shape[-1])).astype(dtype)

    return make


def negative(*shape: int) -> Maker:
    return lambda rng, dtype: -positive(*shape)(rng, dtype)


def undefined(*shape: int) -> Maker:
    return lambda _, dtype: np.full(shape, np.nan, dtype)


def sizes(x: Any) -> Any:
    """Eigenvectors and singular vectors without their signs and phases."""
    return jax.tree_util.tree_map(lambda v: jnp.abs(v) if v.ndim > 2 else v, x)


def in_order(values: Any) -> Any:
    """Eigenvalues by their real parts: LAPACK's order depends on rounding."""
    return jnp.take_along_axis(values, jnp.argsort(values.real.round(3) + values.imag * 1e-6, axis=-1), -1)


def projections(values: Any, vectors: Any) -> Any:
    """The sum of w v v^H over the eigenvalues w: without their order and the phases of v."""
    return (vectors * values[..., None, :]) @ vectors.conj().swapaxes(-1, -2)


def recomposed(u: Any, s: Any, vh: Any) -> Any:
    """(the matrix, singular values): without the signs of vectors."""
    return (u * s[..., None, :]) @ vh, s


CASES: dict[str, tuple[Callable[..., Any], tuple[Maker, ...]]] = {
    "cholesky": (jnp.linalg.cholesky, (positive(3, 6, 6),)),
    "cholesky of a negative matrix": (jnp.linalg.cholesky, (negative(3, 6, 6),)),
    "cholesky of a matrix with NaN": (lambda a: jnp.linalg.cholesky(a.at[1, 3, 3].set(jnp.nan)), (positive(3, 6, 6),)),
    "cholesky in parts": (
        lambda a: jnp.linalg.cholesky(a.transpose(1, 2, 0)),
        (lambda r, t: positive(3, 6, 6)(r, t).transpose(2, 0, 1).copy(),),
    ),
    "solve": (jnp.linalg.solve, (general(3, 6, 6), general(3, 6, 2))),
    "solve, positive": (lambda a, b: jsl.solve(a, b, assume_a="pos"), (positive(6, 6), general(6, 2))),
    "inv": (jnp.linalg.inv, (general(3, 6, 6),)),
    "inv of NaN": (jnp.linalg.inv, (undefined(3, 3),)),
    "inv, vmapped twice": (jax.vmap(jax.vmap(jnp.linalg.inv)), (general(2, 3, 4, 4),)),
    "det": (jnp.linalg.det, (general(3, 6, 6),)),
    "slogdet": (jnp.linalg.slogdet, (general(3, 6, 6),)),
    "qr": (jnp.linalg.qr, (general(3, 7, 4),)),
    "qr, wide": (jnp.linalg.qr, (general(3, 4, 7),)),
    "qr, complete": (lambda a: jnp.linalg.qr(a, "complete"), (general(7, 4),)),
    "qr, raw": (lambda a: jnp.linalg.qr(a, "raw"), (general(7, 4),)),
    "qr with pivots": (lambda a: lax.linalg.qr(a, pivoting=True, full_matrices=False), (general(6, 4),)),
    "householder_product": (lax.linalg.householder_product, (general(3, 6, 4), general(3, 4))),
    "ormqr": (lambda a, t, c: lax.linalg.ormqr(a, t, c, left=False), (general(6, 4), general(4), general(3, 6))),
    "svd": (lambda a: sizes(jnp.linalg.svd(a)), (general(3, 5, 4),)),
    "svd, thin": (lambda a: sizes(jnp.linalg.svd(a, full_matrices=False)), (general(3, 4, 6),)),
    "svd, values": (lambda a: jnp.linalg.svd(a, compute_uv=False), (general(3, 5, 4),)),
    "svd of NaN": (jnp.linalg.svd, (undefined(3, 3),)),
    "svd by QR": (lambda a: sizes(lax.linalg.svd(a[None], algorithm=lax.linalg.SvdAlgorithm.QR)), (general(5, 4),)),
    "eigh": (lambda a: sizes(tuple(jnp.linalg.eigh(a))), (positive(3, 5, 5),)),
    "eigh, upper": (lambda a: sizes(tuple(jnp.linalg.eigh(a, "U", symmetrize_input=False))), (positive(3, 5, 5),)),
    "eigvalsh": (jnp.linalg.eigvalsh, (positive(3, 5, 5),)),
    "eigh of NaN": (jnp.linalg.eigh, (undefined(3, 3),)),
    "eig": (lambda a: projections(*jnp.linalg.eig(a)), (general(3, 5, 5),)),
    "eig of both sides": (
        lambda a: [projections(lax.linalg.eig(a)[0], v) for v in lax.linalg.eig(a)[1:]],
        (general(3, 5, 5),),
    ),
    "eigvals": (lambda a: in_order(jnp.linalg.eigvals(a)), (general(3, 5, 5),)),
    "eig of NaN": (jnp.linalg.eig, (undefined(3, 3),)),
    "roots": (lambda p: jnp.roots(p, strip_zeros=False), (general(5),)),
    "lstsq": (jnp.linalg.lstsq, (general(7, 4), general(7, 2))),
    "pinv": (jnp.linalg.pinv, (general(3, 7, 4),)),
    "matrix_rank": (jnp.linalg.matrix_rank, (general(3, 7, 4),)),
    "matrix_power": (lambda a: jnp.linalg.matrix_power(a, -3), (general(3, 5, 5),)),
    "cond": (jnp.linalg.cond, (general(3, 5, 5),)),
    "norms": (lambda a: (jnp.linalg.norm(a, 2), jnp.linalg.norm(a, "nuc")), (general(5, 5),)),
    "lu": (jsl.lu, (general(6, 6),)),
    "lu, tall": (lax.linalg.lu, (general(3, 7, 4),)),
    "lu, wide": (lax.linalg.lu, (general(3, 4, 7),)),
    "lu of zeros": (lambda a: lax.linalg.lu(a * 0), (general(4, 4),)),
    "lu_factor and lu_solve": (lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b), (general(40, 40), general(40))),
    "solve_triangular": (lambda a, b: jsl.solve_triangular(a, b, lower=True), (positive(6, 6), general(6, 2))),
    "solve_triangular, adjoint": (lambda a, b: jsl.solve_triangular(a, b, trans=2), (positive(6, 6), general(6, 2))),
    "triangular_solve from the right": (
        lambda a, b: lax.linalg.triangular_solve(a, b, lower=True, transpose_a=True, conjugate_a=True),
        (positive(3, 6, 6), general(3, 2, 6)),
    ),
    "cho_solve": (lambda a, b: jsl.cho_solve(jsl.cho_factor(a), b), (positive(6, 6), general(6, 2))),
    "expm": (jsl.expm, (general(5, 5),)),
    "sqrtm": (jsl.sqrtm, (positive(5, 5),)),
    "schur": (lambda a: jsl.schur(a)[1] @ jsl.schur(a)[0] @ jsl.schur(a)[1].conj().T, (general(5, 5),)),
    "hessenberg": (lambda a: jsl.hessenberg(a, calc_q=True), (general(5, 5),)),
    "tridiagonal": (lax.linalg.tridiagonal, (positive(5, 5),)),
    "tridiagonal, upper": (lambda a: lax.linalg.tridiagonal(a, lower=False), (positive(3, 5, 5),)),
    "tridiagonal_solve": (
        lambda below, d, above, b: lax.linalg.tridiagonal_solve(below, d + 4, above, b),
        (general(6), general(6), general(6), general(6, 2)),
    ),
    "tridiagonal_solve, perturbed": (
        lambda below, d, above, b: lax.linalg.tridiagonal_solve(
            below.at[0].set(0), d, above.at[-1].set(0), b, perturb_singular=True
        ),
        (general(6), general(6), general(6), general(6, 2)),
    ),
    "polar": (jsl.polar, (general(5, 4),)),
    "gradient of cholesky": (jax.grad(lambda a: jnp.linalg.cholesky(a).real.sum()), (positive(5, 5),)),
    "gradient of solve": (jax.grad(lambda a, b: jnp.linalg.solve(a, b).real.sum()), (general(5, 5), general(5))),
    "gradient of eigvalsh": (jax.grad(lambda a: (jnp.linalg.eigvalsh(a) ** 2).sum()), (positive(5, 5),)),
    "gradient of qr": (jax.grad(lambda a: jnp.linalg.qr(a)[1].real.sum()), (general(5, 4),)),
    "gradient of logdet": (jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), (general(5, 5),)),
}


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_as_jax(name: str, dtype: str, rng: np.random.Generator) -> None:
    function, makers = CASES[name]
    with jax.enable_x64(True):
        arrays = [make(rng, np.dtype(dtype)) for make in makers]
        expected = jax.tree_util.tree_leaves(jax.jit(function)(*arrays))
        module = xlanb.from_jax(function, *arrays)
    tolerance = 5e-3 if dtype in ("float32", "complex64") else 1e-9
    for found in (xlanb.evaluate(module, *arrays), xlanb.compile(module)(*arrays)):
        leaves = jax.tree_util.tree_leaves(found)
        assert len(leaves) == len(expected)
        for x, y in zip(leaves, expected, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


LARGER: dict[str, tuple[Callable[..., Any], tuple[Maker, ...]]] = {
    "cholesky": (jnp.linalg.cholesky, (positive(130, 130),)),
    "cholesky, many": (jnp.linalg.cholesky, (positive(5, 40, 5, 5),)),
    "cholesky, many upper": (lambda a: lax.linalg.cholesky(a, symmetrize_input=False), (positive(40, 20, 20),)),
    "cholesky, one of many is negative": (lambda a: jnp.linalg.cholesky(a.at[17].mul(-1)), (positive(40, 6, 6),)),
    "solve": (jnp.linalg.solve, (general(101, 101), general(101))),
    "solve, many": (jax.vmap(jnp.linalg.solve), (general(70, 5, 5), general(70, 5))),
    "inv": (jnp.linalg.inv, (positive(70, 70),)),
    "inv, many": (jnp.linalg.inv, (positive(50, 7, 7),)),
    "det, many": (jnp.linalg.det, (general(50, 5, 5),)),
    "slogdet": (jnp.linalg.slogdet, (general(64, 64),)),
    "slogdet, many": (jnp.linalg.slogdet, (general(33, 9, 9),)),
    "lu, tall": (lax.linalg.lu, (general(150, 100),)),
    "lu, wide and many": (lax.linalg.lu, (general(20, 4, 9),)),
    "cho_solve": (lambda a, b: jsl.cho_solve((jnp.linalg.cholesky(a), True), b), (positive(110, 110), general(110, 9))),
    "solve_triangular, adjoint": (
        lambda a, b: jsl.solve_triangular(a, b, trans=2, lower=True),
        (positive(120, 120), general(120, 5)),
    ),
    "solve_triangular, many with unit diagonals": (
        jax.vmap(lambda a, b: jsl.solve_triangular(a / 9, b, unit_diagonal=True)),
        (general(60, 6, 6), general(60, 6, 2)),
    ),
    "triangular_solve from the right": (
        lambda a, b: lax.linalg.triangular_solve(a, b, lower=True, transpose_a=True),
        (positive(100, 100), general(33, 100)),
    ),
    "qr": (jnp.linalg.qr, (general(70, 33),)),
    "qr, many and complete": (lambda a: jnp.linalg.qr(a, "complete"), (general(40, 9, 5),)),
    "qr with pivots": (lambda a: lax.linalg.qr(a, pivoting=True, full_matrices=False), (general(4, 20, 13),)),
    "ormqr": (
        lambda a, t, c: lax.linalg.ormqr(a / 9, t, c, transpose=True),
        (general(20, 7), general(7), general(20, 9)),
    ),
    "eigh": (lambda a: projections(*jnp.linalg.eigh(a)), (positive(60, 60),)),
    "eigh, many": (lambda a: projections(*jnp.linalg.eigh(a)), (positive(40, 7, 7),)),
    "eigvalsh": (jnp.linalg.eigvalsh, (positive(3, 33, 33),)),
    "svd": (lambda a: recomposed(*jnp.linalg.svd(a, full_matrices=False)), (general(50, 31),)),
    "svd, many and wide": (lambda a: recomposed(*jnp.linalg.svd(a, full_matrices=False)), (general(40, 4, 9),)),
    "svd, values": (lambda a: jnp.linalg.svd(a, compute_uv=False), (general(64, 40),)),
    "pinv of half the rank": (lambda a, b: jnp.linalg.pinv(a @ b, rtol=1e-4), (general(20, 8), general(8, 16))),
    "matrix_rank": (lambda a, b: jnp.linalg.matrix_rank(a @ b), (general(30, 20, 8), general(30, 8, 16))),
    "lstsq": (jnp.linalg.lstsq, (general(50, 10), general(50, 3))),
    "tridiagonal": (lax.linalg.tridiagonal, (positive(4, 33, 33),)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LARGER)
def test_larger_and_many(name: str, dtype: str, rng: np.random.Generator) -> None:
    function, makers = LARGER[name]
    with jax.enable_x64(True):
        arrays = [make(rng, np.dtype(dtype)) for make in makers]
        expected = jax.tree_util.tree_leaves(jax.jit(function)(*arrays))
        module = xlanb.from_jax(function, *arrays)
    exe = xlanb.compile(module)
    assert not exe.program.host
    tolerance = 2e-2 if dtype == "float32" else 1e-9
    for x, y in zip(jax.tree_util.tree_leaves(exe(*arrays)), expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(np.nan_to_num(y)).max())


def test_routines_stand_in_the_list_of_kernels(rng: np.random.Generator) -> None:
    for n, dtype, name in ((3, np.float32, "@lapack.serial.sgetrf.6("), (64, np.complex64, "@lapack.serial.cgetrf.6(")):
        executable = xlanb.compile(xlanb.from_jax(jnp.linalg.inv, general(n, n)(rng, dtype)))
        assert any(name in line for line in executable.llvm_ir.splitlines())
