"""Programs build TensorFlow's graphs, node for node, as TensorFlow 2.21 (compat.v1) does."""

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import GraphError, GraphTypeError, GraphValueError, UnimplementedError
from xlanb.graph.op_library import call
from xlanb.graph.shapes import set_shape_function


@pytest.fixture(autouse=True)
def graph():
    graph = tf.Graph()
    with graph.as_default():
        yield graph


def lines(graph):
    return [f"{op.name} = {op.type}({', '.join(op.node_inputs)})" for op in graph]


def linear_regression(use_resource=None):
    W = tf.get_variable(shape=[], name="weights", use_resource=use_resource)
    b = tf.get_variable(shape=[], name="bias", use_resource=use_resource)
    x_observed = tf.placeholder(shape=[None], dtype=tf.float32, name="x_observed")
    y_pred = W * x_observed + b
    learning_rate = 0.025
    y_observed = tf.placeholder(shape=[None], dtype=tf.float32, name="y_observed")
    loss_op = tf.reduce_mean(tf.square(y_pred - y_observed))
    optimizer_op = tf.train.GradientDescentOptimizer(learning_rate)
    return optimizer_op.minimize(loss_op)


def variable_lines(name):
    i = f"{name}/Initializer/random_uniform"
    return [
        f"{i}/shape = Const()", f"{i}/min = Const()", f"{i}/max = Const()", f"{i}/RandomUniform = RandomUniform({i}/shape)",
        f"{i}/sub = Sub({i}/max, {i}/min)", f"{i}/mul = Mul({i}/RandomUniform, {i}/sub)", f"{i} = AddV2({i}/mul, {i}/min)",
        f"{name} = VariableV2()", f"{name}/Assign = Assign({name}, {i})", f"{name}/read = Identity({name})",
    ]  # fmt: skip


