"""Functions called, branched on and looped over, by lowering and by session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph import dtypes
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph

F32, S32 = dtypes.float32, dtypes.int32


def function(name: str, types: list[Any], build: Any) -> GraphFunction:
    """Make a library function; `build(graph, *arguments)` makes its body and returns its
    results.
    """
    body = Graph(name)
    with body.as_default():
        args = [body.add_op("_Arg", f"a{i}", (), [t], {"T": t, "index": i}).outputs[0] for i, t in enumerate(types)]
        for i, result in enumerate(build(body, *args)):
            body.add_op("_Retval", f"r{i}", [result], [], {"T": result.dtype, "index": i})
    return GraphFunction.of_body(name, body)


def add(*functions: GraphFunction) -> Graph:
    graph = Graph()
    for f in functions:
        graph.functions[f.name] = f
        f.body.functions = graph.functions
    return graph


@pytest.mark.parametrize("jit", [False, True])
def test_a_loop_runs_as_often_as_its_condition_says(jit: bool) -> None:
    types = [S32, S32, F32]
    graph = add(
        function("cond", types, lambda _g, i, n, _x: [tf.less(i, n)]),
        function("body", types, lambda _g, i, n, x: [i + 1, n, x * 2.0]),
    )
    with graph.as_default():
        n = tf.placeholder(S32, [], name="n")
        x = tf.placeholder(F32, [2], name="x")
        attrs = {"cond": FunctionRef("cond"), "body": FunctionRef("body"), "T": tuple(types)}
        loop = graph.create_op("StatelessWhile", [tf.constant(0), n, x], types, attrs, "loop")
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = int(jit)
    with tf.Session(graph, config) as session:
        for count in (0, 1, 5):
            i, value = session.run([loop.outputs[0], loop.outputs[2]], {n: count, x: [1.0, 3.0]})
            assert i == count
            np.testing.assert_array_equal(value, np.array([1.0, 3.0]) * 2**count)


def test_a_loop_keeps_constants_that_its_body_hands_on() -> None:
    types = [S32, S32, F32]
    graph = add(
        function("cond", types, lambda _g, i, _s, _x: [tf.less(i, 2)]),
        function("body", types, lambda _g, i, s, x: [i + 1, s, tf.reshape(tf.reshape(x, s), [4])]),
    )
    with graph.as_default():
        x = tf.placeholder(F32, [4], name="x")
        attrs = {"cond": FunctionRef("cond"), "body": FunctionRef("body"), "T": tuple(types)}
        loop = graph.create_op("StatelessWhile", [tf.constant(0), tf.constant([2, 2]), x], types, attrs, "loop")
    with tf.Session(graph) as session:
        np.testing.assert_array_equal(session.run(loop.outputs[2], {x: [1, 2, 3, 4]}), [1, 2, 3, 4])


@pytest.mark.parametrize(("choice", "expected"), [(True, 4.0), (False, -2.0)])
def test_a_branch_is_taken(choice: bool, expected: float) -> None:
    graph = add(function("then", [F32], lambda _g, x: [x * 2.0]), function("else", [F32], lambda _g, x: [-x]))
    with graph.as_default():
        p = tf.placeholder(tf.bool, [], name="p")
        attrs = {
            "then_branch": FunctionRef("then"),
            "else_branch": FunctionRef("else"),
            "Tcond": tf.bool,
            "Tin": (F32,),
            "Tout": (F32,),
        }
        made = graph.create_op("StatelessIf", [p, tf.constant(2.0)], [F32], attrs, "if")
    with tf.Session(graph) as session:
        assert session.run(made.outputs[0], {p: choice}) == expected


def test_a_call_is_its_body_and_may_write_variables() -> None:
    graph = add()
    with graph.as_default():
        v = tf.get_variable("v", shape=[], use_resource=True)

    def step(body: Graph, handle: Any, x: Any) -> list[Any]:
        read = body.create_op("ReadVariableOp", [handle], [F32], {"dtype": F32}).outputs[0]
        new = read + x
        write = body.create_op("AssignVariableOp", [handle, new], [], {"dtype": F32})
        with body.control_dependencies([write]):
            return [tf.identity(new)]

    made = function("step", [dtypes.resource, F32], step)
    graph.functions["step"] = made
    with graph.as_default():
        attrs = {"f": FunctionRef("step"), "Tin": (dtypes.resource, F32), "Tout": (F32,)}
        call = graph.create_op("StatefulPartitionedCall", [v.handle, tf.constant(3.0)], [F32], attrs, "call")
    with tf.Session(graph) as session:
        session.load_variables({"v": np.float32(1)})
        assert session.run(call.outputs[0]) == 4
        assert session.read_variable("v") == 4


def test_a_function_that_calls_itself_is_refused() -> None:
    graph = add()
    attrs = {"f": FunctionRef("again"), "Tin": (F32,), "Tout": (F32,)}
    again = function("again", [F32], lambda body, x: [body.create_op("PartitionedCall", [x], [F32], attrs).outputs[0]])
    graph.functions["again"] = again
    again.body.functions = graph.functions
    with graph.as_default():
        call = graph.create_op("PartitionedCall", [tf.constant(1.0)], [F32], attrs, "call")
    with tf.Session(graph) as session, pytest.raises(GraphError, match=r"does it call itself\?"):
        session.run(call.outputs[0])


def test_a_missing_function_is_named() -> None:
    graph = Graph()
    with graph.as_default():
        attrs = {"f": FunctionRef("nowhere"), "Tin": (F32,), "Tout": (F32,)}
        call = graph.create_op("PartitionedCall", [tf.constant(1.0)], [F32], attrs, "call")
    with tf.Session(graph) as session, pytest.raises(GraphError, match=r"'call'.*no function 'nowhere'"):
        session.run(call.outputs[0])
