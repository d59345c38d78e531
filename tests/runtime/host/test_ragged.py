"""Ragged tensors converted to dense or sparse ones on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.op_library import call, call_n


def _dense(shape: Any, values: Any, default: Any, partitions: list[Any], kinds: list[str]) -> Any:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        wanted = tf.constant(np.asarray(shape, np.int64))
        made = [tf.constant(np.asarray(p, np.int64)) for p in partitions]
        data = tf.constant(np.asarray(values, np.float32))
        fill = tf.constant(np.asarray(default, np.float32))
        return session.run(call("RaggedTensorToTensor", wanted, data, fill, made, row_partition_types=kinds)).tolist()


SPLITS, IDS = ["ROW_SPLITS"], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]


@pytest.mark.parametrize(
    ("shape", "values", "partitions", "kinds", "expected"),
    [
        (-1, [1, 2, 3], [[0, 1, 1, 3]], SPLITS, [[1, 9], [9, 9], [2, 3]]),
        ([2, 3], [1, 2, 3], [[0, 1, 1, 3]], SPLITS, [[1, 9, 9], [9, 9, 9]]),
        ([-1, 1], [1, 2, 3], [[0, 1, 1, 3]], SPLITS, [[1], [9], [2]]),
        (-1, [1, 2, 3], [4, [0, 2, 2]], IDS, [[1, 9], [9, 9], [2, 3], [9, 9]]),
        (-1, [[1, 2], [3, 4]], [[0, 0, 2]], SPLITS, [[[9, 9], [9, 9]], [[1, 2], [3, 4]]]),
        (-1, [1, 2, 3], [[0, 1, 2], [0, 2, 3]], SPLITS * 2, [[[1, 2]], [[3, 9]]]),
        (-1, [], [[0, 0]], SPLITS, [[]]),
    ],
)
def test_values_take_their_places(shape: Any, values: Any, partitions: Any, kinds: Any, expected: Any) -> None:
    assert _dense(shape, values, 9, partitions, kinds) == expected


@pytest.mark.parametrize(
    ("shape", "values", "default", "partitions", "kinds", "message"),
    [
        (-1, [1, 2], 0, [[0, 1, 3]], SPLITS, "are of 3 values, not 2"),
        (-1, [1, 2], 0, [[1, 2]], SPLITS, "not ascending bounds"),
        (-1, [1, 2], 0, [1, [0, 1]], IDS, "not ascending numbers of 1 rows"),
        ([2], [1, 2], 0, [[0, 2]], SPLITS, "must have 2 dimensions"),
        ([1, 2, 5], [[1, 2]], 0, [[0, 1]], SPLITS, "does not end with"),
        (-1, [1, 2], [0, 0, 0], [[0, 2]], SPLITS, "does not fit"),
        (-1, [1, 2], 0, [[0, 2]], ["COLUMNS"], "unexpected row_partition_types .*: expected FIRST_DIM_SIZE"),
        (-1, [1, 2], 0, [[0, 2]], SPLITS * 2, "1 row partitions, but 2"),
    ],
)
def test_what_does_not_fit_says_so(
    shape: Any, values: Any, default: Any, partitions: Any, kinds: Any, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        _dense(shape, values, default, partitions, kinds)


def test_sparse_indices() -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        splits = tf.constant(np.array([0, 1, 1, 3], np.int64))
        data = tf.constant(np.arange(6.0).reshape(3, 2))
        indices, values, shape = session.run(call_n("RaggedTensorToSparse", [splits], data))
    assert indices.tolist() == [[0, 0, 0], [0, 0, 1], [2, 0, 0], [2, 0, 1], [2, 1, 0], [2, 1, 1]]
    assert values.tolist() == [0, 1, 2, 3, 4, 5]
    assert shape.tolist() == [3, 2, 2]