G = "gradients"
LINEAR_REGRESSION = [
    *variable_lines("weights"),
    *variable_lines("bias"),
    "x_observed = Placeholder()",
    "mul = Mul(weights/read, x_observed)",
    "add = AddV2(mul, bias/read)",
    "y_observed = Placeholder()",
    "sub = Sub(add, y_observed)",
    "Square = Square(sub)",
    "Const = Const()",
    "Mean = Mean(Square, Const)",
    f"{G}/Shape = Const()",
    f"{G}/grad_ys_0/Const = Const()",
    f"{G}/grad_ys_0 = Fill({G}/Shape, {G}/grad_ys_0/Const)",
    f"{G}/Mean_grad/Reshape/shape = Const()",
    f"{G}/Mean_grad/Reshape = Reshape({G}/grad_ys_0, {G}/Mean_grad/Reshape/shape)",
    f"{G}/Mean_grad/Shape = Shape(Square)",
    f"{G}/Mean_grad/Tile = Tile({G}/Mean_grad/Reshape, {G}/Mean_grad/Shape)",
    f"{G}/Mean_grad/Shape_1 = Shape(Square)",
    f"{G}/Mean_grad/Size = Const()",
    f"{G}/Mean_grad/add = AddV2(Const, {G}/Mean_grad/Size)",
    f"{G}/Mean_grad/mod = FloorMod({G}/Mean_grad/add, {G}/Mean_grad/Size)",
    f"{G}/Mean_grad/GatherV2/axis = Const()",
    f"{G}/Mean_grad/GatherV2 = GatherV2({G}/Mean_grad/Shape_1, {G}/Mean_grad/mod, {G}/Mean_grad/GatherV2/axis)",
    f"{G}/Mean_grad/Const = Const()",
    f"{G}/Mean_grad/Prod = Prod({G}/Mean_grad/GatherV2, {G}/Mean_grad/Const)",
    f"{G}/Mean_grad/Cast = Cast({G}/Mean_grad/Prod)",
    f"{G}/Mean_grad/truediv = RealDiv({G}/Mean_grad/Tile, {G}/Mean_grad/Cast)",
    f"{G}/Square_grad/Const = Const(^{G}/Mean_grad/truediv)",
    f"{G}/Square_grad/Mul = Mul(sub, {G}/Square_grad/Const)",
    f"{G}/Square_grad/Mul_1 = Mul({G}/Mean_grad/truediv, {G}/Square_grad/Mul)",
    f"{G}/sub_grad/Neg = Neg({G}/Square_grad/Mul_1)",
    f"{G}/sub_grad/Shape = Shape(add)",
    f"{G}/sub_grad/Shape_1 = Shape(y_observed)",
    f"{G}/sub_grad/BroadcastGradientArgs = BroadcastGradientArgs({G}/sub_grad/Shape, {G}/sub_grad/Shape_1)",
    f"{G}/sub_grad/Sum = Sum({G}/Square_grad/Mul_1, {G}/sub_grad/BroadcastGradientArgs)",
    f"{G}/sub_grad/Reshape = Reshape({G}/sub_grad/Sum, {G}/sub_grad/Shape)",
    f"{G}/sub_grad/Sum_1 = Sum({G}/sub_grad/Neg, {G}/sub_grad/BroadcastGradientArgs:1)",
    f"{G}/sub_grad/Reshape_1 = Reshape({G}/sub_grad/Sum_1, {G}/sub_grad/Shape_1)",
    f"{G}/sub_grad/tuple/group_deps = NoOp(^{G}/sub_grad/Reshape, ^{G}/sub_grad/Reshape_1)",
    f"{G}/sub_grad/tuple/control_dependency = Identity({G}/sub_grad/Reshape, ^{G}/sub_grad/tuple/group_deps)",
    f"{G}/sub_grad/tuple/control_dependency_1 = Identity({G}/sub_grad/Reshape_1, ^{G}/sub_grad/tuple/group_deps)",
    f"{G}/add_grad/Shape = Shape(mul)",
    f"{G}/add_grad/Shape_1 = Const()",
    f"{G}/add_grad/Sum/reduction_indices = Const()",
    f"{G}/add_grad/Sum = Sum({G}/sub_grad/tuple/control_dependency, {G}/add_grad/Sum/reduction_indices)",
    f"{G}/add_grad/Reshape = Reshape({G}/add_grad/Sum, {G}/add_grad/Shape_1)",
    f"{G}/add_grad/tuple/group_deps = NoOp(^{G}/add_grad/Reshape, ^{G}/sub_grad/tuple/control_dependency)",
    f"{G}/add_grad/tuple/control_dependency = Identity({G}/sub_grad/tuple/control_dependency, ^{G}/add_grad/tuple/group_deps)",
    f"{G}/add_grad/tuple/control_dependency_1 = Identity({G}/add_grad/Reshape, ^{G}/add_grad/tuple/group_deps)",
    f"{G}/mul_grad/Mul = Mul({G}/add_grad/tuple/control_dependency, x_observed)",
    f"{G}/mul_grad/Mul_1 = Mul(weights/read, {G}/add_grad/tuple/control_dependency)",
    f"{G}/mul_grad/Shape = Const()",
    f"{G}/mul_grad/Shape_1 = Shape(x_observed)",
    f"{G}/mul_grad/Sum/reduction_indices = Const()",
    f"{G}/mul_grad/Sum = Sum({G}/mul_grad/Mul, {G}/mul_grad/Sum/reduction_indices)",
    f"{G}/mul_grad/Reshape = Reshape({G}/mul_grad/Sum, {G}/mul_grad/Shape)",
    f"{G}/mul_grad/tuple/group_deps = NoOp(^{G}/mul_grad/Mul_1, ^{G}/mul_grad/Reshape)",
    f"{G}/mul_grad/tuple/control_dependency = Identity({G}/mul_grad/Reshape, ^{G}/mul_grad/tuple/group_deps)",
    f"{G}/mul_grad/tuple/control_dependency_1 = Identity({G}/mul_grad/Mul_1, ^{G}/mul_grad/tuple/group_deps)",
    "GradientDescent/learning_rate = Const()",
    (
        "GradientDescent/update_weights/ApplyGradientDescent = "
        f"ApplyGradientDescent(weights, GradientDescent/learning_rate, {G}/mul_grad/tuple/control_dependency)"
    ),
    (
        "GradientDescent/update_bias/ApplyGradientDescent = "
        f"ApplyGradientDescent(bias, GradientDescent/learning_rate, {G}/add_grad/tuple/control_dependency_1)"
    ),
    "GradientDescent = NoOp(^GradientDescent/update_bias/ApplyGradientDescent, ^GradientDescent/update_weights/ApplyGradientDescent)",
]


def test_linear_regression(graph):
    linear_regression()
    assert lines(graph) == LINEAR_REGRESSION
    attrs = {op.name: op.attrs for op in graph}
    assert attrs["weights"] == {
        "shape": [], "dtype": tf.float32, "container": "", "shared_name": "", "_class": ("loc:@weights",),
    }  # fmt: skip
    assert attrs["weights/Assign"] == {
        "T": tf.float32,
        "use_locking": True,
        "validate_shape": True,
        "_class": ("loc:@weights",),
    }
    assert attrs["GradientDescent/update_bias/ApplyGradientDescent"] == {
        "T": tf.float32, "use_locking": False, "_class": ("loc:@bias",), "_has_manual_control_dependencies": True,
    }  # fmt: skip
    assert attrs["gradients/sub_grad/Sum"]["keep_dims"] is True
    assert graph.get_tensor_by_name("add:0").shape == [None]
    np.testing.assert_allclose(attrs["weights/Initializer/random_uniform/max"]["value"], np.sqrt(3.0), rtol=1e-6)


