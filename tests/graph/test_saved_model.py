"""What holds a graph: SavedModels, MetaGraphDefs, FunctionDefs, logs; and checkpoints, written here byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlanb
from xlanb import tf
from xlanb.errors import ArgumentError, GraphError
from xlanb.graph.attr_values import new_message
from xlanb.graph.graph import Graph
from xlanb.graph.saved_model import read_saved_model
from xlanb.graph.tensor_bundle import read_bundle

NODE = 'node {\n  name: "a"\n  op: "NoOp"\n}\n'
FUNCTION = (
    'signature {\n  name: "f"\n  input_arg { name: "x" type: DT_FLOAT }\n  output_arg { name: "y" type: DT_FLOAT }\n}\n'
    'node_def { name: "n" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }\nret { key: "y" value: "n:y:0" }\n'
)


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A table's block whose keys share what they begin with."""
    out, before = b"", b""
    for key, value in entries:
        shared = next(
            (i for i, (a, b) in enumerate(zip(before, key, strict=False)) if a != b), min(map(len, (before, key)))
        )
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return out + bytes(4) + (1).to_bytes(4, "little")


def write_bundle(prefix: Path, tensors: dict[str, Any], compression: int = 0) -> None:
    header = new_message("BundleHeaderProto")
    header.num_shards = 1
    data, entries = b"", [(b"", header.SerializeToString())]
    for name, value in sorted(tensors.items()):
        entry = new_message("BundleEntryProto")
        entry.dtype, entry.offset, entry.size = 1, len(data), value.nbytes
        for size in value.shape:
            entry.shape.dim.add(size=size)
        data += value.tobytes()
        entries.append((name.encode(), entry.SerializeToString()))
    body = block(entries)
    file = body + bytes([compression]) + bytes(4)
    handle = varint(0) + varint(len(body))
    index = block([(b"z", handle)])
    where = varint(0) + varint(0) + varint(len(file)) + varint(len(index))
    file += index + bytes(5) + where + bytes(40 - len(where)) + (0xDB4775248B80FB57).to_bytes(8, "little")
    prefix.with_name(prefix.name + ".index").write_bytes(file)
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)


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
    with pytest.raises(GraphError, match="cut off"):
        read_bundle(tmp_path / "ck")
    (tmp_path / "ck.index").write_bytes((tmp_path / "ck.index").read_bytes()[:-1])
    with pytest.raises(GraphError, match="no index of a checkpoint"):
        read_bundle(tmp_path / "ck")
    write_bundle(tmp_path / "ck", {"a": np.ones(3, np.float32)}, compression=1)
    with pytest.raises(GraphError, match="compressed"):
        read_bundle(tmp_path / "ck")
    with pytest.raises(GraphError, match="cannot read"):
        read_bundle(tmp_path / "none")


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
    with pytest.raises(GraphError, match="no graph with the tags train; there are: serve"):
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
    with pytest.raises(GraphError, match="no signature 'train' with results; it has: call"):
        Graph.from_tensorflow(model, signature="train")
    with pytest.raises(GraphError, match="cannot take a float for a program"):
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
