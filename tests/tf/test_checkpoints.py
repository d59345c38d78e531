"""Checkpoints in TensorFlow's format, and graphs in .meta files: written, read, damaged."""

import numpy as np
import pytest

from xlanb import tf
from xlanb.errors import DataLossError, FeedError, GraphError, GraphValueError
from xlanb.graph.op_library import call, call_op
from xlanb.graph.saved_model.bundle_writer import write_bundle
from xlanb.graph.saved_model.tensor_bundle import read_bundle


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def model(tf, use_resource):
    """A layer that is trained by Adam, by either library: its result and the training op."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.variable_scope("layer", use_resource=use_resource):
        w = tf.get_variable("w", [3, 2], initializer=tf.random_normal_initializer(seed=1))
        b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
    y = tf.add(tf.matmul(x, w), b, name="y")
    loss = tf.reduce_mean(tf.square(y))
    tf.add_to_collection("losses", loss)
    tf.add_to_collection("notes", "a text")
    step = tf.train.get_or_create_global_step()
    return y, tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step, name="train")


def test_arrays_of_every_kind_survive(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"layer{n}/w{k}": rng.normal(size=(k, n + 1)).astype(np.float32) for n in range(40) for k in range(4)}
    arrays |= {
        "half": rng.normal(size=7).astype(tf.bfloat16.as_numpy_dtype), "step": np.asarray(7), "none": np.zeros((0, 3)),
        "texts": np.array([[b"a", "b\u00e9" * 100]], object), "flags": np.array([True, False]),
    }  # fmt: skip
    write_bundle(tmp_path / "model", arrays)
    found = read_bundle(tmp_path / "model")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        if name != "texts":
            assert found[name].dtype == array.dtype
            assert np.array_equal(found[name], array), name
    assert found["texts"].tolist() == [[b"a", ("b\u00e9" * 100).encode()]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.data-00000-of-00001", "model.index"]


def test_values_that_are_not_wanted_are_not_read(tmp_path):
    write_bundle(tmp_path / "model", {"a": np.arange(4.0), "b": np.arange(8.0)})
    data = tmp_path / "model.data-00000-of-00001"
    whole = bytearray(data.read_bytes())
    whole[40] ^= 64  # of b
    data.write_bytes(bytes(whole))
    assert read_bundle(tmp_path / "model", ["a"])["a"].tolist() == [0, 1, 2, 3]
    for names in ((), ["a", "b"], ["a", "missing"]):
        with pytest.raises(DataLossError, match="'b' is damaged"):
            read_bundle(tmp_path / "model", names)


def test_objects_are_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(GraphValueError, match="'w': its objects are not all texts"):
        write_bundle(tmp_path / "model", {"w": np.array([1, None], object)})
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_earlier_versions_is_restored(tmp_path):
    w = tf.get_variable("w", [2])
    np.savez(tmp_path / "old.npz", w=np.array([3, 4], np.float32))
    with tf.Session() as session:
        tf.train.Saver().restore(session, str(tmp_path / "old"))
        assert session.run(w).tolist() == [3, 4]


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_graph_and_its_training_go_on_elsewhere(tmp_path, use_resource):
    x = np.ones((4, 3), np.float32)
    y, train = model(tf, use_resource)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {"x:0": x})
        path = tf.train.Saver().save(session, str(tmp_path / "model"), global_step=1)
        session.run(train, {"x:0": x})
        expected = session.run(y, {"x:0": x})
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(f"{path}.meta")
        assert tf.get_collection("notes") == [b"a text"]
        assert [v.name for v in tf.trainable_variables()] == ["layer/w:0", "layer/b:0"]
        assert tf.get_collection("losses")[0].op.type == "Mean"
        saver.restore(session, path)
        assert session.run(tf.train.get_global_step()) == 1
        session.run("train", {"x:0": x})
        assert np.allclose(session.run("y:0", {"x:0": x}), expected)


def test_an_imported_variable_is_one_in_all_collections(tmp_path):
    model(tf, use_resource=True)
    tf.train.export_meta_graph(str(tmp_path / "model.meta"))
    with tf.Graph().as_default():
        assert tf.train.import_meta_graph(str(tmp_path / "model.meta"), import_scope="old") is not None
        found = {v.name: v for v in tf.global_variables()}
        assert found["old/layer/w:0"] is tf.trainable_variables()[0]
        assert found["old/layer/w:0"].initializer.name == "old/layer/w/Assign"


def test_scoped_variables_are_restored_by_their_first_names(tmp_path):
    model(tf, use_resource=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        expected = session.run("layer/w:0")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(f"{path}.meta", import_scope="old").restore(session, path)
        assert np.array_equal(session.run("old/layer/w:0"), expected)


def test_a_file_that_names_missing_nodes(tmp_path, graph):
    model(tf, use_resource=False)
    message = tf.train.export_meta_graph()
    del message.graph_def.node[1:]
    with tf.Graph().as_default(), pytest.raises(GraphError, match=r"collection 'global_step' names 'global_step:0'"):
        tf.train.import_meta_graph(message)
    (tmp_path / "model.meta").write_bytes(b"no message at all")
    with pytest.raises(GraphError, match=r"model\.meta"):
        tf.train.import_meta_graph(str(tmp_path / "model.meta"))


def test_reader(tmp_path):
    write_bundle(tmp_path / "model", {"w": np.ones((2, 3), np.float32), "step": np.asarray(7)})
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert reader.get_variable_to_shape_map() == {"w": [2, 3], "step": []}
    assert reader.get_variable_to_dtype_map() == {"w": tf.float32, "step": tf.int64}
    assert reader.has_tensor("w")
    assert reader.get_tensor("step") == 7
    with pytest.raises(FeedError, match="Key v not found"):
        reader.get_tensor("v")
    tf.train.remove_checkpoint(str(tmp_path / "model"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
def test_a_changed_byte_is_found(tmp_path, ending):
    write_bundle(tmp_path / "model", {"w": np.arange(64, dtype=np.float32)})
    path = tmp_path / f"model.{ending}"
    whole = bytearray(path.read_bytes())
    whole[12] ^= 64
    path.write_bytes(bytes(whole))
    with pytest.raises(DataLossError, match="damaged"):
        read_bundle(tmp_path / "model")


def save_nodes(path, names, tensors):
    """The nodes that TensorFlow's own Saver adds, in a folder of their own that is merged."""
    shard = call("ShardedFilename", f"{path}_temp/part", 0, 1)
    saved = call_op("SaveV2", shard, names, [""] * len(names), tensors)
    with tf.control_dependencies([saved]):
        merged = call_op("MergeV2Checkpoints", [shard], str(path))
    restored = call_op("RestoreV2", str(path), names, [""] * len(names), dtypes=[t.dtype for t in tensors]).outputs
    return merged, restored


def test_nodes_that_save_and_restore(tmp_path):
    tensors = [tf.constant([1.0, 2.0]), tf.constant(["a"])]
    merged, restored = save_nodes(tmp_path / "model", ["w", "t"], tensors)
    with tf.Session() as session:
        session.run(merged)
        w, t = session.run(restored)
    assert (w.tolist(), t.tolist()) == ([1, 2], [b"a"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.data-00000-of-00001", "model.index"]


def test_nodes_that_restore_what_is_not_there(tmp_path):
    write_bundle(tmp_path / "model", {"weights": np.ones(2, np.float32)})
    path = str(tmp_path / "model")
    with tf.Session() as session:
        with pytest.raises(FeedError, match=r"Key weight not found.*weights"):
            session.run(call("RestoreV2", path, ["weight"], [""], dtypes=["float32"]))
        with pytest.raises(FeedError, match="holds 'weights' as float32, expected int32"):
            session.run(call("RestoreV2", path, ["weights"], [""], dtypes=["int32"]))
        with pytest.raises(GraphError, match="part of a variable"):
            session.run(call("RestoreV2", path, ["weights"], ["4 0,2"], dtypes=["float32"]))
