"""Invalid GraphDefs are rejected at import; a few bytes cannot allocate much memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphError, GraphValueError, InternalError, XlanbError
from xlanb.graph.constant_value import constant_value, partial_vector
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.op_library import call
from xlanb.tf2xla.broadcasting import broadcast_dimensions
from xlanb.tf2xla.registry import kernel

T = 'attr { key: "T" value { type: DT_FLOAT } }'
X = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'
I = 'node { name: "i" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }'  # noqa: E741


def node(op: str, *inputs: str, **attrs: str) -> str:
    read = " ".join(f'input: "{i}"' for i in inputs)
    return (
        f'node {{ name: "n" op: "{op}" {read} '
        + " ".join(f'attr {{ key: "{k}" value {{ {v} }} }}' for k, v in attrs.items())
        + " }"
    )


FLOAT = "type: DT_FLOAT"
REFUSED = {
    "an attribute is missing": (node("Neg", "x"), r"'n' \(op Neg\) lacks the attribute 'T', a type"),
    "a number is missing": (node("Pack", "x", T=FLOAT), "lacks the attribute 'N', a int"),
    "no value": (node("Neg", "x", T=""), "attribute 'T' is a type, not a value"),
    "no type": (node("Neg", "x", T="type: DT_INVALID"), "attribute 'T' is no valid type"),
    "a reference's type": (node("Neg", "x", T="type: DT_FLOAT_REF"), "attribute 'T' is no valid type"),
    "a type that it has not": (node("Neg", "x", T="type: DT_STRING"), "attribute 'T' cannot be string; allowed: "),
    "a word that it has not": (
        node("MatrixDiagPartV3", "x", "i", "x", T=FLOAT, align='s: "LEFT"'),
        "'align' cannot be 'LEFT'; allowed: 'LEFT_RIGHT'",
    ),
    "a list of another kind": (
        node("MaxPool", "x", T=FLOAT, ksize='list { s: "a" }', strides="list { i: 1 }", padding='s: "SAME"'),
        r"'ksize' is a list\(int\), not a list\(string\)",
    ),
    "a short list": (
        node("MaxPool", "x", T=FLOAT, ksize="list { i: 1 }", strides="list { i: 1 }", padding='s: "SAME"'),
        "'ksize' has 1 elements, less than 4",
    ),
    "few inputs": (node("Add", "x", T=FLOAT), r"takes 2 inputs \(x, y\), not 1"),
    "many inputs": (node("Neg", "x", "x", T=FLOAT), r"takes 1 inputs \(x\), not 2"),
    "another type": (node("Add", "x", "i", T=FLOAT), "input 'y' is 'i:0' of type int32, not float32"),
    "no reference": (node("AssignAdd", "x", "x", T=FLOAT), "input 'ref' is 'x:0' of type float32, not float32_ref"),
    "many outputs": (
        node("Unpack", "x", T=FLOAT, num="i: 2147483648"),
        "'num' requires 2147483648 tensors, more than 65536",
    ),
    "fewer than no outputs": (node("Unpack", "x", T=FLOAT, num="i: -1"), "attribute 'num' is -1|less than 0"),
    "a far output": (node("Neg", "x:99999999", T=FLOAT), "malformed input 'x:99999999'"),
    "an output in another script": (node("Neg", "x:²", T=FLOAT), "malformed input 'x:²'"),
    "a class of another kind": (node("Neg", "x", T=FLOAT, _class="i: 1"), r"'_class' is a list\(string\), not a int"),
    "a number beyond its field": ('node { name: "n" attr { key: "a" value { i: 99999999999999999999999 } } }', "range"),
    "messages within messages": ("node { attr { key: 'a' value { func { " * 900, "nested too deeply|Expected"),
    "a shape of many dimensions": (
        node("Const", dtype=FLOAT, value="tensor { dtype: DT_FLOAT tensor_shape { %s } }" % ("dim { size: 1 } " * 70)),
        "70 dimensions, more than the limit of 64",
    ),
    "half of a surrogate pair": ("node {\n name: \udc80 }", r"line 4: '\\udc80' is half of a surrogate pair"),
    "a tensor of references": (
        node("Const", dtype=FLOAT, value="tensor { dtype: DT_INT64_REF int64_val: 1 }"),
        "values of type int64_ref are not supported",
    ),
    "an overflow of sizes": (
        node("Const", dtype=FLOAT, value="tensor { dtype: DT_FLOAT tensor_shape { %s } }" % ("dim { size: 4294967296 } " * 3)),
        r"takes [\d,]* bytes, more than the limit of 8,589,934,592",
    ),
    "a list that is filled up": (
        node(
            "Const", dtype=FLOAT,
            value="tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1000000000 } } float_val: 1 float_val: 2 }",
        ),
        "filled up of shape .* takes 4,000,000,000 bytes, more than the limit of 268,435,456",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_op_table_does_not_allow_is_refused_at_import(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(GraphError, match=message):
        Graph.from_graphdef(f"{X}\n{I}\n{text}")


def test_defaults_are_filled_in_and_not_written_back() -> None:
    text = f"{X}\n{node('LeakyRelu', 'x')}"
    graph = Graph.from_graphdef(text)
    op = graph.get_operation_by_name("n")
    assert op.attrs["alpha"] == pytest.approx(0.2)
    assert op.attrs["T"] is tf.float32
    proto = new_message("GraphDef")
    proto.ParseFromString(graph.copy().to_graphdef())
    assert not proto.node[1].attr
    op.set_attr("alpha", 0.5)
    proto.ParseFromString(graph.to_graphdef())
    assert list(proto.node[1].attr) == ["alpha"]


def test_the_type_of_an_input_need_not_be_stated() -> None:
    graph = Graph.from_graphdef(f"{X}\n{node('Shape', 'x')}")
    assert graph.get_operation_by_name("n").attrs["T"] is tf.float32


def splat(size: int, value: str = "float_val: 7") -> str:
    tensor = f"tensor {{ dtype: DT_FLOAT tensor_shape {{ dim {{ size: {size} }} }} {value} }}"
    return node("Const", dtype=FLOAT, value=tensor)


@pytest.mark.parametrize("value", ["float_val: 7", ""])
def test_one_value_for_all_elements_stays_one(value: str) -> None:
    tracemalloc.start()
    graph = Graph.from_graphdef(splat(2**31 - 1, value))
    held = graph.get_operation_by_name("n").attrs["value"]
    assert held.shape == (2**31 - 1,)
    assert held.strides == (0,)
    again = Graph.from_graphdef(graph.to_graphdef())
    op = again.get_operation_by_name("n")
    op.raw_attrs = None  # as of a node that was made here
    assert len(again.to_graphdef()) < 100
    assert str(again)
    twice = call("AddV2", op.outputs[0], op.outputs[0])
    with again.as_default():
        small = call("Sum", twice, tf.constant([0]))
    assert "f32[2147483647]{0} broadcast" in str(xlanb.extract(again, small))
    assert constant_value(small) is None
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("op", "attrs"),
    [("Sum", {"T": FLOAT, "Tidx": "type: DT_INT32"}), ("Tile", {"T": FLOAT, "Tmultiples": "type: DT_INT32"})],
)
def test_a_list_of_axes_is_refused_before_it_is_written_out(op: str, attrs: dict[str, str]) -> None:
    value = f"tensor {{ dtype: DT_INT32 tensor_shape {{ dim {{ size: {2**28} }} }} int_val: 0 }}"
    axes = node("Const", dtype="type: DT_INT32", value=value).replace('"n"', '"axes"')
    graph = Graph.from_graphdef("\n".join([X, axes, node(op, "x", "axes", **attrs)]))
    tracemalloc.start()
    with pytest.raises(GraphError, match=r"'n' .* broadcast, whose 1,073,741,824 bytes exceed"):
        tf.Session(graph).run("n:0", {"x:0": np.ones((2, 3), np.float32)})
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_a_splat_has_the_values_that_it_says() -> None:
    graph = Graph.from_graphdef(splat(5))
    with graph.as_default(), xlanb.flags("--tf_xla_auto_jit=2 --tf_xla_min_cluster_size=1"):
        doubled = graph.get_operation_by_name("n").outputs[0] * tf.placeholder(tf.float32, [], name="y")
        found = tf.Session(graph).run([doubled, "n:0"], {"y:0": 2.0})
    np.testing.assert_array_equal(found[0], np.full(5, 14, np.float32))
    np.testing.assert_array_equal(found[1], np.full(5, 7, np.float32))


def test_a_value_that_is_not_small_is_not_computed_while_the_graph_is_built() -> None:
    with Graph().as_default():
        x = tf.fill([2**15, 2**15], 1.0)
        assert constant_value(x) is not None
        assert constant_value(tf.cast(x, tf.int32)) is None
        assert constant_value(tf.range(0, 2**31 - 1)) is None
        assert constant_value(call("Range", tf.constant(1), tf.constant(5), tf.placeholder(tf.int32, []))) is None


def test_chains_are_looked_through_as_far_as_is_of_use() -> None:
    with Graph().as_default():
        near = far = tf.constant(3)
        for k in range(3000):
            far = tf.stop_gradient(far)
            near = tf.stop_gradient(near) if k < 20 else near
        assert constant_value(near) == 3
        assert constant_value(far) is None
        sizes = tf.placeholder(tf.int32, [1])
        for _ in range(60):  # 2**60 elements, 2**60 ways
            sizes = tf.concat([sizes, sizes], 0)
        assert partial_vector(sizes) is None


def test_a_constant_is_not_made_larger_than_it_may_be() -> None:
    with Graph().as_default():
        assert constant_value(tf.reduce_sum(tf.range(0, tf.constant(2**31 - 1)))) is None
        with pytest.raises(
            GraphError, match=r"LinSpace.* takes 17,179,869,176 bytes, more than the limit of 268,435,456"
        ):
            tf.linspace(0.0, 1.0, 2**31 - 1)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Range", ([1, 2], 5, 1)),
        ("TopKV2", ([1.0, 2.0], [])),
        ("ExpandDims", ([1.0], [0, 0])),
        ("OneHot", ([1], [2, 2], 1.0, 0.0)),
    ],
)
def test_an_input_that_must_be_one_number_is_named(op: str, inputs: tuple) -> None:
    with Graph().as_default() as graph:
        types = [np.int32 if np.asarray(v).size == 0 or np.asarray(v).dtype.kind == "i" else np.float32 for v in inputs]
        constants = [tf.constant(np.asarray(v, t)) for v, t in zip(inputs, types, strict=True)]
        attrs = {"T": constants[0].dtype} if op != "Range" else {"Tidx": tf.int32}
        attrs = {"T": tf.float32, "TI": tf.int32, "axis": -1} if op == "OneHot" else attrs
        attrs |= {"Tdim": tf.int32} if op == "ExpandDims" else {}
        count = 2 if op == "TopKV2" else 1
        made = graph.add_op(op, "n", constants, [constants[0].dtype] * count, attrs)
    with pytest.raises(GraphError, match=r"'n'.* input \d must be one number, not int32\["):
        tf.Session(graph).run(made.outputs[0])


def test_shapes_of_many_dimensions_broadcast() -> None:
    assert broadcast_dimensions([1] * 60, [3]) == (*([1] * 59), 3)
    with pytest.raises(xlanb.errors.XlanbError, match="do not broadcast"):
        broadcast_dimensions([2] * 60, [3])


def test_a_fault_of_a_lowering_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kernel("Neg")
    assert found is not None

    def broken(_ctx: object) -> None:
        raise KeyError("missing")

    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        tf.negative(x, name="faulty")
    monkeypatch.setattr("xlanb.tf2xla.compiler.kernel", lambda op: found if op != "Neg" else _with(found, broken))
    with pytest.raises(InternalError, match=r"faulty.*\n?KeyError: 'missing'(.|\n)*report") as info:
        tf.Session(graph).run("faulty:0", {x: [1, 2]})
    assert isinstance(info.value.__cause__, KeyError)


def _with(found: object, lower: object) -> object:
    from dataclasses import replace

    return replace(found, lower=lower)  # type: ignore[type-var]


def test_the_library_may_not_call_itself_without_end() -> None:
    function = (
        'library { function { signature { name: "f" input_arg { name: "x" type: DT_FLOAT } '
        'output_arg { name: "y" type: DT_FLOAT } } node_def { name: "c" op: "f" input: "x" } '
        'ret { key: "y" value: "c:y:0" } } }'
    )
    graph = Graph.from_graphdef(f"{X}\n{node('f', 'x')}\n{function}")
    with pytest.raises(GraphError, match="call itself"):
        tf.Session(graph).run("n:0", {"x:0": 1.0})
    xlanb.cluster(graph, tf_xla_min_cluster_size=1)


def test_an_unknown_reference_is_no_reason_to_stop_reading() -> None:
    graph = Graph.from_graphdef(f"{X}\n{node('Bogus', 'x')}")
    with pytest.raises(GraphValueError, match="has 0 outputs"):
        graph.get_tensor_by_name("n:0")
    with pytest.raises(GraphValueError, match="tensor names have the form"):
        graph.get_tensor_by_name("n:" + "9" * 5000)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(GraphError, match=r"neither a path nor|cannot read"):
        tf.Graph.from_graphdef(name)
    with pytest.raises(XlanbError):
        xlanb.compile(name)
    with pytest.raises(XlanbError, match="not a valid checkpoint"):
        tf.train.load_variable(name, "v")
    assert tf.train.latest_checkpoint(name) is None
