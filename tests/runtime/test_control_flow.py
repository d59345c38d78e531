"""Loops and branches of versions 1 and 2, tensor arrays, lists and stacks, run node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph import dtypes
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n, call_op
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape

F32, S32 = dtypes.as_dtype("float32"), dtypes.as_dtype("int32")


def enter(value: Any, frame: str, *, constant: bool = False) -> Tensor:
    """Pass a value into a frame; a constant is created in the outer frame."""
    value = convert_to_tensor(value)
    with value.graph.control_dependencies(None):
        return call("Enter", value, frame_name=frame, is_constant=constant)


def loop(frame: str, count: Any, start: Tensor, step: Any) -> Tensor:
    """`step(index, value)` applied `count` times to `start`, with version-1 nodes."""
    graph = start.graph
    limit = enter(count, frame, constant=True)
    entered = [enter(np.int32(0), frame), enter(start, frame)]
    with graph.control_dependencies(None):  # nodes in the frame do not wait for outer ones
        merges = [graph.create_op("Merge", [v, v], [v.dtype, S32], {"T": v.dtype, "N": 2}) for v in entered]
        cond = call("LoopCond", call("Less", merges[0].outputs[0], limit))
        (_, i), (out, x) = (call_n("Switch", m.outputs[0], cond) for m in merges)
        with graph.control_dependencies([i.op]):
            after = [call("AddV2", i, call("Const", value=np.int32(1), dtype=S32)), step(i, x)]
        for merge, value in zip(merges, after, strict=True):
            merge.set_input(1, call("NextIteration", value))
        return call("Exit", out)


def run(graph: Graph, fetches: Any, feeds: Any = None, *, jit: bool = False) -> Any:
    config = tf.ConfigProto()
    if jit:
        config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    with tf.Session(graph=graph, config=config) as session:
        return session.run(fetches, feeds)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop_of_version_1(count: int, jit: bool) -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3])
        n = tf.placeholder(tf.int32, [])
        out = loop("f", n, x, lambda i, v: call("AddV2", call("Mul", v, v), call("Cast", i, DstT=F32)))
        got = run(graph, out, {x: [1.0, 0.5, -2.0], n: count}, jit=jit)
    want = np.array([1.0, 0.5, -2.0], np.float32)
    for i in range(count):
        want = want * want + np.float32(i)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_nested_loops_of_version_1() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [])
        out = loop(
            "outer",
            np.int32(3),
            x,
            lambda i, v: loop("inner", call("AddV2", i, np.int32(1)), v, lambda _, w: call("AddV2", w, w)),
        )
        assert run(graph, out, {x: 1.0}) == 2.0 ** (1 + 2 + 3)


@pytest.mark.parametrize("taken", [True, False])
def test_branches_of_version_1(taken: bool) -> None:
    with Graph().as_default() as graph:
        x, p = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.bool, [])
        no, yes = call_n("Switch", x, p)
        value, index = call_n("Merge", [call("Neg", no), call("Exp", yes)])
        with graph.control_dependencies([yes.op]):
            alive = call("Const", value=np.float32(7), dtype=F32)
        got = run(graph, [value, index, alive], {x: [1.0, 2.0], p: taken})
        np.testing.assert_allclose(got[0], np.exp([1.0, 2.0]) if taken else [-1, -2], rtol=1e-6)
        assert got[1] == int(taken)
        with pytest.raises(GraphError, match=r"cannot fetch .*not taken"):
            run(graph, no if taken else yes, {x: [1.0, 2.0], p: taken})


def test_a_loop_on_a_branch_not_taken_is_dead() -> None:
    with Graph().as_default() as graph:
        x, p = tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
        no, yes = call_n("Switch", x, p)
        out = call("Merge", [no, loop("f", np.int32(4), yes, lambda _, v: call("AddV2", v, v))])
        assert run(graph, out, {x: 1.0, p: True}) == 16
        assert run(graph, out, {x: 1.0, p: False}) == 1


def test_tensor_array_through_a_loop() -> None:
    with Graph().as_default() as graph:
        array = call_op("TensorArrayV3", np.int32(4), dtype=F32, element_shape=TensorShape([2]))
        handle, flow = array.outputs
        x = tf.placeholder(tf.float32, [2])

        def step(i: Tensor, f: Tensor) -> Tensor:
            inside = [enter(t, "f", constant=True) for t in (handle, x)]
            return call("TensorArrayWriteV3", inside[0], i, call("Mul", inside[1], call("Cast", i, DstT=F32)), f)

        after = loop("f", np.int32(4), flow, step)
        stacked = call("TensorArrayGatherV3", handle, np.arange(4, dtype=np.int32), after, dtype=F32)
        size = call("TensorArraySizeV3", handle, after)
        got = run(graph, [stacked, size], {x: [1.0, 10.0]})
    np.testing.assert_array_equal(got[0], np.outer(np.arange(4), [1, 10]))
    assert got[1] == 4


@pytest.mark.parametrize(
    ("index", "message"), [(5, "tried to write to index 5"), (0, "written to already"), (-1, "index -1")]
)
def test_tensor_array_refuses(index: int, message: str) -> None:
    with Graph().as_default() as graph:
        handle, flow = call_n("TensorArrayV3", np.int32(2), dtype=F32)
        flow = call("TensorArrayWriteV3", handle, np.int32(0), np.float32(1), flow)
        flow = call("TensorArrayWriteV3", handle, np.int32(index), np.float32(1), flow)
        with pytest.raises(GraphError, match=message):
            run(graph, flow)


def test_gradient_of_a_tensor_array_adds_up() -> None:
    with Graph().as_default() as graph:
        handle, flow = call_n("TensorArrayV3", np.int32(2), dtype=F32, clear_after_read=False)
        flow = call("TensorArrayScatterV3", handle, np.arange(2, dtype=np.int32), np.ones((2, 3), np.float32), flow)
        grad, gflow = call_n("TensorArrayGradV3", handle, flow, source="g")
        for _ in range(2):
            gflow = call("TensorArrayWriteV3", grad, np.int32(1), np.full(3, 2, np.float32), gflow)
        got = run(graph, call("TensorArrayGatherV3", grad, np.arange(2, dtype=np.int32), gflow, dtype=F32))
    np.testing.assert_array_equal(got, [[0, 0, 0], [4, 4, 4]])


def test_lists_are_values() -> None:
    with Graph().as_default() as graph:
        empty = call("EmptyTensorList", np.array([2], np.int32), np.int32(-1), element_dtype=F32)
        one = call("TensorListPushBack", empty, np.array([1, 2], np.float32))
        two = call("TensorListPushBack", one, np.array([3, 4], np.float32))
        shape = np.array([2], np.int32)
        popped, last = call_n("TensorListPopBack", two, shape, element_dtype=F32)
        fetched = [
            last,
            *(call("TensorListLength", t) for t in (empty, one, two, popped)),
            call("TensorListStack", two, shape, element_dtype=F32),
            call("TensorListGather", two, np.array([1, 1, 0], np.int32), shape, element_dtype=F32),
            call("TensorListStack", call("AddN", [two, two]), shape, element_dtype=F32),
            call("TensorListStack", call("ZerosLike", two), shape, element_dtype=F32),
        ]
        got = run(graph, fetched)
    np.testing.assert_array_equal(got[0], [3, 4])
    assert [int(g) for g in got[1:5]] == [0, 1, 2, 1]
    np.testing.assert_array_equal(got[5], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(got[6], [[3, 4], [3, 4], [1, 2]])
    np.testing.assert_array_equal(got[7], [[2, 4], [6, 8]])
    np.testing.assert_array_equal(got[8], np.zeros((2, 2)))


def test_reserved_elements_are_zeros_of_their_neighbours_shape() -> None:
    with Graph().as_default() as graph:
        made = call("TensorListReserve", np.int32(-1), np.int32(3), element_dtype=F32)
        with_one = call("TensorListSetItem", made, np.int32(1), np.array([5.0, 6.0], np.float32))
        stacked = call("TensorListStack", with_one, np.int32(-1), element_dtype=F32)
        np.testing.assert_array_equal(run(graph, stacked), [[0, 0], [5, 6], [0, 0]])
        with pytest.raises(GraphError, match="shape is unknown"):
            run(graph, call("TensorListStack", made, np.int32(-1), element_dtype=F32))


def test_stack_pops_what_was_pushed_last() -> None:
    with Graph().as_default() as graph:
        stack = call("StackV2", np.int32(-1), elem_type=F32)
        first = call("StackPushV2", stack, np.float32(1))
        with graph.control_dependencies([first.op]):
            second = call("StackPushV2", stack, np.float32(2))
        with graph.control_dependencies([second.op]):
            popped = call("StackPopV2", stack, elem_type=F32)
        assert run(graph, popped) == 2


def function(name: str, types: list[Any], make: Any) -> GraphFunction:
    body = Graph(name)
    with body.as_default():
        args = [body.create_op("_Arg", (), [t], {"T": t, "index": i}).outputs[0] for i, t in enumerate(types)]
        for i, result in enumerate(make(*args)):
            body.create_op("_Retval", [result], [], {"T": result.dtype, "index": i})
    return GraphFunction.of_body(name, body)


def recursive_factorial(graph: Graph) -> None:
    def body(n: Tensor, total: Tensor) -> list[Tensor]:
        n.graph.functions = graph.functions
        inner = n.graph.create_op(
            "If",
            [call("Greater", n, np.int32(1)), n, total],
            [S32],
            {
                "Tcond": dtypes.as_dtype("bool"),
                "Tin": (S32, S32),
                "Tout": (S32,),
                "then_branch": FunctionRef("again"),
                "else_branch": FunctionRef("done"),
            },
        )
        return [inner.outputs[0]]

    def again(n: Tensor, total: Tensor) -> list[Tensor]:
        n.graph.functions = graph.functions
        less = call("Sub", n, np.int32(1))
        op = n.graph.create_op(
            "PartitionedCall",
            [less, call("Mul", total, n)],
            [S32],
            {"Tin": (S32, S32), "Tout": (S32,), "f": FunctionRef("fact")},
        )
        return [op.outputs[0]]

    for name, make in (("fact", body), ("again", again), ("done", lambda _n, total: [total])):
        graph.functions[name] = function(name, [S32, S32], make)


def call_factorial(graph: Graph, n: int) -> Operation:
    return graph.create_op(
        "PartitionedCall",
        [call("Const", value=np.int32(v), dtype=S32) for v in (n, 1)],
        [S32],
        {"Tin": (S32, S32), "Tout": (S32,), "f": FunctionRef("fact")},
    )


def test_recursion_ends_or_is_an_error() -> None:
    with Graph().as_default() as graph:
        recursive_factorial(graph)
        assert run(graph, call_factorial(graph, 5).outputs[0]) == 120
        with pytest.raises(GraphError, match="does it call itself"):
            run(graph, call_factorial(graph, 1000).outputs[0])


def test_a_value_that_never_comes_is_named() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        out = loop("f", np.int32(2), x, lambda _, v: v)
        inside = enter(x, "lonely")
        both = call("AddV2", out, inside, name="mixed_frames")
        with pytest.raises(GraphError, match="mixed_frames"):
            run(graph, both, {x: 1.0})


NUMBER = 'attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 2000000000 } } }'
FLOAT = 'attr { key: "T" value { type: DT_FLOAT } }'
BAD = {
    "cycle": (
        'node { name: "b" op: "Neg" input: "a" %s } node { name: "a" op: "Neg" input: "b" %s }',
        "cycle outside of",
    ),
    "no frame": ('node { name: "c" op: "Const" %n } node { name: "b" op: "Exit" input: "c" }', "'b' .*no loop was"),
    "no round": (
        'node { name: "c" op: "Const" %n } node { name: "b" op: "NextIteration" input: "c" }',
        "'b' .*no loop",
    ),
    "few inputs": (
        'node { name: "c" op: "Const" %n } node { name: "b" op: "Switch" input: "c" }',
        r"takes 2 inputs \(data, pred\), not 1",
    ),
    "long list": (
        'node { name: "c" op: "Const" %n } node { name: "b" op: "TensorListReserve" input: "c" input: "c" '
        'attr { key: "element_dtype" value { type: DT_FLOAT } } }',
        "'b' .*2000000000 elements requested",
    ),
    "long array": (
        'node { name: "c" op: "Const" %n } node { name: "b" op: "TensorArrayV3" input: "c" '
        'attr { key: "dtype" value { type: DT_FLOAT } } }',
        "'b' .*2000000000 elements requested",
    ),
    "gigabytes": (
        'node { name: "c" op: "Const" %n } node { name: "s" op: "Pack" input: "c" input: "c" input: "c" input: "c" '
        'attr { key: "N" value { i: 4 } } attr { key: "T" value { type: DT_INT32 } } } '
        'node { name: "b" op: "Fill" input: "s" input: "c" attr { key: "T" value { type: DT_INT32 } } }',
        "'b'",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_graphs_are_errors_that_name_the_node(kind: str) -> None:
    text, message = BAD[kind]
    if "Exit" in text or "NextIteration" in text or "Switch" in text:
        text = text.replace('input: "c" }', 'input: "c" attr { key: "T" value { type: DT_INT32 } } }')
    with pytest.raises(GraphError, match=message):
        read_and_run(text.replace("%s", FLOAT).replace("%n", NUMBER))


def read_and_run(text: str) -> None:
    graph = Graph.from_graphdef(text)
    run(graph, graph.get_operation_by_name("b"))
