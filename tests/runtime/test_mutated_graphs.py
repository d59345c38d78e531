"""Untrusted GraphDefs: changing a field or byte gives a result or an XlanbError, in time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlanb
from xlanb import tf
from xlanb.errors import XlanbError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import new_message

OPS = ("Add", "MatMul", "Reshape", "Const", "Switch", "Merge", "Enter", "NextIteration", "ConcatV2", "Pad", "NoOp",
    "Bogus")  # fmt: skip


@cache
def program() -> bytes:
    """Arithmetic, a convolution, a loop, a branch, a written variable, and their gradients."""
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 4, 4, 1], name="x")
        kernel = tf.get_variable("kernel", initializer=np.full((2, 2, 1, 2), 0.5, np.float32), use_resource=True)
        hidden = tf.nn.relu(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"))
        flat = tf.reshape(hidden, [2, -1])
        looped = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a) * 2), [0, flat])[1]
        chosen = tf.cond(tf.reduce_sum(looped) > 0, lambda: looped + 1, lambda: looped * 2)
        joined = tf.concat([chosen, tf.transpose(tf.slice(flat, [0, 0], [2, 2]))], 1)
        loss = tf.reduce_mean(tf.square(tf.matmul(joined, joined, transpose_b=True)), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.variables_initializer([kernel], name="init")
    return graph.to_graphdef()


def mutate(data: st.DataObject) -> bytes:
    proto = new_message("GraphDef")
    proto.ParseFromString(program())
    node = proto.node[data.draw(st.integers(0, len(proto.node) - 1), "node")]
    names = [n.name for n in proto.node]
    kind = data.draw(
        st.sampled_from(["op", "input", "drop", "repeat", "control", "device", "attr", "type", "shape", "name"])
    )
    if kind == "op":
        node.op = data.draw(st.sampled_from([*OPS, *sorted({n.op for n in proto.node})]), "op")
    elif kind == "input" and node.input:
        at = data.draw(st.integers(0, len(node.input) - 1))
        node.input[at] = data.draw(st.sampled_from(names)) + data.draw(st.sampled_from(["", ":1", ":99", ":-1"]))
    elif kind == "drop" and node.input:
        del node.input[data.draw(st.integers(0, len(node.input) - 1))]
    elif kind == "repeat" and node.input:
        node.input.append(node.input[0])
    elif kind == "control":
        node.input.append("^" + data.draw(st.sampled_from(names)))
    elif kind == "device":
        node.device = data.draw(st.sampled_from(["/gpu:0", "/device:XLA_GPU:0", "nonsense", "/job:x/task:9", "/cpu:1"]))
    elif kind == "attr" and node.attr:
        del node.attr[data.draw(st.sampled_from(sorted(node.attr)))]
    elif kind == "type":
        for key in [k for k in sorted(node.attr) if node.attr[k].WhichOneof("value") == "type"][:1]:
            node.attr[key].type = data.draw(st.sampled_from([1, 2, 3, 7, 8, 9, 10, 14, 19, 20, 21, 23, 101, 999]))
    elif kind == "shape":
        damage_shapes(node, data)
    elif kind == "name":
        node.name = data.draw(st.sampled_from([*names[:5], "", "a b", "/", "x:0"]))
    return bytes(proto.SerializeToString())


def damage_shapes(node: Any, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([-7, -1, 0, 1, 3, 2**31, 2**40, 2**62]), "size")
    for attr in node.attr.values():
        shape = attr.tensor.tensor_shape if attr.WhichOneof("value") == "tensor" else attr.shape
        if attr.WhichOneof("value") in {"tensor", "shape"}:
            shape.dim.add(size=size)
        elif attr.WhichOneof("value") == "i":
            attr.i = size


def survive(text: bytes) -> None:
    """Read, cluster, run: everything, or raise an XlanbError."""
    try:
        graph = Graph.from_graphdef(text)
        xlanb.cluster(graph, tf_xla_min_cluster_size=1)
        session = tf.Session(graph)
        session.run("init")
        with xlanb.flags("--tf_xla_auto_jit=2"):
            session.run(["loss:0", "train"], {"x:0": np.ones((2, 4, 4, 1), np.float32)})
    except XlanbError:
        return


@settings(max_examples=5)
@given(st.data())
def test_one_field_changed(data: st.DataObject) -> None:
    survive(mutate(data))


@settings(max_examples=25)
@given(st.integers(0, 1_000_000), st.integers(0, 255))
def test_one_byte_changed(position: int, value: int) -> None:
    text = bytearray(program())
    text[position % len(text)] = value
    survive(bytes(text))


def test_a_switch_needs_one_bool_and_a_merge_something_alive() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None], name="x")
        both = graph.add_op("Switch", "both", [x, x], [x.dtype, x.dtype], {"T": x.dtype})
        graph.add_op("Merge", "none", [], [x.dtype, tf.int32], {"T": x.dtype, "N": 0})
    session = tf.Session(graph)
    with pytest.raises(XlanbError, match=r"'both'.*expected data and one bool, got 2 inputs, the last float32\[2\]"):
        session.run(both.outputs[0], {x: [1, 2]})
    with pytest.raises(XlanbError, match="'none'"):
        session.run("none:0")


def test_a_constant_without_its_value_is_named() -> None:
    graph = Graph()
    graph.add_op("Const", "c", attrs={"dtype": tf.float32})
    with pytest.raises(XlanbError, match=r"'c'.* has no attr named 'value'"):
        tf.Session(graph).run("c:0")


def test_what_is_not_changed_runs() -> None:
    session = tf.Session(Graph.from_graphdef(program()))
    session.run("init")
    assert np.isfinite(session.run("loss:0", {"x:0": np.ones((2, 4, 4, 1), np.float32)}))
