"""Graph rewrites before clustering."""

import numpy as np

from xlanb.graph.builders.array_ops import identity, placeholder
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import call
from xlanb.graph.optimize import (
    fold_constants,
    merge_common_subgraphs,
    optimize_steps,
    prune,
    remove_identities,
)


def evaluate(tensor):
    """A tiny evaluator: sums and products of constants."""
    if tensor.op.type in {"AddV2", "Mul"}:
        left, right = (evaluate(t) for t in tensor.op.inputs)
        return left + right if tensor.op.type == "AddV2" else left * right
    return constant_value(tensor)


def build():
    graph = Graph()
    with graph.as_default():
        x = placeholder("float32", [2], name="x")
        two = constant(2.0, name="two")
        six = call("Mul", two, constant(3.0, name="three"), name="six")
        total = call("AddV2", six, two, name="total")
        y = call("Mul", x, total, name="y")
        same = call("Mul", x, total, name="same")
        call("AddV2", identity(y, name="id"), same, name="out")
        constant(0.0, name="unused")
    return graph


def names(graph):
    return [op.name for op in graph]


def test_constants_are_folded_from_the_end():
    graph = build()
    folded = fold_constants(graph, {"out"}, set(), evaluate)
    assert names(folded) == ["x", "total", "y", "same", "id", "out", "unused"]
    assert folded.get_operation_by_name("total").attrs["value"] == np.float32(8)
    assert names(graph)[1] == "two"


def test_a_fed_operation_is_not_folded():
    graph = build()
    assert fold_constants(graph, {"out"}, {"six", "total"}, evaluate) is graph


def test_constants_are_folded_through_identities():
    graph = Graph()
    with graph.as_default():
        x = placeholder("float32", [], name="x")
        three = identity(constant(3.0, name="three"), name="read")
        call("AddV2", call("Mul", x, three), call("Mul", three, constant(2.0), name="six"), name="out")

    def value(tensor):
        return (
            value(tensor.op.inputs[0])
            if tensor.op.type == "Identity"
            else (
                value(tensor.op.inputs[0]) * value(tensor.op.inputs[1]) if tensor.op.type == "Mul" else evaluate(tensor)
            )
        )

    folded = fold_constants(graph, {"out"}, set(), value)
    assert folded.get_operation_by_name("six").attrs["value"] == np.float32(6)
    assert folded.get_operation_by_name("read").type == "Identity"
    assert "three" in folded
    every = fold_constants(graph, {"out"}, set(), value, identities=True)
    assert every.get_operation_by_name("read").attrs["value"] == np.float32(3)
    assert "three" not in every


def test_identities_go_unless_fetched():
    graph = build()
    assert remove_identities(graph, {"out"}).get_operation_by_name("out").node_inputs == ("y", "same")
    assert remove_identities(graph, {"id"}) is graph


def test_equal_operations_become_one():
    graph = build()
    merged = merge_common_subgraphs(graph, {"out"}, set())
    assert merged.get_operation_by_name("out").node_inputs == ("id", "y")
    assert merge_common_subgraphs(merged, {"out"}, set()) is merged


def test_stateful_operations_are_never_merged():
    graph = Graph()
    with graph.as_default():
        for _ in range(2):
            call("RandomUniform", [2], dtype="float32")
    assert merge_common_subgraphs(graph, set(), set()).get_operation_by_name("RandomUniform_1")


def test_prune():
    assert names(prune(build(), {"six"})) == ["two", "three", "six"]


def test_the_steps_leave_the_graph_alone_and_give_it_back_where_nothing_changes():
    graph = build()
    before = graph.to_graphdef()
    steps = [(s.name, s.graph) for s in optimize_steps(graph, ["out:0"], ["x:0"], [], evaluate)]
    assert [name for name, _ in steps] == ["constant_folding", "remove_identities", "common_subgraph_elimination"]
    assert names(steps[-1][1]) == ["x", "total", "y", "out", "unused"]
    assert graph.to_graphdef() == before
    again = steps[-1][1]
    assert all(step.graph is again for step in optimize_steps(again, ["out:0"], ["x:0"], [], evaluate))
