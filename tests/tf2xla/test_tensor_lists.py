"""Lists of tensors lowered to HLO, alone and through loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError
from xlanb.graph import dtypes
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Tensor
from xlanb.runtime.graph_program import extract_module

F32, S32, LIST = (dtypes.as_dtype(n) for n in ("float32", "int32", "variant"))
PAIR = np.array([2], np.int32)


def values(fetches: list[Tensor], *arrays: Any) -> list[Any]:
    module = extract_module(fetches)
    module.verify()
    return list(xlanb.evaluate(module, *arrays))


def f32(*v: float) -> Any:
    return np.array(v, np.float32)


def test_set_get_and_stack() -> None:
    with Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        made = call("TensorListReserve", PAIR, np.int32(3), element_dtype=F32)
        put = call("TensorListSetItem", made, np.int32(1), x)
        got = values(
            [
                call("TensorListStack", put, PAIR, element_dtype=F32),
                call("TensorListGetItem", put, np.int32(1), PAIR, element_dtype=F32),
                call("TensorListLength", put),
                call("TensorListElementShape", put, shape_type=S32),
                call("TensorListGather", put, np.array([1, 1, 0], np.int32), PAIR, element_dtype=F32),
                call("TensorListStack", call("AddN", [put, put]), PAIR, element_dtype=F32),
                call("TensorListStack", call("ZerosLike", put), PAIR, element_dtype=F32),
            ],
            f32(5, 6),
        )
    np.testing.assert_array_equal(got[0], [[0, 0], [5, 6], [0, 0]])
    np.testing.assert_array_equal(got[1], [5, 6])
    assert got[2] == 3
    assert got[3].tolist() == [2]
    np.testing.assert_array_equal(got[4], [[5, 6], [5, 6], [0, 0]])
    np.testing.assert_array_equal(got[5], [[0, 0], [10, 12], [0, 0]])
    np.testing.assert_array_equal(got[6], np.zeros((3, 2)))


def test_push_and_pop() -> None:
    with Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        made = call("EmptyTensorList", np.int32(-1), np.int32(2), element_dtype=F32)
        one = call("TensorListPushBack", made, x)
        two = call("TensorListPushBack", one, call("Neg", x))
        back, last = call_n("TensorListPopBack", two, PAIR, element_dtype=F32)
        stacked = call("TensorListStack", two, PAIR, element_dtype=F32)
        lengths = [call("TensorListLength", t) for t in (one, two, back)]
        got = values([last, stacked, *lengths], f32(1, 2))
        np.testing.assert_array_equal(got[0], [-1, -2])
        np.testing.assert_array_equal(got[1], [[1, 2], [-1, -2]])
        assert [int(n) for n in got[2:]] == [1, 2, 1]
        endless = call("EmptyTensorList", PAIR, np.int32(-1), element_dtype=F32)
        with pytest.raises(GraphError, match="max_num_elements"):
            values([call("TensorListLength", endless)])


def function(name: str, types: list[Any], make: Any) -> GraphFunction:
    body = Graph(name)
    with body.as_default():
        args = [body.create_op("_Arg", (), [t], {"T": t, "index": i}).outputs[0] for i, t in enumerate(types)]
        for i, result in enumerate(make(*args)):
            body.create_op("_Retval", [result], [], {"T": result.dtype, "index": i})
    return GraphFunction.of_body(name, body)


@pytest.mark.parametrize("shape", [PAIR, np.int32(-1)], ids=["stated", "found by the loop"])
def test_a_loop_fills_a_list(shape: Any) -> None:
    with Graph().as_default() as graph:
        types = [S32, F32, LIST]
        graph.functions["holds"] = function("holds", types, lambda i, _x, _l: [call("Less", i, np.int32(4))])
        graph.functions["step"] = function(
            "step",
            types,
            lambda i, x, held: [
                call("AddV2", i, np.int32(1)),
                call("AddV2", x, x),
                call("TensorListSetItem", held, i, x),
            ],
        )
        x = tf.placeholder(tf.float32, [2])
        made = call("TensorListReserve", shape, np.int32(4), element_dtype=F32)
        attrs = {"T": tuple(types), "cond": FunctionRef("holds"), "body": FunctionRef("step")}
        loop = graph.create_op("StatelessWhile", [call("Identity", np.int32(0)), x, made], types, attrs)
        stacked = call("TensorListStack", loop.outputs[2], PAIR, element_dtype=F32)
        (got,) = values([stacked], f32(1, 3))
        want = np.outer(2.0 ** np.arange(4), [1, 3])
        np.testing.assert_array_equal(got, want)
        with tf.Session(graph=graph) as session:  # the host's lists say the same
            np.testing.assert_array_equal(session.run(stacked, {x: [1, 3]}), want)
