"""Runs a graph with NumPy, op by op: an independent meaning to check gradients against."""

# ruff: noqa: ARG005, PLW0108 - each takes the operation and its inputs, used or not

import numpy as np

TINY = {
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Square": np.square, "Tanh": np.tanh, "Neg": np.negative, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan,
    "Log1p": np.log1p, "Expm1": np.expm1, "Abs": np.abs, "Sign": np.sign, "Reciprocal": np.reciprocal, "Sinh": np.sinh, "Cosh": np.cosh, "Asin": np.arcsin,
    "Acos": np.arccos, "Atan": np.arctan, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh, "LogicalNot": np.logical_not,
    "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "RealDiv": np.divide, "Maximum": np.maximum, "Minimum": np.minimum, "Pow": np.power,
    "FloorDiv": np.floor_divide, "FloorMod": np.mod, "Greater": np.greater, "GreaterEqual": np.greater_equal, "Less": np.less,
    "LessEqual": np.less_equal, "Equal": np.equal, "Atan2": np.arctan2, "LogicalAnd": np.logical_and,
    "Rsqrt": lambda x: 1 / np.sqrt(x), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Relu": lambda x: np.maximum(x, 0), "Softplus": lambda x: np.log1p(np.exp(x)),
    "SquaredDifference": lambda x, y: (x - y) ** 2, "Identity": lambda x: x, "StopGradient": lambda x: x, "ZerosLike": np.zeros_like,
    "SqrtGrad": lambda y, g: g * 0.5 / y, "RsqrtGrad": lambda y, g: g * -0.5 * y**3, "TanhGrad": lambda y, g: g * (1 - y * y),
    "SigmoidGrad": lambda y, g: g * y * (1 - y), "ReciprocalGrad": lambda y, g: -g * y * y, "ReluGrad": lambda g, x: g * (x > 0),
    "Select": lambda c, x, y: np.where(c, x, y), "SelectV2": lambda c, x, y: np.where(c, x, y), "Fill": lambda s, v: np.full(s, v),
    "Reshape": lambda x, s: np.reshape(x, s), "Transpose": np.transpose, "Tile": np.tile, "BroadcastTo": np.broadcast_to, "InvertPermutation": np.argsort,
    "Range": lambda a, b, c: np.arange(a, b, c), "ExpandDims": lambda x, a: np.expand_dims(x, int(a)), "ReverseV2": lambda x, a: np.flip(x, tuple(a)),
    "Softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), "LogSoftmax": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "Pad": lambda x, p: np.pad(x, p), "L2Loss": lambda x: (x * x).sum() / 2,
    "AddN": lambda *xs: sum(xs[1:], xs[0]), "Size": lambda x: np.int32(x.size), "Rank": lambda x: np.int32(x.ndim),
}  # fmt: skip


def _sum_like(function):
    def run(op, x, axes):
        return function(x, axis=tuple(np.ravel(axes)), keepdims=op.attrs["keep_dims"])

    return run


def _matmul(op, a, b):
    return (a.T if op.attrs["transpose_a"] else a) @ (b.T if op.attrs["transpose_b"] else b)


def _batch_matmul(op, a, b):
    return (np.swapaxes(a, -1, -2) if op.attrs["adj_x"] else a) @ (np.swapaxes(b, -1, -2) if op.attrs["adj_y"] else b)


def _slice(op, x, begin, size):
    return x[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))]


