"""Shapes that a graph does not state, from the nodes around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Tensor
from xlanb.tf2xla.stand_in_shapes import BATCH, stand_in_shapes


def argument(index: int = 0, dtype: Any = tf.float32) -> Tensor:
    graph = tf.get_default_graph()
    return graph.create_op("_Arg", (), [dtype], {"T": dtype, "index": index}, name="arg").outputs[0]


def found(*wanted: Tensor) -> list[tuple[int, ...]]:
    solution = next(stand_in_shapes(wanted[0].graph, wanted, {}))
    return [solution.shapes[t] for t in wanted]


def f32(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_weights_tell_the_features_and_the_batch_is_chosen() -> None:
    with Graph().as_default():
        x, labels = argument(), argument(1, tf.int32)
        logits = call("BiasAdd", call("MatMul", x, f32(5, 3)), f32(3))
        call_op("SparseSoftmaxCrossEntropyWithLogits", logits, labels)
        assert found(x, labels) == [(BATCH, 5), (BATCH,)]


def test_back_through_scalars_and_functions() -> None:
    with Graph().as_default():
        x, y = argument(), argument(1)
        call("MatMul", call("Relu", call("Sub", call("Mul", x, np.float32(2)), np.float32(1))), f32(4, 2))
        call("Sub", call("Transpose", y, np.array([1, 0])), f32(6, 7))
        assert found(x, y) == [(BATCH, 4), (7, 6)]


def test_pictures_back_through_windows_from_the_flattened_size() -> None:
    with Graph().as_default():
        x = argument()
        conv = call("Conv2D", x, f32(5, 5, 1, 6), strides=[1, 1, 1, 1], padding="VALID")
        pool = call("MaxPool", conv, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
        call("MatMul", call("Reshape", pool, np.array([-1, 12 * 12 * 6], np.int32)), f32(864, 10))
        assert found(x) == [(BATCH, 28, 28, 1)]


def test_sizes_back_through_slices() -> None:
    with Graph().as_default():
        ids = argument(0, tf.int32)
        rows = call("GatherV2", f32(50, 4), ids[:, :-1], np.int32(0))
        call("AddV2", rows, f32(16, 4))
        solutions = [s.shapes[ids] for s in stand_in_shapes(ids.graph, [ids], {})]
        assert (BATCH, 17) in solutions


def test_what_is_guessed_is_told_and_what_is_given_holds() -> None:
    with Graph().as_default() as graph:
        x, y = argument(), argument(1)
        call("MatMul", call("AddV2", x, y), f32(4, 2))
        solution = next(stand_in_shapes(graph, [x, y], {y: (3, 4)}))
        assert solution.shapes[x] == (3, 4)
        assert list(solution.guessed) == [x]


def test_nodes_that_contradict_each_other_are_named() -> None:
    with Graph().as_default() as graph:
        x = argument()
        call("MatMul", x, f32(4, 2))
        call("MatMul", x, f32(5, 2))
        with pytest.raises(GraphError, match=r"'arg:0' has a size of 4, expected 5"):
            list(stand_in_shapes(graph, [x], {}))


def test_a_cluster_of_a_graph_without_shapes_is_lowered() -> None:
    with Graph().as_default() as graph:
        x = argument()
        out = call("Tanh", call("Exp", call("Mul", call("MatMul", x, f32(4, 2)), f32(2)), name="e"))
        graph.create_op("_Retval", [out], [], {"T": tf.float32, "index": 0})
    clustering = xlanb.cluster(graph)
    (cluster,) = clustering.clusters
    assert cluster.assumed_shapes == {"arg:0": (BATCH, 4)}
    cluster.hlo_module.verify()
    assert "f32[8,4]" in str(cluster.hlo_module)
