"""Nodes with operands of invalid ranks and sizes raise, with the node's name, however they are
run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.clustering.clustering import cluster
from xlanb.errors import GraphError, XlanbError
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.functions import FunctionRef
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import fill_attrs, new_message, tensor_to_proto
from xlanb.tf2xla.stand_in_shapes import stand_in_shapes

F = np.float32


def ones(*dims: int) -> np.ndarray[Any, Any]:
    return np.ones(dims, F)


def ints(*values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(values, np.int32)


def node_of(op: str, inputs: list[Any], attrs: dict[str, Any]) -> Graph:
    """A graph of constants and the node y that takes them."""
    proto = new_message("GraphDef")
    for k, value in enumerate(inputs):
        node = proto.node.add(name=f"x{k}", op="Const")
        dtype = as_dtype(value.dtype)
        node.attr["dtype"].type = dtype.as_datatype_enum
        tensor_to_proto(value, dtype, node.attr["value"].tensor)
    node = proto.node.add(name="y", op=op, input=[f"x{k}" for k in range(len(inputs))])
    fill_attrs(attrs, node.attr)
    return Graph.from_graphdef(proto.SerializeToString())


T, INDEX = {"T": tf.float32}, {"Tindices": tf.int32}
CONV = {"T": tf.float32, "strides": [1, 1, 1, 1], "padding": "SAME"}
NUMBERS = {"dimension_numbers": b"", "precision_config": b"", "Tindices": tf.int32}
CASES = [
    ("InTopK", [ones(3), ints(1)], {"T": tf.int32, "k": 1}, "input 0 must have rank 2, not"),
    ("InTopKV2", [ones(1, 3), ints(1), ints(1)], {"T": tf.int32}, "input 2 must have rank 0"),
    ("BiasAddV1", [ones(), ones(1)], T, "input 0 must have rank 2 or more"),
    ("SpaceToDepth", [ones(2, 4, 4)], T | {"block_size": 2}, "input 0 must have rank 4"),
    ("DepthToSpace", [ones(4)], T | {"block_size": 2}, "input 0 must have rank 4"),
    ("XlaSort", [ones()], T, "input 0 must have rank 1 or more"),
    ("XlaSvd", [ones(3)], T | {"max_iter": 1, "epsilon": 1.0, "precision_config": b""}, "must have rank 2 or more"),
    ("TridiagonalMatMul", [ones(3)] * 4, T, "must have rank 2 or more"),
    ("LinSpace", [ones(3), ones(), ints(2)[0]], T | {"Tidx": tf.int32}, "input 0 must have rank 0"),
    ("Range", [F(0), F(np.inf), F(1)], {"Tidx": tf.float32}, "is endless"),
    ("Empty", [ints(2, -1)], {"dtype": tf.float32}, "a vector of sizes"),
    ("BroadcastTo", [ones(), ints(*[1] * 65)], T | {"Tidx": tf.int32}, "at most 64"),
    ("XlaPad", [ones(2, 3), ones(), ints(1), ints(1, 1), ints(0, 0)], T | INDEX, "input 2 must have 2 elements"),
    ("XlaDynamicSlice", [ones(2, 3), ints(1, 0, 0), ints(1, 1)], T | INDEX, "a vector of 2 elements"),
    ("XlaConcatND", [ones(2), ones(2)], T | {"N": 2, "num_concats": [0]}, "does not match 2 pieces"),
    ("XlaSplitND", [ones(2)], T | {"N": 2, "num_splits": [2, 1]}, "do not match"),
    ("Conv2D", [ones(1, 4, 4, 2), ones(2)], CONV, "lacks the dimensions of input and output channels"),
    ("Conv2D", [ones(1, 4, 4, 2), ones(2, 2, 2, 2)], CONV | {"dilations": [1]}, "attribute 'dilations'|dilations must have 4"),
    ("XlaLaunch", [], {"Tconstants": [], "Targs": [], "Nresources": 0, "Tresults": [], "function": FunctionRef("f")}, "no cluster f"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attrs", "message"), CASES, ids=[f"{c[0]}-{k}" for k, c in enumerate(CASES)])
def test_operands_that_the_op_does_not_take_are_refused_by_the_node(op, inputs, attrs, message):
    inputs = [np.asarray(v) for v in inputs]
    with pytest.raises(GraphError, match=message) as info:
        tf.Session(node_of(op, inputs, attrs)).run("y:0" if op != "XlaLaunch" else "y")
    assert "y" in str(info.value)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("BatchMatMul", [ones(3), ones(3, 3)], T),
        ("ConcatV2", [ones(2), ones(2), ints(0, 0)], T | {"N": 2, "Tidx": tf.int32}),
        ("ExpandDims", [ones(2), ints(0, 0)], T | {"Tdim": tf.int32}),
        ("ArgMin", [ones(2), ints(0, 0)], T | {"Tidx": tf.int32, "output_type": tf.int64}),
        ("GatherV2", [ones(2), ints(0), ints(0, 0)], {"Tparams": tf.float32, "Tindices": tf.int32, "Taxis": tf.int32}),
        ("FusedBatchNorm", [ones(), ones(1), ones(1), ones(1), ones(1)], T | {"data_format": "NCHW"}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_the_shapes_around_such_nodes_are_sought_without_a_crash(op, inputs, attrs):
    """The solver uses a node's rule before it is lowered; lowering, or a missing shape, raises."""
    graph = node_of(op, [np.asarray(v) for v in inputs], attrs)
    with pytest.raises(GraphError, match=r"no consistent shapes for all nodes|the shapes cannot be inferred"):
        list(stand_in_shapes(graph, [graph.get_tensor_by_name("y:0")], {}))


