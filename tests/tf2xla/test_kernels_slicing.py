"""Slices, padding, splitting and joining against NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xlanb.errors import GraphError

X = np.arange(210, dtype=np.float32).reshape(5, 6, 7)
LENIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def strided(index: tuple[Any, ...], rank: int) -> tuple[list[list[int]], dict[str, int]]:
    """begin, end, strides and the masks of a NumPy subscript."""
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for i, item in enumerate(index):
        entry = (0, 0, 1)
        if item is Ellipsis:
            masks["ellipsis_mask"] |= 1 << i
        elif item is None:
            masks["new_axis_mask"] |= 1 << i
        elif isinstance(item, slice):
            masks["begin_mask"] |= (item.start is None) << i
            masks["end_mask"] |= (item.stop is None) << i
            entry = (item.start or 0, item.stop or 0, item.step or 1)
        else:
            masks["shrink_axis_mask"] |= 1 << i
            entry = (item, item + 1, 1)
        begin.append(entry[0])
        end.append(entry[1])
        strides.append(entry[2])
    return [begin, end, strides], masks


bound = st.none() | st.integers(-9, 9)
item = st.builds(slice, bound, bound, st.integers(-3, 3).filter(bool)) | st.integers(-5, 4) | st.none()
subscripts = st.lists(item, max_size=4).filter(lambda s: sum(i is not None for i in s) <= 3)


@LENIENT
@given(subscripts, st.booleans())
def test_strided_slices_are_numpys_subscripts(run_op: Any, items: list[Any], dots: bool) -> None:
    index = (*items[:1], Ellipsis, *items[1:]) if dots else tuple(items)
    (begin, end, strides), masks = strided(index, 3)
    want = X[index]
    bounds = [np.array(v, np.int32) for v in (begin, end, strides)]
    np.testing.assert_array_equal(run_op("StridedSlice", X, *bounds, **masks), want)
    gradient = np.random.default_rng(0).normal(size=want.shape).astype(np.float32)
    spread = np.zeros_like(X)
    spread[index] = gradient
    got = run_op("StridedSliceGrad", np.array(X.shape, np.int32), *bounds, gradient, outputs=[np.float32], **masks)
    np.testing.assert_array_equal(got, spread)
    updated = X.copy()
    updated[index] = gradient
    np.testing.assert_array_equal(run_op("TensorStridedSliceUpdate", X, *bounds, gradient, **masks), updated)


@pytest.mark.parametrize(
    ("begin", "strides", "masks", "message"),
    [
        ([5], [1], {"shrink_axis_mask": 1}, "out of bounds"),
        ([0], [0], {}, "must not be 0"),
        ([0, 0, 0, 0], [1, 1, 1, 1], {}, "4 subscripts for 3 dimensions"),
        ([0, 0], [1, 1], {"ellipsis_mask": 3}, "only one ellipsis"),
    ],
)
def test_subscripts_that_do_not_fit_name_the_node(
    run_op: Any, begin: Any, strides: Any, masks: Any, message: str
) -> None:
    with pytest.raises(GraphError, match=f"'node'.*{message}"):
        run_op("StridedSlice", X, np.array(begin), np.array(begin) + 1, np.array(strides), **masks)


def test_slices_with_a_size_to_the_end(run_op: Any) -> None:
    np.testing.assert_array_equal(run_op("Slice", X, np.array([1, 0, 2]), np.array([-1, 3, 2])), X[1:, :3, 2:4])
    with pytest.raises(GraphError, match="are out of bounds"):
        run_op("Slice", X, np.array([1, 0, 6]), np.array([-1, 3, 2]))


PADDINGS = np.array([[1, 2], [0, 3], [4, 0]], np.int32)


def test_padding(run_op: Any) -> None:
    np.testing.assert_array_equal(run_op("Pad", X, PADDINGS), np.pad(X, PADDINGS))
    np.testing.assert_array_equal(run_op("PadV2", X, PADDINGS, np.float32(7)), np.pad(X, PADDINGS, constant_values=7))


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_mirrored_padding_and_its_gradient_are_adjoint(run_op: Any, mode: str) -> None:
    padded = run_op("MirrorPad", X, PADDINGS, mode=mode)
    np.testing.assert_array_equal(padded, np.pad(X, PADDINGS, mode=mode.lower()))
    y = np.random.default_rng(1).normal(size=padded.shape)
    back = run_op("MirrorPadGrad", y, PADDINGS, mode=mode)
    np.testing.assert_allclose((padded * y).sum(), (X * back).sum())


def test_splitting_and_joining(run_op: Any) -> None:
    f3 = [np.float32] * 3
    for got, want in zip(run_op("Split", np.int32(1), X, outputs=f3), np.split(X, 3, 1), strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(
        run_op("SplitV", X, np.array([1, -1, 2]), np.int32(-1), outputs=f3), np.split(X, [1, 5], 2), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(run_op("Unpack", X, outputs=[np.float32] * 5, axis=0), X, strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(run_op("ConcatV2", X, X[:, :2], np.int32(1)), np.concatenate([X, X[:, :2]], 1))
    np.testing.assert_array_equal(run_op("Pack", X, X, axis=-1), np.stack([X, X], -1))
    offsets = run_op(
        "ConcatOffset", np.int32(1), np.array([2, 3], np.int32), np.array([2, 4], np.int32), outputs=[np.int32] * 2
    )
    assert [o.tolist() for o in offsets] == [[0, 0], [0, 3]]
    with pytest.raises(GraphError, match="cannot be split into 4"):
        run_op("Split", np.int32(1), X, outputs=[np.float32] * 4)
