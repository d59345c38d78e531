"""Programs of the real TensorFlow, passed to xlanb unchanged: their results are TensorFlow's."""

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import ArgumentError, GraphError

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def real():
    return pytest.importorskip("tensorflow")


def models(layers, keras):
    """Return models by name, with their input shapes; a negative size means ids below it."""
    mlp = [layers.Input((8,)), layers.Dense(4, activation="gelu"), layers.BatchNormalization(), layers.Dense(3)]
    conv = [layers.Input((16, 16, 3)), layers.Conv2D(8, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]
    conv += [layers.MaxPooling2D(), layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D(), layers.Dense(3)]
    text = [layers.Input((7,), dtype="int32"), layers.Embedding(20, 6), layers.LSTM(5), layers.Dense(2)]
    tokens = keras.Input((6, 8))
    attended = layers.LayerNormalization()(layers.MultiHeadAttention(2, 4)(tokens, tokens) + tokens)
    return {
        "mlp": (keras.Sequential(mlp), (5, 8)),
        "conv": (keras.Sequential(conv), (2, 16, 16, 3)),
        "text": (keras.Sequential(text), None),
        "attention": (keras.Model(tokens, layers.Dense(3)(attended)), (2, 6, 8)),
    }


@pytest.mark.parametrize("name", ["mlp", "conv", "text", "attention"])
def test_keras_models(real, rng, name):
    real.keras.utils.set_random_seed(0)
    model, shape = models(real.keras.layers, real.keras)[name]
    x = rng.integers(0, 20, (3, 7)).astype(np.int32) if shape is None else rng.standard_normal(shape).astype(np.float32)
    wanted = model(x, training=False).numpy()
    graph = tf.Graph.from_tensorflow(model, x)
    assert set(graph.initial_values) == {w.path for w in model.weights if "seed" not in w.path}
    assert [t.dtype.name for t in tf.Graph.from_tensorflow(model).inputs] == [x.dtype.name]  # it knows what it takes
    np.testing.assert_allclose(tf.Session(graph).run(graph.outputs[0], {graph.inputs[0]: x}), wanted, atol=2e-6)
    np.testing.assert_allclose(xlanb.compile(model, x)(x), wanted, atol=2e-6)
    with xlanb.flags("--tf_xla_auto_jit=2"):
        compilation = xlanb.Compilation(model, x)
        np.testing.assert_allclose(compilation.finish()[0], wanted, atol=2e-6)
    assert compilation.trace["tf_graph"]
    assert all(c.hlo_module for c in xlanb.cluster(model, x).clusters)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "InceptionV3", "MobileNetV3Small", "ResNet50"],
)
def test_keras_applications(real, name):
    real.keras.utils.set_random_seed(0)
    size = 96 if name == "InceptionV3" else 64
    made = getattr(real.keras.applications, name)
    model = made(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None)
    rng = np.random.default_rng(0)
    for w in model.weights:  # gammas of zero and equal means would hide what differs
        if w.shape.rank == 1 and "seed" not in w.path:
            w.assign(rng.uniform(0.5, 1.5, w.shape))
    x = rng.uniform(0, 255, (2, size, size, 3)).astype(np.float32)
    got = xlanb.compile(model, batch=2)(x)
    wanted = real.function(lambda x: model(x, training=False), jit_compile=True)(x).numpy()
    assert np.ptp(wanted[0]) > 1e-3 * np.abs(wanted).max()
    np.testing.assert_allclose(got, wanted, atol=1e-4 * np.abs(wanted).max())


