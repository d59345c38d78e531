"""Host ops whose result size depends on values, and more string ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call_n
from xlanb.runtime.host.texts import murmur_hash, shown, sip_hash


def run(op_type: str, *inputs: Any, **attrs: Any) -> list[Any]:
    with Graph().as_default() as graph:
        outputs = call_n(op_type, *inputs, **attrs)
        with tf.Session(graph=graph) as session:
            return list(session.run(outputs))


def texts(*values: str) -> Any:
    return np.array([v.encode() for v in values], object)


def test_unique_keeps_the_order_of_first_appearance() -> None:
    found, places, counts = run("UniqueWithCounts", np.array([3, 1, 3, 2, 1, 3], np.int32))
    assert found.tolist() == [3, 1, 2]
    assert places.tolist() == [0, 1, 0, 2, 1, 0]
    assert counts.tolist() == [3, 2, 1]
    rows, places = run("UniqueV2", np.array([[1, 2], [0, 1], [1, 2]], np.float32), np.array([0]))
    assert rows.tolist() == [[1, 2], [0, 1]]
    assert places.tolist() == [0, 1, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unique_compares_as_ieee_754_says(dtype: type) -> None:
    x = np.array([0, -0.0, np.nan, np.nan, 1, -0.0], dtype)
    found, places, counts = run("UniqueWithCounts", x)
    np.testing.assert_array_equal(found, np.array([0, np.nan, np.nan, 1], dtype))
    assert not np.signbit(found[0])
    assert places.tolist() == [0, 0, 1, 2, 3, 0]
    assert counts.tolist() == [3, 1, 1, 1]
    rows, places = run("UniqueV2", np.stack([x, x], 1), np.array([0]))
    assert rows.shape == (4, 2)
    assert places.tolist() == [0, 0, 1, 2, 3, 0]


def test_unique_of_other_types_and_of_nothing() -> None:
    for dtype in (bool, np.int8, np.int16, np.int64, np.complex128):
        found, places = run("Unique", np.array([1, 0, 1, 0], dtype))
        assert (found.tolist(), places.tolist()) == ([1, 0], [0, 1, 0, 1])
    found, places = run("UniqueV2", texts("a", "b", "a"), np.array([0]))
    assert (found.tolist(), places.tolist()) == ([b"a", b"b"], [0, 1, 0])
    found, places = run("UniqueV2", np.array([[b"a"], [b"b"], [b"".join([b"", b"a"])]], object), np.array([0]))
    assert (found.tolist(), places.tolist()) == ([[b"a"], [b"b"]], [0, 1, 0])
    found, places = run("UniqueV2", np.zeros((3, 0), np.float32), np.array([0]))
    assert (found.shape, places.tolist()) == ((1, 0), [0, 0, 0])
    found, places = run("Unique", np.zeros(0, np.float32))
    assert (found.shape, places.shape) == ((0,), (0,))


def test_where_partition_and_stitch_undo_each_other() -> None:
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    parts = np.array([1, 0, 1, 1], np.int32)
    assert run("Where", parts == 1)[0].ravel().tolist() == [0, 2, 3]
    first, second = run("DynamicPartition", data, parts, num_partitions=2)
    indices = [np.array([1], np.int32), np.array([0, 2, 3], np.int32)]
    (merged,) = run("DynamicStitch", indices, [first, second])
    np.testing.assert_array_equal(merged, data)


def test_segments_are_sorted_or_refused() -> None:
    data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    (sums,) = run("SegmentSum", data, np.array([0, 0, 2], np.int32))
    assert sums.tolist() == [[4, 6], [0, 0], [5, 6]]
    (means,) = run("SparseSegmentMean", data, np.array([2, 0], np.int32), np.array([0, 0], np.int32))
    assert means.tolist() == [[3, 4]]
    with pytest.raises(GraphError, match=r"SegmentMax.*must be non-negative and sorted"):
        run("SegmentMax", data, np.array([1, 0, 2], np.int32))


def test_texts_move_and_compare_like_numbers() -> None:
    (found,) = run("GatherV2", texts("a", "b", "c"), np.array([2, 0], np.int32), np.int32(0))
    assert found.tolist() == [b"c", b"a"]
    (equal,) = run("Equal", texts("a", "b"), texts("a", "c"))
    assert equal.tolist() == [True, False]


def test_patterns_and_splits() -> None:
    (found,) = run("RegexReplace", texts("abcab"), np.array(b"(a)b", object), np.array(rb"<\1\0>", object))
    assert found.tolist() == [b"<aab>c<aab>"]
    indices, values, shape = run("StringSplitV2", texts("a b", "c"), np.array(b"", object))
    assert indices.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert values.tolist() == [b"a", b"b", b"c"]
    assert shape.tolist() == [2, 2]
    with pytest.raises(GraphError, match="not a regular expression"):
        run("RegexFullMatch", texts("a"), np.array(b"(", object))


def test_hashes_of_published_examples() -> None:
    key = bytes(range(16))
    first, second = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    assert sip_hash(bytes(range(15)), first, second) == 0xA129CA6149BE45E5  # the example of SipHash's paper
    assert murmur_hash(b"", 0) == 0
    assert len({murmur_hash(bytes([i])) for i in range(64)}) == 64


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(1) / np.float32(3), "0.333333343"),
        (np.arange(10), "[0 1 2 ... 7 8 9]"),
        (np.array([True, False]), "[1 0]"),
        (np.array([[b"a", b"b"]], object), '[["a" "b"]]'),
        (np.arange(4).reshape(2, 1, 2), "[[[0 1]]\n\n [[2 3]]]"),
    ],
)
def test_tensors_as_tf_print_shows_them(value: Any, text: str) -> None:
    assert shown(value, 3) == text
