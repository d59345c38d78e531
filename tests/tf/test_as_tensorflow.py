"""`import tensorflow` as xlanb.tf: unmodified TensorFlow 1 scripts, each in its own process."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TUTORIAL = """
from __future__ import absolute_import, division, print_function

import numpy as np
import tensorflow as tf
from tensorflow.python.client import timeline

tf.logging.set_verbosity(tf.logging.INFO)


def model(features, labels, mode, params):
    image = tf.reshape(features["x"], [-1, 4, 4, 1])
    conv = tf.layers.conv2d(image, 4, [3, 3], padding="same", activation=tf.nn.relu)
    flat = tf.layers.flatten(tf.layers.max_pooling2d(conv, 2, 2))
    dropped = tf.layers.dropout(flat, 0.1, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(dropped, 2)
    classes = {"class": tf.argmax(logits, 1), "p": tf.nn.softmax(logits, name="softmax_tensor")}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=classes)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        step = tf.train.get_global_step()
        train = tf.train.AdamOptimizer(params["rate"]).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=classes["class"])
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})


def main(argv):
    rng = np.random.RandomState(0)
    images = rng.rand(512, 16).astype(np.float32)
    labels = (images[:, :8].sum(1) > images[:, 8:].sum(1)).astype(np.int32)
    estimator = tf.estimator.Estimator(model, "model", params={"rate": 0.02})
    hook = tf.train.LoggingTensorHook({"probabilities": "softmax_tensor"}, every_n_iter=100)
    given = tf.estimator.inputs.numpy_input_fn(
        {"x": images}, labels, batch_size=64, num_epochs=None, shuffle=True)
    estimator.train(given, steps=120, hooks=[hook])
    estimator.train(given, max_steps=150)
    once = tf.estimator.inputs.numpy_input_fn({"x": images}, labels, num_epochs=1, shuffle=False)
    found = estimator.evaluate(once)
    print("STEP", found["global_step"], "LEARNED", found["accuracy"] > 0.75, "ARGV", argv[1:])
    some = tf.estimator.inputs.numpy_input_fn({"x": images[:5]}, num_epochs=1, shuffle=False)
    predicted = [int(p["class"]) for p in estimator.predict(some)]
    print("PREDICTED", len(predicted), estimator.get_variable_names())
    print("OURS", tf.__name__, timeline.__name__)


if __name__ == "__main__":
    tf.app.run()
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xlanb", "run", "--as-tensorflow", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_tutorial_with_an_estimator_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "cnn.py").write_text(TUTORIAL)
    done = run(tmp_path, "cnn.py", "--data_dir=here")
    assert done.returncode == 0, done.stderr
    assert "STEP 150 LEARNED True ARGV ['--data_dir=here']" in done.stdout
    assert "PREDICTED 5 ['beta1_power'" in done.stdout
    assert "'dense/kernel/Adam_1', 'global_step']" in done.stdout
    assert "OURS xlanb.tf xlanb.tf.python.client.timeline" in done.stdout
    assert "xlanb: `import tensorflow` imports xlanb.tf in this script" in done.stderr
    assert "probabilities = [[" in done.stderr
    assert "Loss for final step 150" in done.stderr
    assert (tmp_path / "model/checkpoint").exists()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import tensorflow.python.framework.ops", "tensorflow.python.framework is not in xlanb.tf"),
        ("import tensorflow as tf\ntf.feature_column", "feature columns are not in xlanb"),
        ("import tensorflow as tf\ntf.estimator.Estimator(print).evaluate(print)", "must return an EstimatorSpec"),
    ],
)
def test_what_is_not_there_says_so(script: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(script)
    done = run(tmp_path, "s.py")
    assert done.returncode != 0
    assert said in done.stderr


def test_a_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "none.py")
    assert done.returncode == 1
    assert "none.py: no such file" in done.stderr


def test_the_hook_is_taken_out_again(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("""
import sys
import xlanb.tf
from xlanb.tf.import_hook import as_tensorflow, install, uninstall
with as_tensorflow():
    import tensorflow as tf
    import tensorflow.compat.v1 as v1
    from tensorflow.contrib.compiler import jit
    assert tf is xlanb.tf and v1 is xlanb.tf, (tf, v1)
    assert jit.__name__ == "xlanb.tf.contrib.compiler.jit" == jit.__spec__.name
    with as_tensorflow():
        pass
    assert sys.modules["tensorflow"] is xlanb.tf
assert not [n for n in sys.modules if n.split(".")[0] == "tensorflow"]
sys.modules["tensorflow"] = sys  # as if the real one were imported
try:
    install()
except xlanb.errors.ArgumentError as error:
    print(error)
""")
    command = [sys.executable, str(tmp_path / "s.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the real TensorFlow is already imported in this process" in done.stdout


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow: not installed")
def test_without_the_hook_the_real_one_is_found(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "from importlib.util import find_spec\nimport xlanb.tf\nprint(find_spec('tensorflow').origin)"
    )
    command = [sys.executable, str(tmp_path / "s.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "xlanb" not in Path(done.stdout).parent.name
