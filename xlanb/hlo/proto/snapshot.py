"""HloSnapshot: a program with the arguments and the result of one execution.

XLA writes one per execution with `--xla_dump_hlo_snapshots` (`*.snapshot.*.pb`). It is what was a
SessionModule in 2018.

Source: xla/service/hlo.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlanb.boundary import boundary
from xlanb.errors import ArgumentError, HloParseError
from xlanb.hlo.module import HloModule
from xlanb.hlo.proto.reader import module_of
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.proto.shapes import literal_from_proto, literal_to_proto
from xlanb.hlo.proto.writer import module_message
from xlanb.lazy_dataclass import dataclass
from xlanb.protos import Message, decode
from xlanb.shape import Literal, Shape, TupleShape
from xlanb.wording import counted

Value = Any
"""An array, or a tuple of values."""


@dataclass(frozen=True)
class HloSnapshot:
    """One execution of a program.

    Attributes:
        module: the program.
        arguments: the array of each parameter; a tuple for a parameter of tuple shape.
        result: what it returned, or None if the snapshot has no result.
        platform: where it ran: "cpu", "cuda", ...; "" if unknown.
    """

    module: HloModule
    arguments: tuple[Value, ...] = ()
    result: Value = None
    platform: str = ""

    @staticmethod
    @boundary("read an HloSnapshot")
    def from_proto(data: bytes) -> HloSnapshot:
        """The snapshot of a binary HloSnapshot.

        Raises:
            HloParseError, ShapeError, LiteralError: the bytes are not a well-formed snapshot.
        """
        proto = decode(SCHEMA.HloSnapshot(), bytes(data), HloParseError)
        if not proto.hlo.HasField("hlo_module"):
            raise HloParseError(f"no module in the {len(data)} bytes: expected an HloSnapshot")
        return HloSnapshot(
            module_of(proto.hlo.hlo_module),
            tuple(_value(literal_from_proto(p)) for p in proto.arguments),
            _value(literal_from_proto(proto.result)) if proto.HasField("result") else None,
            proto.execution_platform,
        )

    def to_proto(self) -> bytes:
        """The binary HloSnapshot, which the real XLA reads.

        Raises:
            ArgumentError: the arguments or the result do not match the program.
            UnimplementedError: the module does not fit into a binary message.
        """
        entry = self.module.entry_computation
        shapes = [p.shape for p in entry.parameters]
        if len(self.arguments) != len(shapes):
            wanted = counted(len(shapes), "argument")
            raise ArgumentError(f"{self.module.name} takes {wanted}, not {len(self.arguments)}")
        proto = SCHEMA.HloSnapshot(execution_platform=self.platform)
        proto.hlo.hlo_module.CopyFrom(module_message(self.module))
        proto.arguments.extend(_messages(shapes, self.arguments))
        if self.result is not None:
            proto.result.CopyFrom(literal_to_proto(_literal(entry.root.shape, self.result, "the result")))
        return bytes(proto.SerializeToString(deterministic=True))


def _messages(shapes: Sequence[Shape], arguments: Sequence[Value]) -> Iterable[Message]:
    for n, (shape, argument) in enumerate(zip(shapes, arguments, strict=True)):
        yield literal_to_proto(_literal(shape, argument, f"argument {n}"))


def _value(literal: Literal) -> Value:
    if isinstance(literal.shape, TupleShape):
        return tuple(map(_value, literal.elements))
    return literal.array


def _literal(shape: Shape, value: Value, what: str) -> Literal:
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple | list) or len(value) != len(shape.shapes):
            raise ArgumentError(f"{what}: expected a tuple of {len(shape.shapes)} for {shape}")
        return Literal(shape, elements=tuple(_literal(s, v, what) for s, v in zip(shape.shapes, value, strict=True)))
    wanted, array = shape.as_array(), np.asarray(value)
    if array.shape != wanted.dimensions or array.dtype != wanted.dtype:
        raise ArgumentError(f"{what}: expected {shape}, not {array.dtype.name}{list(array.shape)}")
    return Literal(wanted, array)
