"""Checkpoints of TensorFlow written byte by byte, correct or with false fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xlanb.graph.graphdef.attr_values import new_message
from xlanb.graph.saved_model.crc32c import crc32c, masked


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Return a table's block with shared key prefixes."""
    out, before = b"", b""
    for key, value in entries:
        shared = next(
            (i for i, (a, b) in enumerate(zip(before, key, strict=False)) if a != b), min(map(len, (before, key)))
        )
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return out + bytes(4) + (1).to_bytes(4, "little")


def entry(value: Any, offset: int = 0, **fields: Any) -> bytes:
    """Return a BundleEntryProto of an array; `fields` override its fields, `dims` its sizes."""
    made = new_message("BundleEntryProto")
    stored = texts(value) if value.dtype == object else (value.tobytes(), crc32c(value.tobytes()))
    made.dtype = {"float32": 1, "object": 7, "int64": 9}[value.dtype.name]
    made.offset, made.size, made.crc32c = offset, len(stored[0]), masked(stored[1])
    for size in fields.pop("dims", value.shape):
        made.shape.dim.add(size=size)
    for name, changed in fields.items():
        setattr(made, name, changed)
    return bytes(made.SerializeToString())


def texts(value: Any) -> tuple[bytes, int]:
    """Texts as a checkpoint holds them, and the checksum over that with fixed lengths."""
    lengths = b"".join(len(v).to_bytes(4, "little") for v in value.ravel())
    tail = masked(crc32c(lengths)).to_bytes(4, "little") + b"".join(value.ravel())
    return b"".join(varint(len(v)) for v in value.ravel()) + tail, crc32c(lengths + tail)


def write_table(path: Path, entries: list[tuple[bytes, bytes]], compression: int = 0) -> None:
    def trailed(body: bytes) -> bytes:
        body += bytes([compression])
        return body + masked(crc32c(body)).to_bytes(4, "little")

    body = block(entries)
    file = trailed(body)
    index = block([(b"z", varint(0) + varint(len(body)))])
    where = varint(0) + varint(0) + varint(len(file)) + varint(len(index))
    compression = 0
    file += trailed(index) + where + bytes(40 - len(where)) + (0xDB4775248B80FB57).to_bytes(8, "little")
    path.write_bytes(file)


def header(shards: int = 1, endianness: int = 0) -> tuple[bytes, bytes]:
    made = new_message("BundleHeaderProto")
    made.num_shards, made.endianness = shards, endianness
    return b"", made.SerializeToString()


def write_bundle(prefix: Path, tensors: dict[str, Any], compression: int = 0) -> None:
    data, entries = b"", [header()]
    for name, value in sorted(tensors.items()):
        entries.append((name.encode(), entry(value, len(data))))
        data += texts(value)[0] if value.dtype == object else value.tobytes()
    write_table(prefix.with_name(prefix.name + ".index"), entries, compression)
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)
