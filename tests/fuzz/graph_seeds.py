"""Graphs that mutations of GraphDefs start from: all kinds of ops, control flow and state."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs import line_fit
from xlanb import tf
from xlanb.errors import XlanbError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import fill_attrs, new_message
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor

_LONGEST = 40_000
"""The most bytes of a user's seed."""


def _perceptron() -> None:
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    labels = tf.placeholder(tf.int32, [4], name="labels")
    hidden = tf.layers.dense(x, 5, tf.nn.relu)
    logits = tf.layers.dense(tf.nn.dropout(hidden, 0.9, seed=1), 3)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    tf.train.AdamOptimizer(0.01).minimize(loss)
    tf.cast(tf.equal(tf.argmax(logits, 1), tf.cast(labels, tf.int64)), tf.float32)


def _convolution() -> None:
    x = tf.placeholder(tf.float32, [2, 6, 6, 3], name="x")
    kernel = tf.get_variable("kernel", [3, 3, 3, 4], use_resource=True)
    y = tf.nn.conv2d(x, kernel, [1, 2, 2, 1], "SAME")
    y, _, _ = tf.nn.fused_batch_norm(y, tf.ones([4]), tf.zeros([4]))
    y = tf.nn.bias_add(tf.nn.relu(y), tf.zeros([4]))
    pooled = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    small = tf.image.resize_bilinear(tf.nn.avg_pool(y, [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), [2, 2])
    tf.gradients(tf.reduce_sum(pooled) + tf.reduce_sum(small), [x, kernel])


def _loop_of_version_1() -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a) * x), [0, x])
    chosen = tf.cond(tf.reduce_sum(y) > 0, lambda: y + 1, lambda: y * 2)
    tf.gradients(chosen, [x])


def _functions() -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    graph = tf.get_default_graph()
    graph.builds_function = True  # loops and branches become While and If
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.sin(a) + x), [0, x])
    tf.cond(tf.reduce_sum(y) > 0, lambda: y + 1, lambda: y * 2)
    graph.builds_function = False
    tf.map_fn(lambda r: r * 2, x)

    twice = tf.function(lambda a: a + a)
    tf.identity(twice(twice(x)), name="called")
    numbers = call("TensorListReserve", tf.constant([3]), tf.constant(2), element_dtype=tf.float32)
    numbers = call("TensorListSetItem", numbers, tf.constant(1), x)
    call("TensorListStack", numbers, tf.constant([3]), element_dtype=tf.float32, num_elements=2)


def _stateful_loop() -> None:
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    array = tf.TensorArray(tf.float32, 4).unstack(x)
    sums = tf.TensorArray(tf.float32, 4)

    def step(i: object, out: object) -> tuple[object, object]:
        return i + 1, out.write(i, array.read(i) * 2)  # type: ignore[operator, attr-defined]

    _, out = tf.while_loop(lambda i, _: i < 4, step, [0, sums])
    out.stack()
    tf.scan(lambda a, r: a + r, x)


def _indices() -> None:
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    i = tf.placeholder(tf.int32, [2], name="i")
    tf.strided_slice(x, [0, 1], [4, 6], [2, 2], shrink_axis_mask=0)
    tf.concat([tf.gather(x, i), tf.slice(x, [1, 0], [2, 6])], 0)
    tf.pad(tf.tile(tf.transpose(x), [1, 2]), [[1, 1], [0, 2]])
    tf.one_hot(i, 5, on_value=2.0, off_value=-1.0)
    tf.nn.top_k(x, 2)
    tf.scatter_nd(tf.expand_dims(i, 1), tf.ones([2, 3]), [8, 3])
    tf.unstack(tf.reshape(x, [2, -1]))
    tf.split(x, 3, 1)
    tf.reverse(tf.squeeze(tf.expand_dims(x, 0), [0]), [1])
    tf.range(0, tf.shape(x)[1], 2)
    tf.linspace(0.0, 1.0, 5)
    tf.fill(tf.stack([2, 3]), 7.0)
    tf.matrix_band_part(x, 1, 0)
    tf.matrix_diag(x)
    tf.space_to_depth(tf.reshape(x, [1, 4, 6, 1]), 2)
    tf.where(x > 0, x, tf.zeros_like(x))
    tf.where(x > 0)
    tf.unique(i)
    tf.segment_sum(x, tf.constant([0, 0, 1, 2]))
    tf.unsorted_segment_sum(x, tf.constant([0, 3, 1, 2]), 4)
    tf.cumsum(x, 1, reverse=True)
    tf.einsum("ij,kj->ik", x, x)
    tf.broadcast_to(x, [2, 4, 6])


def _linear_algebra() -> None:
    x = tf.placeholder(tf.float32, [3, 3], name="x")
    spd = tf.matmul(x, x, transpose_b=True) + tf.eye(3)
    tf.cholesky(spd)
    tf.matrix_solve(spd, x)
    tf.matrix_inverse(spd)
    tf.matrix_determinant(spd)
    tf.fft(tf.cast(x, tf.complex64))
    tf.svd(x)
    tf.tensordot(x, x, 1)
    tf.nn.moments(x, [0])
    tf.nn.l2_normalize(x, 1)


