"""QR by reflections, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.errors import InstructionError

SIZES = [(1, 1), (1, 6), (6, 1), (4, 4), (7, 3), (3, 7), (16, 16), (17, 9), (33, 40), (70, 31)]
KINDS = {"s": (np.float32, 2.0**-23), "d": (np.float64, 2.0**-52)}


def geqrf(lapack, letter, batch, m, n):
    return lapack("geqrf", letter, batch, [(m, n)], [(m, n), (min(m, n),)], "")


def orgqr(lapack, letter, batch, m, n, count):
    return lapack("orgqr", letter, batch, [(m, n), (count,)], [(m, n)], "")


def reflections(packed, scales):
    """The product of the reflections that one packed matrix holds, in double precision."""
    q = np.eye(len(packed))
    for k in reversed(range(len(scales))):
        v = np.concatenate([np.zeros(k), [1.0], packed[k + 1 :, k]])
        q -= scales[k] * np.outer(v, v @ q)
    return q


def check(packed, scales, a, epsilon):
    """Check that the factors of one matrix are those of `a`, and that Q is orthogonal."""
    m, n = a.shape
    q = reflections(packed.astype(np.float64), scales.astype(np.float64))
    bound = 8 * epsilon * np.sqrt(max(m, n))
    largest = np.abs(a).max(initial=0) or 1.0
    np.testing.assert_allclose(q.T @ q, np.eye(m), rtol=0, atol=bound)
    scaled = a.astype(np.float64) / largest
    np.testing.assert_allclose(
        q @ np.triu(packed.astype(np.float64) / largest), scaled, rtol=0, atol=bound * np.sqrt(n)
    )


@pytest.mark.parametrize("letter", ["s", "d"])
def test_reflections_are_lapacks(lapack, rng, letter):
    dtype, epsilon = KINDS[letter]
    for m, n in SIZES:
        batch = (m % 3,) if m % 3 else ()
        a = rng.standard_normal((*batch, m, n)).astype(dtype)
        exe = geqrf(lapack, letter, batch, m, n)
        assert not exe.program.host
        packed, scales = exe(a)
        want, want_scales = np.linalg.qr(a.astype(np.float64), mode="raw")
        np.testing.assert_allclose(packed, want.swapaxes(-1, -2), rtol=0, atol=2000 * epsilon)
        np.testing.assert_allclose(scales, want_scales, rtol=0, atol=2000 * epsilon)


@pytest.mark.parametrize("letter", ["s", "d"])
def test_product_of_reflections(lapack, rng, letter):
    dtype, epsilon = KINDS[letter]
    for m, n, count in [(1, 1, 1), (5, 5, 3), (7, 4, 4), (20, 20, 9), (37, 21, 21), (40, 40, 40), (6, 3, 1)]:
        a = rng.standard_normal((2, m, count)).astype(dtype)
        packed, scales = geqrf(lapack, letter, (2,), m, count)(a)
        wide = np.concatenate([packed, np.full((2, m, n - count), np.nan, dtype)], axis=-1)
        exe = orgqr(lapack, letter, (2,), m, n, count)
        assert not exe.program.host
        q = exe(wide, scales)
        for k in range(2):
            want = reflections(packed[k].astype(np.float64), scales[k].astype(np.float64))[:, :n]
            np.testing.assert_allclose(q[k], want, rtol=0, atol=20 * epsilon)


@pytest.mark.parametrize("width", [512], indirect=True)
@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("power", [-44, -30, 37])
def test_numbers_of_any_size(lapack, rng, letter, power):
    dtype, epsilon = KINDS[letter]
    factor = 10.0 ** (power if letter == "s" else 7 * power)
    exe = geqrf(lapack, letter, (), 9, 7)
    a = (rng.standard_normal((9, 7)) * factor).astype(dtype)
    a[:, 2] = 0
    packed, scales = exe(a)
    # Denormal numbers have few digits.
    check(packed, scales, a, max(epsilon, float(np.nextafter(dtype(0), dtype(1))) / np.abs(a).max()))


@pytest.mark.parametrize("letter", ["s", "d"])
def test_tails_that_hardly_are_there(lapack, letter):
    dtype, epsilon = KINDS[letter]
    least = float(np.finfo(dtype).tiny)
    exe = geqrf(lapack, letter, (), 5, 3)
    for tail in (0.0, least, least * epsilon, 1e-25, 1e20):
        a = np.eye(5, 3, dtype=dtype)
        a[3, 0] = a[4, 1] = tail
        a[2, 2] = -1
        packed, scales = exe(a)
        check(packed, scales, a, epsilon)
        assert (scales[0] == 0) == (tail == 0)
        assert scales[2] == 0


def test_what_is_no_number_stays_none(lapack):
    exe = geqrf(lapack, "s", (), 6, 6)
    for bad in (np.nan, np.inf, -np.inf):
        a = np.eye(6, dtype=np.float32)
        a[3, 3] = a[4, 3] = bad
        packed, scales = exe(a)
        np.testing.assert_array_equal(np.abs(packed[:3, :3]), np.eye(3))
        assert np.isnan(scales[3])


def test_calls_that_are_not_lapacks_are_calls_of_the_runtime(lapack):
    assert orgqr(lapack, "s", (), 4, 3, 4).program.host
    assert geqrf(lapack, "s", (), 0, 4).program.host


@pytest.mark.parametrize("letter", ["c", "z"])
@pytest.mark.parametrize(("m", "n"), [(5, 3), (20, 20), (70, 66)])
def test_complex_factors_are_lapacks(lapack, rng, letter, m, n):
    dtype, epsilon = {"c": (np.complex64, 2.0**-23), "z": (np.complex128, 2.0**-52)}[letter]
    a = (rng.standard_normal((3, m, n)) + 1j * rng.standard_normal((3, m, n))).astype(dtype)
    factor = geqrf(lapack, letter, (3,), m, n)
    make = lapack("ungqr", letter, (3,), [(m, n), (n,)], [(m, n)], "")
    apply = lapack("unmqr", letter, (3,), [(m, n), (n,), (m, n)], [(m, n)], "left = true, transpose = true")
    for exe in (factor, make, apply):
        assert not exe.program.host
    packed, tau = factor(a)
    q, r = make(packed, tau), np.triu(packed)[:, :n]
    bound = 40 * epsilon * m
    np.testing.assert_allclose(q @ r, a, rtol=0, atol=bound)
    np.testing.assert_allclose(q.conj().swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(n), (3, n, n)), rtol=0, atol=bound)
    np.testing.assert_allclose(apply(packed, tau, a)[:, :n], r, rtol=0, atol=bound)


def test_many_are_shared_by_threads(lapack, rng):
    exe = geqrf(lapack, "d", (60,), 20, 20)
    assert exe.program.is_parallel
    a = rng.standard_normal((60, 20, 20))
    packed, _ = exe(a)
    np.testing.assert_allclose(packed, np.linalg.qr(a, mode="raw")[0].swapaxes(-1, -2), rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_matrix_has_factors(data, compiled_once, matrix_of_any_rank):
    letter, a = matrix_of_any_rank(data)
    packed, scales = compiled_once(geqrf, letter, (), *a.shape)(a)
    check(packed, scales, a, KINDS[letter][1])


@pytest.mark.parametrize("letter", ["s", "d"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_products_with_q(lapack, rng, letter, left, transposed):
    dtype, epsilon = KINDS[letter]
    for m, n, count in [(1, 1, 1), (5, 3, 5), (7, 20, 4), (18, 9, 3), (33, 33, 33)]:
        packed, scales = geqrf(lapack, letter, (2,), m, count)(rng.standard_normal((2, m, count)).astype(dtype))
        shape = (m, n) if left else (n, m)
        c = rng.standard_normal((2, *shape)).astype(dtype)
        options = f"left = {str(left).lower()}, transpose = {str(transposed).lower()}"
        exe = lapack("ormqr", letter, (2,), [(m, count), (count,), shape], [shape], options)
        assert not exe.program.host
        made = exe(packed, scales, c)
        for k in range(2):
            q = reflections(packed[k].astype(np.float64), scales[k].astype(np.float64))
            q = q.T if transposed else q
            want = q @ c[k] if left else c[k] @ q
            np.testing.assert_allclose(made[k], want, rtol=0, atol=40 * epsilon)


@pytest.mark.parametrize("letter", ["s", "d"])
def test_the_longest_column_is_next(lapack, rng, letter):
    dtype, epsilon = KINDS[letter]
    for m, n in SIZES:
        exe = lapack("geqp3", letter, (), [(m, n), ("s", n)], [(m, n), ("s", n), (min(m, n),)], "")
        assert not exe.program.host
        for power in (0, -30, 30):
            a = (rng.standard_normal((m, n)) * 10.0 ** (power if letter == "s" else 8 * power)).astype(dtype)
            packed, order, scales = exe(a, np.zeros(n, np.int32))
            assert sorted(order.tolist()) == list(range(1, n + 1))
            check(packed, scales, a[:, order - 1], epsilon)
            diagonal = np.abs(packed.diagonal().astype(np.float64))
            assert (diagonal[1:] <= diagonal[:-1] * (1 + 10 * epsilon)).all()
            lengths = np.linalg.norm(a.astype(np.float64) / np.abs(a).max(), axis=0)
            assert lengths[order[0] - 1] == lengths.max()


def test_columns_that_are_asked_for_come_first(lapack, rng):
    exe = lapack("geqp3", "s", (3,), [(6, 8), ("s", 8)], [(6, 8), ("s", 8), (6,)], "")
    a = rng.standard_normal((3, 6, 8)).astype(np.float32)
    wanted = np.array([[0] * 8, [0, 1, 0, 0, 0, 1, 0, 0], [1] * 8], np.int32)
    packed, order, scales = exe(a, wanted)
    assert order[1, :2].tolist() == [2, 6]
    assert order[2].tolist() == list(range(1, 9))
    for k in range(3):
        check(packed[k], scales[k], a[k][:, order[k] - 1], 2.0**-23)
    assert sorted(exe(np.full_like(a, np.nan), wanted)[1][0].tolist()) == list(range(1, 9))


@pytest.mark.parametrize(("routine", "others"), [("orgqr", []), ("ormqr", [(4, 4)])])
def test_reflections_without_their_factors_are_refused_by_name(lapack, routine, others):
    exe = lapack(routine, "s", (), [(4, 4), (), *others], [(4, 4)], "")
    matrix = np.eye(4, dtype=np.float32)
    with pytest.raises(InstructionError, match=f"{routine} expected batches of arrays with dimensions mk, t"):
        exe(matrix, np.float32(1), *[matrix for _ in others])
