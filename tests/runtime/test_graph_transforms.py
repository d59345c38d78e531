"""TransformGraph on frozen graphs; results are compared with those of the original graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb import tf
from xlanb.errors import GraphError, GraphValueError
from xlanb.explorer.transform_trace import transform_trace
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef import parse_graphdef
from xlanb.graph.op_library import call
from xlanb.graph.optimize.graph_transforms.table import REFUSED, TRANSFORMS, parse_transforms
from xlanb.tf.tools.graph_transforms import TransformGraph

RNG = np.random.default_rng(7)


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def graph() -> Graph:
    """A small frozen model: batch norm, Identity, equal nodes, a device, unused nodes."""
    with Graph().as_default() as made:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3], name="x")
        shifted = call("Identity", x - np.float32(0.5), name="shifted")
        y = call("Conv2D", shifted, f32(3, 3, 3, 8), strides=[1, 1, 1, 1], padding="SAME", name="conv")
        factor = call("Mul", call("Rsqrt", np.abs(f32(8)) + np.float32(0.5)), f32(8), name="factor")
        normed = (y - f32(8)) * factor + f32(8)
        with tf.device("/cpu:0"):
            call("AddN", [call("Relu", normed), call("Relu", normed)], name="out")
        call("Neg", x, name="unused")
    return made


def run(graph: Any, feed: str, value: Any, fetch: str = "out:0") -> Any:
    with tf.Session(graph=graph) as session:
        return session.run(fetch, {feed: value})


SAME = [
    "add_default_attributes", "fold_constants", "fold_batch_norms", "fold_constants fold_batch_norms",
    "merge_duplicate_nodes", "obfuscate_names", "remove_device", "remove_nodes(op=Identity)",
    "sort_by_execution_order", "strip_unused_nodes", "remove_control_dependencies", "inline_partitionedcall",
    'set_device(device="/cpu:0", if_default=true)', "remove_attribute(attribute_name=_class)",
    "rename_op(old_op_name=Add, new_op_name=AddV2)", "rename_node(old_node_name=conv, new_node_name=first)",
    "strip_unused_nodes fold_constants(ignore_errors=true) fold_batch_norms fold_old_batch_norms "
    "remove_nodes(op=Identity, op=CheckNumerics) merge_duplicate_nodes sort_by_execution_order",
]  # fmt: skip


@pytest.mark.parametrize("transforms", SAME)
def test_the_values_stay(graph: Graph, transforms: str) -> None:
    value = f32(2, 5, 5, 3)
    want = run(graph, "x:0", value)
    made = TransformGraph(graph, ["x"], ["out"], [transforms])
    np.testing.assert_allclose(run(made, "x:0", value), want, rtol=2e-4, atol=2e-5)


def types(graph: Any) -> list[str]:
    return sorted(op.type for op in graph if op.type not in ("Const", "Placeholder"))


def test_a_deployment_leaves_what_is_needed(graph: Graph) -> None:
    made = TransformGraph(
        graph, ["x"], ["out"], ["strip_unused_nodes", "remove_nodes(op=Identity)", "fold_constants", "fold_batch_norms",
                                "merge_duplicate_nodes"],
    )  # fmt: skip
    assert types(made) == ["AddN", "BiasAdd", "Conv2D", "Relu", "Sub"]
    assert len(made) < len(graph)
    assert "unused" not in made


@pytest.mark.parametrize("transforms", ["fold_batch_norms fold_constants", "fold_constants fold_batch_norms"])
def test_a_frozen_keras_layer_folds_in_either_order(transforms: str) -> None:
    """Weights behind Identity, a bias by Reshape and Squeeze, a norm of Rsqrt, Mul, Sub, Add."""
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 5, 5, 3], name="x")

        def read(*shape: int) -> Any:
            return call("Identity", np.abs(f32(*shape)))

        y = call("Conv2D", x, read(3, 3, 3, 4), strides=[1, 1, 1, 1], padding="SAME")
        y = call("BiasAdd", y, call("Squeeze", call("Reshape", read(4), [1, 1, 1, 4]), squeeze_dims=[0, 1, 2]))
        factor = call("Mul", call("Rsqrt", call("AddV2", read(4), np.float32(1e-3))), read(4))
        shift = call("Sub", read(4), call("Mul", read(4), factor))
        call("Relu", call("AddV2", call("Mul", y, factor), shift), name="out")
    value = f32(2, 5, 5, 3)
    want = run(graph, "x:0", value)
    made = TransformGraph(graph, ["x"], ["out"], [*transforms.split(), "strip_unused_nodes"])
    assert types(made) == ["BiasAdd", "Conv2D", "Relu"]
    np.testing.assert_allclose(run(made, "x:0", value), want, rtol=2e-4, atol=2e-4)


def test_what_is_given_is_what_comes_back(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(graph.to_graphdef())
    message = graph.as_graph_def()
    made = {
        "graph": TransformGraph(graph, ["x"], ["out"], ["strip_unused_nodes"]),
        "bytes": TransformGraph(path.read_bytes(), ["x"], ["out"], ["strip_unused_nodes"]),
        "message": TransformGraph(message, ["x:0"], ["out:0"], ["strip_unused_nodes"]),
        "path": TransformGraph(path, ["x"], ["out"], ["strip_unused_nodes"]),
    }
    assert isinstance(made["graph"], Graph)
    assert isinstance(made["bytes"], bytes)
    assert type(made["message"]) is type(message)
    assert made["message"].SerializeToString() == made["bytes"] == made["path"].SerializeToString()
    assert len(message.node) == len(graph)  # the input is unchanged


def test_inputs_deeper_in_the_graph_become_placeholders(graph: Graph) -> None:
    made = TransformGraph(graph, ["shifted"], ["out"], ['strip_unused_nodes(type=float, shape="2,5,5,3")'])
    op = made.get_operation_by_name("shifted")
    assert (op.type, op.outputs[0].shape.as_list()) == ("Placeholder", [2, 5, 5, 3])
    assert "x" not in made
    value = f32(2, 5, 5, 3)
    np.testing.assert_allclose(run(made, "shifted:0", value - np.float32(0.5)), run(graph, "x:0", value), rtol=1e-5)
    named = 'strip_unused_nodes(name=shifted, type_for_name=int32, name=x, type_for_name=float, shape="1")'
    proto = TransformGraph(graph.to_graphdef(), ["shifted"], ["out"], [named])
    assert parse_graphdef(proto).node[0].attr["dtype"].type == 3


def test_weights_are_rounded_to_so_many_values(graph: Graph) -> None:
    made = TransformGraph(graph, ["x"], ["out"], ["round_weights(num_steps=4)"])
    old, new = (g.get_operation_by_name("conv").inputs[1].op.attrs["value"] for g in (graph, made))
    assert len(np.unique(new)) == 4 <= len(np.unique(old))
    assert np.abs(new - old).max() <= (old.max() - old.min()) / 8 * 1.01
    small = next(op.name for op in graph if op.type == "Const" and op.attrs["value"].size == 8)
    np.testing.assert_array_equal(*(g.get_operation_by_name(small).attrs["value"] for g in (graph, made)))


def test_weights_of_eight_bits_run(graph: Graph) -> None:
    value = f32(2, 5, 5, 3)
    made = TransformGraph(graph, ["x"], ["out"], ["quantize_weights(minimum_size=16)"])
    assert types(made).count("Dequantize") == 1
    assert len(made.to_graphdef()) < len(graph.to_graphdef())
    got, want = run(made, "x:0", value), run(graph, "x:0", value)
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()
    assert not np.array_equal(got, want)


def test_logging_prints_what_flows(graph: Graph, capfd: pytest.CaptureFixture[str]) -> None:
    logged = 'insert_logging(op=Conv2D, show_op=true, show_name=true, message="m:")'
    made = TransformGraph(graph, ["x"], ["out"], [logged])
    value = f32(2, 5, 5, 3)
    np.testing.assert_allclose(run(made, "x:0", value), run(graph, "x:0", value), rtol=1e-6)
    assert ";Conv2D;;conv__print__;m:" in capfd.readouterr().err


def test_names_become_short(graph: Graph) -> None:
    made = TransformGraph(graph, ["x"], ["out"], ["obsfucate_names"])
    names = {op.name for op in made}
    assert {"x", "out"} <= names
    assert max(map(len, names)) <= 3
    assert len(made.to_graphdef()) < len(graph.to_graphdef())


def test_a_dilated_convolution_is_flattened() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [1, 8, 8, 3], name="x")
        spread = call("SpaceToBatchND", x, np.array([2, 2], np.int32), np.array([[2, 2], [2, 2]], np.int32))
        y = call("Conv2D", spread, f32(3, 3, 3, 4), strides=[1, 1, 1, 1], padding="VALID")
        call("BatchToSpaceND", y, np.array([2, 2], np.int32), np.array([[0, 0], [0, 0]], np.int32), name="out")
    value = f32(1, 8, 8, 3)
    made = TransformGraph(graph, ["x"], ["out"], ["flatten_atrous_conv strip_unused_nodes"])
    assert types(made) == ["Conv2D"]
    np.testing.assert_allclose(run(made, "x:0", value), run(graph, "x:0", value), rtol=2e-4, atol=2e-5)


def test_concat_of_before_has_its_axis_first() -> None:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        call("ConcatV2", [x, x * np.float32(2)], 1, name="out")
    made = TransformGraph(graph, ["x"], ["out"], ["backport_concatv2"])
    assert "Concat" in types(made)
    value = f32(2, 3)
    np.testing.assert_array_equal(run(made, "x:0", value), run(graph, "x:0", value))


def test_attributes_are_renamed_and_what_no_table_knows_is_shown(graph: Graph) -> None:
    renamed = "rename_attribute(old_attribute_name=T, new_attribute_name=U, op_name=Conv2D)"
    data = TransformGraph(
        graph.to_graphdef(), ["x"], ["out"], [renamed, "rename_op(old_op_name=Relu, new_op_name=Mine)"]
    )
    nodes = {n.name: n for n in parse_graphdef(data).node}
    assert "U" in nodes["conv"].attr
    assert "T" not in nodes["conv"].attr
    trace = transform_trace(graph, ["x"], ["out"], [renamed])
    assert trace[1].after is not None
    with pytest.raises(GraphError, match="Conv2D"):
        TransformGraph(graph, ["x"], ["out"], [renamed])


def test_each_transform_is_a_stage(graph: Graph) -> None:
    wanted = ["fold_constants", "fold_batch_norms", "remove_nodes(op=Print)"]
    trace = transform_trace(graph, ["x"], ["out"], wanted)
    assert [(s.name, s.changed) for s in trace] == [
        ("graph", True),
        ("fold_constants", True),
        ("fold_batch_norms", True),
        ("remove_nodes", False),
    ]
    before, after = trace["fold_batch_norms"].before, trace["fold_batch_norms"].after
    assert "Mul" in {n.op for n in before.nodes}  # type: ignore[union-attr]
    assert "Mul" not in {n.op for n in after.nodes}  # type: ignore[union-attr]
    assert trace["remove_nodes"].summary.startswith("remove_nodes(op=Print): ")
    with xlanb.recording() as recorded:
        TransformGraph(graph, ["x"], ["out"], wanted)
    assert len(recorded) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_built_says_why(name: str) -> None:
    with pytest.raises(GraphValueError, match=f"transform '{name}' is not implemented: "):
        parse_transforms([name])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fold_batchnorms", "not recognized; did you mean 'fold_batch_norms'"),
        ("remove_nodes", "needs at least one op"),
        ("remove_nodes(op Identity)", "expected name=value or a closing parenthesis, got 'op Identity"),
        ("remove_nodes(op=Identity", "expected name=value"),
        ("!", "expected the name of a transform, got '!'"),
        ("rename_op(old_op_name=A)", "needs the parameter 'new_op_name'"),
        ("round_weights(num_steps=many)", "expects an integer, got 'many'"),
        ("round_weights(num_steps=0)", "expects a positive number"),
        ("fold_constants(ignore_errors=perhaps)", "expects true or false, got 'perhaps'"),
        ("strip_unused_nodes(type=flot)", "'flot' is not an element type"),
        ('strip_unused_nodes(shape="1,x")', "expects dimensions as in"),
        ("strip_unused_nodes(name=shifted, name=y, type_for_name=float)", "needs one 'type_for_name' per 'name'"),
        ("rename_node(old_node_name=con, new_node_name=y)", "no operation named 'con'; did you mean 'conv'"),
        ("rename_node(old_node_name=conv, new_node_name=out)", "leaves two nodes named 'out'"),
    ],
)
def test_mistakes_are_said(graph: Graph, text: str, why: str) -> None:
    with pytest.raises(GraphValueError, match=why):
        TransformGraph(graph, ["shifted"], ["out"], [text])


def test_errors_are_ignored_where_that_is_asked(graph: Graph) -> None:
    text = "rename_node(old_node_name=none, new_node_name=y, ignore_errors=true)"
    made = TransformGraph(graph, ["x"], ["out"], [text])
    assert [op.name for op in made] == [op.name for op in graph]


def test_quoted_values_and_lists_are_read() -> None:
    (first, second) = parse_transforms(['a_b(x="1,2", y=z)'.replace("a_b", "set_device"), "fold_constants"])
    assert first.parameters == {"x": ("1,2",), "y": ("z",)}
    assert (str(first), str(second)) == ('set_device(x="1,2", y=z)', "fold_constants")
    assert parse_transforms([]) == []


@given(st.text(alphabet='fold_constants(=,")x 1', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_transforms([text])
    except GraphValueError:
        return
    assert all(t.name in TRANSFORMS for t in found)


def test_the_page_lists_what_is_built_and_what_is_not() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/transform-a-graph.md").read_text()
    assert [name for name in (*TRANSFORMS, *REFUSED) if f"`{name}`" not in page] == []
