"""Data sets as functions make them: scans, reductions, windows, anonymous iterators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.builders.functional_control import function_of_nodes
from xlanb.graph.op_library import call, call_n, call_op
from xlanb.runtime.resources import OutOfRangeError

S64 = {"output_types": [tf.int64], "output_shapes": [[]]}
ANY = {"output_types": [tf.int64], "output_shapes": [None]}
VARIANT = {"output_types": [tf.variant], "output_shapes": [[]]}


def _range(stop: int) -> Any:
    return call("RangeDataset", np.int64(0), np.int64(stop), np.int64(1), **S64)


def _function(name: str, count: int, make: Callable[..., list[Any]]) -> Any:
    """A function of `count` int64 scalars."""
    graph = tf.get_default_graph()
    given = [tf.placeholder(tf.int64, []) for _ in range(count)]
    before = len(graph)
    results = make(*given)
    ops = graph.get_operations()[before:]
    ref = function_of_nodes(graph, name, ops, given, results)
    graph.remove_ops(ops)
    graph.remove_ops([t.op for t in given])
    return ref


def _all(dataset: Any) -> list[Any]:
    """The elements, one after the other."""
    total = call_n(
        "ReduceDataset",
        dataset,
        [np.zeros([0], np.int64)],
        [],
        f=_function_of_vectors(),
        Tstate=[tf.int64],
        Targuments=[],
        **ANY,
    )[0]
    with tf.Session() as session:
        found: list[Any] = session.run(total).tolist()
    return found


def _function_of_vectors() -> Any:
    """Appends an element, of any shape, to a vector."""
    graph = tf.get_default_graph()
    state, element = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, None)
    before = len(graph)
    joined = tf.concat([state, tf.reshape(element, [-1])], 0)
    ops = graph.get_operations()[before:]
    ref = function_of_nodes(graph, "append", ops, [state, element], [joined])
    graph.remove_ops(ops)
    graph.remove_ops([state.op, element.op])
    return ref


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


def test_scan() -> None:
    running = _function("running", 2, lambda s, v: [s + v, (s + v) * 10])
    made = call("ScanDataset", _range(5), [np.int64(1)], [], f=running, Tstate=[tf.int64], Targuments=[], **S64)
    assert _all(made) == [10, 20, 40, 70, 110]


def test_take_while() -> None:
    small = _function("small", 1, lambda v: [v * v < 10])
    assert _all(call("TakeWhileDataset", _range(9), [], predicate=small, Targuments=[], **S64)) == [0, 1, 2, 3]


def test_unique() -> None:
    rest = _function("rest", 1, lambda v: [v % 3])
    mapped = call("MapDataset", _range(7), [], f=rest, Targuments=[], **S64)
    assert _all(call("UniqueDataset", mapped, **S64)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("size", "shift", "stride", "drops", "expected"),
    [
        (3, 2, 1, True, [0, 1, 2, 2, 3, 4, 4, 5, 6]),
        (3, 2, 1, False, [0, 1, 2, 2, 3, 4, 4, 5, 6, 6]),
        (2, 3, 1, True, [0, 1, 3, 4]),
        (2, 3, 2, True, [0, 2, 3, 5]),
        (2, 1, 3, True, [0, 3, 1, 4, 2, 5, 3, 6]),
    ],
)
def test_windows(size: int, shift: int, stride: int, drops: bool, expected: list[int]) -> None:
    sizes = [np.int64(v) for v in (size, shift, stride)]
    windows = call("WindowDataset", _range(7), *sizes, np.bool_(drops), **VARIANT)
    graph = tf.get_default_graph()
    inner = tf.placeholder(tf.variant, [])
    same = function_of_nodes(graph, "same", [], [inner], [inner])
    graph.remove_ops([inner.op])
    assert _all(call("FlatMapDataset", windows, [], f=same, Targuments=[], **S64)) == expected


def test_map_and_batch() -> None:
    square = _function("square", 1, lambda v: [v * v])
    made = call(
        "MapAndBatchDataset", _range(5), [], np.int64(2), np.int64(1), np.bool_(False), f=square, Targuments=[], **ANY
    )
    assert _all(made) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    ("wanted", "message"), [(4, "4 elements but contained more"), (6, "6 elements but contained only 5")]
)
def test_cardinality_is_checked(wanted: int, message: str) -> None:
    made = call("AssertCardinalityDataset", _range(5), np.int64(wanted), **S64)
    with pytest.raises(GraphError, match=message):
        _all(made)
    assert _all(call("AssertCardinalityDataset", _range(5), np.int64(5), **S64)) == [0, 1, 2, 3, 4]


def test_shuffles_keep_the_elements() -> None:
    generator = call_n("AnonymousSeedGenerator", np.int64(3), np.int64(4), np.bool_(False))[0]
    made = call("ShuffleDatasetV2", _range(9), np.int64(4), generator, **S64)
    first, second = _all(made), _all(made)
    assert sorted(first) == list(range(9))
    assert first == second != list(range(9))
    dummy = call("DummySeedGenerator")
    numbers = [np.int64(v) for v in (4, 1, 2, 2)]
    repeated = call("ShuffleAndRepeatDatasetV2", _range(4), *numbers, dummy, **S64)
    assert sorted(_all(repeated)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_each_anonymous_iterator_begins_at_the_first_element() -> None:
    iterators = [call("AnonymousIteratorV3", **S64) for _ in range(2)]
    starts = [call_op("MakeIterator", _range(2), it) for it in iterators]
    with tf.control_dependencies(starts):
        first = call_n("IteratorGetNext", iterators[0], **S64)[0]
    with tf.control_dependencies([first.op]):
        second = call_n("IteratorGetNext", iterators[0], **S64)[0]
    with tf.control_dependencies([second.op]):
        other = call_n("IteratorGetNext", iterators[1], **S64)[0]
        third = call_n("IteratorGetNext", iterators[0], **S64)[0]
    with tf.Session() as session:
        for _ in range(2):
            assert session.run([first, second, other]) == [0, 1, 0]
        with pytest.raises(OutOfRangeError, match="End of sequence"):
            session.run(third)
