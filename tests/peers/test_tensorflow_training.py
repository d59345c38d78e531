"""tf.functions and Keras models called as Python calls them: variables are read and assigned."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, GraphError, XlanbError

pytestmark = pytest.mark.filterwarnings("ignore:.*___pyct_anno:DeprecationWarning")


@pytest.fixture(scope="module")
def real():
    return pytest.importorskip("tensorflow")


def cnn(keras, rng):
    layers = keras.layers
    parts = [layers.Input((12, 12, 1)), layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D()]
    parts += [layers.BatchNormalization(), layers.Flatten(), layers.Dense(5)]
    x = rng.standard_normal((6, 12, 12, 1)).astype(np.float32)
    return keras.Sequential(parts), keras.optimizers.Adam(1e-3), x, 5


def dropout(keras, rng):
    layers = keras.layers
    parts = [layers.Input((9,)), layers.Dense(12, activation="gelu"), layers.Dropout(0.3)]
    x = rng.standard_normal((6, 9)).astype(np.float32)
    model = keras.Sequential([*parts, layers.Dense(5)])
    return model, keras.optimizers.AdamW(1e-3, clipnorm=0.5), x, 5


def lstm(keras, rng):
    layers = keras.layers
    parts = [layers.Input((7,), dtype="int32"), layers.Embedding(20, 6), layers.LSTM(5)]
    x = rng.integers(0, 20, (4, 7)).astype(np.int32)
    return keras.Sequential([*parts, layers.Dense(3)]), keras.optimizers.RMSprop(1e-2), x, 3


def resnet(keras, rng):
    model = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=4, classifier_activation=None)
    x = rng.standard_normal((4, 32, 32, 3)).astype(np.float32)
    return model, keras.optimizers.SGD(1e-3, momentum=0.9), x, 4


def train_step(real, build):
    """Return a model, its optimizer, a batch, and the tf.function of a step; equal at each call."""
    real.keras.utils.set_random_seed(3)
    rng = np.random.default_rng(5)
    model, optimizer, x, classes = build(real.keras, rng)
    labels = rng.integers(0, classes, len(x))
    loss = real.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @real.function
    def step(x, labels):
        with real.GradientTape() as tape:
            value = loss(labels, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    return model, optimizer, (x, labels), step


def values(model, optimizer):
    return [v.numpy() for v in (*model.variables, *optimizer.variables)]


def jit_compiled(real, step):
    return real.function(step.python_function, jit_compile=True)


@pytest.mark.parametrize(
    ("build", "reference"),
    # TensorFlow's jit_compile draws other numbers for dropout than TensorFlow's own kernels
    [(cnn, jit_compiled), (dropout, lambda _, step: step), (lstm, jit_compiled)],
)
def test_train_steps(real, build, reference):
    model, optimizer, batch, step = train_step(real, build)
    compiled = xlanb.jit(step)
    losses = [float(compiled(*batch)) for _ in range(3)]
    ours = values(model, optimizer)
    model, optimizer, batch, step = train_step(real, build)
    theirs = reference(real, step)
    wanted = [float(theirs(*batch)) for _ in range(3)]
    np.testing.assert_allclose(losses, wanted, rtol=2e-5)
    assert losses[0] != losses[1] != losses[2]
    assert compiled.cache_info().misses == 1
    # Adam and RMSprop divide tiny gradients by their size: rounding may turn a step round
    learning_rate = float(optimizer.learning_rate.numpy())
    for a, b in zip(ours, values(model, optimizer), strict=True):
        np.testing.assert_allclose(a, b, atol=3.2 * learning_rate, rtol=1e-3)
        assert np.quantile(np.abs(a - b), 0.9) <= 1e-4 * (1 + np.abs(b).max())


@pytest.mark.slow
def test_a_step_of_resnet50_is_as_near_as_two_runs_of_tensorflow(real):
    changes = {}
    for kind in ("ours", "jit", "plain"):
        model, _, batch, step = train_step(real, resnet)
        before = [v.numpy() for v in model.trainable_variables]
        run = {"ours": xlanb.jit, "jit": lambda s: jit_compiled(real, s), "plain": lambda s: s}[kind]
        loss = float(run(step)(*batch))
        after = [v.numpy() - b for v, b in zip(model.trainable_variables, before, strict=True)]
        changes[kind] = (loss, np.concatenate([a.ravel() for a in after]))
    # batch normalization over four pixels multiplies rounding: TensorFlow's two runs differ by 4e-4
    assert changes["ours"][0] == pytest.approx(changes["jit"][0], rel=5e-3)

    def distance(a, b):
        return np.linalg.norm(changes[a][1] - changes[b][1]) / np.linalg.norm(changes[b][1])

    assert distance("ours", "jit") <= 2 * distance("plain", "jit") + 1e-3


def test_structures_constants_and_variables_as_in_python(real):
    count = real.Variable(0, name="count")

    @real.function
    def step(batch, scale=2.0, *, flag=True):
        count.assign_add(1)
        return {"sum": batch["x"] * scale + batch["y"], "rest": [batch["y"] if flag else None, None]}

    compiled = xlanb.jit(step)
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    batch = {"y": y, "x": x}
    for kwargs in ({}, {"scale": 3.0}, {"flag": False}, {}):
        got, wanted = compiled(batch, **kwargs), step(batch, **kwargs)
        real.nest.assert_same_structure(got, wanted)
        for a, b in zip(real.nest.flatten(got), real.nest.flatten(wanted), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert isinstance(a, np.ndarray)
                np.testing.assert_array_equal(a, b.numpy())
    assert count.numpy() == 8
    info = compiled.cache_info()
    assert (info.hits, info.misses) == (1, 3)
    assert "scale: 2.0 -> 3.0" in str(info)
    assert "batch['x']: float32[3]" in str(info)
    assert real.is_tensor(compiled({"x": real.constant(x), "y": y})["sum"])
    with pytest.raises(ArgumentError, match=r"step\(batch, scale=2.0.*missing a required argument"):
        compiled()


def test_random_state_moves_on(real):
    ours, theirs = (real.random.Generator.from_seed(3) for _ in range(2))
    draw = xlanb.jit(real.function(lambda: ours.normal([5])))
    for _ in range(2):
        np.testing.assert_allclose(draw(), theirs.normal([5]).numpy(), atol=1e-6)
    np.testing.assert_array_equal(ours.state.numpy(), theirs.state.numpy())


def test_plain_functions_methods_and_effects(real):
    class Counter(real.Module):
        def __init__(self):
            self.value = real.Variable(1)

        @real.function
        def add(self, by):
            self.value.assign_add(by)

    counter = Counter()
    add = xlanb.jit(counter.add)
    assert add(np.int32(4)) is None
    assert add(3) is None
    assert counter.value.numpy() == 8

    @xlanb.jit
    def relu(x):  # names TensorFlow, and is traced by it
        return real.nn.relu(x) + real.cast(counter.value, real.float32)

    np.testing.assert_array_equal(relu(np.array([-1.0, 2.0], np.float32)), [8.0, 10.0])
    counter.value.assign(0)
    np.testing.assert_array_equal(relu(np.array([-1.0, 2.0], np.float32)), [0.0, 2.0])


def test_models_by_batch_size_and_by_jit(real, rng):
    layers = real.keras.layers
    model = real.keras.Sequential([layers.Input((8,)), layers.Dense(4), layers.Dropout(0.5)], name="mlp")
    x = rng.standard_normal((5, 8)).astype(np.float32)
    with pytest.raises(GraphError, match=r"'mlp' leaves sizes open.*float32\[\?, 8\].*batch=32\)"):
        xlanb.compile(model)
    executable, jitted = xlanb.compile(model, batch=5), xlanb.jit(model)
    wanted = model(x).numpy()
    np.testing.assert_allclose(executable(x), wanted, atol=1e-6)
    np.testing.assert_allclose(jitted(x), wanted, atol=1e-6)
    model.layers[0].kernel.assign(2 * model.layers[0].kernel)
    np.testing.assert_allclose(executable(x), wanted, atol=1e-6)  # the weights are constants
    np.testing.assert_allclose(jitted(x), model(x).numpy(), atol=1e-6)  # here they are not
    np.testing.assert_allclose(jitted(x[:2]), model(x[:2]).numpy(), atol=1e-6)
    with pytest.raises(ArgumentError, match=r"expected float32\[5, 8\], got float64"):
        executable(x.astype(np.float64))
    with pytest.raises(XlanbError, match=r"leaves sizes open.*batch=32"):
        xlanb.trace(model)
    assert xlanb.trace(model, batch=2)["tf_graph"]
    (cluster,) = xlanb.cluster(model, batch=2).clusters
    assert (2, 8) in [p.array_shape.dimensions for p in cluster.hlo_module.entry_computation.parameters]
    sequences = real.keras.Sequential([layers.Input((None, 8)), layers.Dense(4)], name="sequences")
    with pytest.raises(GraphError, match=r"np.zeros\(\[3, 32, 8\], np.float32\)"):
        xlanb.compile(sequences, batch=3)
    open_function = real.function(lambda x: x, input_signature=[real.TensorSpec([None], name="x")])
    with pytest.raises(GraphError, match=r"leaves sizes open.*x float32\[\?\]"):
        xlanb.compile(open_function)


def test_jit_compiled_functions_are_traced_to_assembly(real):
    weight = real.Variable([[1.0, 2.0], [3.0, 4.0]], name="weight")

    @real.function(jit_compile=True)
    def layer(x):
        weight.assign_add(real.ones([2, 2]))
        return real.nn.relu(real.matmul(x, weight))

    x = np.ones((3, 2), np.float32)
    trace = xlanb.trace(layer, x)
    assert trace.stages[-1].kind == "assembly"
    assert trace["fusion"]
    assert "weight" in str(trace.program.source_module)
    np.testing.assert_array_equal(weight.numpy(), [[1, 2], [3, 4]])  # compiled, and not run
    evaluated = xlanb.evaluate(layer, x)
    np.testing.assert_array_equal(weight.numpy(), [[2, 3], [4, 5]])
    np.testing.assert_array_equal(evaluated, np.full((3, 2), [6, 8]))
