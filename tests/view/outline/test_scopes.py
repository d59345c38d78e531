from __future__ import annotations

import pytest

from xlanb.view.outline.scopes import scope_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("jit(step)/jvp(block_3)/attn/dot_general", ("forward", "block_3", "attn")),
        ("jit(step)/transpose(jvp(block_3))/attn/dot_general", ("backward", "block_3", "attn")),
        ("jit(f)/jvp()/dot_general", ("forward",)),
        ("jit(f)/norm/jit(_std)/sub", ("norm", "std")),
        ("jit(f)/vmap(layer)/add", ("layer",)),
        ("jit(f)/transpose(jvp(checkpoint))/rematted_computation/block_0/mul", ("backward", "block_0")),
        ("jit(f)/while/body/closed_call/mlp/tanh", ("loop", "mlp")),
        ("jit(f)/while/body/add", ()),
        ("jit(f)/cond/branch_1_fun/head/add", ("head",)),
        ("jit(f)/transpose(jvp(a/b))/c/add", ("backward", "a", "b", "c")),
        ("jit(f)/linear_1/~/dot", ("linear_1",)),
        ("jit(step)/Cell_0.scan_fn/Cell_0/dot_general", ("Cell_0",)),
        ("cell.scan_fn/cell/dot_general", ("cell",)),
        ("jit(step)/Layer_0/Layer_0.attention/Dense_0/dot_general", ("Layer_0", "attention", "Dense_0")),
        ("jit(step)/block/block/dot_general", ("block", "block")),
        ("jit(f)/mul", ()),
        ("jit(step)/jvp(jit(relu))", ("forward",)),
        ("jit(step)/transpose(jvp(jit(relu)))", ("backward",)),
        ("jit(step)/jvp(block_0)/jit(relu)", ("forward", "block_0")),
        ("reduce_sum", None),
        ("", None),
    ],
)
def test_names_of_jax(name, path):
    assert scope_path(name) == path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("model/dense/MatMul", ("model", "dense")),
        ("gradients/conv1/Conv2D_grad/Conv2DBackpropFilter", ("backward", "conv1")),
        ("gradient_tape/model/dense/MatMul", ("backward", "model", "dense")),
        ("Mean", None),
    ],
)
def test_names_of_tensorflow_nodes(name, path):
    assert scope_path(name, is_node=True) == path


def test_of_several_names_the_first_counts() -> None:
    assert scope_path("jit(step)/loss/mul;jit(step)/head/dot") == scope_path("jit(step)/loss/mul")


def test_unbalanced_parentheses_are_no_error():
    assert scope_path("jit(f)/a(b/c") == ()
    assert scope_path(")/(/x/y") is not None
