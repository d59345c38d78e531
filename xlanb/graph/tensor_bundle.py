"""Checkpoints of TensorFlow's second format: PREFIX.index, a sorted table (LevelDB's format) of entries, and PREFIX.data-*: the values' bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.attr_values import new_message
from xlanb.graph.dtypes import BY_NUMBER

Array = np.ndarray[Any, Any]
_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read_bundle(prefix: str | Path) -> dict[str, Array]:
    """The tensors of a checkpoint by name; texts as arrays of bytes.

    Variables of TensorFlow 2, which a checkpoint keys by their place among objects, also stand under their own names.

    Raises:
        GraphError: a file is missing, cut off, or compressed; the message names it.
    """
    index = Path(f"{prefix}.index")
    entries = {key.decode("utf-8", "replace"): value for key, value in _table(index)}
    header = _message("BundleHeaderProto", entries.pop("", b""), index)
    shards = [Path(f"{prefix}.data-{i:05d}-of-{header.num_shards:05d}") for i in range(max(1, header.num_shards))]
    found: dict[str, Array] = {}
    for name, data in entries.items():
        entry = _message("BundleEntryProto", data, index)
        if not entry.slices and entry.shard_id < len(shards):
            found[name] = _tensor(name, entry, shards[entry.shard_id])
    return {**found, **_by_variable(found, index)}


def _read(path: Path, offset: int = 0, size: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
    except OSError as error:
        raise GraphError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    if 0 <= size != len(data):
        raise GraphError(f"{str(path)!r} is cut off: {size} bytes at {offset} are not there")
    return data


def _message(name: str, data: bytes, path: Path) -> Any:
    from google.protobuf.message import DecodeError

    proto = new_message(name)
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise GraphError(f"{str(path)!r} holds a malformed {name}: {error}") from error
    return proto


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise GraphError("a number in a table is cut off")


def _table(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a sorted table."""
    data = _read(path)
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise GraphError(f"{str(path)!r} is no index of a checkpoint, or is cut off")
    footer = data[-_FOOTER:]
    at = _varint(footer, _varint(footer, 0)[1])[1]  # past the handle of the meta index
    offset, at = _varint(footer, at)
    size, _ = _varint(footer, at)
    for _, handle in _block(data, offset, size, path):
        start, at = _varint(handle, 0)
        length, _ = _varint(handle, at)
        yield from _block(data, start, length, path)


def _block(data: bytes, offset: int, size: int, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block: a key says how much of the one before it begins with."""
    if offset + size + 5 > len(data) or size < 4:
        raise GraphError(f"{str(path)!r} is cut off: a block of {size} bytes at {offset} is not there")
    if data[offset + size]:
        raise GraphError(f"{str(path)!r} is compressed, which is not supported")
    block = data[offset : offset + size]
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        rest, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + rest]
        yield key, block[at + rest : at + rest + length]
        at += rest + length


def _tensor(name: str, entry: Any, shard: Path) -> Array:
    dtype = BY_NUMBER.get(entry.dtype)
    if dtype is None or not dtype.has_numpy_dtype:
        raise GraphError(f"{str(shard)!r}: {name!r} has an element type that is not supported, number {entry.dtype}")
    dims = [int(d.size) for d in entry.shape.dim]
    data = _read(shard, entry.offset, entry.size)
    if dtype.name == "string":
        return _texts(data, dims)
    if len(data) != dtype.numpy_dtype.itemsize * int(np.prod(dims, dtype=object)):
        raise GraphError(f"{str(shard)!r}: {name!r} has {len(data)} bytes for {dtype.name}{dims}")
    return np.frombuffer(data, dtype.numpy_dtype).reshape(dims).copy()


def _texts(data: bytes, dims: list[int]) -> Array:
    """Lengths, a checksum of them, then the texts."""
    out = np.empty(int(np.prod(dims, dtype=object)), object)
    lengths, at = [], 0
    for _ in range(out.size):
        length, at = _varint(data, at)
        lengths.append(length)
    at += 4
    for i, length in enumerate(lengths):
        out[i] = data[at : at + length]
        at += length
    return out.reshape(dims)


def _by_variable(found: dict[str, Array], index: Path) -> dict[str, Array]:
    """Tensors under the full names of the variables that TensorFlow 2's objects hold."""
    objects = found.get(_OBJECTS)
    if objects is None:
        return {}
    graph = _message("TrackableObjectGraph", objects.item(), index)
    held = [a for node in graph.nodes for a in node.attributes]
    return {a.full_name: found[a.checkpoint_key] for a in held if a.full_name and a.checkpoint_key in found}