def test_linear_regression_with_resource_variables(graph):
    linear_regression(use_resource=True)
    found = lines(graph)
    assert found[7:11] == [
        "weights = VarHandleOp()",
        "weights/IsInitialized/VarIsInitializedOp = VarIsInitializedOp(weights)",
        "weights/Assign = AssignVariableOp(weights, weights/Initializer/random_uniform)",
        "weights/Read/ReadVariableOp = ReadVariableOp(weights)",
    ]
    assert found[22:26] == [
        "x_observed = Placeholder()", "ReadVariableOp = ReadVariableOp(weights)", "mul = Mul(ReadVariableOp, x_observed)",
        "add/ReadVariableOp = ReadVariableOp(bias)",
    ]  # fmt: skip
    assert found[-2].startswith(
        "GradientDescent/update_bias/ResourceApplyGradientDescent = ResourceApplyGradientDescent(bias, "
    )
    assert graph.get_operation_by_name("weights").attrs["debug_name"] == "weights/"


def test_relu_layer(graph):
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    w = tf.placeholder(tf.float32, [4, 3], name="w")
    b = tf.placeholder(tf.float32, [3], name="b")
    y = tf.nn.relu(x @ w + b)
    gradient = tf.gradients(y, w)[0]
    assert y.shape == [None, 3]
    assert lines(graph)[3:] == [
        "matmul = MatMul(x, w)",
        "add = AddV2(matmul, b)",
        "Relu = Relu(add)",
        "gradients/Shape = Shape(Relu)",
        "gradients/grad_ys_0/Const = Const()",
        "gradients/grad_ys_0 = Fill(gradients/Shape, gradients/grad_ys_0/Const)",
        "gradients/Relu_grad/ReluGrad = ReluGrad(gradients/grad_ys_0, Relu)",
        "gradients/add_grad/Shape = Shape(matmul)",
        "gradients/add_grad/Shape_1 = Const()",
        "gradients/add_grad/Sum/reduction_indices = Const()",
        "gradients/add_grad/Sum = Sum(gradients/Relu_grad/ReluGrad, gradients/add_grad/Sum/reduction_indices)",
        "gradients/add_grad/Reshape = Reshape(gradients/add_grad/Sum, gradients/add_grad/Shape_1)",
        "gradients/matmul_grad/MatMul = MatMul(gradients/Relu_grad/ReluGrad, w)",
        "gradients/matmul_grad/MatMul_1 = MatMul(x, gradients/Relu_grad/ReluGrad)",
    ]
    assert gradient.shape == [4, 3]
    assert gradient.op.attrs == {
        "T": tf.float32,
        "transpose_a": True,
        "transpose_b": False,
        "grad_a": False,
        "grad_b": True,
    }


def test_jit_scope_marks_nodes(graph):
    a, b = tf.placeholder(tf.int32, name="a"), tf.placeholder(tf.int32, name="b")
    with tf.contrib.compiler.jit.experimental_jit_scope():
        tf.multiply(tf.add(a, b), b)
    with tf.contrib.compiler.jit.experimental_jit_scope(False):
        tf.identity(a, name="not")
    marks = [(op.name, op.attrs.get("_XlaCompile"), op.attrs.get("_XlaScope")) for op in graph]
    assert marks == [
        ("a", None, None), ("b", None, None), ("Add", True, "jit_scope_0"), ("Mul", True, "jit_scope_0"), ("not", False, "jit_scope_1"),
    ]  # fmt: skip


def test_gradients_in_a_jit_scope_are_compiled_too(graph):
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.contrib.compiler.jit.experimental_jit_scope(separate_compiled_gradients=True):
        y = tf.exp(x)
    gradient = tf.gradients(y, x)[0]
    assert gradient.op.attrs["_XlaCompile"] is True
    assert gradient.op.attrs["_XlaScope"] == "jit_scope_0_grad_gradients"


def test_get_variable_shares_only_where_asked(graph):
    with tf.variable_scope("layer") as scope:
        w = tf.get_variable("w", [2, 3])
        with pytest.raises(GraphValueError, match=r"layer/w already exists.*test_graphs.py"):
            tf.get_variable("w", [2, 3])
    with tf.variable_scope(scope, reuse=True):
        assert tf.get_variable("w") is w
        with pytest.raises(GraphValueError, match=r"layer/other does not exist"):
            tf.get_variable("other", [1])
        with pytest.raises(GraphValueError, match=r"shape \(3,\) and found shape \(2, 3\)"):
            tf.get_variable("w", [3])
    with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("w") is w
        tf.get_variable("other", [1])
    assert [v.name for v in tf.trainable_variables()] == ["layer/w:0", "layer/other:0"]
    assert w.dtype is tf.float32.ref_dtype
    with pytest.raises(GraphValueError, match="must be fully defined"):
        tf.get_variable("unknown", [None])


