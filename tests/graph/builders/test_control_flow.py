"""Branches and loops of version 1: their nodes, their values, and gradients through them."""

# ruff: noqa: ARG005 - loops hand all variables to both functions

import numpy as np
import pytest

from xlanb import jit, tf
from xlanb.errors import GraphError, GraphTypeError, GraphValueError, UnimplementedError


@pytest.fixture(autouse=True)
def graph():
    graph = tf.Graph()
    with graph.as_default():
        yield graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def by_differences(make, x, h=1e-3):
    """The gradient of sum(make(x)) at x, by central differences."""
    found = np.zeros_like(x)
    for i in range(x.size):
        step = np.zeros_like(x)
        step[i] = h
        found[i] = (make(x + step).sum() - make(x - step).sum()) / (2 * h)
    return found


def loop(x):
    return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tf.sin(a * x)), [0, x])[1]


def nested(x):
    def body(i, a):
        return i + 1, tf.while_loop(lambda j, _: j <= i, lambda j, b: (j + 1, b * x * 0.7), [0, a])[1]

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


def branches_in_a_loop(x):
    def body(i, a):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: tf.tanh(a))

    return tf.while_loop(lambda i, a: i < 5, body, [0, x])[1]


def scanned(x):
    return tf.scan(lambda a, e: a * x + e, tf.ones([5, 3]), x)


def mapped(x):
    return tf.map_fn(lambda e: e * e * x, tf.stack([x, x + 1.0]))


def folded(x):
    return tf.foldl(lambda a, e: a * x + e, tf.ones([4, 3])) + tf.foldr(lambda a, e: a + e * x, tf.ones([4, 3]), x)


def gathered(x):
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.gather(x, [2, 0, 2])), [0, tf.zeros([3])])[1]


@pytest.mark.parametrize(
    "make", [loop, nested, branches_in_a_loop, scanned, mapped, folded, gathered], ids=lambda f: f.__name__
)
def test_gradients_are_the_differences(make):
    at = np.array([0.4, 0.9, 1.3], np.float32)
    x = tf.placeholder(tf.float32, [3])
    y = make(x)
    (gradient,) = tf.gradients(y, x)
    gradient = tf.convert_to_tensor(gradient)
    with tf.Session() as session:
        wanted = by_differences(lambda v: session.run(y, {x: v}), at)
        assert np.allclose(session.run(gradient, {x: at}), wanted, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("chosen", [True, False])
def test_only_the_chosen_side_runs(chosen):
    x, p = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.bool, [])
    result = tf.cond(p, lambda: x * 2.0, lambda: tf.check_numerics(tf.log(x), "the other side"))
    (gradient,) = tf.gradients(result, x)
    with tf.Session() as session:
        value, slope = session.run([result, gradient], {x: [2.0, 4.0], p: chosen})
        expected = ([4.0, 8.0], [2.0, 2.0]) if chosen else (np.log([2.0, 4.0]), [0.5, 0.25])
        assert np.allclose(value, expected[0])
        assert np.allclose(slope, expected[1])


def test_nodes_of_a_cond(graph):
    x, p = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.bool, [], name="p")
    tf.cond(p, lambda: x * 2.0, lambda: x)
    lines = [f"{op.name} = {op.type}({', '.join(op.node_inputs)})" for op in graph][2:]
    assert lines == [
        "cond/Switch = Switch(p, p)", "cond/switch_t = Identity(cond/Switch:1)", "cond/switch_f = Identity(cond/Switch)",
        "cond/pred_id = Identity(p)", "cond/mul/y = Const(^cond/switch_t)", "cond/mul = Mul(cond/mul/Switch:1, cond/mul/y)",
        "cond/mul/Switch = Switch(x, cond/pred_id)", "cond/Switch_1 = Switch(x, cond/pred_id)", "cond/Merge = Merge(cond/Switch_1, cond/mul)",
    ]  # fmt: skip


def test_case_takes_the_first_that_is_true():
    x = tf.placeholder(tf.float32, [])
    chosen = tf.case([(x < 1.0, lambda: x * 10.0), (x < 2.0, lambda: x * 100.0)], default=lambda: -x)
    with tf.Session() as session:
        assert [session.run(chosen, {x: v}) for v in (0.5, 1.5, 3.0)] == [5.0, 150.0, -3.0]


