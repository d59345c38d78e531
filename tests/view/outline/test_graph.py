from __future__ import annotations

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.view.outline.graph import GraphOutlines
from xlanb.view.outline.opening import default_opening
from xlanb.view.outline.ops import INLINED, PASSED, RESULT
from xlanb.view.outline.program import ProgramOutline
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


def test_a_variable_is_drawn_in_what_reads_it_and_its_initializer_apart():
    part = program_of(
        node("w/kernel", "VarHandleOp"),
        node("w/kernel/Initializer/zeros", "Fill"),
        node("w/kernel/Assign", "AssignVariableOp", "w/kernel", "w/kernel/Initializer/zeros"),
        node("net/dense/Read", "ReadVariableOp", "w/kernel"),
        node("net/dense/MatMul", "MatMul", "net/dense/Read"),
        node("net/out/Relu", "Relu", "net/dense/MatMul"),
        node("net/out/Tanh", "Tanh", "net/out/Relu"),
    ).parts[""]
    roles = dict(zip(part.ops.names, part.ops.roles, strict=True))
    assert (roles["w/kernel"], roles["net/dense/Read"]) == (INLINED, INLINED)
    assert homes(part)["w/kernel/Assign"].startswith("initializers")
    assert homes(part)["w/kernel/Initializer/zeros"].startswith("initializers")
    weights = dict(zip(part.ops.names, part.ops.weights, strict=True))
    assert weights["w/kernel/Initializer/zeros"] == 0 < weights["net/out/Relu"]
    assert not any("initializers" in key for key in default_opening(ProgramOutline("", {"": part})).open)


def test_ops_without_a_scope_lie_in_the_layer_whose_variables_they_read():
    nodes, before = [node("x", "Placeholder")], "x"
    for k in range(3):
        layer = [
            node(f"block{k}/w", "VariableV2"),
            node(f"block{k}/w/read", "Identity", f"block{k}/w"),
            node(f"block{k}/b", "VariableV2"),
            node(f"block{k}/b/read", "Identity", f"block{k}/b"),
            node(f"moments_{k}/mean", "Mean", before),
            node(f"moments_{k}/variance", "Mean", before, f"moments_{k}/mean"),
            node(f"sub_{k}", "Sub", before, f"moments_{k}/variance"),
            node(f"MatMul_{k}", "MatMul", f"sub_{k}", f"block{k}/w/read"),
            node(f"add_{k}", "AddV2", f"MatMul_{k}", f"block{k}/b/read"),
        ]
        nodes, before = [*nodes, *layer], f"add_{k}"
    gradients = [
        node("gradients/MatMul_2_grad/MatMul", "MatMul", "add_2"),
        node("gradients/MatMul_2_grad/MatMul_1", "MatMul", "gradients/MatMul_2_grad/MatMul"),
        node("gradients/AddN", "AddN", "gradients/MatMul_2_grad/MatMul_1"),
        node("gradients/MatMul_1_grad/MatMul", "MatMul", "gradients/AddN"),
    ]
    loss = [node("loss/Square", "Square", "add_2"), node("loss/Mean", "Mean", "loss/Square")]
    found = homes(program_of(*nodes, *gradients, *loss).parts[""])
    for k in range(3):
        assert found[f"sub_{k}"] == found[f"add_{k}"] == found[f"MatMul_{k}"] == f"block{k}"
        assert found[f"moments_{k}/mean"].startswith(f"block{k}")
    assert found["loss/Mean"] == "loss"
    assert found["gradients/MatMul_2_grad/MatMul_1"] == "backward/block2"
    assert found["gradients/AddN"].startswith("backward")


def test_a_node_lies_in_the_scope_that_has_its_name():
    found = homes(
        program_of(
            node("x", "Placeholder"),
            node("while/enter", "Relu", "x"),
            node("while", "While", "while/enter"),
            node("while/exit", "Identity", "while"),
            node("y", "Tanh", "while/exit"),
            node("z", "Tanh", "y"),
        ).parts[""]
    )
    assert found["while"] == found["while/enter"] == "while"


def test_what_a_program_gives_is_on_the_rim_and_what_nothing_reads_is_an_edge():
    part = program_of(
        node("x", "Placeholder"),
        node("f/loop", "While", "x"),
        node("f/loop/Identity", "Identity", "f/loop"),
        node("f/loop/Identity_1", "Identity", "f/loop"),
        node("y", "Tanh", "f/loop/Identity"),
        node("out", "Identity", "y"),
        node("gradients/dead", "Identity", "y"),
        node("barrier", "NoOp", "^y"),
        node("late", "Tanh", "y", "^barrier"),
        node("train", "NoOp", "^late"),
    ).parts[""]
    roles = dict(zip(part.ops.names, part.ops.roles, strict=True))
    assert {name for name, role in roles.items() if role == RESULT} == {"out", "train"}
    assert {name for name, role in roles.items() if role == PASSED} == {
        "f/loop/Identity_1",
        "gradients/dead",
        "barrier",
    }


def test_a_loop_weighs_as_much_as_what_is_in_it():
    body = GraphRecord("f", (node("x", "_Arg"), node("y", "Relu", "x"), node("z", "_Retval", "y")))
    part = program_of(node("p", "Placeholder"), node("call", "f", "p"), functions=(body,)).parts[""]
    assert part.ops.weights[1] == 4 * 32 + 1, "its own result, and the three of the body"


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


def test_what_all_names_of_a_group_begin_with_is_left_out_of_its_labels():
    nodes = [
        node(f"conv{c}_block{b}_{part}/{op}", op)
        for c in (2, 3)
        for b in (1, 2, 3, 4, 5)
        for part in ("1_conv", "1_bn", "2_conv", "2_bn", "out")
        for op in ("Conv2D", "Relu")
    ]
    part = program_of(*nodes).parts[""]
    labels = {g.key: g.label for g in part.outline.groups}
    assert labels["conv2"] == "conv2"
    assert "block1" in labels.values()
    assert "1_conv" in labels.values()
    assert homes(part)["conv2_block1_1_conv/Relu"] == "conv2_block1_1_conv"


def test_layers_between_which_others_stand_are_not_stacked():
    nodes = [
        node(f"{name}_{k}/{op}", op, *((f"norm_{k - 1}/Relu",) if name == "conv" and k else ()), *extra)
        for k in range(4)
        for name in ("conv", "norm")
        for op, extra in (("Tanh", (f"conv_{k}/Relu",) if name == "norm" else ()), ("Relu", (f"{name}_{k}/Tanh",)))
    ]
    assert [g.kind for g in program_of(*nodes).parts[""].outline.groups] == ["scope"] * 8
