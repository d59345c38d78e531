"""Gradients against finite differences, with static and unknown shapes.

The nodes differ, the values do not.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from xlanb.errors import GraphTypeError, GraphValueError, UnimplementedError
from xlanb.graph.builders import array_ops as a
from xlanb.graph.builders import loss_ops, nn_ops
from xlanb.graph.builders import math_ops as m
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.convert import constant
from xlanb.graph.gradients import differentiable_ops, gradients, register_gradient
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call
from xlanb.graph.shapes import set_shape_function

_spec = importlib.util.spec_from_file_location("numpy_runner", Path(__file__).with_name("numpy_runner.py"))
runner = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runner)

STEP = 1e-5
VALUE = np.array([[0.3, 0.9, 1.4], [0.6, 1.1, 0.5]])


def op(name, *more):
    return lambda x: call(name, x, *more)


ONE = "Exp Log Sqrt Rsqrt Square Tanh Sigmoid Abs Neg Sin Cos Tan Log1p Expm1 Reciprocal Sinh Cosh Atan Asinh Relu Softmax LogSoftmax L2Loss".split()
FUNCTIONS = {
    **{name: op(name) for name in ONE},
    "Asin": lambda x: call("Asin", x / 2.0), "Acos": lambda x: call("Acos", x / 2.0), "Acosh": lambda x: call("Acosh", x + 1.0),
    "Atanh": lambda x: call("Atanh", x / 2.0), "Sign": lambda x: m.sign(x) * x,
    "Add": lambda x: x + x[0], "Sub": lambda x: x[0] - x, "Mul": lambda x: x * x[:, :1], "Div": lambda x: x[1] / x, "Pow": lambda x: x ** x[0],
    "Maximum": lambda x: call("Maximum", x, 0.7), "Minimum": lambda x: call("Minimum", constant(0.7, "float64"), x), "Mod": lambda x: x % 0.8,
    "SquaredDifference": lambda x: call("SquaredDifference", x, x[0]), "Atan2": lambda x: call("Atan2", x, x[0]),
    "Select": lambda x: a.where(x > 0.7, m.pow(x, 2.0), x * 3.0), "SelectV2": lambda x: a.where_v2(x[0] > 0.7, x, x[1]),
    "AddN": lambda x: m.add_n([x, x * x, x]), "Cast": lambda x: m.cast(m.cast(x, "float32"), "float64") * 0.0 + x,
    **{f"reduce {kind.__name__} {axis} {keep}": (lambda x, kind=kind, axis=axis, keep=keep: kind(x * x, axis, keep))
       for kind in (m.reduce_sum, m.reduce_mean, m.reduce_max, m.reduce_min, m.reduce_prod) for axis in (None, 0, [1], -1) for keep in (False, True)},
    "Cumsum": lambda x: m.cumsum(x * x, 1), "Cumsum back": lambda x: m.cumsum(x * x, 0, exclusive=True, reverse=True),
    **{f"MatMul {t} {u}": (lambda x, t=t, u=u: m.matmul(x if not t else a.transpose(x), x if u else a.transpose(x), transpose_a=t, transpose_b=u))
       for t in (False, True) for u in (False, True)},
    "Transpose": lambda x: call("Exp", a.transpose(x)), "Reshape": lambda x: call("Exp", a.reshape(x, [3, -1])),
    "ExpandDims": lambda x: call("Exp", a.expand_dims(x, 1)), "Squeeze": lambda x: call("Exp", a.squeeze(a.expand_dims(x, 0), 0)),
    "StridedSlice": lambda x: call("Exp", x[:, ::2]), "Slice": lambda x: call("Exp", a.slice_(x, [0, 1], [-1, 2])),
    "ConcatV2": lambda x: call("Exp", a.concat([x, x * 2.0, x[:1]], 0)), "Pack": lambda x: call("Exp", a.stack([x, x * 2.0], axis=1)),
    "Unpack": lambda x: call("Exp", a.unstack(x, num=3, axis=1)[1]), "Split": lambda x: call("Exp", a.split(x, 3, 1)[2]),
    "SplitV": lambda x: call("Exp", a.split(x, [1, 2], 1)[1]), "Tile": lambda x: call("Exp", a.tile(x, [2, 1])),
    "BroadcastTo": lambda x: call("Exp", a.broadcast_to(x, [4, 2, 3])), "Pad": lambda x: call("Exp", a.pad(x, [[1, 0], [0, 2]])),
    "ReverseV2": lambda x: call("Exp", a.reverse(x, [1])), "Fill": lambda x: a.fill([2, 2], x[0, 0] * x[0, 0]),
    "GatherV2 rows": lambda x: a.gather(x * x, [1, 0, 1]), "GatherV2 columns": lambda x: a.gather(x * x, [2, 2, 0], axis=1),
    "BiasAdd": lambda x: nn_ops.bias_add(x, x[0]),
    "cross entropy": lambda x: loss_ops.softmax_cross_entropy_with_logits_v2(labels=call("Softmax", x * x), logits=x),
    "several uses": lambda x: x * x + call("Exp", x) * x,
}  # fmt: skip


@pytest.fixture(params=[True, False], ids=["shapes known", "shapes unknown"])
def known(request):
    """Shapes come from running the graph itself on zeros, or not at all."""

    def shapes(op):
        placeholders = [o for o in op.graph if o.type == "Placeholder"]
        feeds = {p.outputs[0]: VALUE for p in placeholders}
        with np.errstate(all="ignore"):
            return [runner.run(t, feeds).shape for t in op.outputs]

    old = set_shape_function(shapes if request.param else None)
    yield request.param
    set_shape_function(old)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name, known):
    graph = Graph()
    with graph.as_default():
        x = a.placeholder("float64", [2, 3] if known else None, name="x")
        y = FUNCTIONS[name](x)
        weights = np.arange(1.0, 1 + runner.run(y, {x: VALUE}).size).reshape(runner.run(y, {x: VALUE}).shape)
        total = m.reduce_sum(y * constant(weights))
        found = gradients(total, x)[0]
        found = found.as_tensor() if isinstance(found, IndexedSlices) else found
    expected = np.zeros_like(VALUE)
    for index in np.ndindex(VALUE.shape):
        low, high = VALUE.copy(), VALUE.copy()
        low[index] -= STEP
        high[index] += STEP
        expected[index] = (runner.run(total, {x: high}) - runner.run(total, {x: low})) / (2 * STEP)
    np.testing.assert_allclose(runner.run(found, {x: VALUE}), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", "Exp Log Sqrt Rsqrt Square Tanh Sigmoid Sin Cos Reciprocal Softmax".split())
def test_second_order(name):
    graph = Graph()
    with graph.as_default():
        x = a.placeholder("float64", [2, 3])
        first = gradients(call(name, x) * constant(np.arange(6.0).reshape(2, 3)), x)[0]
        second = gradients(first[0, 1] + first[1, 2] * 2.0, x)[0]
    expected = np.zeros_like(VALUE)
    for index in np.ndindex(VALUE.shape):
        low, high = VALUE.copy(), VALUE.copy()
        low[index] -= STEP
        high[index] += STEP
        change = runner.run(first, {x: high}) - runner.run(first, {x: low})
        expected[index] = (change[0, 1] + 2 * change[1, 2]) / (2 * STEP)
    np.testing.assert_allclose(runner.run(second, {x: VALUE}), expected, rtol=1e-5, atol=1e-5)


def test_gradients_by_several_and_of_several():
    with Graph().as_default() as graph:
        x, y = a.placeholder("float64", [2]), a.placeholder("float64", [2])
        by_x, by_y = gradients([x * y, x], [x, y], grad_ys=[constant([1.0, 2.0], "float64"), None])
    feeds = {x: np.array([3.0, 4.0]), y: np.array([5.0, 6.0])}
    np.testing.assert_array_equal(runner.run(by_x, feeds), [6, 13])
    np.testing.assert_array_equal(runner.run(by_y, feeds), [3, 8])
    assert "gradients/grad_ys_1" in graph


def test_nothing_flows_through_a_stop():
    with Graph().as_default():
        x = a.placeholder("float64", [2])
        y = a.identity(x * 2.0)
        assert gradients(a.stop_gradient(y), x) == [None]
        assert gradients(y * y, x, stop_gradients=[y]) == [None]


def test_arguments_that_do_not_fit():
    with Graph().as_default():
        x = a.placeholder("float64", [2])
        with pytest.raises(GraphValueError, match="1 grad_ys do not match 2 ys"):
            gradients([x, x], x, grad_ys=[x])
        with pytest.raises(GraphTypeError, match="needs grad_ys"):
            gradients(a.placeholder("complex64", [2], name="c"), x)
        q = a.placeholder("float32", [2, 3])
        r = call("AdjustHue", q, 0.5)
        with pytest.raises(UnimplementedError, match=r"'AdjustHue'.*stop_gradient"):
            gradients(r, q)


def test_an_op_type_has_one_gradient():
    assert {"Mul", "MatMul", "Conv2D", "FusedBatchNormV3"} <= set(differentiable_ops())
    with pytest.raises(Exception, match="'Mul' already has a gradient"):
        register_gradient("Mul")(print)
