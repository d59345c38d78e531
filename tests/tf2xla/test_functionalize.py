"""TF1 loops and branches in one module: its values are those of a session that runs node by
node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError
from xlanb.runtime.extract import extraction

Feeds = dict[Any, Any]
Program = Callable[[], tuple[list[Any], Feeds]]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


def vector() -> Any:
    return tf.placeholder(tf.float32, [3])


def with_gradients(y: Any, *xs: Any) -> list[Any]:
    return [y, *tf.gradients(y, list(xs))]


def loop() -> tuple[list[Any], Feeds]:
    x = vector()
    y = tf.while_loop(lambda i, _: i < 4, lambda i, a: (i + 1, tf.tanh(a * 1.5) + x), [0, x])
    return [y[0], *with_gradients(y[1], x)], {x: numbers(3)}


def bounded_loop() -> tuple[list[Any], Feeds]:
    x = vector()
    y = tf.while_loop(
        lambda _, a: tf.reduce_sum(a) < 20.0, lambda i, a: (i + 1, a * 1.5 + tf.square(x)), [0, x], maximum_iterations=9
    )
    return with_gradients(y[1], x), {x: numbers(3)}


def nested_loops() -> tuple[list[Any], Feeds]:
    x, w = vector(), vector()

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, _: j < 2, lambda j, b: (j + 1, tf.sin(b * w)), [0, a])[1]

    return with_gradients(tf.while_loop(lambda i, _: i < 3, body, [0, x])[1], x, w), {x: numbers(3), w: numbers(3)}


def inner_loop_of_changing_length() -> tuple[list[Any], Feeds]:
    x = vector()

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, _: j < i + 1, lambda j, b: (j + 1, tf.sin(b)), [0, a])[1]

    return [tf.while_loop(lambda i, _: i < 3, body, [0, x])[1]], {x: numbers(3)}


def branches(taken: float) -> Program:
    def build() -> tuple[list[Any], Feeds]:
        x, y = vector(), tf.placeholder(tf.float32, [])
        z = tf.case([(y < 1, lambda: x * 2), (y < 2, lambda: tf.exp(x))], default=lambda: x * x)
        return with_gradients(z, x), {x: numbers(3), y: taken}

    return build


def one_predicate_twice() -> tuple[list[Any], Feeds]:
    x, p = vector(), tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: [x * 2, x + 1], lambda: [tf.exp(x), x])
    return with_gradients(tf.cond(p, lambda: y[0] + 1, lambda: y[1] - 1), x), {x: numbers(3), p: False}


def branch_in_a_loop() -> tuple[list[Any], Feeds]:
    x = vector()

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i % 2, 1), lambda: a * x, lambda: tf.sin(a))

    return with_gradients(tf.while_loop(lambda i, _: i < 4, body, [0, x])[1], x), {x: numbers(3)}


def loop_in_a_branch(taken: bool) -> Program:
    def build() -> tuple[list[Any], Feeds]:
        x, p = vector(), tf.placeholder(tf.bool, [])

        def looped() -> Any:
            return tf.while_loop(lambda i, _: i < 4, lambda i, a: (i + 1, tf.tanh(a) + x), [0, x])[1]

        return with_gradients(tf.cond(p, looped, lambda: x * x), x), {x: numbers(3), p: taken}

    return build


def scan() -> tuple[list[Any], Feeds]:
    x, w = tf.placeholder(tf.float32, [4, 3]), vector()
    y, z = tf.scan(lambda a, e: a * w + e, x), tf.map_fn(lambda e: e * w, x)
    return [y, z, *tf.gradients([y, z], [x, w])], {x: numbers(4, 3), w: numbers(3)}


def arrays() -> tuple[list[Any], Feeds]:
    x = tf.placeholder(tf.float32, [4, 3])
    source, out = tf.TensorArray(tf.float32, 4).unstack(x), tf.TensorArray(tf.float32, 4)
    filled = tf.while_loop(lambda i, _: i < 4, lambda i, o: (i + 1, o.write(i, source.read(3 - i) * 2)), [0, out])[1]
    return with_gradients(filled.stack(), x), {x: numbers(4, 3)}


PROGRAMS: dict[str, Program] = {
    "loop": loop,
    "bounded_loop": bounded_loop,
    "nested_loops": nested_loops,
    "inner_loop_of_changing_length": inner_loop_of_changing_length,
    "first_branch": branches(0.5),
    "second_branch": branches(1.5),
    "default_branch": branches(3.0),
    "one_predicate_twice": one_predicate_twice,
    "branch_in_a_loop": branch_in_a_loop,
    "loop_in_a_branch_taken": loop_in_a_branch(taken=True),
    "loop_in_a_branch_not_taken": loop_in_a_branch(taken=False),
    "scan": scan,
    "arrays": arrays,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    with tf.Graph().as_default() as graph:
        fetches, feeds = PROGRAMS[name]()
        with tf.Session() as session:
            want = session.run(fetches, feeds)
    found = extraction(graph, fetches)
    found.module.verify()
    got = xlanb.evaluate(found.module, *found.arguments({t.op.name: a for t, a in feeds.items()}))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def test_the_graph_stays_as_it_was() -> None:
    with tf.Graph().as_default() as graph:
        fetches, _ = branch_in_a_loop()
    before = str(graph), sorted(graph.functions)
    extraction(graph, fetches)
    assert (str(graph), sorted(graph.functions)) == before


def test_a_variable_is_written_on_one_branch() -> None:
    with tf.Graph().as_default() as graph:
        p = tf.placeholder(tf.bool, [])
        w = tf.get_variable("w", initializer=np.array([1.0, 2.0], np.float32), use_resource=True)
        y = tf.cond(p, lambda: w.assign_add([1.0, 1.0]), lambda: w.assign(w * 3))
    found = extraction(graph, [y])
    for taken, want in ((True, [2.0, 3.0]), (False, [3.0, 6.0])):
        got = xlanb.evaluate(found.module, *found.arguments({p.op.name: taken, "w": np.array([1, 2], np.float32)}))
        assert [list(r) for r in got] == [want, want]


def test_a_loop_without_a_bound_has_no_gradient_in_hlo() -> None:
    with tf.Graph().as_default() as graph:
        x = vector()
        y = tf.while_loop(lambda _, a: tf.reduce_sum(a) < 20.0, lambda i, a: (i + 1, a * a), [0, x])[1]
        gradient = tf.gradients(y, [x])
    with pytest.raises(GraphError, match="maximum_iterations"):
        extraction(graph, gradient)


def test_what_lies_on_a_branch_has_no_value_outside() -> None:
    with tf.Graph().as_default() as graph:
        x, p = vector(), tf.placeholder(tf.bool, [])
        inside: list[Any] = []
        tf.cond(p, lambda: inside.append(tf.exp(x)) or inside[0], lambda: x)
    with pytest.raises(GraphError, match="is on a branch"):
        extraction(graph, inside)
