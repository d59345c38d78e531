"""Read TensorFlow's checkpoints: PREFIX.index, a LevelDB table of entries, and PREFIX.data-*, the
values.

Each block of the table and each tensor has a checksum (CRC-32C). Damaged data raises, as
TensorFlow's DataLossError does.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from xlanb.boundary import boundary
from xlanb.errors import DataLossError, GraphError, GraphValueError
from xlanb.files import open_regular
from xlanb.graph.dtypes import BY_NUMBER
from xlanb.graph.graphdef.attr_values import new_message, shape_from_proto
from xlanb.graph.saved_model.crc32c import crc32c, masked

Array = np.ndarray[Any, Any]
MAGIC: Final = 0xDB4775248B80FB57
FOOTER: Final = 48
_TRAILER: Final = 5  # of a block: the kind of compression, and a checksum
_OBJECTS: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"


@boundary("read a checkpoint")
def read_bundle(prefix: str | Path, names: Collection[str] = ()) -> dict[str, Array]:
    """Read the tensors of a checkpoint by name; texts as arrays of bytes.

    If all of `names` are keys of the checkpoint, only their values are read.

    Variables of TensorFlow 2, whose keys are paths of objects, are also returned by their own
    names.

    Raises:
        DataLossError: a file is truncated, or a checksum does not match; the message names the
            file, the tensor and both checksums.
        GraphError: a file is missing, malformed or compressed.
    """
    index = Path(f"{prefix}.index")
    entries = {key.decode("utf-8", "replace"): value for key, value in _table(index)}
    header = _message("BundleHeaderProto", entries.pop("", b""), index)
    if header.endianness:
        raise GraphError(f"{str(index)!r} belongs to a big-endian checkpoint: save it again on a little-endian machine")
    wanted = set(names) if entries.keys() >= set(names) else set()
    found: dict[str, Array] = {}
    claimed: dict[int, int] = {}
    for name, data in entries.items():
        entry = _message("BundleEntryProto", data, index)
        if entry.slices:
            continue  # the parts of a partitioned variable have entries of their own
        if not 0 <= entry.shard_id < max(1, header.num_shards):
            raise GraphError(
                f"{str(index)!r}: {name!r} is in shard {entry.shard_id}, but there are {header.num_shards}"
            )
        shard = Path(f"{prefix}.data-{entry.shard_id:05d}-of-{max(1, header.num_shards):05d}")
        claimed[entry.shard_id] = claimed.get(entry.shard_id, 0) + max(0, entry.size)
        _check_claimed(name, claimed[entry.shard_id], shard)
        if not wanted or name in wanted:
            found[name] = _tensor(name, entry, shard)
    return {**found, **_by_variable(found, index)}


def _check_claimed(name: str, size: int, shard: Path) -> None:
    """Raise if tensors take more bytes than their file has: they overlap, and would exhaust
    memory.
    """
    there = shard.stat().st_size if shard.exists() else size  # a missing file is reported when it is read
    if size > there:
        raise DataLossError(
            f"{str(shard)!r}: the tensors up to {name!r} take {size} bytes, but it has {there}: "
            "they overlap, or the file is truncated; restore it from a copy"
        )


def _read(path: Path, offset: int = 0, size: int | None = None) -> bytes:
    """So many bytes of a file, by default all; never more than there are."""
    try:
        with open_regular(path) as file:
            there = os.fstat(file.fileno()).st_size
            wanted = there - offset if size is None else size
            if not 0 <= offset <= there or not 0 <= wanted <= there - offset:
                raise DataLossError(
                    f"{str(path)!r} is truncated: it has {there} bytes, not {wanted} at {offset}; restore the "
                    "file from a copy"
                )
            file.seek(offset)
            return file.read(wanted)
    except OSError as error:
        raise GraphError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _check(what: str, found: int, expected: int) -> None:
    """Raise DataLossError if the checksum of the data is not the stored (masked) one."""
    if masked(found) != expected:
        raise DataLossError(
            f"{what} is damaged: its checksum is {masked(found):#010x}, expected {expected:#010x}; "
            "restore the file from a copy"
        )


def _message(name: str, data: bytes, path: Path) -> Any:
    from google.protobuf.message import DecodeError

    proto = new_message(name)
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise GraphError(f"{str(path)!r} holds a malformed {name}: {error}") from error
    return proto


def _varint(data: bytes, at: int, what: str = "a number in a table") -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise DataLossError(f"{what} is truncated")


# ---------------------------------------------------------------------------------------- the table


def _table(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a sorted table."""
    data = _read(path)
    if len(data) < FOOTER or int.from_bytes(data[-8:], "little") != MAGIC:
        raise GraphError(f"{str(path)!r} is not a checkpoint index, or is truncated")
    footer = data[-FOOTER:]
    try:
        at = _varint(footer, _varint(footer, 0)[1])[1]  # past the handle of the meta index
        for _, handle in _block(data, *_handle(footer, at), path):
            yield from _block(data, *_handle(handle, 0), path)
    except DataLossError as error:
        raise type(error)(f"{str(path)!r}: {error}") from error


