"""Convolutions, pooling, normalisation, activations: against plain loops and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError

rng = np.random.default_rng(0)


def normal(*dims: int) -> Any:
    return rng.normal(size=dims)


def padded(x: Any, size: tuple[int, int], stride: int, dilation: int, padding: str) -> Any:
    if padding == "VALID":
        return x
    around = []
    for n, k in zip(x.shape[1:3], size, strict=True):
        total = max((-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0)
        around.append((total // 2, total - total // 2))
    return np.pad(x, [(0, 0), *around, (0, 0)])


def convolved(x: Any, w: Any, stride: int, dilation: int, padding: str) -> Any:
    """Grouped convolution by loops over the window."""
    x = padded(x, w.shape[:2], stride, dilation, padding)
    groups = x.shape[3] // w.shape[2]
    out = [(n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(x.shape[1:3], w.shape[:2], strict=True)]
    y = np.zeros((x.shape[0], *out, w.shape[3]))
    per = w.shape[3] // groups
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            part = x[:, i * dilation :: stride, j * dilation :: stride][:, : out[0], : out[1]]
            for g in range(groups):
                inputs = part[..., g * w.shape[2] : (g + 1) * w.shape[2]]
                y[..., g * per : (g + 1) * per] += inputs @ w[i, j, :, g * per : (g + 1) * per]
    return y


CASES = [
    (s, d, p, g)
    for s, d, p, g in ((1, 1, "SAME", 1), (2, 1, "VALID", 1), (2, 1, "SAME", 2), (1, 2, "VALID", 2), (1, 2, "SAME", 1))
]


@pytest.mark.parametrize(("stride", "dilation", "padding", "groups"), CASES)
def test_convolution_and_its_adjoints(run_op: Any, stride: int, dilation: int, padding: str, groups: int) -> None:
    x, w = normal(2, 7, 6, 4), normal(3, 2, 4 // groups, 6)
    attrs = {"strides": [1, stride, stride, 1], "dilations": [1, dilation, dilation, 1], "padding": padding}
    y = run_op("Conv2D", x, w, **attrs)
    np.testing.assert_allclose(y, convolved(x, w, stride, dilation, padding), atol=1e-10)
    dy = normal(*y.shape)
    dx = run_op("Conv2DBackpropInput", np.array(x.shape, np.int32), w, dy, outputs=[np.float64], **attrs)
    dw = run_op("Conv2DBackpropFilter", x, np.array(w.shape, np.int32), dy, **attrs)
    # the convolution is linear in both: <y, dy> = <x, dx> = <w, dw>
    np.testing.assert_allclose((x * dx).sum(), (y * dy).sum())
    np.testing.assert_allclose((w * dw).sum(), (y * dy).sum())
    assert dx.shape == x.shape
    assert dw.shape == w.shape


def test_depthwise_convolution_is_one_group_a_channel(run_op: Any) -> None:
    x, w = normal(2, 5, 5, 3), normal(2, 2, 3, 2)
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    y = run_op("DepthwiseConv2dNative", x, w, **attrs)
    np.testing.assert_allclose(y, convolved(x, w.reshape(2, 2, 1, 6), 1, 1, "VALID"), atol=1e-12)
    dy = normal(*y.shape)
    dx = run_op("DepthwiseConv2dNativeBackpropInput", np.array(x.shape, np.int32), w, dy, outputs=[np.float64], **attrs)
    dw = run_op("DepthwiseConv2dNativeBackpropFilter", x, np.array(w.shape, np.int32), dy, **attrs)
    np.testing.assert_allclose([(x * dx).sum(), (w * dw).sum()], (y * dy).sum())


def test_channels_first_is_the_same_transposed(run_op: Any) -> None:
    x, w = normal(2, 7, 6, 3), normal(3, 3, 3, 4)
    last = run_op("Conv2D", x, w, strides=[1, 2, 1, 1], padding="SAME")
    first = run_op("Conv2D", x.transpose(0, 3, 1, 2), w, strides=[1, 1, 2, 1], padding="SAME", data_format="NCHW")
    np.testing.assert_allclose(first.transpose(0, 2, 3, 1), last)


def test_a_window_that_does_not_fit_names_the_node(run_op: Any) -> None:
    with pytest.raises(GraphError, match=r"'node'.*does not fit dimension 1 of size 2"):
        run_op("Conv2D", normal(1, 2, 5, 1), normal(3, 3, 1, 1), strides=[1] * 4, padding="VALID")
    with pytest.raises(GraphError, match="are not divisible by the filter"):
        run_op("Conv2D", normal(1, 5, 5, 3), normal(3, 3, 2, 2), strides=[1] * 4, padding="VALID")


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pooling(run_op: Any, padding: str) -> None:
    x = normal(2, 7, 5, 3)
    attrs = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": padding}
    whole = np.pad(x, [(0, 0), (1, 1), (0, 1), (0, 0)], constant_values=np.nan) if padding == "SAME" else x
    windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 2), (1, 2))[:, ::2, ::2]
    y = run_op("MaxPool", x, **attrs)
    np.testing.assert_array_equal(y, np.nanmax(windows, (-1, -2)))
    np.testing.assert_allclose(run_op("AvgPool", x, **attrs), np.nanmean(windows, (-1, -2)))
    dy = normal(*y.shape)
    dx = run_op("MaxPoolGrad", x, y, dy, **attrs)
    np.testing.assert_allclose((x * dx).sum(), (y * dy).sum())  # each maximum times its gradient
    share = run_op("AvgPoolGrad", np.array(x.shape, np.int32), dy, outputs=[np.float64], **attrs)
    np.testing.assert_allclose((x * share).sum(), (run_op("AvgPool", x, **attrs) * dy).sum())
    np.testing.assert_array_equal(run_op("MaxPoolGradGrad", x, y, x, **attrs), y)


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3, 3), (1, 3, 3, 4), (2, 3, 3, 5)])
def test_a_gradient_of_pooling_fits_its_input(run_op: Any, shape: tuple[int, ...]) -> None:
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    with pytest.raises(GraphError, match="does not match"):
        run_op("AvgPoolGrad", np.array([2, 3, 3, 4], np.int32), normal(*shape).astype(np.float32), **attrs)


def test_batch_norm_when_training_and_when_not(run_op: Any) -> None:
    x = normal(4, 3, 3, 2).astype(np.float32)
    scale, offset, mean, variance = (np.abs(normal(2)).astype(np.float32) for _ in range(4))
    outs = [np.float32] * 6
    y, m, v, *_ = run_op(
        "FusedBatchNormV3", x, scale, offset, mean, variance, outputs=outs, epsilon=1e-3, is_training=True
    )
    want = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-3) * scale + offset
    np.testing.assert_allclose(y, want, atol=1e-4)
    np.testing.assert_allclose(m, x.mean((0, 1, 2)), atol=1e-5)
    np.testing.assert_allclose(v, x.reshape(-1, 2).var(0, ddof=1), rtol=1e-4)
    y, m, *_ = run_op(
        "FusedBatchNormV3", x, scale, offset, mean, variance, outputs=outs, epsilon=1e-3, is_training=False
    )
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-3) * scale + offset, atol=1e-4)
    np.testing.assert_array_equal(m, mean)


V = np.array([-9.0, -2, -0.3, 0.2, 0.9, 4, 7])
ACTIVATIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Relu6": lambda x: np.clip(x, 0, 6),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.2 * x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_gradients(run_op: Any, name: str) -> None:
    function = ACTIVATIONS[name]
    np.testing.assert_allclose(run_op(name, V), function(V), rtol=1e-12)
    step = 1e-6
    slope = (function(V + step) - function(V - step)) / (2 * step)
    given = function(V) if name in ("Elu", "Selu") else V
    np.testing.assert_allclose(run_op(f"{name}Grad", 3 * np.ones_like(V), given), 3 * slope, rtol=1e-6, atol=1e-9)


def test_cross_entropy_of_indices_is_that_of_their_one_hot_rows(run_op: Any) -> None:
    logits, labels = normal(4, 5), np.array([0, 4, 2, 2])
    outs = [np.float64] * 2
    sparse = run_op("SparseSoftmaxCrossEntropyWithLogits", logits, labels, outputs=outs)
    dense = run_op("SoftmaxCrossEntropyWithLogits", logits, np.eye(5)[labels], outputs=outs)
    soft = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(dense[0], -np.log(soft[range(4), labels]))
    np.testing.assert_allclose(dense[1], soft - np.eye(5)[labels], atol=1e-12)
    for a, b in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(a, b)
    assert np.isnan(run_op("SparseSoftmaxCrossEntropyWithLogits", logits, np.array([0, 5, 2, 2]), outputs=outs)[0]).tolist() == [
        False, True, False, False,
    ]  # fmt: skip


def test_local_response_normalisation_and_its_gradient(run_op: Any) -> None:
    x, dy = normal(2, 1, 1, 6), normal(2, 1, 1, 6)
    attrs = {"depth_radius": 2, "bias": 1.5, "alpha": 0.4, "beta": 0.7}

    def lrn(x: Any) -> Any:
        near = np.array([[abs(i - j) <= 2 for i in range(6)] for j in range(6)], float)
        return x * (1.5 + 0.4 * (x * x) @ near) ** -0.7

    np.testing.assert_allclose(run_op("LRN", x, **attrs), lrn(x))
    direction = normal(*x.shape)
    slope = ((lrn(x + 1e-6 * direction) - lrn(x - 1e-6 * direction)) * dy).sum() / 2e-6
    np.testing.assert_allclose((run_op("LRNGrad", dy, x, lrn(x), **attrs) * direction).sum(), slope, rtol=1e-6)
