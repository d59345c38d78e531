"""tf.profiler: parameters, float operations, times and bytes of graphs and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.tf.float_operations import float_operations

Options = tf.profiler.ProfileOptionBuilder


@pytest.fixture
def graph() -> Any:
    with tf.Graph().as_default() as made:
        x = tf.placeholder(tf.float32, [8, 16], name="x")
        with tf.variable_scope("layer"):
            w = tf.get_variable("w", [16, 4])
            b = tf.get_variable("b", [4])
            h = tf.nn.softmax(tf.nn.relu(tf.matmul(x, w) + b))
        tf.get_variable("fixed", [3], trainable=False)
        tf.reduce_mean(h, name="loss")
        yield made


def _quiet(options: dict[str, Any]) -> dict[str, Any]:
    return Options(options).with_empty_output().build()


def test_parameters_by_scope(graph: Any, capsys: pytest.CaptureFixture[str]) -> None:
    root = tf.profiler.profile(graph, options=Options.trainable_variables_parameter())
    assert root.total_parameters == 68
    assert capsys.readouterr().out.splitlines() == [
        "Profile:",
        "node name | # parameters",
        "_TFProfRoot (--/68 params)",
        "  layer (--/68 params)",
        "    layer/b (4, 4/4 params)",
        "    layer/w (16x4, 64/64 params)",
    ]


def test_float_operations_by_type(graph: Any) -> None:
    root = tf.profiler.profile(graph, cmd="op", options=_quiet(Options.float_operation()))
    found = {n.name: n.total_float_ops for n in root.children}
    # MatMul 2 * 8 * 16 * 4; Softmax five per element; Mean one per element
    assert (found["MatMul"], found["Softmax"], found["Mean"]) == (1024, 160, 32)
    assert root.total_float_ops == sum(found.values())
    assert [n.total_float_ops for n in root.children] == sorted(found.values(), reverse=True)


def test_a_run_has_times_and_bytes(graph: Any, tmp_path: Path) -> None:
    metadata = tf.RunMetadata()
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run("loss:0", {"x:0": np.ones((8, 16))}, traced, metadata)
    path = tmp_path / "report.txt"
    options = Options(Options.time_and_memory(min_micros=0)).order_by("bytes").with_file_output(str(path)).build()
    root = tf.profiler.profile(graph, metadata, options=options)
    shown = {n.name: n for scope in root.children for n in (scope, *scope.children)}
    assert shown["layer/MatMul"].requested_bytes == 8 * 4 * 4
    assert shown["layer/MatMul"].run_count == 1
    assert root.total_requested_bytes >= 4 * 8 * 4 * 4
    assert root.total_exec_micros == sum(n.total_exec_micros for n in root.children)
    assert "layer/MatMul (" in path.read_text()


def test_options_select_and_hide(graph: Any) -> None:
    options = Options(Options.float_operation()).with_node_names(hide_name_regexes=[".*MatMul.*"])
    root = tf.profiler.profile(graph, cmd="scope", options=options.with_max_depth(1).with_empty_output().build())
    assert not any("MatMul" in n.name for n in root.children)
    assert all(not n.children for n in root.children)
    few = Options(Options.float_operation()).with_min_float_operations(150).with_empty_output().build()
    assert {n.name for n in tf.profiler.profile(graph, cmd="op", options=few).children} == {"MatMul", "Softmax"}
    kinds = Options(Options.float_operation()).with_accounted_types(["Softmax"]).with_empty_output().build()
    assert tf.profiler.profile(graph, cmd="op", options=kinds).total_float_ops == 160


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"cmd": "graphs"}, GraphValueError, "cmd 'graphs' is unknown: expected one of scope, op, graph, code"),
        ({"options": {"select": ["flops"]}}, GraphValueError, "unknown attribute 'flops': expected one of params"),
        ({"options": {"order_by": "time"}}, GraphValueError, "unknown attribute 'time'"),
        ({"options": {"output": "timeline:x"}}, GraphValueError, "expected stdout, none or file"),
        ({"op_log": object()}, GraphTypeError, "does not support op_log"),
    ],
)
def test_what_is_not_supported_says_so(graph: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tf.profiler.profile(graph, **arguments)


def test_convolutions_count_each_window() -> None:
    with tf.Graph().as_default():
        x, k = tf.placeholder(tf.float32, [1, 8, 16, 3]), tf.placeholder(tf.float32, [3, 3, 3, 2])
        y = tf.nn.conv2d(x, k, [1, 2, 2, 1], "SAME")
        tf.gradients(y, [x, k])
        counts = {op.type: float_operations(op) for op in tf.get_default_graph() if op.type.startswith("Conv2D")}
        assert counts == dict.fromkeys(counts, 2 * (4 * 8 * 2) * 27)
        assert len(counts) == 3
        open_size = tf.placeholder(tf.float32, [None, 3])
        assert float_operations(tf.matmul(open_size, k[0, 0]).op) == 0


@pytest.fixture
def run_of(graph: Any) -> Any:
    metadata = tf.RunMetadata()
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run("loss:0", {"x:0": np.ones((8, 16))}, traced, metadata)
    return metadata


def _below(node: Any) -> Any:
    for child in node.children:
        yield child
        yield from _below(child)


def test_the_graph_view_has_each_op_below_its_reader(graph: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(Options.float_operation()).with_node_names(start_name_regexes=["loss"]).order_by("name")
    root = tf.profiler.profile(graph, cmd="graph", options=options.build())
    # The names follow the data; what has no float operations is left out.
    assert [n.name for n in _below(root)] == ["loss", "layer/Softmax", "layer/Relu", "layer/add", "layer/MatMul"]
    assert capsys.readouterr().out.splitlines()[2:5] == [
        "_TFProfRoot (--/1.25k flops)",
        "  loss (32/1.25k flops)",
        "    layer/Softmax (160/1.22k flops)",
    ]
    whole = tf.profiler.profile(graph, cmd="graph", options=_quiet({}))
    names = [n.name for n in _below(whole)]
    assert sorted(names) == sorted(op.name for op in graph)
    assert root.total_float_ops == sum(n.float_ops for n in _below(root))


def test_the_graph_view_trims_and_goes_deep() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4])
        for _ in range(1500):
            x = tf.square(x)
    options = Options(_quiet(Options.float_operation()))
    assert tf.profiler.profile(graph, cmd="graph", options=options.build()).total_float_ops > 1500
    cut = options.with_node_names(trim_name_regexes=["Square_1490"]).build()
    root = tf.profiler.profile(graph, cmd="graph", options={**cut, "min_float_ops": 0})
    assert [n.name for n in _below(root)] == [f"Square_{i}" for i in range(1499, 1490, -1)]


def test_the_code_view_has_lines_below_their_callers(run_of: Any) -> None:
    def layer(x: Any) -> Any:
        return tf.matmul(x, np.ones((2, 2), np.float32))

    def build() -> Any:
        first = layer(tf.placeholder(tf.float32, [3, 2]))
        return layer(tf.nn.relu(first))

    with tf.Graph().as_default() as graph:
        y = build()
        (g,) = tf.gradients(y, graph.get_tensor_by_name("Relu:0"))
        assert g.op.traceback[-1][2:] == (
            "test_the_code_view_has_lines_below_their_callers",
            '(g,) = tf.gradients(y, graph.get_tensor_by_name("Relu:0"))',
        )
        options = _quiet(Options.float_operation())
        root = tf.profiler.profile(graph, cmd="code", options=options)
    lines = {n.name.split(":", 2)[2]: n for n in _below(root) if "test_profiler.py" in n.name}
    first = lines["build:first = layer(tf.placeholder(tf.float32, [3, 2]))"]
    second = lines["build:return layer(tf.nn.relu(first))"]
    (product,) = first.children
    assert product.name.endswith(":layer:return tf.matmul(x, np.ones((2, 2), np.float32))")
    assert [n.name for n in product.graph_nodes] == ["MatMul/b", "MatMul"]
    assert sorted(n.name.endswith(" (gradient)") for n in second.children) == [False, True]
    assert [n.float_ops for n in (product, *second.children)] == [24, 48, 24]  # by both factors
    assert (first.total_float_ops, second.total_float_ops) == (24, 72)
    assert root.total_float_ops == first.total_float_ops + second.total_float_ops


@pytest.mark.parametrize("cmd", ["scope", "graph", "code"])
def test_every_view_has_all_of_the_time(graph: Any, run_of: Any, cmd: str) -> None:
    roots = [tf.profiler.profile(graph, run_of, cmd=c, options=_quiet({})) for c in (cmd, "op")]
    totals = [(r.total_exec_micros, r.total_requested_bytes, r.total_run_count) for r in roots]
    assert totals[0] == totals[1]
    assert totals[0][1] > 0


def test_a_graph_that_was_read_has_unknown_lines(graph: Any) -> None:
    read = tf.Graph.from_graphdef(graph.to_graphdef())
    root = tf.profiler.profile(read, cmd="code", options=_quiet(Options.float_operation()))
    assert [n.name for n in root.children] == ["(unknown line)"]
