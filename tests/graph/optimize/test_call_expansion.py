"""Functions that call each other twice: nodes are counted, and rejected, before inlining."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import GraphValueError
from xlanb.graph.functions import FunctionRef
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import fill_attrs, new_message
from xlanb.graph.optimize.call_expansion import LARGEST_GROWTH, check_expansion
from xlanb.graph.optimize.inline import inline_calls


def _calling(depth: int, calls: int, op: str = "PartitionedCall") -> Graph:
    """Build `out`, a call of f{depth}; each function calls the previous one `calls` times, f0 adds
    x to x.
    """
    proto = new_message("GraphDef")
    for k in range(depth + 1):
        function = proto.library.function.add()
        function.signature.name = f"f{k}"
        function.signature.input_arg.add(name="x", type=1)
        function.signature.output_arg.add(name="y", type=1)
        value = "x"
        for j in range(calls if k else 0):
            value = f"{_add_call(function.node_def, f'c{j}', value, k - 1, op)}:0"
        if not k:
            node = function.node_def.add(name="a", op="AddV2", input=["x", "x"])
            node.attr["T"].type = 1
            value = "a:z:0"
        function.ret["y"] = value
    fill_attrs({"dtype": tf.float32, "shape": tf.TensorShape([2])}, proto.node.add(name="x", op="Placeholder").attr)
    _add_call(proto.node, "out", "x", depth, op)
    return Graph.from_graphdef(proto.SerializeToString())


def _add_call(nodes, name: str, value: str, number: int, op: str) -> str:
    node = nodes.add(name=name, op=op or f"f{number}", input=[value])
    if not op:
        return f"{name}:y"
    fill_attrs({"f": FunctionRef(f"f{number}"), "Tin": (tf.float32,), "Tout": (tf.float32,)}, node.attr)
    return f"{name}:output"


@pytest.mark.parametrize("op", ["PartitionedCall", ""])
def test_functions_that_call_each_other_twice_are_counted_before_they_are_expanded(op: str) -> None:
    graph = _calling(39, 2, op)
    (cluster,) = xlanb.cluster(graph, tf_xla_min_cluster_size=1).clusters
    nodes = 2**39 * 7 - 4  # 40 bodies, each with its _Arg and its _Retval
    with pytest.raises(
        GraphValueError, match=f"40 functions of 159 nodes.* would give {re.escape(f'{nodes:,}')} nodes"
    ):
        _ = cluster.hlo_module
    if op:
        with pytest.raises(GraphValueError, match=f"may add at most {LARGEST_GROWTH:,} nodes"):
            inline_calls(graph)
        assert [op.name for op in graph] == ["x", "out"]


def test_a_number_without_end_is_told_as_a_bound() -> None:
    graph = _calling(2000, 2)
    with pytest.raises(GraphValueError, match=r"at least 1,000,000,000,0"):
        check_expansion("this", list(graph), graph.functions)


def test_many_functions_that_are_called_once_each_are_no_expansion() -> None:
    graph = _calling(2000, 1)
    check_expansion("this", list(graph), graph.functions)
    inline_calls(graph)
    assert not [op for op in graph if op.type == "PartitionedCall"]


def test_a_function_may_call_itself() -> None:
    graph = _calling(2, 2)
    graph.functions["f0"] = graph.functions["f2"]
    check_expansion("this", list(graph), graph.functions)


def test_few_calls_are_run() -> None:
    graph = _calling(4, 2)
    np.testing.assert_array_equal(tf.Session(graph).run("out:0", {"x:0": [1, 2]}), [2.0**16, 2.0**17])
