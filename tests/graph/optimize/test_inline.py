"""Calls replaced by bodies: same values, same names outside, effects kept, recursion left alone."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphValueError
from xlanb.graph.graph import Graph
from xlanb.graph.optimize.inline import inline_calls

LIBRARY = """
library {
  function {
    signature { name: "twice" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
    node_def { name: "call" op: "PartitionedCall" input: "x" attr { key: "f" value { func { name: "NESTED" } } }
      attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
    node_def { name: "sum" op: "AddV2" input: "x" input: "call:output:0" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "y" value: "sum:z:0" }
  }
  function {
    signature { name: "negated" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
    node_def { name: "n" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "y" value: "n:y:0" }
  }
  function {
    signature { name: "count" input_arg { name: "v" type: DT_RESOURCE } }
    node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
    node_def { name: "add" op: "AssignAddVariableOp" input: "v" input: "one:output:0"
      attr { key: "dtype" value { type: DT_FLOAT } } }
  }
}
"""
NODES = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "c" op: "StatefulPartitionedCall" input: "x" attr { key: "f" value { func { name: "twice" } } }
  attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
"""
COUNT = """
node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
node { name: "c" op: "StatefulPartitionedCall" input: "v" attr { key: "f" value { func { name: "count" } } }
  attr { key: "Tin" value { list { type: DT_RESOURCE } } } attr { key: "Tout" value { list { } } } }
"""


def test_bodies_take_the_place_of_calls() -> None:
    graph = Graph.from_graphdef(NODES + LIBRARY.replace("NESTED", "negated"))
    before = tf.Session(graph).run("c:0", {"x:0": [1.0, -2.0]})
    inline_calls(graph)
    assert [(op.name, op.type) for op in graph][1:] == [
        ("c", "IdentityN"), ("c/call", "IdentityN"), ("c/sum", "AddV2"), ("c/call/n", "Neg")
    ]  # fmt: skip
    after = tf.Session(graph).run("c:0", {"x:0": [1.0, -2.0]})
    np.testing.assert_array_equal(after, before)
    assert Graph.from_graphdef(graph.to_graphdef()).node("c").type == "IdentityN"


def test_what_a_body_does_to_variables_still_happens() -> None:
    graph = Graph.from_graphdef(COUNT + LIBRARY)
    inline_calls(graph)
    session = tf.Session(graph)
    session.load_variables({"v": np.float32(1)})
    session.run("c")
    assert session.read_variable("v") == 2
    assert graph.node("c").type == "NoOp"


def test_a_function_that_calls_itself_stays_a_call() -> None:
    graph = Graph.from_graphdef(NODES + LIBRARY.replace("NESTED", "twice"))
    inline_calls(graph)
    assert [op.type for op in graph if "PartitionedCall" in op.type] == ["PartitionedCall"]


def test_a_call_that_does_not_fit_is_named() -> None:
    graph = Graph.from_graphdef(NODES.replace('"twice"', '"count"') + LIBRARY)
    with pytest.raises(GraphValueError, match=r"'c' calls <function count.*> with 1 arguments for 1 results"):
        inline_calls(graph)