def test_exclusive_case_refuses_two():
    x = tf.placeholder(tf.float32, [])
    chosen = tf.case([(x < 1.0, lambda: x), (x < 2.0, lambda: -x)], default=lambda: x, exclusive=True)
    with tf.Session() as session, pytest.raises(GraphError, match="exclusive=True"):
        session.run(chosen, {x: 0.5})


def test_maximum_iterations_bound_the_loop():
    result = tf.while_loop(lambda i: i < 100, lambda i: i + 1, [tf.constant(0)], maximum_iterations=7)
    assert run(result) == 7


def test_shapes_may_grow_where_the_invariant_says_so():
    x = tf.ones([1, 2])
    invariants = [tf.TensorShape([]), tf.TensorShape([None, 2])]
    _, grown = tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, tf.concat([a, a], 0)], [0, x], invariants)
    assert grown.shape.as_list() == [None, 2]
    assert run(grown).shape == (8, 2)
    with pytest.raises(GraphValueError, match=r"shape after one iteration|after one iteration"):
        tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, tf.concat([a, a], 0)], [0, x])


def test_structures_go_round():
    values = {"a": tf.constant(1.0), "b": (tf.constant(2), tf.constant([3.0]))}

    def body(v):
        return [{"a": v["a"] * 2.0, "b": (v["b"][0] + 1, v["b"][1] + v["a"])}]

    result = tf.while_loop(lambda v: v["b"][0] < 6, body, [values], return_same_structure=True)
    found = run(result)[0]
    assert found["a"] == 16.0
    assert found["b"][0] == 6
    assert np.allclose(found["b"][1], [18.0])


def test_mistakes_are_named():
    x = tf.placeholder(tf.float32, [])
    with pytest.raises(GraphTypeError, match="must not be a Python bool"):
        tf.cond(True, lambda: x, lambda: x)
    with pytest.raises(GraphValueError, match="same type"):
        tf.cond(x > 0, lambda: x, lambda: tf.constant(1))
    with pytest.raises(GraphTypeError, match="callable"):
        tf.while_loop(None, lambda i: i, [0])
    with pytest.raises(GraphValueError, match="differ in structure"):
        tf.while_loop(lambda i: i < 3, lambda i: (i, i), [0])
    y = loop(tf.placeholder(tf.float32, [2]))
    first = tf.gradients(y, y.graph.get_tensor_by_name("Placeholder_1:0"))[0]
    with pytest.raises(UnimplementedError, match="Second-order gradient for while loops"):
        tf.gradients(first, y.graph.get_tensor_by_name("Placeholder_1:0"))


def test_a_tensor_array_by_hand():
    array = tf.TensorArray(tf.float32, size=3, clear_after_read=False)
    array = array.write(0, [1.0, 2.0]).write(2, [3.0, 4.0]).write(1, [5.0, 6.0])
    assert run([array.stack(), array.read(1), array.gather([2, 0]), array.size()])[0].tolist() == [
        [1, 2],
        [5, 6],
        [3, 4],
    ]
    assert run(array.concat()).tolist() == [1, 2, 5, 6, 3, 4]
    pieces = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(tf.range(5.0), [2, 3])
    assert run(pieces.read(1)).tolist() == [2, 3, 4]


def test_compiled_functions_branch_and_loop():
    @jit
    def collatz(n):
        _, steps = tf.while_loop(
            lambda n, _: n > 1,
            lambda n, s: (tf.cond(tf.equal(n % 2, 0), lambda: n // 2, lambda: 3 * n + 1), s + 1),
            [n, 0],
        )
        return steps

    assert collatz(np.int32(27)) == 111
    assert collatz(np.int32(1)) == 0


def test_compiled_functions_scan():
    running = jit(lambda x: tf.scan(lambda a, e: a + e, x))
    assert running(np.arange(5, dtype=np.float32)).tolist() == [0, 1, 3, 6, 10]
    squares = jit(lambda x: tf.map_fn(lambda e: e * e, x))
    assert squares(np.arange(4, dtype=np.float32)).tolist() == [0, 1, 4, 9]
