"""Fourier transforms over any axes, against sums of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (3, 4, 5)) + 1j * RNG.uniform(-1, 1, (3, 4, 5))


def run(op_type: str, x: Any, lengths: list[int], axes: list[int], **attrs: Any) -> Any:
    with Graph().as_default() as graph, tf.Session(graph=graph) as session:
        return session.run(
            call(op_type, tf.constant(x), np.array(lengths, np.int32), np.array(axes, np.int32), **attrs)
        )


def along(x: Any, axis: int, length: int, sign: int) -> Any:
    """The transform along one axis, by its definition; the input is cut or padded."""
    moved = np.moveaxis(x, axis, -1)[..., :length]
    moved = np.concatenate([moved, np.zeros((*moved.shape[:-1], length - moved.shape[-1]))], -1)
    waves = np.exp(sign * 2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length)
    return np.moveaxis(moved @ waves, -1, axis)


def test_transforms_over_axes_that_are_not_the_last() -> None:
    found = run("FFTND", X.astype(np.complex64), [2, 6], [0, 1])
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, along(along(X, 0, 2, -1), 1, 6, -1), rtol=1e-4, atol=1e-4)
    back = run("IFFTND", X, [4, 3], [1, -3])
    np.testing.assert_allclose(back, along(along(X, 1, 4, 1), 0, 3, 1) / 12, rtol=1e-12, atol=1e-12)


def test_transforms_of_reals_halve_the_last_of_the_axes() -> None:
    found = run("RFFTND", X.real, [3, 4], [0, 1], Tcomplex=tf.complex128)
    want = along(along(X.real, 0, 3, -1), 1, 4, -1)[:, :3]
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)
    back = run("IRFFTND", found, [3, 4], [0, 1], Treal=tf.float64)
    np.testing.assert_allclose(back, X.real, rtol=1e-12, atol=1e-12)


def test_lengths_and_axes_are_checked() -> None:
    with pytest.raises(GraphError, match=r"one positive number for each of the axes \[0, 1\], not \[4\]"):
        run("FFTND", X, [4], [0, 1])
    with pytest.raises(GraphError, match=r"different dimensions of shape \[3, 4, 5\], not \[0, -3\]"):
        run("FFTND", X, [4, 4], [0, -3])
