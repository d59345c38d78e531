"""Float operations of nodes, by TensorFlow's formulas.

Source: tensorflow/python/profiler/internal/flops_registry.py.
"""

from __future__ import annotations

from math import prod

from xlanb.graph.operation import Operation, Tensor

_PER_ELEMENT = {
    **dict.fromkeys("Neg Reciprocal Square Add AddV2 Sub Mul RealDiv Maximum Minimum Pow BiasAdd".split(), 1),
    **dict.fromkeys("GreaterEqual Greater LessEqual Less Equal NotEqual".split(), 1),
    "Rsqrt": 2,
    "SquaredDifference": 2,
    "RsqrtGrad": 4,
    "Softmax": 5,
}
_CONVOLUTIONS = frozenset({"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"})
_POOLS = frozenset({"AvgPool", "MaxPool"})


def float_operations(op: Operation) -> int:
    """How many a node takes; 0 where TensorFlow counts none, or a size is unknown."""
    try:
        return _count(op)
    except _UnknownSizeError:
        return 0


class _UnknownSizeError(Exception):
    pass


def _dims(tensor: Tensor) -> list[int]:
    dims = tensor.shape.as_tuple()
    if dims is None or None in dims:
        raise _UnknownSizeError
    return [int(d) for d in dims if d is not None]


def _size(tensor: Tensor) -> int:
    return prod(_dims(tensor))


def _count(op: Operation) -> int:
    kind = op.type
    if kind in _PER_ELEMENT:
        return _PER_ELEMENT[kind] * _size(op.outputs[0])
    if kind == "MatMul":
        rows, columns = _dims(op.inputs[0])
        return 2 * (rows if op.get_attr("transpose_a") else columns) * _size(op.outputs[0])
    if kind == "AddN":
        return (len(op.inputs) - 1) * _size(op.outputs[0])
    if kind == "L2Loss":
        return 3 * _size(op.inputs[0]) - 1
    if kind in {"Sum", "ArgMax", "ArgMin"}:
        return _size(op.inputs[0]) - _size(op.outputs[0])
    if kind == "Mean":
        return _size(op.inputs[0])
    if kind == "BiasAddGrad":
        return _size(op.inputs[0]) - _size(op.outputs[0])
    if kind in _CONVOLUTIONS:
        return _convolution(op)
    if kind == "DepthwiseConv2dNative":
        return 2 * prod(_dims(op.inputs[1])[:2]) * _size(op.outputs[0])
    if kind in {"MaxPoolGrad", "AvgPoolGrad"}:
        area, count = prod(int(k) for k in op.get_attr("ksize")), _size(op.inputs[-1])
        return (area + 1) * count if kind == "MaxPoolGrad" else 2 * area * count
    if kind in _POOLS:
        return prod(int(k) for k in op.get_attr("ksize")) * _size(op.outputs[0])
    return 0


def _convolution(op: Operation) -> int:
    """Two per product: each point of the result meets a window of each input channel."""
    result = op.outputs[0] if op.type == "Conv2D" else op.inputs[2]
    kernel = op.inputs[1]
    if op.type == "Conv2DBackpropFilter":
        sizes = kernel.op
        kernel = sizes.inputs[kernel.value_index] if sizes.type in {"Shape", "ShapeN"} else op.outputs[0]
    height, width, channels, _ = _dims(kernel)
    return 2 * _size(result) * height * width * channels
