"""Protocol buffer messages from a compact table, without .proto files or generated code.

    message WindowDimension
      1 size int64
      7 window_reversal bool
    message Window
      1 dimensions WindowDimension*

One field a line: number, name, type, with `*` if repeated and `?` if presence is tracked. Types are
the scalar types of the .proto language, messages of the same table, or enums of a separate table
(an enum may also be declared as int32: its encoding is the same). `map:V` is a map<string, V>,
`intmap:V` a map<uint32, V>; a word in parentheses after the type names the field's oneof, at most
one per message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from numpy.typing import DTypeLike, NDArray

from xlanb.errors import XlanbError
from xlanb.lazy_dataclass import dataclass

Message = Any
"""A message object: its fields are attributes, known only when the table is read."""

_SCALARS = {
    name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 "
    "sint32 sint64".split()
}
_FIELD = descriptor_pb2.FieldDescriptorProto


class Schema:
    """The message classes of one table, as attributes: `schema.Window()`."""

    def __init__(self, package: str, table: str, enums: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self._names: list[str] = []
        enums = enums or {}
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for enum_name, values in enums.items():
            enum = file.enum_type.add(name=enum_name)
            for value_name, number in values.items():
                enum.value.add(name=value_name, number=number)
        types = _Types(package, frozenset(enums))
        for line in table.splitlines():
            words = line.split()
            if words[:1] == ["message"]:
                self._names.append(words[1])
                message = file.message_type.add(name=words[1])
            elif words:
                _add_field(message, types, *words)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        for name in self._names:
            setattr(
                self,
                name,
                message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")),
            )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"unknown message {name}; known messages: {', '.join(self._names)}")


@dataclass(frozen=True)
class _Types:
    """Resolve the type names of a table."""

    package: str
    enums: frozenset[str]

    def give(self, field: Any, kind: str) -> None:
        """Set a field's type."""
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _FIELD.TYPE_ENUM if kind in self.enums else _FIELD.TYPE_MESSAGE
            field.type_name = f".{self.package}.{kind}"


def _add_field(
    message: descriptor_pb2.DescriptorProto, types: _Types, number: str, name: str, kind: str, oneof: str = ""
) -> None:
    field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
    mapped, _, value = kind.partition(":")
    if value:
        _add_map(message, types, field, "string" if mapped == "map" else "uint32", value)
        return
    if kind.endswith("*"):
        field.label = _FIELD.LABEL_REPEATED
    types.give(field, kind.rstrip("*?"))
    if oneof:
        if not message.oneof_decl:
            message.oneof_decl.add(name=oneof.strip("()"))
        field.oneof_index = 0
    elif kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _add_map(message: descriptor_pb2.DescriptorProto, types: _Types, field: Any, key: str, value: str) -> None:
    """Add a map field, a repeated entry of key and value that is marked as a map."""
    entry = message.nested_type.add(name="".join(p.capitalize() for p in field.name.split("_")) + "Entry")
    entry.options.map_entry = True
    types.give(entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL), key)
    types.give(entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL), value)
    field.label, field.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
    field.type_name = f".{types.package}.{message.name}.{entry.name}"


def decode(message: Message, data: bytes, error: type[XlanbError]) -> Message:
    """Fill a new message from its binary form.

    Raises:
        XlanbError: of the class `error`; the bytes are no such message (truncated, nested more than
            100 deep, text that is not UTF-8).
    """
    try:
        message.ParseFromString(data)
    except DecodeError as fault:
        raise error(f"the {len(data)} bytes are not a {message.DESCRIPTOR.name}: {fault}") from fault
    return message


def floats_of(message: Message, field: str, dtype: DTypeLike) -> NDArray[Any]:
    """The numbers of a repeated `float` or `double` field, with the bits they have in the message.

    Its Python values are doubles: conversion sets the quiet bit of a float that is a signaling NaN.
    """
    alone = type(message)()
    alone.CopyFrom(message)
    for other, _ in alone.ListFields():
        if other.name != field:
            alone.ClearField(other.name)
    alone.DiscardUnknownFields()
    wire = np.dtype(dtype).newbyteorder("<")
    size = len(getattr(message, field)) * wire.itemsize
    data = alone.SerializeToString()  # the field's number, the size in bytes, then the numbers as they are in memory
    return np.frombuffer(data, wire, offset=len(data) - size).astype(dtype, copy=False)


def extend_floats(message: Message, field: str, values: NDArray[Any]) -> None:
    """Append numbers to a repeated `float` or `double` field, with all their bits."""
    number = message.DESCRIPTOR.fields_by_name[field].number
    data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    message.MergeFromString(as_varint(number << 3 | 2) + as_varint(len(data)) + data)


def as_varint(value: int) -> bytes:
    """A number of at least 0 as a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def top_level_fields(data: bytes, limit: int = 1_000_000) -> dict[int, int]:
    """Count each field number at the top level of a binary message, up to the first unreadable
    byte.
    """
    counts: dict[int, int] = {}
    position = 0
    for _ in range(limit):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if not number or position < 0 or wire not in (0, 1, 2, 5):
            break
        if wire == 0:
            _, position = _varint(data, position)
        elif wire == 2:
            size, position = _varint(data, position)
            position += size
        else:
            position += 8 if wire == 1 else 4
        counts[number] = counts.get(number, 0) + 1
    return counts


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position and the position behind it; (0, -1) if there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if not 0 <= position < len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    return 0, -1
