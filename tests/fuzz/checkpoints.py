"""Damaged checkpoints and SavedModels: changed bytes, and false entries with right checksums.

One input holds three files, each preceded by its length in 4 bytes: saved_model.pb, the index and
the data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from tests.fuzz.graphdefs import mutants as graph_mutants
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import NUMBERS, change_bytes
from tests.graph.saved_model.checkpoints import entry, header, write_bundle, write_table
from xlanb import tf
from xlanb.errors import DataLossError, InternalError, XlanbError
from xlanb.graph.graph import Graph
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.saved_model.tensor_bundle import read_bundle

_VALUES = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "words": np.asarray([b"one", b"", b"three"], object),
}
_NAMES = ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")


def _packed(files: list[bytes]) -> bytes:
    return b"".join(len(f).to_bytes(4, "little") + f for f in files)


def _unpacked(data: bytes) -> list[bytes]:
    files = []
    for _ in _NAMES:
        size = int.from_bytes(data[:4], "little")
        files.append(data[4 : 4 + size])
        data = data[4 + size :]
    return files


@cache
def _whole() -> tuple[bytes, ...]:
    with Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.matmul(x, tf.Variable(np.zeros((2, 3), np.float32), name="w"), name="y")
    with tempfile.TemporaryDirectory() as folder:
        write_bundle(Path(folder) / "variables", _VALUES)
        read = [(Path(folder) / Path(name).name).read_bytes() for name in _NAMES[1:]]
    return (_model(graph.to_graphdef()), *read)


def _model(graph: bytes) -> bytes:
    saved = new_message("SavedModel")
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.MergeFromString(graph)
    meta.signature_def["call"].inputs["x"].name = "x:0"
    meta.signature_def["call"].outputs["y"].name = "y:0"
    return bytes(saved.SerializeToString(deterministic=True))


def _of_graph(graph: bytes) -> bytes:
    try:
        return _model(graph)
    except DecodeError:
        return b""


def _lying(rng: np.random.Generator) -> bytes:
    """An index whose checksums are right and whose fields are wrong."""

    def number() -> int:
        found = NUMBERS[int(rng.integers(0, len(NUMBERS)))]
        return found if -(2**63) <= found < 2**63 else -1

    fields: dict[str, object] = {}
    for name in rng.choice(["dims", "offset", "size", "shard_id", "dtype"], int(rng.integers(1, 3)), replace=False):
        small = max(-(2**31), min(number(), 2**31 - 1))
        fields[name] = [number() for _ in range(int(rng.integers(0, 3)))] if name == "dims" else number()
        fields[name] = small if name in {"shard_id", "dtype"} else fields[name]
    shards = max(-(2**31), min(number(), 2**31 - 1)) if rng.random() < 0.2 else 1
    name = sorted(_VALUES)[int(rng.integers(0, len(_VALUES)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        write_table(path, [header(shards, int(rng.random() < 0.05)), (name.encode(), entry(_VALUES[name], **fields))])
        return path.read_bytes()


def mutants(rng: np.random.Generator) -> Iterator[bytes]:
    """Mutations of the seed program's SavedModel."""
    graphs = graph_mutants(rng)
    while True:
        files = list(_whole())
        how = rng.random()
        if how < 0.3:
            files[1] = _lying(rng)
        elif how < 0.4:
            files[0] = _of_graph(next(graphs)) if rng.random() < 0.5 else change_bytes(files[0], rng)
        else:
            at = int(rng.integers(0, 3))
            files[at] = change_bytes(files[at], rng)
        yield _packed(files)


def check(item: Item, _rng: np.random.Generator) -> str | None:
    """Read the checkpoint and the model. Values that differ from the written ones are a find."""
    assert isinstance(item, bytes)
    files = _unpacked(item)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "variables").mkdir()
        for name, data in zip(_NAMES, files, strict=True):
            (Path(folder) / name).write_bytes(data)
        try:
            found = read_bundle(Path(folder) / "variables" / "variables")
            if files[1] == _whole()[1] and any(not np.array_equal(found[n], v) for n, v in _VALUES.items()):
                return "wrong: values of a checkpoint that were changed were read"
            graph = Graph.from_tensorflow(folder)
            with tf.Session(graph=graph) as session:
                session.run(graph.outputs, {t: np.ones((1, 2), np.float32) for t in graph.inputs})
        except InternalError as error:
            return f"internal {type(error.__cause__).__name__}: {str(error.__cause__)[:200]!r}"
        except DataLossError as error:
            return None if str(folder) in str(error) else f"silent: no file in {error}"
        except XlanbError:
            return None
    return None
