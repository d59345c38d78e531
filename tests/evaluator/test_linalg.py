"""dot, convolution, decompositions, transforms, normalization, random bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.shape.primitive_type import BY_TEXT


def run(body, *arrays):
    return evaluate(f"HloModule m\nENTRY e {{ {body} }}", *arrays)


def f32(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_dot_with_batches_and_several_contractions(rng):
    x, y = f32(rng, 3, 4, 5, 2), f32(rng, 5, 6, 4, 3)
    text = """x = f32[3,4,5,2] parameter(0)
 y = f32[5,6,4,3] parameter(1)
 ROOT d = f32[4,2,6] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={2}, lhs_contracting_dims={0,2}, rhs_contracting_dims={3,0}"""
    np.testing.assert_allclose(run(text, x, y), np.einsum("abcd,cfba->bdf", x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("t", ["f32", "bf16", "f64"])
def test_a_dot_of_one_term_is_a_product(t):
    dtype = BY_TEXT[t].dtype
    x, y = np.zeros((2, 1), dtype), np.array([[-1, 2, -0.0]], dtype)
    text = f"x = {t}[2,1] parameter(0)\n y = {t}[1,3] parameter(1)\n ROOT d = {t}[2,3] dot(x, y), "
    made = run(text + "lhs_contracting_dims={1}, rhs_contracting_dims={0}", x, y)
    assert made.dtype == dtype
    assert np.signbit(made.astype(np.float32)).tolist() == [[True, False, True]] * 2


@pytest.mark.parametrize("inner", [2, 40])
@pytest.mark.parametrize(("t", "dtype"), [("c64", np.complex64), ("c128", np.complex128)])
def test_an_infinite_part_leaves_the_other_part_of_a_complex_dot(t, dtype, inner):
    x, y = np.zeros((9, inner), dtype), np.ones((inner, 9), dtype)
    x[0, 0] = complex(-np.inf, 2)
    y[0] = 0
    y[0, 0] = 1
    text = f"x = {t}[9,{inner}] parameter(0)\n y = {t}[{inner},9] parameter(1)\n ROOT d = {t}[9,9] dot(x, y), "
    made = run(text + "lhs_contracting_dims={1}, rhs_contracting_dims={0}", x, y)
    np.testing.assert_array_equal(made.real[0, :1], [-np.inf])
    assert np.isnan(made.imag[0, 0])  # 2 * 1 + -inf * 0
    assert np.isfinite(made[1:]).all()


@pytest.mark.parametrize(
    ("a", "b", "o"),
    [
        ("s8", "s8", "s32"),
        ("u8", "s8", "s32"),
        ("s8", "s8", "s8"),
        ("s64", "s64", "s64"),
        ("u32", "u32", "u32"),
        ("s4", "s4", "s32"),
    ],
)
def test_integer_dots_are_exact_modulo_the_result(rng, a, b, o):
    def numbers(t, shape):
        bits = BY_TEXT[t].bits
        low = -(2 ** (bits - 1)) if BY_TEXT[t].is_signed else 0
        return rng.integers(low, low + 2**bits - 1, shape, dtype=np.int64 if low else np.uint64)

    x, y = numbers(a, (3, 7)), numbers(b, (7, 2))
    exact = x.astype(object) @ y.astype(object)
    bits = BY_TEXT[o].bits
    wrapped = [[int(v) % 2**bits for v in row] for row in exact]
    result = run(
        f"x = {a}[3,7] parameter(0)\n y = {b}[7,2] parameter(1)\n ROOT d = {o}[3,2] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        x.astype(BY_TEXT[a].dtype),
        y.astype(BY_TEXT[b].dtype),
    )
    assert [[int(v) % 2**bits for v in row] for row in result] == wrapped


def test_narrow_dots_accumulate_in_f32():
    x = np.full((1, 1000), 1, ml_dtypes.bfloat16)
    result = run(
        "x = bf16[1,1000] parameter(0)\n ROOT d = f32[1,1] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        x,
    )
    assert result == 1000


def test_ragged_dot(rng):
    x, y, sizes = f32(rng, 9, 5), f32(rng, 3, 5, 4), np.array([2, 4, 1], np.int32)
    text = """x = f32[9,5] parameter(0)
 y = f32[3,5,4] parameter(1)
 g = s32[3] parameter(2)
 ROOT d = f32[9,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"""
    expected = np.vstack([x[0:2] @ y[0], x[2:6] @ y[1], x[6:7] @ y[2], np.zeros((2, 4))])
    np.testing.assert_allclose(run(text, x, y, sizes), expected, rtol=1e-5, atol=1e-6)
    text = """x = f32[5,9] parameter(0)
 y = f32[9,4] parameter(1)
 g = s32[3] parameter(2)
 ROOT d = f32[3,5,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"""
    z = f32(rng, 9, 4)
    expected = np.stack([x.T[:, 0:2] @ z[0:2], x.T[:, 2:6] @ z[2:6], x.T[:, 6:7] @ z[6:7]])
    np.testing.assert_allclose(run(text, x.T.copy(), z, sizes), expected, rtol=1e-5, atol=1e-5)


def test_ragged_dot_of_no_groups():
    text = """HloModule m
ENTRY e {
 x = f32[9,5] parameter(0)
 y = f32[0,5,4] parameter(1)
 g = s32[0] parameter(2)
 ROOT d = f32[9,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
}"""
    arguments = np.ones((9, 5), np.float32), np.zeros((0, 5, 4), np.float32), np.zeros(0, np.int32)
    for got in (xlanb.evaluate(text, *arguments), xlanb.compile(text)(*arguments)):
        np.testing.assert_array_equal(got, np.zeros((9, 4), np.float32))


def test_group_sizes_for_each_row_before_the_ragged_dimension(rng):
    x, y = f32(rng, 2, 4, 5), f32(rng, 4, 5, 3)
    sizes = rng.integers(0, 3, (4, 2))
    text = """x = f32[2,4,5] parameter(0)
 y = f32[4,5,3] parameter(1)
 g = s64[4,2] parameter(2)
 ROOT d = f32[2,2,3] ragged-dot(x, y, g), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}, lhs_ragged_dims={2}"""
    expected = np.zeros((2, 2, 3))
    for row, (first, second) in enumerate(sizes):
        for group, part in enumerate((slice(0, first), slice(first, first + second))):
            expected[group] += x[:, row, part] @ y[row, part]
    np.testing.assert_allclose(run(text, x, y, sizes), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_a_triangular_solve_with_zeros_on_the_diagonal(rng, t):
    a = np.tril(rng.integers(-3, 4, (15, 15)).astype({"f32": np.float32, "f64": np.float64}[t]))
    a[np.diag_indices(15)] = 2
    a[7, 7] = a[9, 9] = 0
    b = rng.integers(1, 4, (15, 4)).astype(a.dtype)
    text = f"""a = {t}[15,15] parameter(0)
 b = {t}[15,4] parameter(1)
 ROOT r = {t}[15,4] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"""
    solved = run(text, a, b)
    np.testing.assert_allclose(solved[:7], np.linalg.solve(a[:7, :7], b[:7]), rtol=1e-4, atol=1e-4)
    assert not np.isfinite(solved[7]).any()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_only_what_follows_a_zero_of_the_diagonal_is_not_finite(left, lower, transpose):
    a = np.array([[2, 1, 1, 1], [1, 2, 1, 1], [1, 1, 0, 1], [1, 1, 1, 2]], np.float32)
    flags = f"left_side={str(left).lower()}, lower={str(lower).lower()}, unit_diagonal=false, transpose_a={transpose}"
    text = f"a = f32[4,4] parameter(0)\n b = f32[4,4] parameter(1)\n ROOT c = f32[4,4] triangular-solve(a, b), {flags}"
    x = run(text, a, np.ones((4, 4), np.float32))
    is_finite = np.isfinite(x if left else x.T).all(axis=1)
    comes_last = lower == (left == (transpose == "NO_TRANSPOSE"))  # solved from the first row to the last
    assert is_finite.tolist() == ([True, True, False, False] if comes_last else [False, False, False, True])


def test_scaled_dot(rng):
    x, y = f32(rng, 4, 64), f32(rng, 64, 3)
    a, b = 2.0 ** rng.integers(-2, 3, (4, 2)), 2.0 ** rng.integers(-2, 3, (2, 3))
    text = """x = bf16[4,64] parameter(0)
 y = bf16[64,3] parameter(1)
 a = bf16[4,2] parameter(2)
 b = bf16[2,3] parameter(3)
 ROOT d = f32[4,3] scaled-dot(x, y, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    x, y, a, b = (v.astype(ml_dtypes.bfloat16) for v in (x, y, a, b))
    expected = (x.astype(float) * np.repeat(a.astype(float), 32, 1)) @ (
        y.astype(float) * np.repeat(b.astype(float), 32, 0)
    )
    np.testing.assert_allclose(run(text, x, y, a, b), expected, rtol=1e-5, atol=1e-4)


def convolved_one_by_one(x, k, stride, pads, base, dilation, reverse):
    """A one-dimensional convolution b0f_0io->b0f by loops."""
    n, size, c = x.shape
    spread = np.zeros((n, (size - 1) * base + 1, c))
    spread[:, ::base] = x
    line = np.pad(spread, ((0, 0), pads, (0, 0)))
    kernel = k[::-1] if reverse else k
    extent = (k.shape[0] - 1) * dilation + 1
    places = range(0, line.shape[1] - extent + 1, stride)
    out = [sum(line[:, p + j * dilation] @ kernel[j] for j in range(k.shape[0])) for p in places]
    return np.stack(out, axis=1) if out else np.zeros((n, 0, k.shape[2]))


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.integers(1, 2),
    st.integers(1, 2),
    st.booleans(),
)
def test_convolution_in_one_dimension(width, stride, pads, base, dilation, reverse):
    x = np.arange(2 * 5 * 2, dtype=np.float32).reshape(2, 5, 2)
    k = np.arange(width * 2 * 3, dtype=np.float32).reshape(width, 2, 3) - 4
    expected = convolved_one_by_one(x, k, stride, pads, base, dilation, reverse)
    window = (
        f"size={width} stride={stride} pad={pads[0]}_{pads[1]} lhs_dilate={base} "
        f"rhs_dilate={dilation} rhs_reversal={int(reverse)}"
    )
    text = f"x = f32[2,5,2] parameter(0)\n k = f32[{width},2,3] parameter(1)\n ROOT c = f32{list(expected.shape)} convolution(x, k), window={{{window}}}, dim_labels=b0f_0io->b0f"
    np.testing.assert_allclose(run(text, x, k), expected)


def test_products_of_narrow_integers_wrap_before_they_become_predicates():
    """As in XLA: -16 is 0 in four bits."""
    text = (
        "HloModule m\nENTRY e {\n  x = s4[1,2,1] parameter(0)\n  k = pred[1,1,1] parameter(1)\n"
        "  ROOT c = pred[1,1,1] convolution(x, k), window={size=SIZE}, dim_labels=b0f_0io->b0f\n}"
    )
    x = np.full((1, 2, 1), -8).astype(ml_dtypes.int4)
    module = parse(text.replace("SIZE", "2").replace("pred[1,1,1] parameter", "pred[2,1,1] parameter"))
    k = np.ones((2, 1, 1), bool)
    assert not evaluate(module, x, k).any()
    assert not np.asarray(xlanb.compile(module)(x, k)).any()


def test_grouped_convolutions(rng):
    x, k = f32(rng, 2, 4, 4, 6), f32(rng, 3, 3, 2, 9)
    text = "x = f32[2,4,4,6] parameter(0)\n k = f32[3,3,2,9] parameter(1)\n ROOT c = f32[2,2,2,9] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=3"
    one = "x = f32[2,4,4,2] parameter(0)\n k = f32[3,3,2,3] parameter(1)\n ROOT c = f32[2,2,2,3] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f"
    expected = np.concatenate(
        [run(one, x[..., 2 * g : 2 * g + 2].copy(), k[..., 3 * g : 3 * g + 3].copy()) for g in range(3)],
        axis=-1,
    )
    np.testing.assert_allclose(run(text, x, k), expected, rtol=1e-4, atol=1e-5)
    x, k = f32(rng, 6, 4, 4, 2), f32(rng, 3, 3, 2, 9)
    text = "x = f32[6,4,4,2] parameter(0)\n k = f32[3,3,2,9] parameter(1)\n ROOT c = f32[2,2,2,9] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=3"
    expected = np.concatenate(
        [run(one, x[2 * g : 2 * g + 2], k[..., 3 * g : 3 * g + 3].copy()) for g in range(3)],
        axis=-1,
    )
    np.testing.assert_allclose(run(text, x, k), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_lower", [True, False])
def test_cholesky(rng, is_lower):
    a = f32(rng, 2, 4, 4)
    a = a @ a.transpose(0, 2, 1) + 4 * np.eye(4, dtype=np.float32)
    half = np.tril(a) if is_lower else np.triu(a)
    factor = run(
        f"a = f32[2,4,4] parameter(0)\n ROOT c = f32[2,4,4] cholesky(a), lower={str(is_lower).lower()}",
        half,
    )
    product = factor @ factor.transpose(0, 2, 1) if is_lower else factor.transpose(0, 2, 1) @ factor
    np.testing.assert_allclose(product, a, rtol=1e-4, atol=1e-4)


def test_cholesky_of_what_is_not_positive_definite_is_nan():
    a = np.stack([np.eye(2), -np.eye(2)]).astype(np.float32)
    result = run("a = f32[2,2,2] parameter(0)\n ROOT c = f32[2,2,2] cholesky(a), lower=true", a)
    np.testing.assert_array_equal(result[0], np.eye(2))
    assert np.isnan(result[1]).all()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(rng, left, lower, transpose, unit):
    a = (rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4)) + 4 * np.eye(4)).astype(np.complex64)
    b = f32(rng, 4, 4).astype(np.complex64)
    flags = (
        f"left_side={str(left).lower()}, lower={str(lower).lower()}, "
        f"unit_diagonal={str(unit).lower()}, transpose_a={transpose}"
    )
    x = run(
        f"a = c64[4,4] parameter(0)\n b = c64[4,4] parameter(1)\n ROOT c = c64[4,4] triangular-solve(a, b), {flags}",
        a,
        b,
    )
    matrix = np.tril(a) if lower else np.triu(a)
    if unit:
        np.fill_diagonal(matrix, 1)
    matrix = {"NO_TRANSPOSE": matrix, "TRANSPOSE": matrix.T, "ADJOINT": matrix.conj().T}[transpose]
    np.testing.assert_allclose(matrix @ x if left else x @ matrix, b, rtol=1e-3, atol=1e-3)


def test_fft(rng):
    x = f32(rng, 2, 9)
    np.testing.assert_allclose(
        run("x = f32[2,9] parameter(0)\n ROOT f = c64[2,5] fft(x), fft_type=RFFT, fft_length={9}", x),
        np.fft.rfft(x),
        rtol=1e-4,
        atol=1e-4,
    )
    back = run(
        "x = f32[2,9] parameter(0)\n f = c64[2,5] fft(x), fft_type=RFFT, fft_length={9}\n ROOT b = f32[2,9] fft(f), fft_type=IRFFT, fft_length={9}",
        x,
    )
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-5)