def test_a_stride_of_zero_stops_no_search_for_shapes():
    graph = node_of("Conv2D", [ones(1, 4, 4, 2), ones(2, 2, 2, 2)], CONV | {"strides": [1, 0, 1, 1]})
    with pytest.raises(GraphError, match=r"no consistent shapes for all nodes|the shapes cannot be inferred"):
        list(stand_in_shapes(graph, [graph.get_tensor_by_name("y:0")], {}))


def test_shapes_for_a_cluster_fed_by_an_unknown_op_are_sought_once():
    """The search once recursed endlessly on its own result."""
    proto = new_message("GraphDef")
    proto.node.add(name="x0", op="Unheard")
    node = proto.node.add(name="x1", op="Placeholder")
    fill_attrs({"dtype": tf.float32, "shape": tf.TensorShape([None])}, node.attr)
    node = proto.node.add(name="y", op="Mul", input=["x0", "x1"])
    fill_attrs({"T": tf.float32}, node.attr)
    found = cluster(Graph.from_graphdef(proto.SerializeToString()), tf_xla_min_cluster_size=1)
    refusals = []
    for c in found.clusters:
        with pytest.raises(GraphError) as info:
            c.hlo_module.verify()
        refusals.append(str(info.value))
    assert refusals
    assert all("x0" in r or "shapes" in r for r in refusals)


@pytest.mark.parametrize("run", [xlanb.compile, xlanb.evaluate], ids=["compile", "evaluate"])
def test_arrays_of_more_dimensions_than_there_can_be_are_refused(run):
    sizes = ",".join(["0"] + ["1"] * 95)
    text = (
        f"HloModule m\nENTRY e {{\n c = f32[] constant(1)\n ROOT b = f32[{sizes}] broadcast(c), dimensions={{}}\n}}\n"
    )
    with pytest.raises(XlanbError, match="array of 96 dimensions"):
        run(text)