def test_default_names_of_variable_scopes_are_made_unique(graph):
    names = []
    for _ in range(2):
        with tf.variable_scope(None, "block"):
            names.append(tf.get_variable("w", [1]).name)
    assert names == ["block/w:0", "block_1/w:0"]


@pytest.mark.parametrize("use_resource", [False, True])
def test_adam_makes_slots_and_powers(graph, use_resource):
    with tf.variable_scope("layer", use_resource=use_resource):
        w = tf.get_variable("w", [3, 4])
    optimizer = tf.train.AdamOptimizer(0.01)
    optimizer.minimize(tf.reduce_sum(w * w))
    assert [v.name for v in tf.global_variables()] == [
        "layer/w:0",
        "beta1_power:0",
        "beta2_power:0",
        "layer/w/Adam:0",
        "layer/w/Adam_1:0",
    ]
    assert optimizer.get_slot(w, "v").name == "layer/w/Adam_1:0"
    kind = "ResourceApplyAdam" if use_resource else "ApplyAdam"
    update = graph.get_operation_by_name(f"Adam/update_layer/w/{kind}")
    assert update.type == kind
    assert graph.get_operation_by_name("Adam").type == "NoOp"


def test_a_step_counter_is_counted_after_the_updates(graph):
    w = tf.Variable(1.0, name="w")
    step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True).minimize(w * w, global_step=step)
    assert (train.name, train.type, train.node_inputs) == ("Momentum", "AssignAdd", ("global_step", "Momentum/value"))
    assert graph.get_operation_by_name("Momentum/value").node_inputs == ("^Momentum/update",)
    assert graph.get_operation_by_name("Momentum/update_w/ApplyMomentum").attrs["use_nesterov"] is True


def test_minimize_refuses_what_cannot_be_optimised(graph):
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    x = tf.placeholder(tf.float32, [], name="x")
    with pytest.raises(GraphValueError, match="No variables to optimize"):
        optimizer.minimize(x)
    tf.Variable(1.0, name="w")
    with pytest.raises(GraphValueError, match="does not depend on any of w:0"):
        optimizer.minimize(x)
    with pytest.raises(GraphTypeError, match="only floating-point"):
        optimizer.minimize(tf.constant(1))


def test_gradient_of_rows_is_sparse(graph):
    table = tf.get_variable("table", [10, 4])
    rows = tf.nn.embedding_lookup(table, tf.placeholder(tf.int32, [None]))
    gradient = tf.gradients(rows, table)[0]
    assert isinstance(gradient, tf.IndexedSlices)
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))
    assert any(op.type == "ScatterSub" for op in graph)


def test_unconnected_gradients(graph):
    x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    assert tf.gradients(x * 2.0, y) == [None]
    assert tf.gradients(x * 2.0, y, unconnected_gradients="zero")[0].shape == [2]
    assert tf.gradients(tf.stop_gradient(x), x) == [None]


def test_an_op_without_gradient_is_named(graph):
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    y = call("AdjustHue", x, 0.5)
    with pytest.raises(UnimplementedError, match="no gradient is defined for op type 'AdjustHue': node 'AdjustHue'"):
        tf.gradients(y, x)


def test_shapes_that_do_not_fit_are_refused_where_they_are_written(graph):
    a, b = tf.placeholder(tf.float32, [2, 3], name="a"), tf.placeholder(tf.float32, [4, 5], name="b")
    with pytest.raises(GraphError, match="MatMul"):
        tf.matmul(a, b)
    assert [op.name for op in graph] == ["a", "b"]
    assert tf.matmul(a, a, transpose_b=True).shape == [2, 2]


def test_without_a_shape_function_shapes_are_unknown(graph):
    old = set_shape_function(None)
    try:
        x = tf.placeholder(tf.float32, [2])
        assert (x * 2.0).shape.rank is None
    finally:
        set_shape_function(old)


def test_every_generated_function_has_a_name_and_a_text():
    from xlanb.tf.generated import ARRAY, LINALG, MATH, NN

    for name in (*MATH, *ARRAY, *LINALG):
        assert getattr(tf, name).__name__ == name
    for name in NN:
        assert getattr(tf.nn, name).__doc__
    with pytest.raises(GraphTypeError, match="lacks y"):
        tf.maximum(1.0)
