"""Gradients of factorizations, diagonals, spectra, segments and scatters, run by a session.

Compared with finite differences.
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
IDS = [1, 0, 1]


def _const(value: Any, kind: str = "float64") -> Any:
    return tf.constant(np.asarray(value, kind))


def _positive(x: Any) -> Any:
    return call("MatMul", x, x, transpose_b=True) + _const(np.eye(3))


def _einsum(equation: str, *others: Any) -> Callable[[Any], Any]:
    return lambda x: call("Einsum", [x, *(_const(o) for o in others)], equation=equation)


def _size(y: Any) -> Any:
    return call("ComplexAbs", y, Tout=tf.float64)


def _complex(x: Any) -> Any:
    return call("Complex", x, x * x, Tout=tf.complex128)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Cholesky": lambda x: call("Cholesky", _positive(x)),
    "MatrixInverse": lambda x: call("MatrixInverse", x),
    "MatrixInverse adjoint": lambda x: call("MatrixInverse", x, adjoint=True),
    "MatrixSolve": lambda x: call("MatrixSolve", x, x[:, :2]),
    "MatrixSolve adjoint": lambda x: call("MatrixSolve", x, x[:, :2], adjoint=True),
    "MatrixTriangularSolve": lambda x: call("MatrixTriangularSolve", x, x[:, :2], lower=False),
    "SelfAdjointEigV2": lambda x: call_n("SelfAdjointEigV2", _positive(x))[0],
    "eigenvectors": lambda x: call_n("SelfAdjointEigV2", _positive(x))[1] ** 2.0,
    "MatrixDiag": lambda x: call("MatrixDiag", x),
    "MatrixDiagV2": lambda x: call("MatrixDiagV2", x[:2], [0, 1], 3, 3, _const(0.0)),
    "MatrixDiagV3": lambda x: call("MatrixDiagV3", x[:2], [0, 1], 3, 3, _const(0.0), align="LEFT_RIGHT"),
    "MatrixDiagPart": lambda x: call("MatrixDiagPart", x * x),
    "MatrixDiagPartV3": lambda x: call("MatrixDiagPartV3", x * x, [-1, 1], _const(5.0)),
    "MatrixSetDiag": lambda x: call("MatrixSetDiag", x, x[0] * x[1]),
    "MatrixSetDiagV3": lambda x: call("MatrixSetDiagV3", x, x[:2], [0, 1]),
    "Einsum": _einsum("ij,kj->ki", VALUE),
    "Einsum of one": _einsum("ij->j"),
    "Einsum that sums what only one has": _einsum("ij,k->k", [1.0, 2.0]),
    "Einsum with an ellipsis": _einsum("...j,jk->...k", VALUE),
    "FFT": lambda x: _size(call("FFT", _complex(x))),
    "IFFT2D": lambda x: _size(call("IFFT2D", _complex(x))),
    "RFFT": lambda x: _size(call("RFFT", x, [3], Tcomplex=tf.complex128)),
    "RFFT, cut off": lambda x: _size(call("RFFT", x, [2], Tcomplex=tf.complex128)),
    "RFFT, filled up": lambda x: _size(call("RFFT", x, [6], Tcomplex=tf.complex128)),
    "IRFFT": lambda x: call("IRFFT", _complex(x), [4], Treal=tf.float64) ** 2.0,
    "IRFFT, odd": lambda x: call("IRFFT", _complex(x), [5], Treal=tf.float64) ** 2.0,
    "Roll": lambda x: call("Roll", x, [1, -2], [0, 1]) ** 2.0,
    "SpaceToBatch": lambda x: call("SpaceToBatch", x[None, :2, :2, None], [[0, 0], [2, 0]], block_size=2) ** 2.0,
    "DynamicStitch": lambda x: call("DynamicStitch", [[2, 0], [1]], [x[:2], x[2:]]) ** 2.0,
    "DynamicPartition": lambda x: call_n("DynamicPartition", x * x, [1, 0, 1], num_partitions=2)[1],
    "TensorScatterMax": lambda x: call("TensorScatterMax", x, [[0], [2]], x[1:] * 2.0),
    "TensorScatterSub": lambda x: call("TensorScatterSub", x, [[0], [2]], x[1:] * x[1:]),
    "TensorStridedSliceUpdate": lambda x: call("TensorStridedSliceUpdate", x, [0, 1], [2, 3], [1, 1], x[1:, 1:] ** 2.0),
    "SegmentMean": lambda x: call("SegmentMean", x * x, [0, 0, 1]),
    "SegmentMax": lambda x: call("SegmentMax", x * x, [0, 0, 1]),
    "UnsortedSegmentMin": lambda x: call("UnsortedSegmentMin", x * x, IDS, 2),
    "UnsortedSegmentProd": lambda x: call("UnsortedSegmentProd", x, IDS, 2),
    "negative segment": lambda x: call("UnsortedSegmentMax", x * x, [-1, 0, 0], 1),
    "ResizeBilinear": lambda x: call("ResizeBilinear", tf.cast(x[None, :, :, None], tf.float64), [5, 4]),
    "Betainc": lambda x: call("Betainc", _const(2.0) + x[0] * 0.0, _const(1.5) + x[0] * 0.0, x[2] / 4.0),
    "BesselI0e": lambda x: call("BesselI0e", x),
    "BesselI1e": lambda x: call("BesselI1e", x - 1.0),
    "Angle": lambda x: call("Angle", _complex(x), Tout=tf.float64),
    "ClipByValue": lambda x: call("ClipByValue", x * x, x[0, 1], x[0, 0] * 2.0),
    "CumulativeLogsumexp": lambda x: call("CumulativeLogsumexp", x, 1, reverse=True),
    "Igamma": lambda x: call("Igamma", x[0], x[1]),
    "Polygamma": lambda x: call("Polygamma", _const([1.0, 2, 3]), x[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [3, 3])
        y = FUNCTIONS[name](x)
        y = tf.cast(y, tf.float64)
        with tf.Session(graph=graph) as session:
            size = session.run(y, {x: VALUE}).shape
            total = tf.reduce_sum(y * _const(np.arange(1.0, 1 + np.prod(size)).reshape(size)))
            (by_x,) = gradients(total, x)
            found = session.run(by_x, {x: VALUE})
            step = 1e-2 if name == "ResizeBilinear" else STEP  # its result is single precision
            for seed in range(2):
                way = np.random.default_rng(seed).uniform(-1, 1, VALUE.shape)
                high, low = (session.run(total, {x: VALUE + s * step * way}) for s in (1, -1))
                assert np.sum(found * way) == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-5)


def test_what_is_prevented_says_so() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [3])
        with pytest.raises(UnimplementedError, match="not here"):
            gradients(call("PreventGradient", x, message="not here"), x)