SIZED = [
    ("TruncatedNormal", [ints(-2)], {"T": tf.int32, "dtype": tf.float32}),
    ("RandomUniformInt", [ints(-2), ints(0)[0], ints(9)[0]], {"T": tf.int32, "Tout": tf.int32}),
    ("StatelessRandomUniform", [ints(-2), ints(1, 2)], {"T": tf.int32, "Tseed": tf.int32, "dtype": tf.float32}),
    ("Conv2DBackpropInput", [ints(1, -4, 4, 2), ones(2, 2, 2, 2), ones(1, 4, 4, 2)], CONV),
    ("Conv2DBackpropFilter", [ones(1, 4, 4, 2), ints(-2, 2, 2, 2), ones(1, 4, 4, 2)], CONV),
    ("ScatterNd", [ints([0]), ones(1), ints(-2)], T | INDEX),
    ("RFFT", [ones(4), ints(-3)], {"Treal": tf.float32, "Tcomplex": tf.complex64}),
    ("ResizeBilinear", [ones(1, 2, 2, 1), ints(-1, 2)], T),
]


@pytest.mark.parametrize("jit", [-1, 2])
@pytest.mark.parametrize(("op", "inputs", "attrs"), SIZED, ids=[c[0] for c in SIZED])
def test_negative_sizes_are_refused(op, inputs, attrs, jit):
    graph = node_of(op, [np.asarray(v) for v in inputs], attrs)
    with xlanb.flags(f"--tf_xla_auto_jit={jit} --tf_xla_min_cluster_size=1"), pytest.raises(GraphError, match="y"):
        tf.Session(graph).run("y:0")


@pytest.mark.parametrize(("op", "count"), [("Shape", 1), ("ShapeN", 2), ("Size", 1)])
def test_sizes_that_their_type_cannot_hold_are_refused(op: str, count: int) -> None:
    def graph_of(out_type: Any) -> Graph:
        proto = new_message("GraphDef")
        for k in range(count):
            node = proto.node.add(name=f"x{k}", op="Placeholder")
            fill_attrs({"dtype": tf.float32, "shape": tf.TensorShape([3, 2**31])}, node.attr)
        node = proto.node.add(name="y", op=op, input=[f"x{k}" for k in range(count)])
        fill_attrs({"T": tf.float32, "out_type": out_type} | ({"N": count} if count > 1 else {}), node.attr)
        return Graph.from_graphdef(proto.SerializeToString())

    with pytest.raises(GraphError, match=r"'?y'?.*elements do not fit s32: set out_type=int64"):
        xlanb.extract(graph_of(tf.int32), "y:0")
    size = 3 * 2**31 if op == "Size" else 2**31
    assert str(size) in str(xlanb.extract(graph_of(tf.int64), "y:0"))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("TensorListReserve", [1], {"element_dtype": tf.float32, "shape_type": tf.int32}),
        ("EmptyTensorList", [1], {"element_dtype": tf.float32, "shape_type": tf.int32}),
        ("RandomUniform", [], {"dtype": tf.float32, "T": tf.int32}),
    ],
)
def test_a_shape_of_billions_of_dimensions_is_refused_at_once(
    op: str, operands: list[int], attrs: Any, jit: bool
) -> None:
    proto = new_message("GraphDef")
    node = proto.node.add(name="x0", op="Const")
    node.attr["dtype"].type = tf.int32.as_datatype_enum
    tensor = node.attr["value"].tensor
    tensor.dtype = tf.int32.as_datatype_enum
    tensor.tensor_shape.dim.add(size=2**31 - 1)
    tensor.int_val.append(3)
    for k, value in enumerate(operands, 1):
        node = proto.node.add(name=f"x{k}", op="Const")
        node.attr["dtype"].type = tf.int32.as_datatype_enum
        tensor_to_proto(np.int32(value), tf.int32, node.attr["value"].tensor)
    names = ["x0", *(f"x{k}" for k in range(1, len(operands) + 1))]
    node = proto.node.add(name="y", op=op, input=names)
    fill_attrs(attrs, node.attr)
    graph = Graph.from_graphdef(proto.SerializeToString())
    fetched = graph.get_operation_by_name("y")
    with xlanb.flags(tf_xla_auto_jit=2 if jit else 0, tf_xla_cpu_global_jit=True), pytest.raises(XlanbError):
        tf.Session(graph=graph).run(fetched if fetched.outputs[0].dtype.name == "variant" else fetched.outputs[0])