# TensorFlow 2.21's AutoGraph makes syntax nodes in a way that Python 3.13 deprecates. If that is an
# error, it runs the function unconverted.
@pytest.mark.filterwarnings("ignore:.*___pyct_anno:DeprecationWarning")
def test_functions(real):
    weights, captured = real.Variable([1.0, 2.0], name="w"), real.constant([3.0, 4.0])

    @real.function
    def inner(x, n):
        return {"a": x * weights + captured, "b": [n + 1]}

    @real.function
    def outer(x):
        i = real.constant(0)
        while i < 3:
            x = inner(x, i)["a"]
            i += 1
        return inner(x, i)

    x, n = np.array([0.5, -1.0], np.float32), np.int32(3)
    concrete = inner.get_concrete_function(real.TensorSpec([None]), real.TensorSpec([], real.int32))
    for program, args in ((inner, (x, n)), (concrete, (x, n)), (outer, (x,))):
        wanted = real.nest.flatten(program(*map(real.constant, args)))
        graph = tf.Graph.from_tensorflow(program, *args)
        feeds = dict(zip(graph.inputs, args, strict=True))
        ran = tf.Session(graph).run(list(graph.outputs), feeds)
        compiled = xlanb.compile(program, *args)(*args)
        assert type(compiled) is type(program(*map(real.constant, args)))
        for got in (ran, real.nest.flatten(compiled)):
            for a, b in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(a, b.numpy())
        assert not any("PartitionedCall" in op.type for op in graph)


def test_a_function_that_writes_its_variables(real):
    total = real.Variable([1.0, 2.0], name="total")

    @real.function
    def add(x):
        total.assign_add(x)
        return total * 2.0

    x = np.array([0.5, -1.0], np.float32)
    executable = xlanb.compile(add, x)
    graph = tf.Graph.from_tensorflow(add, x)
    session = tf.Session(graph)
    for expected in ([3.0, 2.0], [4.0, 0.0]):
        np.testing.assert_array_equal(executable(x), expected)  # reads and assigns the variable
        np.testing.assert_array_equal(session.run(graph.outputs[0], {graph.inputs[0]: x}), expected)
    np.testing.assert_array_equal(session.read_variable("total"), total.numpy())
    # the module itself takes variables after the arguments and gives new values after the results
    twice, new = executable.flat(x, np.array([1.0, 2.0], np.float32))
    np.testing.assert_array_equal((twice, new), ([3.0, 2.0], [1.5, 1.0]))
    np.testing.assert_array_equal(total.numpy(), [2.0, 0.0])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_saved_models_and_model_files(real, tmp_path, rng):
    layers = real.keras.layers
    model = real.keras.Sequential([layers.Input((8,)), layers.Dense(4, activation="tanh"), layers.Dense(3)])
    x = rng.standard_normal((5, 8)).astype(np.float32)
    model.export(tmp_path / "exported", verbose=False)
    model.save(tmp_path / "model.keras")
    for program in (tmp_path / "exported", str(tmp_path / "exported"), tmp_path / "model.keras"):
        found = xlanb.compile(program, x)(x)  # of a SavedModel a tuple, its outputs by name
        found = found[0] if isinstance(found, tuple) else found
        np.testing.assert_allclose(found, model(x).numpy(), atol=1e-6)
        assert len(xlanb.cluster(program, x).clusters) == 1
    with pytest.raises(GraphError, match=r"no signature 'other' with results; known: .*, serve, serving_default$"):
        tf.Graph.from_tensorflow(tmp_path / "exported", signature="other")


def test_graphs_sessions_and_tensors_of_version_1(real):
    v1 = real.compat.v1
    with real.Graph().as_default() as theirs:
        x = v1.placeholder(real.float32, [2], name="x")
        w, unset = v1.get_variable("w", [2]), v1.get_variable("unset", [2])
        y = x * w + 1.0
        session = v1.Session(graph=theirs)
        session.run(w.initializer)
        wanted = session.run(y, {x: [1, 2]})
        del unset
    nodes = len(theirs.get_operations())
    ours = tf.Session(tf.Graph.from_tensorflow(session))
    assert len(theirs.get_operations()) == nodes
    np.testing.assert_allclose(ours.run(y.name, {"x:0": [1, 2]}), wanted)
    assert set(ours.graph.initial_values) == {"w"}
    value = ours.read_variable("w")
    np.testing.assert_allclose(xlanb.compile(y)(np.array([1, 2], np.float32), value)[0], wanted)
    assert [t.name for t in tf.Graph.from_tensorflow([y]).outputs] == [y.name]
    assert len(xlanb.cluster(theirs, tf_xla_min_cluster_size=1).clusters) > 0


