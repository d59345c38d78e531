"""Write TensorFlow's checkpoints: PREFIX.index, a LevelDB table of entries, and one file of values.

The format is that of tensor_bundle.cc and of LevelDB's table_format; `tensor_bundle` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from xlanb.errors import GraphError, GraphValueError
from xlanb.files import path_to_write
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.saved_model.crc32c import crc32c, masked
from xlanb.graph.saved_model.tensor_bundle import FOOTER, MAGIC
from xlanb.protos import as_varint

Array = np.ndarray[Any, Any]
_BLOCK: Final = 4096
"""Bytes of keys and values after which a block of the table ends."""
_RESTART: Final = 16
"""Every so many entries, a key is written in full."""


def write_bundle(prefix: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name as a checkpoint of one shard; arrays of objects are texts.

    Each file replaces an older one at once, the index last.

    Raises:
        ArgumentError: no file can have this name.
        GraphValueError: an array has no element type of TensorFlow.
        OSError: the disk refuses the write.
    """
    data, index = path_to_write(f"{prefix}.data-00000-of-00001"), path_to_write(f"{prefix}.index")
    data.parent.mkdir(parents=True, exist_ok=True)
    parts = [path.with_name(f"{path.name}.{os.getpid()}.part") for path in (data, index)]
    header = new_message("BundleHeaderProto")
    header.num_shards = header.version.producer = 1
    entries = [(b"", header.SerializeToString())]
    names = sorted(arrays, key=lambda n: n.encode())
    try:
        with parts[0].open("wb") as file:
            entries.extend((name.encode(), _entry(name, np.asarray(arrays[name]), file)) for name in names)
        parts[1].write_bytes(_table(entries))
        parts[0].replace(data)
        parts[1].replace(index)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _entry(name: str, array: Array, file: Any) -> bytes:
    """Append an array to the file of values; return its entry in the table."""
    entry = new_message("BundleEntryProto")
    dtype = _dtype(name, array)
    entry.dtype, entry.offset = dtype.as_datatype_enum, file.tell()
    entry.shape.SetInParent()
    for size in array.shape:
        entry.shape.dim.add(size=size)
    if dtype.name == "string":
        content, checksum = _texts(name, array)
    else:
        content = np.ascontiguousarray(array).tobytes()
        checksum = crc32c(content)
    entry.size, entry.crc32c = len(content), masked(checksum)
    file.write(content)
    data: bytes = entry.SerializeToString()
    return data


def _dtype(name: str, array: Array) -> DType:
    if array.dtype.kind in "OSU":
        return as_dtype("string")
    try:
        return as_dtype(array.dtype)
    except GraphError as error:
        raise GraphValueError(f"a checkpoint cannot hold {name!r}, which has values of type {array.dtype}") from error


def _texts(name: str, array: Array) -> tuple[bytes, int]:
    """Lengths, their masked checksum, then the texts; the checksum runs over all three."""
    values = [v.encode() if isinstance(v, str) else v for v in array.ravel().tolist()]
    if not all(isinstance(v, bytes) for v in values):
        raise GraphValueError(f"a checkpoint cannot hold {name!r}: its objects are not all texts")
    fixed = b"".join(len(v).to_bytes(4 if len(v) < 1 << 32 else 8, "little") for v in values)
    checksum = crc32c(fixed)
    stored = masked(checksum).to_bytes(4, "little")
    rest = stored + b"".join(values)
    return b"".join(as_varint(len(v)) for v in values) + rest, crc32c(rest, checksum)


def _table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A sorted table: blocks of entries, an empty meta index, the index of blocks, the footer."""
    table = bytearray()
    index, block, size = [], [], 0
    for entry in entries:
        block.append(entry)
        size += len(entry[0]) + len(entry[1])
        if size >= _BLOCK:
            index.append((entry[0], _append(table, _block(block, _RESTART))))
            block, size = [], 0
    if block:
        index.append((block[-1][0], _append(table, _block(block, _RESTART))))
    handles = _append(table, _block([], 1)) + _append(table, _block(index, 1))
    return bytes(table) + handles.ljust(FOOTER - 8, b"\0") + MAGIC.to_bytes(8, "little")


def _append(table: bytearray, block: bytes) -> bytes:
    """Append a block with its trailer (uncompressed, checksum); return its handle."""
    handle = as_varint(len(table)) + as_varint(len(block))
    kind = b"\0"
    table += block + kind + masked(crc32c(block + kind)).to_bytes(4, "little")
    return handle


def _shared(before: bytes, key: bytes) -> int:
    """How many bytes both begin with."""
    shorter = min(len(before), len(key))
    return next((n for n in range(shorter) if before[n] != key[n]), shorter)


def _block(entries: list[tuple[bytes, bytes]], interval: int) -> bytes:
    """Entries whose keys omit what they share with the key before, and the restart points."""
    out, restarts, before = bytearray(), [0], b""
    for n, (key, value) in enumerate(entries):
        shared = 0
        if n % interval:
            shared = _shared(before, key)
        elif n:
            restarts.append(len(out))
        out += as_varint(shared) + as_varint(len(key) - shared) + as_varint(len(value)) + key[shared:] + value
        before = key
    return bytes(out) + b"".join(r.to_bytes(4, "little") for r in [*restarts, len(restarts)])