def test_batch_normalisation(rng):
    x = f32(rng, 8, 3)
    y, mean, variance = run(
        "x = f32[8,3] parameter(0)\n s = f32[3] constant({1,2,3})\n o = f32[3] constant({0,1,0})\n ROOT b = (f32[8,3], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.1, feature_index=1",
        x,
    )
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(0), rtol=1e-5)
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 0.1) * [1, 2, 3] + [0, 1, 0]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    inference = run(
        "x = f32[8,3] parameter(0)\n s = f32[3] constant({1,2,3})\n o = f32[3] constant({0,1,0})\n m = f32[3] parameter(1)\n v = f32[3] parameter(2)\n ROOT b = f32[8,3] batch-norm-inference(x, s, o, m, v), epsilon=0.1, feature_index=1",
        x,
        mean,
        variance,
    )
    np.testing.assert_allclose(inference, expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_batch_normalisation_is_a_difference_quotient(rng):
    x, dy = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    text = "x = f64[6,2] parameter(0)\n s = f64[2] constant({2,3})\n m = f64[2] parameter(1)\n v = f64[2] parameter(2)\n g = f64[6,2] parameter(3)\n ROOT b = (f64[6,2], f64[2], f64[2]) batch-norm-grad(x, s, m, v, g), epsilon=0.1, feature_index=1"
    dx, ds, do = run(text, x, x.mean(0), x.var(0), dy)

    def loss(z):
        return ((z - z.mean(0)) / np.sqrt(z.var(0) + 0.1) * [2, 3] * dy).sum()

    step = 1e-6
    for at in np.ndindex(6, 2):
        shifted = x.copy()
        shifted[at] += step
        assert dx[at] == pytest.approx((loss(shifted) - loss(x)) / step, abs=1e-4)
    np.testing.assert_allclose(do, dy.sum(0))
    np.testing.assert_allclose(ds, (dy * (x - x.mean(0)) / np.sqrt(x.var(0) + 0.1)).sum(0))


@pytest.mark.parametrize("target", ["topk(x), k=3, largest=true", 'custom-call(x), custom_call_target="TopK"'])
def test_top_k_takes_the_first_of_equals(target):
    x = np.array([[1, 5, 5, 2, 7]], np.float32)
    values, places = run(f"x = f32[1,5] parameter(0)\n ROOT t = (f32[1,3], s32[1,3]) {target}", x)
    np.testing.assert_array_equal(values, [[7, 5, 5]])
    np.testing.assert_array_equal(places, [[4, 1, 2]])


# XLA:CPU's results for the state 1, 2, 3 ...
KNOWN_BITS = [
    (
        "rng_three_fry",
        "u32[5]",
        2,
        [1, 5],
        [43444564, 2150618427, 3979645651, 3745730563, 1672743891],
    ),
    ("rng_three_fry", "u64[2]", 2, [1, 4], [9236835810183407956, 16087790271692313299]),
    (
        "rng_philox",
        "u32[5]",
        3,
        [1, 4, 3],
        [4031113034, 1366700262, 495645701, 3051723414, 89414891],
    ),
    ("rng_default", "u64[2]", 2, [1, 3], [12229731395331991369, 3437131457114678231]),
]


@pytest.mark.parametrize(("algorithm", "shape", "words", "after", "bits"), KNOWN_BITS)
def test_random_bits(algorithm, shape, words, after, bits):
    state = np.array([1, 2, 3][:words], np.uint64)
    new_state, value = run(
        f"s = u64[{words}] parameter(0)\n ROOT r = (u64[{words}], {shape}) rng-bit-generator(s), algorithm={algorithm}",
        state,
    )
    assert new_state.tolist() == after
    assert value.tolist() == bits


def test_a_narrow_type_takes_the_low_bits():
    body = "s = u64[2] parameter(0)\n ROOT r = (u64[2], {}[5]) rng-bit-generator(s), algorithm=rng_three_fry"
    state = np.array([1, 2], np.uint64)
    wide, narrow = (run(body.format(t), state)[1] for t in ("u32", "u8"))
    np.testing.assert_array_equal(narrow, wide.astype(np.uint8))


def test_a_kernel_that_does_not_fit_its_window_is_refused():
    from xlanb.hlo import HloModule, HloOpcode
    from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
    from xlanb.shape import PrimitiveType
    from xlanb.shape.shape import array

    entry = (module := HloModule("m")).add_computation("e", entry=True)
    x, k = (
        entry.constant(np.zeros((1, 4, 1), np.float32)),
        entry.constant(np.zeros((4, 1, 1), np.float32)),
    )
    numbers = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
    conv = entry.add(
        HloOpcode.CONVOLUTION,
        (x, k),
        array(PrimitiveType.F32, (1, 4, 1)),
        window=Window((WindowDimension(1),)),
        dim_labels=numbers,
    )
    entry.set_root(conv)
    with pytest.raises(EvaluationError, match="window sizes"):
        evaluate(module)
