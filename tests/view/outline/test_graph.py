from __future__ import annotations

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.view.outline.graph import GraphOutlines
from xlanb.view.outline.opening import default_opening
from xlanb.view.parts.graph import function_of


def node(name, op, *inputs, cluster=""):
    return NodeRecord(name, op, inputs, outputs=("f32[8]",), cluster=cluster)


def homes(part):
    keys = [g.key for g in part.outline.groups]
    return {n: keys[g] if g >= 0 else "" for n, g in zip(part.ops.names, part.outline.member, strict=True)}


def program_of(*nodes, functions=()):
    return GraphOutlines(function_of).program(GraphRecord("g", nodes, functions))


def test_name_scopes_are_groups_and_gradients_lie_with_their_layer_going_backward():
    found = homes(
        program_of(
            node("x", "Placeholder"),
            node("a/MatMul", "MatMul", "x"),
            node("a/Relu", "Relu", "a/MatMul"),
            node("b/MatMul", "MatMul", "a/Relu"),
            node("b/Relu", "Relu", "b/MatMul"),
            node("gradients/b/Relu_grad/ReluGrad", "ReluGrad", "b/Relu"),
            node("gradients/b/MatMul_grad/MatMul", "MatMul", "gradients/b/Relu_grad/ReluGrad"),
            node("gradients/a/Relu_grad/ReluGrad", "ReluGrad", "gradients/b/MatMul_grad/MatMul"),
            node("gradients/a/MatMul_grad/MatMul", "MatMul", "gradients/a/Relu_grad/ReluGrad"),
        ).parts[""]
    )
    assert found["a/Relu"] == "a"
    assert found["gradients/a/MatMul_grad/MatMul"] == "backward/a"
    assert found["x"] == ""


def test_a_weight_lies_with_the_layer_that_reads_it():
    part = program_of(
        node("w/kernel", "VarHandleOp"),
        node("w/kernel/Assign", "AssignVariableOp", "w/kernel"),
        node("w/bias/Assign", "AssignVariableOp", "w/kernel"),
        node("net/dense/Read", "ReadVariableOp", "w/kernel"),
        node("net/dense/MatMul", "MatMul", "net/dense/Read"),
        node("net/out/Relu", "Relu", "net/dense/MatMul"),
        node("net/out/Tanh", "Tanh", "net/out/Relu"),
    ).parts[""]
    found = homes(part)
    assert found["w/kernel"] == found["net/dense/MatMul"] != ""
    assert found["w/kernel/Assign"].startswith("variables")


def test_an_optimizer_is_a_group_of_its_own():
    found = homes(
        program_of(
            node("w", "VariableV2"),
            node("w/Assign", "Assign", "w"),
            node("net/a/MatMul", "MatMul", "w"),
            node("net/a/Relu", "Relu", "net/a/MatMul"),
            node("gradients/net/a/Relu_grad/ReluGrad", "ReluGrad", "net/a/Relu"),
            node("gradients/net/a/MatMul_grad/MatMul", "MatMul", "gradients/net/a/Relu_grad/ReluGrad"),
            node("Descent/rate", "Const"),
            *(
                node(f"Descent/update_{k}/Apply", "ApplyGradientDescent", "w", "gradients/net/a/MatMul_grad/MatMul")
                for k in range(2)
            ),
            node("Descent", "NoOp", "Descent/update_0/Apply"),
        ).parts[""]
    )
    assert {found[f"Descent/update_{k}/Apply"] for k in range(2)} == {"Descent"}
    assert not found["w/Assign"].startswith("Descent")


def test_clusters_are_groups_around_scopes():
    part = program_of(
        node("a/x", "Relu", cluster="cluster_0"),
        node("a/y", "Relu", "a/x", cluster="cluster_0"),
        node("b", "Tanh", "a/y"),
        node("c", "Tanh", "b", cluster="cluster_1"),
    ).parts[""]
    assert [g.label for g in part.outline.groups if g.kind == "cluster"] == ["cluster_0", "cluster_1"]
    assert homes(part)["c"] == "[cluster_1]"
    assert homes(part)["b"] == ""


def test_functions_are_parts_that_their_callers_open():
    body = GraphRecord("f", (node("x", "_Arg"), node("y", "Relu", "x"), node("z", "_Retval", "y")))
    program = program_of(node("p", "Placeholder"), node("call", "f", "p"), functions=(body,))
    assert program.parts[""].calls == {1: ("f",)}
    assert program.parts["f"].ops.roles == "i.o"
    assert default_opening(program).open == ("call",)


def test_layers_whose_names_are_flat_are_grouped_by_their_beginning():
    names = ("expand", "depthwise", "project")
    nodes = [
        node(f"net/block_{b}_{part}/{op}", op, f"net/block_{b}_{names[n - 1]}/Relu" if n else "x")
        for b in range(12)
        for n, part in enumerate(names)
        for op in ("Conv2D", "Relu")
    ]
    part = program_of(*nodes).parts[""]
    (repeat,) = (g for g in part.outline.groups if g.kind == "repeat")
    assert repeat.label == "block 0-11"
    assert homes(part)["net/block_3_expand/Relu"].endswith("block_3_expand")
