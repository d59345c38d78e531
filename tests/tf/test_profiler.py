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
        ({"cmd": "code"}, GraphValueError, "cmd 'code' is not supported: use 'scope' or 'op'"),
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
