"""tf.test: helpers of programs' tests (python/framework/test_util.py, python/platform/test.py)."""

# ruff: noqa: PT009, PT028 - a test case of unittest's kind

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlanb.graph.builders.array_ops import reshape
from xlanb.graph.builders.random_ops import set_random_seed
from xlanb.graph.default_graph import get_default_graph, reset_default_graph
from xlanb.graph.default_session import require_session
from xlanb.graph.gradients import gradients
from xlanb.runtime.session import Session

main = unittest.main


class TestCase(unittest.TestCase):
    """A test with a default graph of its own, a seed of 87654321, and comparisons of arrays."""

    def setUp(self) -> None:
        """Begin a graph."""
        reset_default_graph()
        set_random_seed(87654321)

    def get_temp_dir(self) -> str:
        """A directory for the test's files, removed in the end."""
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        return held.name

    @contextmanager
    def test_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Session]:
        """A session in which the test runs."""
        with Session(graph=graph or get_default_graph(), config=config) as session:
            yield session

    session = cached_session = test_session

    def evaluate(self, tensors: Any) -> Any:
        """Values, in the default session."""
        return require_session(None, get_default_graph()).run(tensors)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802 - TensorFlow's name
        """Equal arrays."""
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=msg or "")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:  # noqa: N802 - TensorFlow's name
        """Arrays that are nearly equal."""
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol, err_msg=msg or "")

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any) -> None:  # noqa: N802 - TensorFlow's name
        """An array of the tensor's shape."""
        self.assertEqual(list(np_array.shape), tf_tensor.shape.as_list())

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:  # noqa: N802 - TensorFlow's name
        """Numbers at most `err` apart."""
        self.assertLessEqual(abs(f1 - f2), err, msg)


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """No: there are no GPUs here."""
    return False


def is_built_with_cuda() -> bool:
    """No."""
    return False


def get_temp_dir() -> str:
    """A directory for files of tests."""
    return tempfile.mkdtemp()


def gpu_device_name() -> str:
    """None: the empty name."""
    return ""


def compute_gradient_error(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None
) -> float:
    """Return the largest difference of y's gradients by x between tf.gradients and finite
    differences.

    It runs in the default session.
    """
    theirs, ours = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets)
    return float(np.abs(theirs - ours).max()) if theirs.size else 0.0


def compute_gradient(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None
) -> tuple[Any, Any]:
    """The two Jacobians [elements of x, elements of y]: by tf.gradients, and by small steps."""
    session: Any = require_session(None, x.graph)
    if init_targets is not None:
        session.run(init_targets)
    start = np.random.default_rng(0).random(x_shape) if x_init_value is None else np.asarray(x_init_value)
    start = start.astype(x.dtype.numpy_dtype)
    size = int(np.prod(y_shape))
    flat = reshape(y, [-1])
    found = [gradients(flat[i], x)[0] for i in range(size)]
    analytic = np.stack(
        [np.zeros(start.size) if g is None else np.ravel(session.run(g, {x: start})) for g in found], axis=1
    )
    numeric = np.zeros_like(analytic)
    for i in range(start.size):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved.flat[i] += sign * delta
            ends.append(np.ravel(session.run(y, {x: moved})).astype(np.float64))
        numeric[i] = (ends[0] - ends[1]) / (2 * delta)
    return analytic, numeric
