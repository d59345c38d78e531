"""Containers of graphs: SavedModels, MetaGraphDefs, FunctionDefs, logs; and checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlanb
from tests.graph.saved_model.checkpoints import entry, header, write_bundle, write_table
from xlanb import tf
from xlanb.errors import ArgumentError, DataLossError, GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.saved_model import read_saved_model
from xlanb.graph.saved_model.tensor_bundle import read_bundle

NODE = 'node {\n  name: "a"\n  op: "NoOp"\n}\n'
FUNCTION = (
    'signature {\n  name: "f"\n  input_arg { name: "x" type: DT_FLOAT }\n  output_arg { name: "y" type: DT_FLOAT }\n}\n'
    'node_def { name: "n" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }\nret { key: "y" value: "n:y:0" }\n'
)


def test_a_checkpoint_gives_its_tensors(tmp_path: Path) -> None:
    tensors = {"layer/bias": np.ones(3, np.float32), "layer/kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}
    write_bundle(tmp_path / "ck", tensors)
    found = read_bundle(tmp_path / "ck")
    assert set(found) == set(tensors)
    for name, value in tensors.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_checkpoint_that_is_damaged_is_refused(tmp_path: Path) -> None:
    write_bundle(tmp_path / "ck", {"a": np.ones(3, np.float32)})
    data = (tmp_path / "ck.data-00000-of-00001").read_bytes()
    (tmp_path / "ck.data-00000-of-00001").write_bytes(data[:5])
    with pytest.raises(GraphError, match="truncated"):
        read_bundle(tmp_path / "ck")
    (tmp_path / "ck.index").write_bytes((tmp_path / "ck.index").read_bytes()[:-1])
    with pytest.raises(GraphError, match="not a checkpoint index"):
        read_bundle(tmp_path / "ck")
    write_bundle(tmp_path / "ck", {"a": np.ones(3, np.float32)}, compression=1)
    with pytest.raises(GraphError, match="compressed"):
        read_bundle(tmp_path / "ck")
    with pytest.raises(GraphError, match="cannot read"):
        read_bundle(tmp_path / "none")


TENSORS = {
    "bias": np.ones(3, np.float32),
    "kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "words": np.asarray([b"one", b"", b"three" * 50], object),
}


def test_every_byte_of_a_checkpoint_is_checked(tmp_path: Path) -> None:
    """Changing any byte raises or, in the padding of the footer, changes nothing."""
    write_bundle(tmp_path / "ck", TENSORS)
    for ending in (".index", ".data-00000-of-00001"):
        path = tmp_path / f"ck{ending}"
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
            try:
                found = read_bundle(tmp_path / "ck")
            except GraphError:
                continue
            assert ending == ".index"
            assert at >= len(whole) - 48
            for name, value in TENSORS.items():
                np.testing.assert_array_equal(found[name], value)
        path.write_bytes(whole)


def test_a_damaged_tensor_is_named_with_both_checksums(tmp_path: Path) -> None:
    write_bundle(tmp_path / "ck", TENSORS)
    path = tmp_path / "ck.data-00000-of-00001"
    whole = bytearray(path.read_bytes())
    whole[14] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataLossError, match=r"ck\.data-0.*tensor 'kernel' is damaged.* 0x\w{8}, expected 0x\w{8}"):
        read_bundle(tmp_path / "ck")
    whole[14] ^= 1
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataLossError, match="tensor 'words' is damaged"):
        read_bundle(tmp_path / "ck")


HOSTILE = {
    "plain": ([header(), (b"w", entry(np.ones(2, np.float32)))], None),
    "shards without end": ([header(2**31 - 1), (b"w", entry(np.ones(2, np.float32)))], "of-2147483647"),
    "a shard beyond": (
        [header(2), (b"w", entry(np.ones(2, np.float32), shard_id=2))],
        "'w' is in shard 2, but there are 2",
    ),
    "a shard below": (
        [header(), (b"w", entry(np.ones(2, np.float32), shard_id=-1))],
        "'w' is in shard -1, but there are 1",
    ),
    "no shards": ([header(-5), (b"w", entry(np.ones(2, np.float32)))], None),
    "big endian": ([header(1, 1), (b"w", entry(np.ones(2, np.float32)))], "big-endian"),
    "many texts": ([header(), (b"w", entry(np.ones(2, object) * b"", dims=[2**40]))], "truncated"),
    "texts below none": ([header(), (b"w", entry(np.ones(2, object) * b"", dims=[-1]))], "every size must be known"),
    "texts cut off": ([header(), (b"w", entry(np.ones(2, object) * b"", dims=[3], size=8))], "'w'"),
    "a length cut off": (
        [header(), (b"w", entry(np.ones(2, object) * b"", dims=[3], size=3))],
        "'w': the length of a text",
    ),
    "size 2**62": ([header(), (b"w", entry(np.ones(2, np.float32), dims=[2**60], size=2**62))], "truncated"),
    "a size that overflows": ([header(), (b"w", entry(np.ones(2, np.float32), dims=[2**62, 4]))], "has 8 bytes"),
    "offset -1": ([header(), (b"w", entry(np.ones(2, np.float32), -1))], "truncated"),
    "size -1": ([header(), (b"w", entry(np.ones(2, np.float32), size=-1))], "has -1 bytes"),
    "dims -2": ([header(), (b"w", entry(np.ones(2, np.float32), dims=[-2, -1]))], "sizes"),
    "many dims": ([header(), (b"w", entry(np.ones(2, np.float32), dims=[1] * 99 + [2]))], "dimension"),
    "no element type": ([header(), (b"w", entry(np.ones(2, np.float32), dtype=999))], "number 999"),
    "an entry that is none": ([header(), (b"w", b"\xff")], "malformed BundleEntryProto"),
    "objects of numbers": (
        [header(), (b"_CHECKPOINTABLE_OBJECT_GRAPH", entry(np.ones(2, np.float32)))],
        "must be one string",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_index_that_asks_for_what_is_not_there(case: str, tmp_path: Path) -> None:
    entries, message = HOSTILE[case]
    write_table(tmp_path / "ck.index", entries)
    (tmp_path / "ck.data-00000-of-00001").write_bytes(np.ones(2, np.float32).tobytes())
    if message is None:
        np.testing.assert_array_equal(read_bundle(tmp_path / "ck")["w"], np.ones(2, np.float32))
        return
    with pytest.raises(GraphError, match=message):
        read_bundle(tmp_path / "ck")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        weights = tf.Variable(np.zeros((2, 3), np.float32), name="w")
        product = tf.matmul(x, weights, name="y")
    saved = new_message("SavedModel")
    saved.saved_model_schema_version = 1
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.ParseFromString(graph.to_graphdef())
    meta.signature_def["call"].inputs["x"].name = "x:0"
    meta.signature_def["call"].outputs["y"].name = product.name
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    write_bundle(tmp_path / "variables" / "variables", {"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    return tmp_path


def test_a_saved_model_runs(model: Path) -> None:
    found = read_saved_model(model)
    call = found.signatures["call"]
    with tf.Session(graph=found.graph) as session:
        session.load_variables(found.variables_of_graph())
        got = session.run(call.outputs["y"], {call.inputs["x"]: [[1, 1]]})
    np.testing.assert_array_equal(got, [[3, 5, 7]])
    assert found.tags == ("serve",)
    assert len(Graph.from_graphdef(model)) == len(found.graph)
    with pytest.raises(GraphError, match="no graph with the tags train; its tags are: serve"):
        read_saved_model(model, ("train",))
    with pytest.raises(GraphError, match=r"no saved_model\.pb"):
        read_saved_model(model / "variables")


def test_a_saved_model_is_a_program(model: Path) -> None:
    for path in (model, str(model)):
        np.testing.assert_array_equal(
            xlanb.compile(path, np.ones((1, 2), np.float32))(np.ones((1, 2), np.float32))[0], [[3, 5, 7]]
        )
    graph = Graph.from_tensorflow(model, signature="call")
    assert [t.name for t in (*graph.inputs, *graph.outputs)] == ["x:0", "y:0"]
    assert xlanb.cluster(model, tf_xla_min_cluster_size=1).clusters
    with pytest.raises(ArgumentError, match=r"takes 1 arrays \(x: float32\(\?, 2\)\), not 2"):
        xlanb.compile(model, np.ones((1, 2)), np.ones(1))
    with pytest.raises(GraphError, match="no signature 'train' with results; known: call"):
        Graph.from_tensorflow(model, signature="train")
    with pytest.raises(GraphError, match="cannot use a float as a TensorFlow program"):
        Graph.from_tensorflow(1.5)


def test_a_model_cut_anywhere_is_an_error_or_a_graph(model: Path) -> None:
    data = (model / "saved_model.pb").read_bytes()
    for size in range(0, len(data), 17):
        try:
            Graph.from_graphdef(data[:size])
        except GraphError:
            continue


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "2024-01-02 03:04:05.678901: I tensorflow/core/x.cc:12] ",
        "I0102 03:04:05.678901 1234 x.cc:12] ",
        "[INFO x.py:3] ",
    ],
)
def test_text_in_the_lines_of_a_log_is_read(prefix: str) -> None:
    text = "".join(prefix + line + "\n" for line in NODE.splitlines())
    assert [op.name for op in Graph.from_graphdef(text)] == ["a"]
    assert [op.name for op in Graph.from_graphdef("The graph was:\n" + NODE)] == ["a"]


def test_a_function_is_read_as_its_body() -> None:
    graph = Graph.from_graphdef(FUNCTION)
    assert graph.name == "f"
    assert [op.type for op in graph] == ["_Arg", "Neg", "_Retval"]
    meta = f'meta_info_def {{ stripped_op_list {{ op {{ name: "Neg" }} }} }}\ngraph_def {{ {NODE} }}\n'
    assert len(Graph.from_graphdef(meta)) == 1


def test_tensors_of_a_checkpoint_that_overlap_are_refused(tmp_path):
    """A small index could name the bytes of one file a million times, and exhaust memory."""
    value = np.arange(1000, dtype=np.float32)
    (tmp_path / "v.data-00000-of-00001").write_bytes(value.tobytes())
    names = sorted(f"w{k}".encode() for k in range(50))
    write_table(tmp_path / "v.index", [header(), *((name, entry(value)) for name in names)])
    with pytest.raises(DataLossError, match="the tensors up to 'w1' take 8000 bytes, but it has 4000: they overlap"):
        read_bundle(tmp_path / "v")
