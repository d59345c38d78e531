"""Products, einsum, factorizations, diagonals, transforms against numpy.linalg, numpy.fft,
np.einsum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError

rng = np.random.default_rng(0)


def normal(*dims: int, is_complex: bool = False) -> Any:
    x = rng.normal(size=dims)
    return x + 1j * rng.normal(size=dims) if is_complex else x


EQUATIONS = [
    ("ab,bc->ac", (2, 3), (3, 4)), ("abc,abd->acd", (2, 3, 4), (2, 3, 5)), ("...ab,bc->...ac", (2, 5, 3, 4), (4, 6)), ("ab->ba", (2, 3)),
    ("aab->b", (3, 3, 2)), ("abc->b", (2, 3, 4)), ("...a,...a->...", (2, 1, 3), (4, 3)), ("ab,cd->bd", (2, 3), (4, 5)),
    ("aecd,abcd->acbe", (2, 3, 4, 5), (2, 6, 4, 5)), ("i,j->ij", (3,), (4,)), ("ab,ab->", (2, 3), (2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(run_op: Any, case: Any) -> None:
    equation, *shapes = case
    xs = [normal(*s) for s in shapes]
    np.testing.assert_allclose(run_op("Einsum", *xs, equation=equation), np.einsum(equation, *xs))


def test_einsum_that_repeats_a_label_in_the_result(run_op: Any) -> None:
    x = normal(3)
    np.testing.assert_array_equal(run_op("Einsum", x, equation="a->aa"), np.diag(x))


@pytest.mark.parametrize("equation", ["ab,bc", "ab,bc->ad", "abc,bc->a", "a$,bc->a"])
def test_einsum_that_makes_no_sense_names_the_node(run_op: Any, equation: str) -> None:
    with pytest.raises(GraphError, match="'node'"):
        run_op("Einsum", normal(2, 3), normal(3, 4), equation=equation)


def test_batch_matmul_broadcasts_and_conjugates(run_op: Any) -> None:
    x, y = normal(2, 1, 4, 3, is_complex=True), normal(5, 4, 6, is_complex=True)
    np.testing.assert_allclose(run_op("BatchMatMulV2", x, y, adj_x=True), np.conj(x).swapaxes(-1, -2) @ y)


@pytest.mark.parametrize("dims", [(4, 4), (2, 5, 3), (3, 5)])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("is_complex", [False, True])
def test_qr_and_svd_give_the_matrix_back(run_op: Any, dims: tuple[int, ...], full: bool, is_complex: bool) -> None:
    x = normal(*dims, is_complex=is_complex)
    q, r = run_op("Qr", x, outputs=[x.dtype] * 2, full_matrices=full)
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    np.testing.assert_allclose(
        np.conj(q).swapaxes(-1, -2) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)),
        atol=1e-12,
    )
    np.testing.assert_array_equal(r, np.triu(r))
    s, u, v = run_op("Svd", x, outputs=[x.dtype] * 3, full_matrices=full, compute_uv=True)
    k = s.shape[-1]
    np.testing.assert_allclose(s.real, np.linalg.svd(x, compute_uv=False), atol=1e-10)
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ np.conj(v[..., :k]).swapaxes(-1, -2), x, atol=1e-10)
    np.testing.assert_allclose(
        np.conj(u).swapaxes(-1, -2) @ u,
        np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], *[u.shape[-1]] * 2)),
        atol=1e-10,
    )


def test_eigenvalues_of_what_the_lower_triangle_says(run_op: Any) -> None:
    x = normal(2, 5, 5, is_complex=True)
    low = np.tril(x, -1)
    whole = low + np.conj(low).swapaxes(-1, -2) + np.eye(5) * x.real
    e, v = run_op("SelfAdjointEigV2", x, outputs=[x.dtype] * 2, compute_v=True)
    np.testing.assert_allclose(e.real, np.linalg.eigvalsh(whole), atol=1e-10)
    np.testing.assert_allclose(whole @ v, v * e[..., None, :], atol=1e-10)


def test_a_singular_matrix_has_an_svd_too(run_op: Any) -> None:
    x = np.outer([1.0, 2, 3], [1.0, 1, 0])
    s, u, v = run_op("Svd", x, outputs=[x.dtype] * 3, compute_uv=True)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=1e-10)
    np.testing.assert_allclose(u @ np.diag(s) @ v.T, x, atol=1e-10)
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-10)


def test_systems_and_factors(run_op: Any) -> None:
    a, rhs = normal(2, 4, 4), normal(2, 4, 3)
    np.testing.assert_allclose(run_op("MatrixInverse", a), np.linalg.inv(a))
    np.testing.assert_allclose(run_op("MatrixSolve", a, rhs, adjoint=True), np.linalg.solve(a.swapaxes(1, 2), rhs))
    spd = a @ a.swapaxes(1, 2) + np.eye(4)
    np.testing.assert_allclose(run_op("Cholesky", spd), np.linalg.cholesky(spd), atol=1e-12)
    upper = run_op("MatrixTriangularSolve", spd, rhs, lower=False, adjoint=True)
    np.testing.assert_allclose(upper, np.linalg.solve(np.triu(spd).swapaxes(1, 2), rhs))
    with pytest.raises(GraphError, match="square matrices"):
        run_op("Cholesky", normal(3, 2))


def band(x: Any, lower: int, upper: int) -> Any:
    r, c = np.indices(x.shape[-2:])
    return np.where(((lower < 0) | (r - c <= lower)) & ((upper < 0) | (c - r <= upper)), x, 0)


def test_bands_and_diagonals(run_op: Any) -> None:
    x = normal(2, 4, 5)
    for lower, upper in ((0, 1), (-1, 0), (2, -1)):
        np.testing.assert_array_equal(
            run_op("MatrixBandPart", x, np.int32(lower), np.int32(upper)), band(x, lower, upper)
        )
    np.testing.assert_array_equal(run_op("MatrixDiagPart", x), np.diagonal(x, axis1=1, axis2=2))
    assert run_op("Diag", x[0]).shape == (4, 5, 4, 5)
    np.testing.assert_array_equal(run_op("DiagPart", run_op("Diag", x[0])), x[0])


@pytest.mark.parametrize(
    ("x", "k", "message"), [(np.float64(3), [0, 1], "rank"), (np.ones(3), np.ones(0), "k is empty")]
)
def test_diagonals_that_make_no_matrix(run_op: Any, x: Any, k: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_op("MatrixDiagV3", x, np.array(k, np.int32), np.int32(-1), np.int32(-1), np.float64(0), align="LEFT_LEFT")


@pytest.mark.parametrize("align", ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize("k", [(-2, 1), (1, 3), (-3, -1), (2, 2)])
def test_diagonals_taken_and_put_back(run_op: Any, align: str, k: tuple[int, int]) -> None:
    x, numbers = normal(2, 4, 5), np.array(k, np.int32)
    part = run_op("MatrixDiagPartV3", x, numbers, np.float64(9), align=align)
    r, c = np.indices((4, 5))
    inside = np.where((c - r >= k[0]) & (c - r <= k[1]), x, 7.0)
    made = run_op("MatrixDiagV3", part, numbers, np.int32(4), np.int32(5), np.float64(7), align=align)
    np.testing.assert_array_equal(made, inside)
    np.testing.assert_array_equal(run_op("MatrixSetDiagV3", np.full_like(x, 7), part, numbers, align=align), inside)


def test_right_aligned_rows_begin_with_padding(run_op: Any) -> None:
    x = np.arange(9.0).reshape(3, 3)
    part = run_op("MatrixDiagPartV3", x, np.array([-1, 1], np.int32), np.float64(-1), align="RIGHT_LEFT")
    np.testing.assert_array_equal(part, [[-1, 1, 5], [0, 4, 8], [3, 7, -1]])


def test_fourier_transforms(run_op: Any) -> None:
    z, x = normal(2, 4, 6, is_complex=True), normal(2, 4, 6)
    np.testing.assert_allclose(run_op("FFT", z), np.fft.fft(z))
    np.testing.assert_allclose(run_op("IFFT2D", z), np.fft.ifft2(z))
    np.testing.assert_allclose(run_op("RFFT", x, np.array([5], np.int32), outputs=[np.complex128]), np.fft.rfft(x, 5))
    np.testing.assert_allclose(
        run_op("IRFFT2D", z, np.array([4, 7], np.int32), outputs=[np.float64]), np.fft.irfft2(z, (4, 7))
    )
