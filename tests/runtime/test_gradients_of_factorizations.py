"""Gradients of decompositions, images, samples, sparse and ragged ops, run by a session.

Compared with finite differences, second order too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import UnimplementedError
from xlanb.graph.gradients import gradients
from xlanb.graph.op_library import call, call_n

STEP = 1e-5
VALUE = np.array([[2.3, 0.9, 0.4], [0.6, 3.1, 0.5], [0.2, 0.7, 1.9]])
SPLITS = [0, 1, 1, 3]


def _const(value: Any, kind: str = "float64") -> Any:
    return tf.constant(np.asarray(value, kind))


def _wide(x: Any) -> Any:
    return tf.concat([x, x * x, tf.sin(x)], 1)


def _reconstructed(x: Any, *, full: bool) -> Any:
    s, u, v = call_n("Svd", x[:, :2] if full else x, full_matrices=full)
    return u[:, :2] * s[:2] * 2.0 + v[1, 0] ** 2.0


def _complex(x: Any) -> Any:
    return call("Complex", x, x[::-1] * x, Tout=tf.complex128)


def _in_complex_svd(x: Any) -> Any:
    s, u, v = call_n("Svd", _complex(x))
    product = call("MatMul", u * tf.cast(s * s, tf.complex128), call("ConjugateTranspose", v, [1, 0]))
    return call("Real", product, Tout=tf.float64) + call("Imag", product, Tout=tf.float64)


def _patches(x: Any) -> Any:
    picture = tf.stack([x, x * x], -1)[None]
    return (
        call(
            "ExtractImagePatches",
            picture,
            ksizes=[1, 2, 2, 1],
            strides=[1, 2, 1, 1],
            rates=[1, 1, 2, 1],
            padding="SAME",
        )
        ** 2.0
    )


def _norm(x: Any) -> Any:
    stats = (x[0], x[1] ** 2.0, x[2], x[1])
    return call(
        "BatchNormWithGlobalNormalization", x[None, None], *stats, variance_epsilon=0.1, scale_after_normalization=True
    )


def _samples(x: Any) -> Any:
    """Samples as a function of the bounds: the sampler inverts the CDF, so they are smooth."""
    return call("StatelessParameterizedTruncatedNormal", [4], [3, 5], _const(0.3), _const(1.5), -x[0, 0], x[1, 1])


def _ragged(x: Any) -> Any:
    kinds = ["ROW_SPLITS"]
    wanted = tf.constant([3, 2, 3], tf.int64)
    return (
        call("RaggedTensorToTensor", wanted, x * x, x[0], [_const(SPLITS, "int64")], row_partition_types=kinds) ** 2.0
    )


def _sparse_values(x: Any) -> Any:
    indices = _const([[1, 0], [0, 2], [0, 1]], "int64")
    return call_n("SparseReorder", indices, x[0] * x[1], _const([2, 3], "int64"))[1] * _const([1, 2, 3])


def _filled_rows(x: Any) -> Any:
    indices = _const([[1, 0], [3, 2]], "int64")
    return call_n("SparseFillEmptyRows", indices, x[0, :2], _const([5, 3], "int64"), x[2, 2])[1] ** 2.0


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Qr, q": lambda x: call_n("Qr", x)[0] ** 2.0,
    "Qr, r": lambda x: call_n("Qr", x)[1],
    "Qr, tall": lambda x: call_n("Qr", tf.transpose(_wide(x)))[0],
    "Qr, wide": lambda x: call_n("Qr", _wide(x))[1],
    "Qr, complex": lambda x: call("ComplexAbs", call_n("Qr", _complex(x))[1], Tout=tf.float64),
    "Svd, values": lambda x: call_n("Svd", x, compute_uv=False)[0] ** 2.0,
    "Svd, vectors": lambda x: _reconstructed(x, full=False),
    "Svd, full": lambda x: _reconstructed(x, full=True),
    "Svd, wide": lambda x: call_n("Svd", _wide(x))[2] ** 2.0,
    "Svd, complex": _in_complex_svd,
    "RGBToHSV": lambda x: call("RGBToHSV", x),
    "ExtractImagePatches": _patches,
    "ResizeNearestNeighbor": lambda x: call("ResizeNearestNeighbor", x[None, :, :, None] ** 2.0, [5, 4]),
    "TridiagonalMatMul": lambda x: call("TridiagonalMatMul", x[:1], x[1:2], x[2:], x * x),
    "TridiagonalSolve": lambda x: call("TridiagonalSolve", x + _const([[0], [5], [0]]), x * x, partial_pivoting=False),
    "ApproxTopK": lambda x: tf.cast(call("ApproxTopK", tf.cast(x * x, tf.float32), k=2), tf.float64),
    "ApproxTopK, rows": lambda x: tf.cast(call("ApproxTopK", tf.cast(x * x, tf.float32), k=2, reduction_dimension=0),
        tf.float64),
    "StatelessParameterizedTruncatedNormal": _samples,
    "QuantizeAndDequantizeV4": lambda x: x * call("QuantizeAndDequantizeV4", tf.stop_gradient(x), -9.0, 9.0,
        range_given=True),
    "BatchNormWithGlobalNormalization": _norm,
    "SegmentProd": lambda x: call("SegmentProd", x, [0, 0, 2]),
    "SparseSegmentSum": lambda x: call("SparseSegmentSum", x * x, [2, 1, 2], [0, 0, 2]),
    "SparseSegmentMean": lambda x: call("SparseSegmentMean", x * x, [2, 1, 2], [0, 0, 2]),
    "SparseSegmentSqrtN": lambda x: call("SparseSegmentSqrtNWithNumSegments", x * x, [2, 1, 2], [0, 0, 2], 4),
    "SparseReorder": _sparse_values,
    "SparseFillEmptyRows": _filled_rows,
    "RaggedTensorToTensor": _ragged,
    "RaggedTensorToSparse": lambda x: call_n("RaggedTensorToSparse", [_const(SPLITS, "int64")], x * x)[1],
}  # fmt: skip
SECOND = [
    n for n in FUNCTIONS if n.split(",")[0] in {"Qr", "Svd", "RGBToHSV", "TridiagonalSolve", "ExtractImagePatches"}
]


def _agrees(session: Any, x: Any, total: Any, by_x: Any, step: float) -> None:
    found = session.run(by_x, {x: VALUE})
    for seed in range(2):
        way = np.random.default_rng(seed).uniform(-1, 1, VALUE.shape)
        high, low = (session.run(total, {x: VALUE + s * step * way}) for s in (1, -1))
        assert np.sum(found * way) == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=2e-5)


def _weighted(session: Any, y: Any, x: Any) -> Any:
    size = session.run(y, {x: VALUE}).shape
    return tf.reduce_sum(y * _const(np.cos(np.arange(1.0, 1 + np.prod(size))).reshape(size)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str) -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float64, [3, 3])
        total = _weighted(session, tf.cast(FUNCTIONS[name](x), tf.float64), x)
        _agrees(session, x, total, gradients(total, x)[0], 1e-2 if name.startswith("ApproxTopK") else STEP)


@pytest.mark.parametrize("name", SECOND)
def test_second_order(name: str) -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float64, [3, 3])
        total = _weighted(session, FUNCTIONS[name](x), x)
        second = _weighted(session, gradients(total, x)[0], x)
        _agrees(session, x, second, gradients(second, x)[0], STEP)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_second_order_of_batch_norm(is_training: bool, data_format: str) -> None:
    rng = np.random.default_rng(1)
    dims = (2, 3, 2, 4) if data_format == "NHWC" else (2, 4, 3, 2)
    arrays = [rng.normal(size=dims), rng.normal(size=dims), rng.normal(size=4)]
    weights = [rng.normal(size=dims), rng.normal(size=4), rng.normal(size=4)]
    ways = [rng.normal(size=a.shape) for a in arrays]
    axes = tuple(i for i in range(4) if data_format[i] != "C")
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        given = [tf.placeholder(tf.float32, a.shape) for a in arrays]
        held = [tf.placeholder(tf.float32, [4]) for _ in range(2)]
        attrs = {"epsilon": 0.1, "data_format": data_format, "is_training": is_training}
        made = call_n("FusedBatchNormGrad", *given, *held, **attrs)[:3]
        total = sum(
            (tf.reduce_sum(m * tf.constant(w.astype("f"))) for m, w in zip(made, weights, strict=True)),
            tf.constant(0.0),
        )
        found = gradients(total, given)

        def at(step: float) -> dict[Any, Any]:
            values = [a + step * w for a, w in zip(arrays, ways, strict=True)]
            batch = (values[1].mean(axes), values[1].var(axes)) if is_training else (np.full(4, 0.2), np.full(4, 1.3))
            return dict(zip((*given, *held), (*values, *batch), strict=True))

        slopes = session.run(found, at(0.0))
        high, low = session.run(total, at(1e-2)), session.run(total, at(-1e-2))
    along = sum(float(np.sum(s * w)) for s, w in zip(slopes, ways, strict=True))
    assert along == pytest.approx((high - low) / 2e-2, rel=1e-2, abs=1e-2)


@pytest.mark.parametrize(
    ("op_type", "shape", "attrs"),
    [("Qr", [4, 2], {"full_matrices": True}), ("Svd", [5, 2], {"full_matrices": True}), ("Svd", [None, 2], {})],
)
def test_undefined_gradients_say_so(op_type: str, shape: list[int], attrs: dict[str, Any]) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, shape)
        with pytest.raises(UnimplementedError, match=f"the gradient of {op_type}"):
            gradients(call_n(op_type, x, **attrs)[1], x)