def test_what_is_not_taken_is_said(real):
    table = real.lookup.experimental.MutableHashTable(real.int32, real.int32, -1)

    @real.function
    def inserting(x):
        table.insert(x, x)

    model = real.keras.Sequential([real.keras.layers.Dense(3)])
    for program, args, words in (
        (real.constant(1.0), (), "an EagerTensor is a value"),
        (real.data.Dataset.range(3), (), "cannot use a _RangeDataset"),
        (model, (), "does not declare its inputs"),
        (inserting, (np.array([1], np.int32),), "captures .*, a resource that is not a variable"),
        (real.function(lambda x: x), (), "cannot trace .*missing a required argument"),
        (3, (), "cannot use a int as a TensorFlow program"),
    ):
        with pytest.raises(GraphError, match=words):
            tf.Graph.from_tensorflow(program, *args)
    with pytest.raises(ArgumentError, match="does not specify what to compute"):
        xlanb.compile(real.Graph())
    with pytest.raises(ArgumentError, match="takes 1 arrays"):
        xlanb.compile(real.function(lambda x: x).get_concrete_function(real.TensorSpec([2])), np.ones(2), np.ones(2))


def test_what_runs_on_the_host_is_run_by_a_session_and_named_by_the_compiler(real, capsys):
    words = real.lookup.StaticHashTable(real.lookup.KeyValueTensorInitializer(["a", "b"], [3, 4]), -1)
    numbers = real.lookup.StaticHashTable(real.lookup.KeyValueTensorInitializer([1, 2], [3.0, 4.0]), -1.0)

    @real.function
    def host(x):
        real.print("x is", x)
        real.debugging.assert_less(x, 9, message="too large")
        found = numbers.lookup(x)
        eager = real.py_function(lambda v: v * 3.0, [found], real.float32)
        plain = real.numpy_function(lambda v: v + np.float32(1), [eager], real.float32)
        return real.strings.as_string(x), words.lookup(real.constant(["b", "c"])), plain * 2.0

    x = np.array([1, 2, 5], np.int32)
    graph = tf.Graph.from_tensorflow(host, x)
    targets = [graph.get_operation_by_name(name) for name in graph.binding.targets]
    session = tf.Session(graph)
    with xlanb.flags("--tf_xla_auto_jit=2"):
        texts, found, plain, *_ = session.run([*graph.outputs, *targets], {graph.inputs[0]: x})
    assert texts.tolist() == [b"1", b"2", b"5"]
    assert found.tolist() == [4, -1]
    assert plain.tolist() == [20.0, 26.0, -4.0]
    assert "x is [1 2 5]" in capsys.readouterr().err
    with pytest.raises(GraphError, match=r"assertion failed.*too large"):
        session.run(targets, {graph.inputs[0]: x + 9})
    for program in (
        real.strings.as_string,
        numbers.lookup,
        lambda x: real.py_function(lambda v: v, [x], real.int32),
    ):
        with pytest.raises(GraphError, match=r"it runs on the host.*A session runs it"):
            xlanb.compile(real.function(program), x)


def test_a_cell_that_ends_in_a_model(real, rng, shell):
    from IPython.utils.capture import capture_output

    layers = real.keras.layers
    model = real.keras.Sequential([layers.Input((8,)), layers.Dense(4, activation="tanh")])
    x = rng.standard_normal((5, 8)).astype(np.float32)
    shell.user_ns |= {"model": model, "batch": x}
    with capture_output():
        got = shell.run_cell_magic("xla_jit", "--args (batch,) -q", "model\n")
    np.testing.assert_allclose(got, model(x).numpy(), atol=1e-6)
