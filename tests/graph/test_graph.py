"""Graphs: names, scopes, control dependencies, changes, copies, records."""

import pytest

from xlanb.errors import GraphError, GraphTypeError, GraphValueError, XlanbError
from xlanb.graph import dtypes
from xlanb.graph.builders.array_ops import identity, placeholder
from xlanb.graph.builders.control_ops import group, no_op, tuple_
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph, reset_default_graph
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call, call_op
from xlanb.graph.rewrite import subgraph


@pytest.fixture
def graph():
    graph = Graph("test")
    with graph.as_default():
        yield graph


def names(graph):
    return [op.name for op in graph]


def test_names_are_made_unique_without_regard_to_case(graph):
    for name in ("x", "x", "X", "x_1", "x"):
        constant(1, name=name)
    assert names(graph) == ["x", "x_1", "X_2", "x_1_1", "x_3"]


def test_name_scopes_nest_and_are_entered_again_by_their_slash(graph):
    with graph.name_scope("a") as outer:
        constant(1, name="x")
        with graph.name_scope("b"):
            constant(1, name="x")
        with graph.name_scope(None):
            constant(1, name="x")
    with graph.name_scope("a"):
        constant(1, name="x")
    with graph.name_scope(outer):
        constant(1, name="x")
    assert names(graph) == ["a/x", "a/b/x", "x", "a_1/x", "a/x_1"]


@pytest.mark.parametrize("name", ["_x", "a b", "a:0", "-a"])
def test_bad_names_are_refused_and_leave_no_node(graph, name):
    with pytest.raises(GraphValueError, match=r"not a valid (node|scope or node) name"):
        constant(1.0, name="ok") + placeholder("float32", name=name)
    assert names(graph) == ["ok"]