def _random() -> None:
    tf.random_uniform([2, 3], seed=1)
    tf.random_normal([3], seed=2)
    tf.truncated_normal([4], seed=3)
    tf.random_uniform([2], 0, 9, tf.int32, seed=4)
    tf.random_shuffle(tf.range(5), seed=5)
    tf.multinomial(tf.zeros([2, 4]), 3, seed=6)
    call("StatelessRandomUniform", tf.constant([3]), tf.constant([1, 2]))
    call("StatelessRandomNormal", tf.constant([2, 2]), tf.constant([3, 4]))


def _texts() -> None:
    words = tf.placeholder(tf.string, [3], name="words")
    joined = tf.string_join([words, tf.constant(["a", "b", "c"])], "-")
    tf.string_split(words, " ")
    tf.string_to_hash_bucket_fast(joined, 10)
    tf.substr(words, 0, 1)
    tf.as_string(tf.constant([1.5, 2.5]))
    tf.string_to_number(tf.constant(["1", "2"]))
    tf.regex_replace(words, "a+", "b")
    tf.decode_raw(tf.constant("abcd"), tf.uint8)
    tf.reduce_join(words)


def _queues_and_tables() -> None:
    queue = tf.FIFOQueue(10, [tf.float32], [[2]])
    with tf.control_dependencies([queue.enqueue_many([tf.ones([3, 2])])]):
        queue.dequeue()
    data = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.int32)).map(lambda v: v * 2).batch(2)
    data.make_one_shot_iterator().get_next()
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [3, 4])
    tf.sparse_tensor_to_dense(sparse)
    tf.sparse_tensor_dense_matmul(sparse, tf.ones([4, 2]))


def _line() -> Graph:
    graph: Graph = line_fit(use_resource=True, count=4).graph
    return graph


def _made(build: Callable[[], None]) -> Graph:
    with Graph().as_default() as graph:
        build()
    return graph


_BUILDERS = (
    _perceptron, _convolution, _loop_of_version_1, _functions, _stateful_loop, _indices, _linear_algebra, _random,
    _texts, _queues_and_tables,
)  # fmt: skip


@cache
def _graphs() -> dict[str, Graph]:
    return {"line": _line(), **{b.__name__.strip("_"): _made(b) for b in _BUILDERS}}


@cache
def seeds() -> dict[str, bytes]:
    """GraphDefs by name."""
    return {name: graph.to_graphdef() for name, graph in _graphs().items()}


@cache
def given_seeds() -> tuple[bytes, ...]:
    """The GraphDefs in XLANB_FUZZ_SEEDS: .pb and .pbtxt files, or folders of these."""
    paths = [Path(p) for p in os.environ.get("XLANB_FUZZ_SEEDS", "").split(os.pathsep) if p]
    files = [f for p in paths for f in (sorted(p.rglob("*.pb*")) if p.is_dir() else [p])]
    return tuple(dict.fromkeys(data for f in files if f.suffix in (".pb", ".pbtxt") and (data := _graph_of(f))))


def _graph_of(file: Path) -> bytes:
    """The binary GraphDef in a file; empty if it is long or not a readable graph.

    Other messages are .pb files too.
    """
    data = file.read_bytes()
    if len(data) > _LONGEST:
        return b""
    try:
        graph = Graph.from_graphdef(data.decode() if file.suffix == ".pbtxt" else data)
        return graph.to_graphdef() if graph.get_operations() else b""
    except (XlanbError, UnicodeDecodeError):
        return b""


@cache
def small_seeds() -> tuple[bytes, ...]:
    """GraphDefs of one op each: every distinct node of the seeds.

    Its inputs are constants, handles and placeholders.
    """
    found = set[bytes]()
    for name, graph in _graphs().items():
        whole = new_message("GraphDef")
        whole.ParseFromString(seeds()[name])
        nodes = {n.name: n for n in whole.node}
        found.update(_alone(op, nodes, whole) for op in graph if op.inputs)
    return tuple(sorted(found))


def any_seed(rng: np.random.Generator, small: float) -> bytes:
    """A seed, usually a small one, which takes less time and is mutated more thoroughly."""
    found = small_seeds() if rng.random() < small else (*seeds().values(), *given_seeds())
    return found[int(rng.integers(0, len(found)))]


def _alone(op: Operation, nodes: dict[str, Any], whole: Any) -> bytes:
    proto = new_message("GraphDef")
    proto.versions.CopyFrom(whole.versions)
    if any(value.WhichOneof("value") == "func" for value in nodes[op.name].attr.values()):
        proto.library.CopyFrom(whole.library)
    for k, tensor in enumerate(op.inputs):
        _add_source(proto.node.add(), tensor, nodes)
        proto.node[k].name = f"x{k}"
    node = proto.node.add()
    node.CopyFrom(nodes[op.name])
    node.name = "y"
    del node.input[:]
    node.input.extend(f"x{k}" for k in range(len(op.inputs)))
    return bytes(proto.SerializeToString(deterministic=True))


def _add_source(node: Any, tensor: Tensor, nodes: dict[str, Any]) -> None:
    if tensor.op.type != "Placeholder" and not tensor.op.inputs:
        node.CopyFrom(nodes[tensor.op.name])
        del node.input[:]
        return
    node.op = "Placeholder"
    fill_attrs({"dtype": tensor.dtype.base_dtype, "shape": tensor.shape}, node.attr)
