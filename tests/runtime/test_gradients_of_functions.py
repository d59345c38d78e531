"""Gradients of calls, branches and loops against finite differences and unrolled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import UnimplementedError
from xlanb.graph.builders.functional_control import Traced, cond_v2, while_v2
from xlanb.graph.gradients import gradients
from xlanb.graph.op_library import call, call_n

VALUE = np.array([0.5, -0.2, 1.1])
STEP = 1e-6


def _function(graph: Any, make: Callable[[], list[Any]]) -> tuple[Any, list[Any]]:
    traced = Traced(graph, make, (), None)
    ref = traced.move("made", traced.captures, traced.results)
    traced.drop()
    return ref, traced.captures


def _called(x: Any) -> Any:
    ref, inputs = _function(x.graph, lambda: [tf.sin(x) * x])
    return call_n("PartitionedCall", inputs, Tout=[tf.float64], f=ref)[0] * x


def _branched(x: Any, *, flag: bool) -> Any:
    return cond_v2(tf.reduce_sum(x) > (1.0 if flag else 2.0), lambda: x * x * 3.0, lambda: tf.exp(x), None)


def _loop(x: Any, *, limit: Any = 4) -> Any:
    return while_v2(
        lambda i, _: i < limit, lambda i, a: (i + 1, tf.tanh(a) * x + a), [0, x], None, None, None, same=True
    )[1]


def _open_loop(x: Any) -> Any:
    return while_v2(
        lambda _, a: tf.reduce_sum(a) < 30.0, lambda i, a: (i + 1, a * 1.5 + x * x), [0, x], None, None, None, same=True
    )[1]


def _nested(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        inner = while_v2(
            lambda j, _: j < 3, lambda j, b: (j + 1, tf.sin(b) * x + a), [0, a], None, None, None, same=True
        )[1]
        return i + 1, cond_v2(i > 1, lambda: inner * x, lambda: inner + x, None)

    return while_v2(lambda i, _: i < 4, body, [0, x], None, None, None, same=True)[1]


def _listed(x: Any) -> Any:
    """A loop that reads a list and fills another, like version-2 TensorArrays."""
    source = call("TensorListFromTensor", x, tf.constant([], tf.int32))
    empty = call("TensorListReserve", tf.constant([], tf.int32), 3, element_dtype=tf.float64)

    def body(i: Any, a: Any, out: Any) -> Any:
        item = call("TensorListGetItem", source, i, tf.constant([], tf.int32), element_dtype=tf.float64)
        a = a * item + tf.sin(item)
        a.set_shape([])
        return i + 1, a, call("TensorListSetItem", out, i, a)

    made = while_v2(lambda i, *_: i < 3, body, [0, x[0] * x[1], empty], None, None, None, same=True)[2]
    return call("TensorListStack", made, tf.constant([], tf.int32), element_dtype=tf.float64)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "call": _called,
    "then": lambda x: _branched(x, flag=True),
    "else": lambda x: _branched(x, flag=False),
    "loop": _loop,
    "loop of unknown length": _open_loop,
    "nested": _nested,
    "lists": _listed,
}


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str, is_compiled: bool) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [3])
        total = tf.reduce_sum(FUNCTIONS[name](x) * tf.constant([1.0, -2.0, 0.5], tf.float64))
        (by_x,) = gradients(total, x)
        config = tf.ConfigProto()
        if is_compiled:
            config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        with tf.Session(graph=graph, config=config) as session:
            found = session.run(by_x, {x: VALUE})
            for i in range(3):
                way = np.eye(3)[i] * STEP
                high, low = (session.run(total, {x: VALUE + s * way}) for s in (1, -1))
                assert found[i] == pytest.approx((high - low) / (2 * STEP), rel=1e-6, abs=1e-7)


def test_a_loop_compiles_as_a_whole() -> None:
    """The bound of the loop follows from its counter, so that its lists have one."""

    def step(x: Any) -> Any:
        return tf.gradients(tf.reduce_sum(_loop(x)), x)[0]

    def unrolled(x: Any) -> Any:
        a = x
        for _ in range(4):
            a = tf.tanh(a) * x + a
        return tf.gradients(tf.reduce_sum(a), x)[0]

    np.testing.assert_allclose(xlanb.jit(step)(VALUE), xlanb.jit(unrolled)(VALUE), rtol=1e-12)


def test_variables_in_branches_and_loops() -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("v", [3], tf.float64, initializer=tf.constant_initializer(0.5), use_resource=True)
        x = tf.placeholder(tf.float64, [3])
        handle = variable.handle

        def read() -> Any:
            return call("ReadVariableOp", handle, dtype=tf.float64)

        y = cond_v2(x[0] > 0.0, lambda: read() * x, lambda: x * 1.0, None)
        y = while_v2(lambda i, _: i < 3, lambda i, a: (i + 1, a * read()), [0, y], None, None, None, same=True)[1]
        found = gradients(tf.reduce_sum(y), [variable, x])
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            by_variable, by_x = session.run(found, {x: VALUE})
            np.testing.assert_allclose(by_variable, 4 * 0.5**3 * VALUE)
            np.testing.assert_allclose(by_x, np.full(3, 0.5**4))
            by_variable, by_x = session.run(found, {x: -VALUE})
            np.testing.assert_allclose(by_variable, -3 * 0.5**2 * VALUE)


def test_what_cannot_be_computed_again_says_so() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [3])
        y = cond_v2(x[0] > 0.0, lambda: x * call("RandomUniform", [3], dtype=tf.float64), lambda: x * 1.0, None)
        with pytest.raises(UnimplementedError, match="not possible with RandomUniform"):
            gradients(y, x)


def _squared_list(x: Any, i: Any, a: Any) -> Any:
    """Square the element of this iteration in place."""
    item = call("TensorListGetItem", a, i, tf.constant([], tf.int32), element_dtype=tf.float64)
    return call("TensorListSetItem", a, i, item * item * x[0])


def _twice_set_list(x: Any, i: Any, a: Any) -> Any:
    """Overwrite an element, and read it from the changed list."""
    first = call("TensorListSetItem", a, i, tf.sin(x[1]))
    item = call("TensorListGetItem", first, i, tf.constant([], tf.int32), element_dtype=tf.float64)
    last = call("TensorListGetItem", first, 2 - i, tf.constant([], tf.int32), element_dtype=tf.float64)
    return call("TensorListSetItem", first, 2 - i, item * last * x[2])


def _read_in_a_branch(x: Any, i: Any, a: Any) -> Any:
    def read() -> Any:
        return call("TensorListGetItem", a, i, tf.constant([], tf.int32), element_dtype=tf.float64)

    item = cond_v2(i > 0, lambda: read() * read(), lambda: x[1] * 2.0, None)
    return call("TensorListSetItem", a, 2 - i, item + x[0])


@pytest.mark.parametrize("change", [_squared_list, _twice_set_list, _read_in_a_branch])
def test_a_loop_may_read_the_list_that_it_changes(change: Callable[..., Any]) -> None:
    def build(x: Any) -> Any:
        held = call("TensorListFromTensor", x, tf.constant([], tf.int32))
        made = while_v2(
            lambda i, _: i < 3, lambda i, a: (i + 1, change(x, i, a)), [0, held], None, None, None, same=True
        )[1]
        return tf.sin(call("TensorListStack", made, tf.constant([], tf.int32), element_dtype=tf.float64))

    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float64, [3])
        y = tf.reduce_sum(build(x))
        (slope,) = gradients(y, x)
        found = session.run(slope, {x: VALUE})
        for i in range(3):
            ends = [session.run(y, {x: VALUE + np.eye(3)[i] * d}) for d in (-STEP, STEP)]
            assert found[i] == pytest.approx((ends[1] - ends[0]) / (2 * STEP), abs=1e-7)


def test_a_loop_may_grow_the_list_that_it_reads() -> None:
    def body(i: Any, a: Any) -> Any:
        before = [
            call("TensorListGetItem", a, i - d, tf.constant([], tf.int32), element_dtype=tf.float64) for d in (1, 2)
        ]
        return i + 1, call("TensorListSetItem", a, i, before[0] * before[1], resize_if_index_out_of_bounds=True)

    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float64, [2])
        held = call("TensorListFromTensor", x, tf.constant([], tf.int32))
        made = while_v2(lambda i, _: i < 6, body, [2, held], None, None, None, same=True)[1]
        y = call("TensorListStack", made, tf.constant([], tf.int32), element_dtype=tf.float64)
        (slope,) = gradients(y, x)
        a, b = 1.3, 0.7
        # a, b, ab, ab^2, a^2b^3, a^3b^5
        by_a = 1 + b + b**2 + 2 * a * b**3 + 3 * a**2 * b**5
        by_b = 1 + a + 2 * a * b + 3 * a**2 * b**2 + 5 * a**3 * b**4
        np.testing.assert_allclose(session.run(slope, {x: [a, b]}), [by_a, by_b], rtol=1e-12)


def test_gradients_of_nested_branches_are_built_once() -> None:
    built = []

    @tf.RegisterGradient("TwiceForNestedBranches")
    def twice(op: Any, grad: Any) -> Any:
        built.append(op.name)
        return grad * 2.0

    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.placeholder(tf.float64, [])

        def branch(depth: int) -> Any:
            if depth:
                return cond_v2(x > 0.0, lambda: branch(depth - 1), lambda: x * 5.0, None)
            with graph.gradient_override_map({"Sin": "TwiceForNestedBranches"}):
                return tf.sin(x)

        (grad,) = tf.gradients(branch(5), x)
        assert len(built) == 1
        assert [session.run(grad, {x: v}) for v in (1.0, -1.0)] == [2.0, 5.0]
