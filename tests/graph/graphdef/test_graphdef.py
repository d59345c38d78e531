"""GraphDefs in and out: everything is preserved; damage raises with the node's name."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlanb.errors import GraphError, GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import identity, placeholder, split
from xlanb.graph.builders.control_ops import no_op
from xlanb.graph.convert import constant
from xlanb.graph.functions import FunctionRef, GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import write_graphdef_text
from xlanb.graph.graphdef.attr_values import (
    attr_from_proto,
    attr_to_proto,
    new_message,
    tensor_from_proto,
    tensor_to_proto,
)
from xlanb.graph.op_library import call
from xlanb.graph.tensor_shape import TensorShape


def example():
    graph = Graph("example")
    with graph.as_default():
        x = placeholder("float32", [None, 3], name="x")
        with graph.device("/cpu:0"), graph.control_dependencies([no_op("first")]):
            parts = split(x, 3, axis=1)
        identity(parts[2], name="last")
        constant(["text", b"\xff\0"], name="strings")
        constant(np.arange(6, dtype=np.float64).reshape(2, 3), name="matrix")
    return graph


def facts(graph):
    return [
        (op.name, op.type, op.node_inputs, op.device, [t.dtype.name for t in op.outputs], sorted(op.attrs))
        for op in graph
    ]


def test_binary_and_text_give_the_same_graph():
    graph = example()
    again = Graph.from_graphdef(graph.to_graphdef())
    from_text = Graph.from_graphdef(write_graphdef_text(graph))
    assert facts(again) == facts(from_text) == facts(graph)
    assert again.to_graphdef() == from_text.to_graphdef() == graph.to_graphdef()
    assert again.get_operation_by_name("strings").attrs["value"].tolist() == [b"text", b"\xff\0"]
    np.testing.assert_array_equal(again.get_operation_by_name("matrix").attrs["value"], np.arange(6.0).reshape(2, 3))
    assert again.get_tensor_by_name("x:0").shape == [None, 3]


def test_files(tmp_path):
    graph = example()
    (tmp_path / "g.pb").write_bytes(graph.to_graphdef())
    (tmp_path / "g.pbtxt").write_text(write_graphdef_text(graph))
    for name in ("g.pb", "g.pbtxt"):
        assert facts(Graph.from_graphdef(str(tmp_path / name))) == facts(graph)
    with pytest.raises(GraphError, match=r"cannot read the graph.*No such file"):
        Graph.from_graphdef(tmp_path / "none.pb")


def test_what_is_not_understood_is_written_back_as_it_was():
    proto = new_message("GraphDef")
    node = proto.node.add(name="a", op="SomethingNew")
    node.attr["x"].ParseFromString(bytes([0xFA, 0x06, 0x01, 0x07]))  # field 111, unknown here
    node.attr["list"].list.SetInParent()
    proto.versions.producer = 3000
    data = proto.SerializeToString(deterministic=True)
    assert Graph.from_graphdef(data).to_graphdef() == data


def test_a_changed_attribute_is_written_anew():
    graph = Graph.from_graphdef(example().to_graphdef())
    graph.get_operation_by_name("x").set_attr("shape", TensorShape([5]))
    again = Graph.from_graphdef(graph.to_graphdef())
    assert again.get_operation_by_name("x").attrs["shape"] == [5]


def test_functions_keep_their_definition_and_have_a_body():
    body = Graph("double")
    with body.as_default():
        arg = call("_Arg", T=dtypes.float32, index=0, name="arg")
        halves = call("Split", constant(0), arg, num_split=2)
        total = halves.op.outputs[1] + halves
        body.create_op("_Retval", [total], [], {"T": dtypes.float32, "index": 0}, "result")
    graph = Graph()
    graph.functions["double"] = GraphFunction.of_body("double", body)
    with graph.as_default():
        x = placeholder("float32", [4], name="x")
        graph.create_op(
            "PartitionedCall",
            [x],
            [dtypes.float32],
            {"Tin": (dtypes.float32,), "Tout": (dtypes.float32,), "f": FunctionRef("double")},
            "f",
        )
        graph.create_op("double", [x], name="direct")
    again = Graph.from_graphdef(graph.to_graphdef())
    function = again.functions["double"]
    assert [(a.name, a.dtype.name) for a in function.inputs] == [("arg", "float32")]
    assert [op.type for op in function.body] == ["_Arg", "Const", "Split", "AddV2", "_Retval"]
    assert function.body.get_operation_by_name("add").node_inputs == ("Split:1", "Split")
    assert again.get_operation_by_name("f").attrs["f"] == FunctionRef("double")
    assert again.get_operation_by_name("direct").outputs[0].dtype is dtypes.float32
    assert again.to_graphdef() == graph.to_graphdef()


def nodes(*definitions):
    proto = new_message("GraphDef")
    for name, op, inputs in definitions:
        proto.node.add(name=name, op=op, input=inputs)
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (nodes(("a", "NoOp", ["^b"])), "node 'a' uses 'b', which is not in the graph"),
        (nodes(("a", "NoOp", []), ("a", "NoOp", [])), "already has a node 'a'"),
        (nodes(("a", "NoOp", []), ("b", "Other", ["a:0"])), "uses output 0 of .*which has 0"),
        (nodes(("a", "Other", ["a:9999999"])), "malformed input"),
        (nodes(("", "NoOp", [])), "not a valid node name"),
        (nodes(("a", "MatMul", [])), "node 'a' .op MatMul.*lacks the attribute 'T'"),
        (b"\x0a\xff\xff\xff\x0f", "not a binary GraphDef"),
        ("node { name: 'a' op: 'NoOp' ", "not a GraphDef in text form"),
        (17, "got int"),
    ],
)
def test_damaged_graphs_are_refused(data, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_graphdef(data)


def test_a_tensor_that_asks_for_too_much_is_refused():
    proto = new_message("GraphDef")
    node = proto.node.add(name="huge", op="Const")
    node.attr["dtype"].type = 1
    tensor = node.attr["value"].tensor
    tensor.dtype = 1
    for _ in range(4):
        tensor.tensor_shape.dim.add(size=1 << 20)
    with pytest.raises(GraphValueError, match=r"node 'huge'.*attribute 'value': a tensor of"):
        Graph.from_graphdef(proto.SerializeToString())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_end_in_a_graph_or_a_clear_error(data):
    with contextlib.suppress(GraphError):
        Graph.from_graphdef(data)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_file_ends_in_a_graph_or_a_clear_error(position, value):
    data = bytearray(example().to_graphdef())
    data[position % len(data)] = value
    with contextlib.suppress(GraphError):
        Graph.from_graphdef(bytes(data))


NUMERIC = [t for t in dtypes.BY_NUMBER.values() if t.has_numpy_dtype and not t.is_ref_dtype and t is not dtypes.string]


@pytest.mark.parametrize("dtype", NUMERIC, ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)], ids=str)
def test_tensors_of_every_type_survive(dtype, shape):
    value = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype.numpy_dtype)
    proto = new_message("TensorProto")
    tensor_to_proto(value, dtype, proto)
    again = tensor_from_proto(proto)
    assert again.dtype == value.dtype
    assert again.shape == value.shape
    assert again.tobytes() == value.tobytes()


def test_a_short_list_of_values_is_filled_with_its_last():
    proto = new_message("TensorProto")
    proto.dtype = 1
    proto.tensor_shape.dim.add(size=4)
    proto.float_val.extend([1.0, 2.0])
    assert tensor_from_proto(proto).tolist() == [1, 2, 2, 2]
    proto.float_val.extend([1.0] * 9)
    with pytest.raises(GraphValueError, match="4 elements has 11 values"):
        tensor_from_proto(proto)


@pytest.mark.parametrize(
    "value",
    [True, 3, -1.5, "text", b"\xff", dtypes.float32, TensorShape([None, 2]), TensorShape(None), (1, 2), (True, False), ("a", "b"), (dtypes.int32,),
     (TensorShape([1]), TensorShape(None)), FunctionRef("f", {"T": dtypes.float32}), ()],
    ids=str,
)  # fmt: skip
def test_attributes_of_every_kind_survive(value):
    proto = new_message("AttrValue")
    attr_to_proto(value, proto)
    again = attr_from_proto(proto)
    assert again == value
    assert type(again) is type(value)


def test_an_attribute_of_another_kind_is_refused():
    with pytest.raises(GraphError, match="type object"):
        attr_to_proto(object(), new_message("AttrValue"))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('key: "dtype" value { s: "abc" }', "'y' .*'dtype' is a type, not a string"),
        ('key: "shape" value { i: 3 }', "'y' .*'shape' is a shape, not a int"),
        ('key: "shape" value { list { i: 3 } }', "'y' .*'shape' is a shape, not a list"),
        (
            'key: "shape" value { placeholder: "S" }',
            "'y' .*'shape', a shape, is a placeholder for the attribute 'S' of a function",
        ),
    ],
)
def test_an_attribute_of_another_kind_than_its_op_has_is_refused_by_name(attribute, message):
    dtype = "" if "dtype" in attribute else 'attr { key: "dtype" value { type: DT_FLOAT } }'
    with pytest.raises(GraphError, match=message):
        Graph.from_graphdef(f'node {{ name: "y" op: "Placeholder" {dtype} attr {{ {attribute} }} }}')


def test_a_constant_of_another_type_than_its_tensor_is_refused():
    text = (
        'node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } '
        'attr { key: "value" value { tensor { dtype: DT_COMPLEX64 tensor_shape { } scomplex_val: [1, 0] } } } }'
    )
    with pytest.raises(GraphError, match=r"'c' .*'value' is a tensor of type complex64, attribute 'dtype' is int32"):
        Graph.from_graphdef(text)


@pytest.mark.parametrize("text", ["\x00", "node \ud800"])
def test_a_text_that_is_neither_a_path_nor_a_graph_is_told(text):
    with pytest.raises(GraphError, match="neither a path nor the text of a graph"):
        Graph.from_graphdef(text)


@pytest.mark.parametrize("value", [np.float32, np.float64, np.complex64, np.complex128])
def test_a_number_keeps_every_bit_in_its_field(value):
    part = np.zeros((), value).real.dtype
    signaling = (np.array([np.inf], part).view(f"u{part.itemsize}") | 1).view(part)
    array = np.resize(np.concatenate([signaling, np.array([-np.inf], part)]), 2 if value(0).dtype.kind == "c" else 1)
    proto = new_message("TensorProto")
    tensor_to_proto(array.view(value), dtypes.as_dtype(value), proto)
    assert not proto.tensor_content
    assert tensor_from_proto(proto).tobytes() == array.tobytes()


@pytest.mark.parametrize("text", ["\ud800", "a\udcff"])
def test_half_of_a_surrogate_pair_is_no_string(text):
    with Graph().as_default(), pytest.raises(GraphValueError, match="half of a surrogate pair"):
        constant(text)
    with Graph().as_default(), pytest.raises(GraphValueError, match="half of a surrogate pair"):
        constant(["fine", text])
    with pytest.raises(GraphValueError, match="half of a surrogate pair"):
        attr_to_proto(text, new_message("AttrValue"))
