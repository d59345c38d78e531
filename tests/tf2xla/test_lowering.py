"""Lowering single ops: values as in NumPy, inferred shapes, and errors that name the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb.errors import GraphError, UnknownOpError
from xlanb.evaluator import evaluate
from xlanb.graph import dtypes
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape
from xlanb.tf2xla import constant_value, lower
from xlanb.tf2xla.compiler import argument_of


class Builder:
    """Makes nodes on one graph."""

    def __init__(self) -> None:
        self.graph = Graph()

    def placeholder(self, name: str, dims: Any, dtype: Any = dtypes.float32) -> Tensor:
        return self.graph.create_op(
            "Placeholder", (), [dtype], {"dtype": dtype, "shape": TensorShape(dims)}, name
        ).outputs[0]

    def const(self, value: Any, name: str = "Const") -> Tensor:
        array = np.asarray(value)
        return self.graph.create_op(
            "Const", (), [dtypes.as_dtype(array.dtype)], {"dtype": dtypes.as_dtype(array.dtype), "value": array}, name
        ).outputs[0]

    def op(self, op_type: str, *inputs: Tensor, dtype: Any = None, outputs: int = 1, **attrs: Any) -> Tensor:
        made = self.graph.create_op(
            op_type, inputs, [dtype or inputs[0].dtype] * outputs, {"T": inputs[0].dtype, **attrs}, op_type
        )
        return made.outputs[0]


@pytest.fixture
def b() -> Builder:
    return Builder()


def run(fetch: Tensor, **arrays: Any) -> Any:
    graph = fetch.graph
    feeds = [(graph.get_tensor_by_name(f"{n}:0"), argument_of(a)) for n, a in arrays.items()]
    result = lower("f", feeds, [fetch])
    result.module.verify()
    return evaluate(result.module, *arrays.values())[0]


X = np.array([[7, -7, 5], [-5, 3, 0]], np.float32)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("FloorMod", np.mod),
        ("FloorDiv", np.floor_divide),
        ("TruncateMod", np.fmod),
        ("Sub", np.subtract),
        ("Maximum", np.maximum),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_binary_ops_broadcast_as_numpy(b: Builder, op: str, function: Any, dtype: Any) -> None:
    x, y = X.astype(dtype), np.array([[3], [-2]], dtype)
    t = dtypes.as_dtype(dtype)
    fetch = b.op(op, b.placeholder("x", [2, 3], t), b.placeholder("y", [2, 1], t))
    np.testing.assert_array_equal(run(fetch, x=x, y=y), function(x, y))
    assert fetch.shape.as_list() == [2, 3]


@pytest.mark.parametrize(
    ("op", "function"), [("Sum", np.sum), ("Mean", np.mean), ("Max", np.max), ("Min", np.min), ("Prod", np.prod)]
)
@pytest.mark.parametrize(("axes", "keep"), [([0], False), ([-1], True), ([0, 1], False), ([], False)])
def test_reductions(b: Builder, op: str, function: Any, axes: list[int], keep: bool) -> None:
    fetch = b.op(op, b.placeholder("x", [2, 3]), b.const(np.array(axes, np.int32)), keep_dims=keep)
    np.testing.assert_allclose(run(fetch, x=X), function(X, axis=tuple(axes), keepdims=keep), rtol=1e-6)


def test_an_axis_out_of_range_names_the_node(b: Builder) -> None:
    fetch = b.op("Sum", b.placeholder("x", [2, 3]), b.const(np.array([2], np.int32)), keep_dims=False)
    with pytest.raises(GraphError, match=r"'Sum': axis 2 is out of range"):
        run(fetch, x=X)


def test_tile_gather_reshape(b: Builder) -> None:
    x = b.placeholder("x", [2, 3])
    tiled = b.op("Tile", x, b.const(np.array([2, 3], np.int32)))
    np.testing.assert_array_equal(run(tiled, x=X), np.tile(X, (2, 3)))
    gathered = b.op("GatherV2", x, b.const(np.array([2, 0], np.int32)), b.const(np.int32(1)))
    np.testing.assert_array_equal(run(gathered, x=X), X[:, [2, 0]])
    reshaped = b.op("Reshape", x, b.const(np.array([3, -1], np.int32)))
    np.testing.assert_array_equal(run(reshaped, x=X), X.reshape(3, 2))


@pytest.mark.parametrize(("a", "c"), [([3], [2, 3]), ([2, 1], [2, 3]), ([], [4]), ([2, 3], [2, 3]), ([1, 1], [1, 5])])
def test_broadcast_gradient_args_sum_back_to_the_operand(b: Builder, a: list[int], c: list[int]) -> None:
    node = b.graph.create_op(
        "BroadcastGradientArgs",
        [b.const(np.array(a, np.int32)), b.const(np.array(c, np.int32))],
        [dtypes.int32] * 2,
        {"T": dtypes.int32},
    )
    wide = np.broadcast_shapes(tuple(a), tuple(c))
    for output, dims in zip(node.outputs, (a, c), strict=True):
        axes = constant_value(output)
        assert axes is not None
        assert np.ones(wide).sum(axis=tuple(axes)).size == np.prod(dims, dtype=int)


def test_unknown_dimensions_flow_through_shapes(b: Builder) -> None:
    x = b.placeholder("x", [None, 4])
    w = b.placeholder("w", [4, 2])
    y = b.op("MatMul", x, w, transpose_a=False, transpose_b=False)
    assert y.shape.as_list() == [None, 2]
    assert b.op("Sum", y, b.const(np.array([0], np.int32)), keep_dims=False).shape.as_list() == [2]


def test_matmul_that_does_not_fit_names_the_node(b: Builder) -> None:
    y = b.op("MatMul", b.placeholder("x", [2, 3]), b.placeholder("w", [4, 2]), transpose_a=False, transpose_b=False)
    with pytest.raises(GraphError, match=r"'MatMul'.*inner dimensions 3 and 4"):
        _ = y.shape


def test_an_op_without_lowering_names_node_and_op(b: Builder) -> None:
    x = b.placeholder("x", [2])
    fetch = b.graph.create_op("NoSuchOp", [x], [dtypes.float32], {}, "strange").outputs[0]
    with pytest.raises(UnknownOpError, match=r"'strange'.*'NoSuchOp'"):
        run(fetch, x=np.ones(2, np.float32))


def test_an_axis_that_is_not_constant_is_refused(b: Builder) -> None:
    fetch = b.op("Sum", b.placeholder("x", [2, 3]), b.placeholder("axis", [1], dtypes.int32), keep_dims=False)
    with pytest.raises(GraphError, match=r"input 1 of node 'Sum' .* compile-time constant"):
        run(fetch, x=X, axis=np.array([0], np.int32))


def test_values_needed_only_while_lowering_leave_no_trace(b: Builder) -> None:
    x = b.placeholder("x", [2, 3])
    fetch = b.op("Sum", x, b.const(np.array([0], np.int32)), keep_dims=False)
    module = lower("f", [(x, argument_of(X))], [fetch]).module
    assert [i.metadata.op_type for i in module.entry_computation if str(i.opcode) == "constant"] == ["Sum"]


def test_instructions_name_their_node_and_line(b: Builder) -> None:
    x = b.placeholder("x", [2, 3])
    fetch = b.op("Square", x)
    module = lower("f", [(x, argument_of(X))], [fetch]).module
    (multiply,) = [i for i in module.entry_computation if str(i.opcode) == "multiply"]
    assert (multiply.metadata.op_type, multiply.metadata.op_name) == ("Square", "Square")
    assert multiply.metadata.source_file.endswith("test_lowering.py")
    assert multiply.metadata.source_line > 0