def _index(op, begin, end, strides):
    key = []
    for i in range(len(begin)):
        flag = {m: op.attrs[f"{m}_mask"] >> i & 1 for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
        if flag["ellipsis"]:
            key.append(Ellipsis)
        elif flag["new_axis"]:
            key.append(None)
        elif flag["shrink_axis"]:
            key.append(int(begin[i]))
        else:
            key.append(
                slice(None if flag["begin"] else int(begin[i]), None if flag["end"] else int(end[i]), int(strides[i]))
            )
    return tuple(key)


def _strided_slice_grad(op, shape, begin, end, strides, grad):
    result = np.zeros(shape, grad.dtype)
    result[_index(op, begin, end, strides)] = grad
    return result


def _broadcast_axes(op, a, b):
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    return [
        np.array([i for i in range(rank) if x[i] == 1 and not (x[i] == y[i] == 1)], np.int32)
        for x, y in ((a, b), (b, a))
    ]


def _stitch(op, *values):
    count = len(values) // 2
    result = np.zeros(1 + max((int(i.max()) for i in values[:count] if i.size), default=-1), values[-1].dtype)
    for indices, data in zip(values[:count], values[count:], strict=True):
        result[indices] = data
    return result


def _cumulative(function, start):
    def run(op, x, axis):
        axis = int(axis)
        x = np.flip(x, axis) if op.attrs["reverse"] else x
        result = function(x, axis=axis)
        if op.attrs["exclusive"]:
            first = np.full_like(np.take(x, [0], axis), start)
            result = np.concatenate([first, np.delete(result, -1, axis)], axis)
        return np.flip(result, axis) if op.attrs["reverse"] else result

    return run


def _segments(op, data, ids, count):
    result = np.zeros((int(count), *data.shape[1:]), data.dtype)
    np.add.at(result, ids, data)
    return result


FULL = {
    "Sum": _sum_like(np.sum), "Mean": _sum_like(np.mean), "Max": _sum_like(np.max), "Min": _sum_like(np.min), "Prod": _sum_like(np.prod),
    "MatMul": _matmul, "Slice": _slice, "StridedSlice": lambda op, x, *bounds: x[_index(op, *bounds)], "StridedSliceGrad": _strided_slice_grad,
    "BroadcastGradientArgs": _broadcast_axes, "DynamicStitch": _stitch, "Cumsum": _cumulative(np.cumsum, 0), "Cumprod": _cumulative(np.cumprod, 1),
    "Shape": lambda op, x: np.array(x.shape, op.attrs["out_type"].numpy_dtype), "ShapeN": lambda op, *xs: [np.array(x.shape, np.int32) for x in xs],
    "Cast": lambda op, x: np.asarray(x).astype(op.attrs["DstT"].numpy_dtype), "Pack": lambda op, *xs: np.stack(xs, op.attrs["axis"]),
    "Unpack": lambda op, x: [np.take(x, i, op.attrs["axis"]) for i in range(op.attrs["num"])],
    "ConcatV2": lambda op, *xs: np.concatenate(xs[:-1], int(xs[-1])), "GatherV2": lambda op, x, i, a: np.take(x, i, int(a)),
    "Split": lambda op, a, x: np.split(x, op.attrs["num_split"], int(a)), "UnsortedSegmentSum": _segments,
    "SplitV": lambda op, x, sizes, a: np.split(x, np.cumsum(sizes)[:-1], int(a)), "Squeeze": lambda op, x: np.squeeze(x, tuple(op.attrs["squeeze_dims"]) or None),
    "ConcatOffset": lambda op, a, *shapes: [np.array([sum(int(s[a]) for s in shapes[:i]) if d == a else 0 for d in range(len(shapes[0]))]) for i in range(len(shapes))],
    "SoftmaxCrossEntropyWithLogits": lambda op, x, y: [-(y * TINY["LogSoftmax"](x)).sum(-1), TINY["Softmax"](x) - y],
    "ListDiff": lambda op, x, y: [x[~np.isin(x, y)], np.flatnonzero(~np.isin(x, y)).astype(np.int32)], "BatchMatMulV2": _batch_matmul,
    "BiasAdd": lambda op, x, b: x + b, "BiasAddGrad": lambda op, g: g.reshape(-1, g.shape[-1]).sum(0), "NoOp": lambda op: [],
}  # fmt: skip


def run(fetch, feeds):
    """The value of a tensor. `feeds`: arrays by tensor."""
    values = dict(feeds)
    for op in fetch.graph.topological_order():
        if all(t in values for t in op.outputs) or not _needed(op, fetch):
            continue
        if op.type == "Const":
            values[op.outputs[0]] = op.attrs["value"]
            continue
        inputs = [values[t] for t in op.inputs]
        found = TINY[op.type](*inputs) if op.type in TINY else FULL[op.type](op, *inputs)
        values.update(zip(op.outputs, found if isinstance(found, list) else [np.asarray(found)], strict=True))
    return values[fetch]


def _needed(op, fetch):
    from xlanb.graph.rewrite import needed_by

    return op in needed_by([fetch.op])
