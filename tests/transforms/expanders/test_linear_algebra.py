"""QR factors and eigenvalues as loops, against LAPACK on matrices of many shapes."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.errors import PassError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloOpcode, parse
from xlanb.transforms import PASSES

DTYPES = {"f32": np.float32, "f64": np.float64}


def dims(shape) -> str:
    return ",".join(map(str, shape))


def expanded(hlo_pass: str, text: str, *arguments):
    module = parse(text)
    PASSES[hlo_pass]().run(module)
    module.verify()
    assert all(i.opcode is not HloOpcode.CUSTOM_CALL for i in module.instructions())
    return evaluate(module, *arguments)


def qr(a, kind):
    t = (*a.shape[:-2], min(a.shape[-2:]))
    text = f'HloModule m\nENTRY main {{\n  a = {kind}[{dims(a.shape)}] parameter(0)\n  ROOT q = ({kind}[{dims(a.shape)}], {kind}[{dims(t)}]) custom-call(a), custom_call_target="Qr"\n}}'
    return expanded("qr_expander", text, a)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 3), (1, 1), (2, 1, 4, 2)])
def test_reflections_are_those_of_lapack(shape, kind, rng):
    a = rng.standard_normal(shape).astype(DTYPES[kind])
    packed, taus = qr(a, kind)
    expected, scales = np.linalg.qr(a, mode="raw")
    tolerance = 1e-5 if kind == "f32" else 1e-13
    np.testing.assert_allclose(packed, np.swapaxes(expected, -1, -2), atol=tolerance)
    np.testing.assert_allclose(taus, scales, atol=tolerance)


def test_products_of_reflections_are_orthogonal(rng):
    a = rng.standard_normal((2, 6, 4))
    packed, taus = qr(a, "f64")
    text = 'HloModule m\nENTRY main {\n  a = f64[2,6,4] parameter(0)\n  t = f64[2,4] parameter(1)\n  ROOT q = f64[2,6,4] custom-call(a, t), custom_call_target="ProductOfElementaryHouseholderReflectors"\n}'
    q = expanded("qr_expander", text, packed, taus)
    np.testing.assert_allclose(np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(4), (2, 4, 4)), atol=1e-12)
    np.testing.assert_allclose(q @ np.triu(packed[:, :4]), a, atol=1e-12)


def test_columns_of_zeros_are_not_reflected():
    packed, taus = qr(np.zeros((3, 2), np.float32), "f32")
    assert not packed.any()
    assert not taus.any()


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 4, 4), (7, 7)])
def test_eigenvalues_are_those_of_lapack(shape, kind, lower, rng):
    a = rng.standard_normal(shape).astype(DTYPES[kind])
    tolerance = 1e-6 if kind == "f32" else 1e-13
    text = f'HloModule m\nENTRY main {{\n  a = {kind}[{dims(shape)}] parameter(0)\n  ROOT q = ({kind}[{dims(shape)}], {kind}[{dims(shape[:-1])}]) custom-call(a), custom_call_target="Eigh", backend_config="{lower},1,100,{tolerance}"\n}}'
    vectors, values = expanded("eigh_expander", text, a)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a, UPLO="UL"[lower]), atol=100 * tolerance)
    half = np.tril(a) if lower else np.triu(a)
    whole = half + np.swapaxes(half, -1, -2) - a * np.eye(shape[-1], dtype=a.dtype)
    again = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    np.testing.assert_allclose(again, whole, atol=100 * tolerance)


@pytest.mark.parametrize(
    ("shape", "config", "message"), [("3,3", "1,1", "lower,sort,rounds,tolerance"), ("2,3", "1,1,9,1e-6", "square")]
)
def test_what_is_no_such_matrix_is_refused(shape, config, message):
    text = f'HloModule m\nENTRY main {{\n  a = f32[{shape}] parameter(0)\n  ROOT q = (f32[{shape}], f32[3]) custom-call(a), custom_call_target="Eigh", backend_config="{config}"\n}}'
    with pytest.raises(PassError, match=message):
        PASSES["eigh_expander"]().run(parse(text))
    with pytest.raises(PassError, match="Qr takes a matrix"):
        PASSES["qr_expander"]().run(
            parse(
                'HloModule m\nENTRY main {\n  a = f32[3] parameter(0)\n  ROOT q = (f32[3], f32[1]) custom-call(a), custom_call_target="Qr"\n}'
            )
        )


@pytest.mark.parametrize("name", ["qr_expander", "eigh_expander"])
def test_complex_matrices_stay(name):
    target = {"qr_expander": "Qr", "eigh_expander": "Eigh"}[name]
    text = f'HloModule m\nENTRY main {{\n  a = c64[3,3] parameter(0)\n  ROOT q = (c64[3,3], c64[3]) custom-call(a), custom_call_target="{target}", backend_config="1,1,9,1e-6"\n}}'
    assert not PASSES[name]().run(parse(text)).changed