def test_operators_name_nodes_and_constants_as_tensorflow_does(graph):
    x = placeholder("float32", [2], name="x")
    for y in (x + 1.0, 1.0 - x, x * 2.0, x / 2.0, x**2.0, -x, x % 2.0, x // 2.0, x < 1.0, abs(x)):
        assert y.graph is graph
    assert names(graph) == (
        "x add/y add sub/x sub mul/y mul truediv/y truediv pow/y pow Neg mod/y mod floordiv/y floordiv Less/y Less Abs".split()
    )


def test_integers_are_divided_as_floats(graph):
    x = placeholder("int32", [2], name="x")
    assert (x / 2).dtype is dtypes.float64
    assert names(graph) == ["x", "truediv/y", "truediv/Cast", "truediv/Cast_1", "truediv"]


def test_indexing_makes_a_strided_slice_with_masks(graph):
    x = placeholder("float32", [4, 5, 6], name="x")
    y = x[1, ..., 2:, None]
    assert names(graph)[1:] == [
        "strided_slice/stack",
        "strided_slice/stack_1",
        "strided_slice/stack_2",
        "strided_slice",
    ]
    assert [t.op.attrs["value"].tolist() for t in y.op.inputs[1:]] == [[1, 0, 2, 0], [2, 0, 0, 0], [1, 1, 1, 1]]
    masks = {k: v for k, v in y.op.attrs.items() if k.endswith("_mask")}
    assert masks == {"begin_mask": 0, "end_mask": 4, "ellipsis_mask": 2, "new_axis_mask": 8, "shrink_axis_mask": 1}


def test_indexing_by_something_else_says_what_is_allowed(graph):
    with pytest.raises(GraphTypeError, match="integers, slices"):
        placeholder("float32", [4], name="x")["a"]


def test_a_tensor_has_no_truth_value_length_or_number(graph):
    x = placeholder("float32", [3], name="x")
    for use in (bool, len, float, int):
        with pytest.raises(TypeError, match="x"):
            use(x)
    assert len(list(x)) == 3


def test_control_dependencies_reach_nodes_inside_but_not_those_behind_them(graph):
    a, b = constant(1.0, name="a"), constant(2.0, name="b")
    with graph.control_dependencies([a, "b"]):
        c = identity(b, name="c")
        d = identity(c, name="d")
        with graph.control_dependencies(None):
            e = no_op("e")
    assert c.op.node_inputs == ("b", "^a")
    assert d.op.node_inputs == ("c",)
    assert e.node_inputs == ()
    assert a.op.attrs["_has_manual_control_dependencies"] is True


def test_group_makes_one_node_for_each_device(graph):
    with graph.device("/cpu:0"):
        a = constant(1.0, name="a")
    b = constant(1.0, name="b")
    done = group(a, b, name="all")
    assert done.node_inputs == ("^all/NoOp", "^all/NoOp_1")
    assert [graph.get_operation_by_name(n).device for n in ("all/NoOp", "all/NoOp_1")] == ["", "/device:CPU:0"]


def test_tuple_gates_each_tensor_by_all(graph):
    a, b = constant(1.0, name="a"), constant(2.0, name="b")
    first, nothing, second = tuple_([b, None, a])
    assert nothing is None
    assert first.op.node_inputs == ("b", "^tuple/group_deps")
    assert second.op.attrs["_class"] == ("loc:@a",)
    assert graph.get_operation_by_name("tuple/group_deps").node_inputs == ("^a", "^b")


def test_devices_merge_and_colocation_names_the_group(graph):
    with graph.device("/job:w/task:1"), graph.device("/gpu:0"):
        a = constant(1.0, name="a")
    with graph.colocate_with(a):
        b = constant(2.0, name="b")
    assert a.device == "/job:w/task:1/device:GPU:0"
    assert b.op.attrs["_class"] == ("loc:@a",)
    assert b.device == a.device
    with pytest.raises(GraphValueError, match="device name"), graph.device("/what is this"):
        pass


def test_attribute_scopes_give_attributes(graph):
    with graph.attr_scope({"_XlaCompile": lambda op: op.type == "Const"}):
        x = constant(1.0)
        y = identity(x)
    assert (x.op.attrs["_XlaCompile"], y.op.attrs["_XlaCompile"]) == (True, False)


def test_the_python_line_that_made_a_node_is_kept(graph):
    x = constant(1.0)
    y = x + 2.0
    assert x.op.source_file == y.op.source_file == __file__
    assert y.op.source_line == x.op.source_line + 1


def test_types_that_do_not_fit_name_the_node_and_both_inputs(graph):
    x = placeholder("float32", [2], name="x")
    i = placeholder("int32", [2], name="i")
    with pytest.raises(
        TypeError, match=r"node 'add' \(op AddV2\): input 'y' is 'i:0' of type int32, but input 'x' has float32"
    ):
        x + i
    with pytest.raises(TypeError, match=r"expected int32, got 1\.5"):
        i + 1.5
    with pytest.raises(GraphTypeError, match="'s:0' of type string; allowed"):
        call("Exp", placeholder("string", [2], name="s"))
    assert names(graph) == ["x", "i", "s"]


def test_attributes_are_checked(graph):
    x = placeholder("float32", [1, 4, 4, 1], name="x")
    with pytest.raises(GraphValueError, match="'padding' cannot be WIDE; allowed: SAME, VALID"):
        call("AvgPool", x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="WIDE")
    with pytest.raises(GraphTypeError, match="no input or attribute 'colour'"):
        call("Exp", x, colour=1)
    with pytest.raises(GraphTypeError, match="lacks the attribute 'ksize'"):
        call("AvgPool", x, strides=[1, 2, 2, 1], padding="SAME")


def test_an_unknown_op_type_gives_near_names(graph):
    with pytest.raises(GraphError, match="unknown TensorFlow op type 'MatMull'; did you mean 'MatMul'"):
        call_op("MatMull")


def test_elements_of_other_graphs_are_refused(graph):
    with Graph().as_default():
        other = constant(1.0, name="other")
    with pytest.raises(GraphValueError, match="belongs to a different graph"):
        graph.create_op("Identity", [other], attrs={"T": dtypes.float32})


def test_lookup_by_name(graph):
    x = constant(1.0, name="weights")
    assert graph.get_tensor_by_name("weights:0") is x
    assert graph.get_operation_by_name("weights") is x.op
    with pytest.raises(ValueError, match="did you mean 'weights'"):
        graph.get_operation_by_name("weight")
    with pytest.raises(ValueError, match="has 1 outputs"):
        graph.get_tensor_by_name("weights:1")
    with pytest.raises(ValueError, match="have the form"):
        graph.get_tensor_by_name("weights")


def test_consumers_and_their_redirection(graph):
    x, y = placeholder("float32", [2], name="x"), placeholder("float32", [2], name="y")
    z = x * x
    assert x.consumers() == [z.op]
    x.replace_uses(y)
    assert x.consumers() == []
    assert z.op.inputs == (y, y)


def test_removal_needs_readers_gone(graph):
    x = constant(1.0, name="x")
    y = identity(x, name="y")
    with graph.control_dependencies([y]):
        z = no_op("z")
    with pytest.raises(GraphValueError, match="it is still used by"):
        graph.remove_ops([x.op])
    graph.remove_ops([x.op, y.op])
    assert names(graph) == ["z"]
    assert z.control_inputs == ()
    with pytest.raises(GraphValueError, match="removed"):
        identity(y)


def test_a_copy_is_independent_and_keeps_everything(graph):
    x = placeholder("float32", [None, 3], name="x")
    y = identity(x, name="y")
    copy = graph.copy()
    constant(1.0, name="more")
    assert names(copy) == ["x", "y"]
    copied = copy.get_tensor_by_name("y:0")
    assert copied.op.inputs[0].shape == [None, 3]
    assert copied.op.source_line == y.op.source_line
    assert copy.unique_name("x") == "x_1"


def test_records_are_shared_until_the_graph_changes(graph):
    x = placeholder("float32", [None, 3], name="x")
    record = graph.record()
    assert graph.record() is record
    node = record.by_name["x"]
    assert (node.op, node.outputs, node.source_file) == ("Placeholder", ("f32[?,3]",), __file__)
    assert node.attributes["shape"] == "[?,3]"
    identity(x)
    assert graph.record() is not record
    assert len(graph.record().nodes) == 2


def test_subgraph_keeps_what_fetches_need_and_cuts_at_feeds(graph):
    a, b = placeholder("float32", [2], name="a"), placeholder("float32", [2], name="b")
    c = a * b
    d = c + 1.0
    identity(a, name="unused")
    assert names(subgraph(graph, [d])) == ["a", "b", "mul", "add/y", "add"]
    cut = subgraph(graph, [d], [c])
    assert names(cut) == ["mul", "add/y", "add"]
    assert cut.get_operation_by_name("mul").type == "Placeholder"
    assert len(graph) == 6


def test_topological_order_names_a_cycle(graph):
    x = placeholder("float32", [2], name="x")
    y = identity(x, name="y")
    z = identity(y, name="z")
    assert [op.name for op in graph.topological_order()] == ["x", "y", "z"]
    y.op.set_input(0, z)
    with pytest.raises(GraphValueError, match=r"cycle.*y <- z <- y"):
        graph.topological_order()


def test_a_loop_is_no_cycle(graph):
    x = constant(1.0, name="x")
    enter = call("Enter", x, frame_name="f", name="enter")
    merge = call("Merge", [enter, enter], name="merge")
    back = call("NextIteration", merge, name="next")
    merge.op.set_input(1, back)
    assert [op.name for op in graph.topological_order()] == ["x", "enter", "merge", "next"]


def test_the_default_graph():
    reset_default_graph()
    outer = get_default_graph()
    graph = Graph()
    with graph.as_default():
        assert get_default_graph() is graph
        with pytest.raises(GraphError, match="would have no effect"):
            reset_default_graph()
    assert get_default_graph() is outer
    reset_default_graph()
    assert get_default_graph() is not outer


def test_functions_that_share_a_library_are_recorded_once_each():
    library = {}
    graph, body = Graph(), Graph("f")
    library["f"] = GraphFunction.of_body("f", body)
    body.functions = graph.functions = library
    body.add_op("NoOp", "n", (), [])
    record = graph.record()
    assert [(f.name, len(f.nodes), f.functions) for f in record.functions] == [("f", 1, ())]
    assert library["f"].record() is library["f"].record()


def test_parts_are_found_by_name_and_pattern(graph):
    with graph.name_scope("layer"):
        x = placeholder(dtypes.float32, [None, 3], name="x")
        y = identity(x, name="y")
    z = call("Relu", y, name="z")
    assert graph.node("layer/x:0") is graph.node("^layer/x") is graph.node("layer/x") is x.op
    assert [op.name for op in graph.search("^layer/")] == ["layer/x", "layer/y"]
    assert graph.search("Relu|Elu$") == [z.op]
    part = graph.subgraph("layer/")
    assert [op.name for op in part] == ["layer/x", "layer/y"]
    cut = graph.subgraph(["z:0"], feeds="layer/y")
    assert [(op.name, op.type) for op in cut] == [("layer/y", "Placeholder"), ("z", "Relu")]
    with pytest.raises(GraphValueError, match="did you mean 'layer/x'"):
        graph.node("layer/xx")
    with pytest.raises(GraphValueError, match="no node in a scope 'leier/'"):
        graph.subgraph("leier/")
    with pytest.raises(GraphValueError, match="not a regular expression"):
        graph.search("(")


def test_a_large_graph_is_told_by_its_scopes(graph):
    for index in range(30):
        with graph.name_scope(f"unit_{index}"):
            x = constant(1.0)
            for _ in range(9):
                x = identity(x)
    text = str(graph)
    assert len(text.splitlines()) == 31
    assert "unit_7/  (10 nodes: 9 Identity, 1 Const, ...)" in text
    assert "scopes are folded" in text
    assert len(str(graph.subgraph("unit_7/")).splitlines()) == 11


def test_files_of_all_kinds(graph, tmp_path):
    call("Relu", placeholder(dtypes.float32, [2], name="x"), name="y")
    for name in ("g.pb", "g.pbtxt", "g.dot"):
        graph.save(tmp_path / name)
    for name in ("g.pb", "g.pbtxt"):
        assert str(Graph.from_graphdef(tmp_path / name)).endswith(str(graph).split("\n", 1)[1])
    assert "shape=ellipse" in (tmp_path / "g.dot").read_text()
    with pytest.raises(XlanbError, match=r"'g\.bmp'"):
        graph.save(tmp_path / "g.bmp")


def test_a_message_has_shapes_where_they_are_asked_for(graph):
    placeholder(dtypes.float32, [None, 3], name="x")
    message = graph.as_graph_def(add_shapes=True)
    (shape,) = message.node[0].attr["_output_shapes"].list.shape
    assert [d.size for d in shape.dim] == [-1, 3]
    assert not graph.as_graph_def().node[0].attr["_output_shapes"].list.shape
