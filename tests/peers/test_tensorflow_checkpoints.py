"""Checkpoints and .meta files between TensorFlow and xlanb, in both directions."""

import numpy as np
import pytest

from tests.peers.test_tensorflow_graphs import tf1  # noqa: F401 - a fixture
from tests.tf.test_checkpoints import model

pytestmark = pytest.mark.peer
X = np.ones((4, 3), np.float32)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("direction", ["from TensorFlow", "to TensorFlow"])
def test_training_goes_on_in_the_other(tf1, tmp_path, direction, use_resource):  # noqa: F811 - the fixture
    from xlanb import tf

    first, second = (tf1, tf) if direction == "from TensorFlow" else (tf, tf1)
    with first.Graph().as_default(), first.Session() as session:
        y, train = model(first, use_resource)
        session.run(first.global_variables_initializer())
        session.run(train, {"x:0": X})
        path = first.train.Saver().save(session, str(tmp_path / "model"), global_step=1)
        session.run(train, {"x:0": X})
        expected = session.run(y, {"x:0": X})
    with second.Graph().as_default(), second.Session() as session:
        saver = second.train.import_meta_graph(f"{path}.meta")
        saver.restore(session, path)
        assert session.run("global_step:0" if not use_resource else second.train.get_global_step()) == 1
        session.run("train", {"x:0": X})
        assert np.allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-5)
        assert [v.name for v in second.trainable_variables()] == ["layer/w:0", "layer/b:0"]


def test_nodes_of_tensorflows_saver_run(tf1, tmp_path):  # noqa: F811 - the fixture
    from xlanb import tf

    with tf1.Graph().as_default(), tf1.Session() as session:
        w = tf1.get_variable("w", [3], initializer=tf1.random_normal_initializer())
        saver = tf1.train.Saver(sharded=True)
        session.run(tf1.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "theirs"))
        expected, names = session.run(w), saver.as_saver_def()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(f"{path}.meta")
        session.run(names.restore_op_name, {names.filename_tensor_name: path})
        assert np.array_equal(session.run("w:0"), expected)
        session.run(names.save_tensor_name, {names.filename_tensor_name: str(tmp_path / "ours")})
    assert np.array_equal(tf1.train.load_checkpoint(str(tmp_path / "ours")).get_tensor("w"), expected)
