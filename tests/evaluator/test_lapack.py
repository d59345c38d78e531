"""LAPACK custom calls: each result satisfies its defining equation."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate
from xlanb.evaluator.factorizations import perturbed_tridiagonal_solve, schur
from xlanb.shape.primitive_type import from_dtype

L, U, N, T, C, R, A, S, V = (ord(c) for c in "LUNTCRASV")
TYPES = pytest.mark.parametrize("letter", "sdcz")
DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def numbers(rng, letter, *shape):
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if letter in "cz" else 0)
    return x.astype(DTYPES[letter])


def positive(rng, letter, *shape):
    x = numbers(rng, letter, *shape)
    return (x @ adjoint(x) + np.eye(shape[-1])).astype(x.dtype)


def adjoint(x):
    return x.swapaxes(-1, -2).conj()


def real(letter):
    return {"c": "s", "z": "d"}.get(letter, letter)


def near(a, b):
    """Whether values are equal within the precision of the narrower type."""
    tolerance = 3e-4 if np.asarray(a).dtype in (np.float32, np.complex64) else 1e-9
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def call(target, results, *arrays, **options):
    """The results of lapack_TARGET_ffi.

    `results` are (dtype, dimensions); matrices are column-major.
    """

    def text(dtype, dims):
        order = list(range(len(dims)))[::-1]
        if len(order) >= 2:
            order[:2] = order[1::-1]
        layout = f"{{{','.join(map(str, order))}}}" if dims else ""
        return f"{from_dtype(np.dtype(dtype))}[{','.join(map(str, dims))}]{layout}"

    parameters = [f"p{k} = {text(x.dtype, x.shape)} parameter({k})" for k, x in enumerate(arrays)]
    names = ", ".join(f"p{k}" for k in range(len(arrays)))
    shape = ", ".join(text(*r) for r in results)
    shape = f"({shape})" if len(results) > 1 else shape
    config = ", ".join(f"{k} = {str(v).lower() if isinstance(v, bool) else f'{v} : ui8'}" for k, v in options.items())
    body = "\n".join(parameters)
    return evaluate(
        f'HloModule m\nENTRY e {{\n{body}\nROOT r = {shape} custom-call({names}), custom_call_target="lapack_{target}_ffi", '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={{{config}}}\n}}",
        *arrays,
    )


@TYPES
@pytest.mark.parametrize("shape", [(3, 6, 6), (2, 7, 4), (4, 7), (70, 70), (1, 1)])
def test_lu(rng, letter, shape):
    a = numbers(rng, letter, *shape)
    *batch, m, n = shape
    k = min(m, n)
    packed, pivots, info = call(
        f"{letter}getrf", [(a.dtype, shape), (np.int32, (*batch, k)), (np.int32, tuple(batch))], a
    )
    rows = np.broadcast_to(np.arange(m), (*batch, m)).copy()
    for at in np.ndindex(*batch):
        for j, p in enumerate(pivots[at]):
            rows[at][[j, p - 1]] = rows[at][[p - 1, j]]
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k)
    near((lower @ np.triu(packed[..., :k, :])).astype(a.dtype), np.take_along_axis(a, rows[..., None], -2))
    assert not info.any()
    assert np.abs(lower).max() <= (1 if letter in "sd" else 1.5)


def test_the_first_pivot_that_is_zero_is_named():
    a = np.stack([np.diag([1.0, 0, 2]), np.eye(3)])
    _, _, info = call("dgetrf", [(a.dtype, a.shape), (np.int32, (2, 3)), (np.int32, (2,))], a)
    assert info.tolist() == [2, 0]


@pytest.mark.parametrize("other", [np.inf, -np.inf, np.nan])
def test_singular_values_of_what_is_not_finite_are_nan(other):
    rows = [[3e38, 0, 0, 2, 0], [-1, -3, 0, 1, 2], [other, -2, 1, 2, -2], [-1, 2, -2, -1, 1], [1, 2, -1, -1, -3]]
    a = np.array(rows, np.complex64)  # with -inf, NumPy's routine does not end
    shapes = [(np.complex64, (5, 5)), (np.float32, (5,)), *[(np.complex64, (5, 5))] * 2, (np.int32, ())]
    _, s, left, right, info = call("cgesdd", shapes, a, mode=S)
    assert info == -4
    assert all(np.isnan(x).all() for x in (s, left, right))


@TYPES
@pytest.mark.parametrize("uplo", [L, U])
def test_eigenvalues_read_one_triangle(rng, letter, uplo):
    a = numbers(rng, letter, 4, 4)
    a = a + a.conj().T
    shapes = [(a.dtype, a.shape), (DTYPES[real(letter)], (4,)), (np.int32, ())]
    name = f"{letter}{'sy' if letter in 'sd' else 'he'}evd"
    for is_read in (False, True):
        given = a.copy()
        given[(3, 0) if is_read == (uplo == L) else (0, 3)] = np.nan
        _, values, info = call(name, shapes, given, mode=N, uplo=uplo)
        assert info == (-4 if is_read else 0)
        assert np.isnan(values).all() if is_read else np.allclose(values, np.linalg.eigvalsh(a), atol=1e-4)


@TYPES
@pytest.mark.parametrize("uplo", [L, U])
def test_cholesky_reads_and_writes_one_triangle(rng, letter, uplo):
    a = positive(rng, letter, 3, 5, 5)
    a[1] -= 100 * np.diag([0, 0, 1, 0, 0])
    keep, other = (np.tril, np.triu) if uplo == L else (np.triu, np.tril)
    given = keep(a) + other(np.full_like(a, 7), 1 if uplo == L else -1)
    factor, info = call(f"{letter}potrf", [(a.dtype, a.shape), (np.int32, (3,))], given, uplo=uplo)
    assert info.tolist() == [0, 3, 0]
    half = keep(factor[::2])
    near(half @ adjoint(half) if uplo == L else adjoint(half) @ half, a[::2])
    outside = keep(np.ones((5, 5))) == 0
    np.testing.assert_array_equal(factor[:, outside], given[:, outside])


@TYPES
@pytest.mark.parametrize("uplo", [L, U])
@pytest.mark.parametrize("trans", [N, T, C])
@pytest.mark.parametrize("side", [L, R])
@pytest.mark.parametrize("size", [4, 70])
def test_triangular_systems(rng, letter, uplo, trans, side, size):
    a = numbers(rng, letter, size, size) / size + np.eye(size, dtype=DTYPES[letter])
    b = numbers(rng, letter, size, 3) if side == L else numbers(rng, letter, 3, size)
    for diag in (N, U):
        x = call(f"{letter}trsm", [(b.dtype, b.shape)], a, b, uplo=uplo, trans_x=trans, side=side, diag=diag)
        matrix = np.tril(a) if uplo == L else np.triu(a)
        if diag == U:
            np.fill_diagonal(matrix, 1)
        matrix = {N: matrix, T: matrix.T, C: matrix.conj().T}[trans]
        near(matrix @ x if side == L else x @ matrix, b)


@TYPES
@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (2, 5, 5)])
def test_reflections_make_q(rng, letter, shape):
    a = numbers(rng, letter, *shape)
    *batch, m, n = shape
    k = min(m, n)
    packed, scales = call(f"{letter}geqrf", [(a.dtype, shape), (a.dtype, (*batch, k))], a)
    name = "orgqr" if letter in "sd" else "ungqr"
    q = call(f"{letter}{name}", [(a.dtype, (*batch, m, k))], packed[..., :k], scales)
    near(q @ np.triu(packed[..., :k, :]), a)
    near((adjoint(q) @ q).astype(a.dtype), np.broadcast_to(np.eye(k), (*batch, k, k)))
    name = "ormqr" if letter in "sd" else "unmqr"
    c = numbers(rng, letter, *batch, m, 3)
    turned = call(f"{letter}{name}", [(a.dtype, c.shape)], packed[..., :k], scales, c, left=True, transpose=True)
    near(turned[..., :k, :], adjoint(q) @ c)
    back = call(f"{letter}{name}", [(a.dtype, c.shape)], packed[..., :k], scales, turned, left=True, transpose=False)
    near(back, c)
    d = adjoint(c).copy()
    right = call(f"{letter}{name}", [(a.dtype, d.shape)], packed[..., :k], scales, d, left=False, transpose=False)
    near(right, adjoint(turned))


@TYPES
@pytest.mark.parametrize("name", ["gqr", "mqr"])
def test_reflections_and_scales_may_be_one_array(letter, name):
    a = np.full((1, 1), -1, DTYPES[letter])
    t, one = from_dtype(a.dtype), 1 if letter in "sd" else "(1, 0)"
    target = f"lapack_{letter}{'or' if letter in 'sd' else 'un'}{name}_ffi"
    made = evaluate(
        f"HloModule m\nENTRY e {{\n a = {t}[1,1]{{0,1}} parameter(0)\n s = {t}[1]{{0}} reshape(a)\n c = {t}[1,1]{{0,1}} constant({{ {{{one}}} }})\n"
        f' ROOT r = {t}[1,1]{{0,1}} custom-call(a, s{", c" if name == "mqr" else ""}), custom_call_target="{target}", '
        "api_version=API_VERSION_TYPED_FFI, backend_config={left = true, transpose = false}\n}",
        a,
    )
    assert made == 2
    assert a == -1


@TYPES
def test_pivoted_qr_puts_the_longest_column_first(rng, letter):
    a = numbers(rng, letter, 6, 4)
    results = [(a.dtype, a.shape), (np.int32, (4,)), (a.dtype, (4,))]
    for wanted in ([0, 0, 0, 0], [0, 0, 1, 0]):
        packed, order, scales = call(f"{letter}geqp3", results, a, np.array(wanted, np.int32))
        q = call(f"{letter}{'or' if letter in 'sd' else 'un'}gqr", [(a.dtype, a.shape)], packed, scales)
        near(q @ np.triu(packed[:4]), a[:, order - 1])
        assert order[0] == (3 if any(wanted) else 1 + np.argmax(np.linalg.norm(a, axis=0)))
        sizes = np.abs(packed.diagonal())[any(wanted) :]
        assert (np.diff(sizes) <= 0).all()


@TYPES
@pytest.mark.parametrize("name", ["gesdd", "gesvd"])
@pytest.mark.parametrize("mode", [A, S, N])
def test_singular_values(rng, letter, name, mode):
    a = numbers(rng, letter, 2, 5, 3)
    u, v = (5, 3) if mode == A else (3, 3)
    shapes = [
        (a.dtype, a.shape),
        (DTYPES[real(letter)], (2, 3)),
        (a.dtype, (2, 5, u)),
        (a.dtype, (2, 3, v)),
        (np.int32, (2,)),
    ]
    a[1, 0, 0] = np.nan
    _, s, left, right, info = call(f"{letter}{name}", shapes, a, mode=mode)
    near(s[0], np.linalg.svd(a[0], compute_uv=False))
    assert np.isnan(s[1]).all()
    assert info.tolist() == [0, -4]
    if mode != N:
        near((left[0, :, :3] * s[0]) @ right[0], a[0])


@TYPES
@pytest.mark.parametrize("uplo", [L, U])
def test_hermitian_eigenvalues(rng, letter, uplo):
    a = positive(rng, letter, 2, 5, 5)
    given = (np.tril if uplo == L else np.triu)(a)
    name = "syevd" if letter in "sd" else "heevd"
    shapes = [(a.dtype, a.shape), (DTYPES[real(letter)], (2, 5)), (np.int32, (2,))]
    vectors, values, info = call(f"{letter}{name}", shapes, given, mode=V, uplo=uplo)
    near(a @ vectors, vectors * values[..., None, :])
    near(call(f"{letter}{name}", shapes, given, mode=N, uplo=uplo)[1], values)
    assert not info.any()


@TYPES
def test_eigenvalues(rng, letter):
    a = numbers(rng, letter, 2, 5, 5)
    wide = np.result_type(a.dtype, np.complex64)
    values = [(a.dtype, (2, 5))] * (2 if letter in "sd" else 1)
    shapes = [*values, (wide, a.shape), (wide, a.shape), (np.int32, (2,))]
    *w, left, right, info = call(f"{letter}geev", shapes, a, compute_left=V, compute_right=V)
    w = w[0] + 1j * w[1] if letter in "sd" else w[0]
    near(a @ right, (right * w[..., None, :]).astype(wide))
    near(adjoint(left) @ a, (w[..., None] * adjoint(left)).astype(wide))
    assert not info.any()


@pytest.mark.parametrize("size", [1, 2, 3, 8, 40])
@TYPES
def test_schur(rng, letter, size):
    a = numbers(rng, letter, size, size)
    t, z, values, left = schur(a)
    assert left == 0
    scale = np.linalg.norm(a)
    near((z @ t @ adjoint(z) / scale).astype(a.dtype), a / scale)
    near(adjoint(z) @ z, np.eye(size, dtype=a.dtype))
    expected = np.linalg.eigvals(a)
    assert all(np.abs(expected - v).min() < 1e-2 for v in values)
    assert not np.tril(t, -2).any()
    for k in np.flatnonzero(t.diagonal(-1)):
        assert letter in "sd"
        assert t[k, k] == t[k + 1, k + 1]
        assert t[k, k + 1] * t[k + 1, k] < 0


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((4, 4)),
        np.eye(4),
        np.diag(np.ones(5), -1) + np.diag([1.0], 5),
        np.roll(np.eye(6), 1, 0),
        np.triu(np.ones((5, 5))),
        np.tril(np.ones((5, 5))),
        np.array([[2.0, 1], [-1, 0]]),
        np.array([[1.0, 1e-30], [1e30, 1]]),
        np.full((4, 4), 1e-310),
    ],
)
def test_schur_of_special_matrices(a):
    for matrix in (a, a.astype(np.complex128)):
        t, z, _, left = schur(matrix)
        assert left == 0
        np.testing.assert_allclose(z @ t @ adjoint(z), a, rtol=1e-9, atol=1e-12 * max(np.abs(a).max(), 1e-300))


def test_schur_of_what_is_not_finite_is_nan():
    t, _, values, left = schur(np.array([[np.inf, 1], [1, 1]]))
    assert left == -4
    assert np.isnan(t).all()
    assert np.isnan(values).all()


@TYPES
def test_schur_by_its_name(rng, letter):
    a = numbers(rng, letter, 2, 4, 4)
    values = [(a.dtype, (2, 4))] * (2 if letter in "sd" else 1)
    shapes = [(a.dtype, a.shape), (a.dtype, a.shape), *values, (np.int32, (2,)), (np.int32, (2,))]
    t, z, *_, info = call(f"{letter}gees", shapes, a, mode=V, sort=N)
    near(z @ t @ adjoint(z), a)
    assert not info.any()


@TYPES
def test_hessenberg(rng, letter):
    a = numbers(rng, letter, 2, 5, 5)
    shapes = [(a.dtype, a.shape), (a.dtype, (2, 4)), (np.int32, (2,))]
    packed, scales, _ = call(f"{letter}gehrd", shapes, a, low=1, high=5)
    q = np.zeros_like(a)
    q[:, 0, 0] = 1
    name = "orgqr" if letter in "sd" else "ungqr"
    q[:, 1:, 1:] = call(f"{letter}{name}", [(a.dtype, (2, 4, 4))], packed[:, 1:, :-1].copy(), scales)
    near(q @ np.triu(packed, -1) @ adjoint(q), a)


@TYPES
@pytest.mark.parametrize("uplo", [L, U])
def test_tridiagonal_form_keeps_the_eigenvalues(rng, letter, uplo):
    a = positive(rng, letter, 2, 5, 5)
    part = DTYPES[real(letter)]
    shapes = [(a.dtype, a.shape), (part, (2, 5)), (part, (2, 4)), (a.dtype, (2, 4)), (np.int32, (2,))]
    name = "sytrd" if letter in "sd" else "hetrd"
    given = (np.tril if uplo == L else np.triu)(a)
    packed, diagonal, off, scales, _ = call(f"{letter}{name}", shapes, given, uplo=uplo)
    for k in range(2):
        t = np.diag(diagonal[k]) + np.diag(off[k], 1) + np.diag(off[k], -1)
        near(np.linalg.eigvalsh(t).astype(part), np.linalg.eigvalsh(a[k]))
        if uplo == L:
            q = np.eye(5, dtype=a.dtype)
            form = "orgqr" if letter in "sd" else "ungqr"
            q[1:, 1:] = call(f"{letter}{form}", [(a.dtype, (4, 4))], packed[k, 1:, :-1].copy(), scales[k])
            near(q @ t.astype(part) @ adjoint(q), a[k])


@TYPES
def test_tridiagonal_systems(rng, letter):
    below, diagonal, above = (numbers(rng, letter, 3, 6) for _ in range(3))
    b = numbers(rng, letter, 3, 6, 2)
    diagonal[0, 2] = 0
    shapes = [(b.dtype, (3, 6))] * 3 + [(b.dtype, b.shape), (np.int32, (3,))]
    *_, x, info = call(f"{letter}gtsv", shapes, below, diagonal, above, b)
    for k in range(3):
        a = np.diag(diagonal[k]) + np.diag(above[k, :-1], 1) + np.diag(below[k, 1:], -1)
        np.testing.assert_allclose(a @ x[k], b[k], rtol=1e-2, atol=1e-2 if letter in "sc" else 1e-9)
    assert not info.any()


def test_nothing_comes_of_nothing():
    a = np.zeros((0, 3, 3))
    packed, pivots, info = call("dgetrf", [(a.dtype, a.shape), (np.int32, (0, 3)), (np.int32, (0,))], a)
    assert (packed.shape, pivots.shape, info.shape) == ((0, 3, 3), (0, 3), (0,))


def test_a_missing_option_is_named():
    a = np.eye(2)
    with pytest.raises(EvaluationError, match="the option uplo is missing"):
        call("dpotrf", [(a.dtype, a.shape), (np.int32, ())], a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_singular_tridiagonal_systems_have_finite_solutions(rng, dtype, n):
    below, above, b = rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal((n, 2)).astype(dtype)
    below[0] = above[-1] = 0
    matrix = np.diag(below[1:], -1) + np.diag(above[:-1], 1) if n > 1 else np.zeros((1, 1))
    shift = np.linalg.eigvals(matrix)[0] if dtype == np.complex64 else 0.0
    diagonal = np.full(n, -shift)
    x = perturbed_tridiagonal_solve(below.astype(dtype), diagonal.astype(dtype), above.astype(dtype), b)
    assert np.isfinite(x).all()
    zeros = np.zeros(n, dtype)
    assert np.isfinite(perturbed_tridiagonal_solve(zeros, zeros, zeros, b)).all()


def test_regular_tridiagonal_systems_are_not_perturbed(rng):
    below, diagonal, above = rng.standard_normal((3, 6))
    b = rng.standard_normal((6, 2))
    matrix = np.diag(diagonal + 4) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
    x = perturbed_tridiagonal_solve(below, diagonal + 4, above, b)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-12)


@pytest.mark.parametrize(
    ("target", "results", "operands", "takes"),
    [
        ("dorgqr", [(7, 9)], [(7, 7), (7, 9)], "batches of arrays with dimensions mk, t"),
        ("dorgqr", [(7, 3)], [(7, 3), (4,)], "batches of arrays with dimensions mk, t"),
        ("dormqr", [(5, 2)], [(7, 3), (3,), (5, 2)], "mk, t, mn"),
        ("dpotrf", [(3, 4), ()], [(3, 4)], "nn"),
        ("dtrsm", [(4, 2)], [(3, 3), (4, 2)], "nn, nk"),
        ("dgetrf", [(3, 3), (3,), ()], [(3, 3), (3, 3)], "takes 1 arrays"),
        ("dgeqrf", [(3,), (3,)], [(3,)], "mn"),
        ("dgeqrf", [(3, 3), (3,), ()], [(3, 3)], "has 2 results, not 3"),
    ],
)
def test_operands_that_do_not_fit_are_refused(target, results, operands, takes):
    options = {"uplo": L, "side": L, "trans_x": N, "diag": N}
    with pytest.raises(EvaluationError, match=takes):
        call(target, [(np.float64, dims) for dims in results], *map(np.ones, operands), **options)