def _handle(data: bytes, at: int) -> tuple[int, int]:
    offset, at = _varint(data, at)
    return offset, _varint(data, at)[0]


def _block(data: bytes, offset: int, size: int, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block: a key says how much of the one before it begins with."""
    if offset + size + _TRAILER > len(data) or size < 4:
        raise DataLossError(f"truncated: a block of {size} bytes at {offset} is missing")
    end = offset + size
    stored = int.from_bytes(data[end + 1 : end + _TRAILER], "little")
    _check(f"the block of {size} bytes at {offset}", crc32c(data[offset : end + 1]), stored)
    if data[end]:
        raise GraphError(f"{str(path)!r} has a compressed block: save the checkpoint again without compression")
    block = data[offset:end]
    stop = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    at, key = 0, b""
    while at < stop:
        shared, at = _varint(block, at)
        rest, at = _varint(block, at)
        length, at = _varint(block, at)
        if shared > len(key) or rest + length > stop - at:
            raise DataLossError(f"truncated: an entry of {rest + length} bytes in the block at {offset}")
        key = key[:shared] + block[at : at + rest]
        yield key, block[at + rest : at + rest + length]
        at += rest + length


# -------------------------------------------------------------------------------------- the tensors


def _tensor(name: str, entry: Any, shard: Path) -> Array:
    where = f"{str(shard)!r}: tensor {name!r}"
    dtype = BY_NUMBER.get(entry.dtype)
    if dtype is None or not dtype.has_numpy_dtype:
        raise GraphError(f"{where} has the unsupported element type number {entry.dtype}")
    try:
        shape = shape_from_proto(entry.shape)
    except GraphError as error:
        raise GraphValueError(f"{where}: {error}") from error
    if not shape.is_fully_defined():
        raise GraphValueError(f"{where} has the shape {shape}: every size must be known")
    dims = [int(d) for d in shape]
    if dtype.name == "string":
        return _texts(where, _read(shard, entry.offset, entry.size), dims, entry.crc32c)
    if entry.size != dtype.numpy_dtype.itemsize * math.prod(dims):
        raise GraphValueError(f"{where} has {entry.size} bytes, which does not match {dtype.name}{dims}")
    data = _read(shard, entry.offset, entry.size)
    _check(where, crc32c(data), entry.crc32c)
    return _shaped(where, np.frombuffer(data, dtype.numpy_dtype).copy(), dims)


def _shaped(where: str, values: Array, dims: list[int]) -> Array:
    try:
        return values.reshape(dims)
    except ValueError as error:  # more dimensions than NumPy has
        raise GraphValueError(f"{where} has the shape {dims}: {error}") from error


def _texts(where: str, data: bytes, dims: list[int], expected: int) -> Array:
    """Lengths, a checksum of them (as fixed numbers of 4 or 8 bytes), then the texts."""
    count = math.prod(dims)
    if count > len(data):  # every length takes a byte at least
        raise DataLossError(f"{where} is truncated: it has {len(data)} bytes for {count} strings")
    lengths, at = [], 0
    for _ in range(count):
        length, at = _varint(data, at, f"{where}: the length of a text")
        lengths.append(length)
    checksum = crc32c(b"".join(n.to_bytes(4 if n < 1 << 32 else 8, "little") for n in lengths))
    start = at + 4
    if start + sum(lengths) != len(data):
        raise DataLossError(f"{where} has {len(data)} bytes, expected {sum(lengths)} bytes for {count} strings")
    _check(f"{where}, the lengths of its texts,", checksum, int.from_bytes(data[at:start], "little"))
    _check(where, crc32c(data[at:], checksum), expected)
    out = np.empty(count, object)
    for i, length in enumerate(lengths):
        out[i] = data[start : start + length]
        start += length
    return _shaped(where, out, dims)


def _by_variable(found: dict[str, Array], index: Path) -> dict[str, Array]:
    """Tensors under the full names of the variables that TensorFlow 2's objects hold."""
    objects = found.get(_OBJECTS)
    if objects is None:
        return {}
    if objects.shape or objects.dtype != object:
        raise GraphValueError(
            f"{str(index)!r}: {_OBJECTS} must be one string, got {objects.dtype}{list(objects.shape)}"
        )
    graph = _message("TrackableObjectGraph", objects.item(), index)
    held = [a for node in graph.nodes for a in node.attributes]
    return {a.full_name: found[a.checkpoint_key] for a in held if a.full_name and a.checkpoint_key in found}
