"""HloModuleProto -> HloModule.

Source: hlo_module.cc, hlo_computation.cc, hlo_instruction.cc: CreateFromProto.
"""

from __future__ import annotations

from typing import Any, NoReturn

from xlanb.boundary import boundary
from xlanb.errors import HloParseError, LiteralError, ShapeError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.names import sanitized
from xlanb.hlo.opcode import BY_TEXT, HloOpcode
from xlanb.hlo.proto import header
from xlanb.hlo.proto.fields import COMPUTATION_KINDS, codecs
from xlanb.hlo.proto.metadata import (
    frames_from_proto,
    frontend_from_proto,
    metadata_from_proto,
    origin_from_proto,
    statistics_from_proto,
    tables_from_proto,
)
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.proto.shapes import shape_from_proto
from xlanb.hlo.proto.sharding import sharding_from_proto
from xlanb.hlo.proto.writer import CALLED_ORDER
from xlanb.hlo.text.parse_attributes import WORDS
from xlanb.hlo.text.parse_sharding import tuple_sharding
from xlanb.protos import Message, decode, top_level_fields
from xlanb.shape import PrimitiveType, Shape

_MODULE_ONLY = (2, 4, 5, 6, 7, 8)
"""Field numbers that only an HloModuleProto has, not an HloProto.

Every module names its entry computation (2).
"""


@boundary("read an HloModuleProto")
def from_proto(data: bytes) -> HloModule:
    """The module of a binary HloModuleProto, or of an HloProto or HloSnapshot around one.

    `.hlo.pb` files hold one of the first two, `.snapshot.*.pb` files the last. The module is well
    formed like the parser's; `module.verify()` checks the rules of HLO.

    Raises:
        HloParseError: the bytes are not such a message; an id is unknown, duplicate or used before
            its definition; or an attribute is malformed.
        ShapeError: a shape is malformed.
        LiteralError: a constant's elements do not match its shape.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise HloParseError(f"expected the bytes of an HloModuleProto, got {type(data).__name__}")
    data = bytes(data)
    if (snapshot := _module_of_snapshot(data)) is not None:
        return module_of(snapshot)
    fields = top_level_fields(data)
    if any(n in fields for n in _MODULE_ONLY):
        return module_of(decode(SCHEMA.HloModuleProto(), data, HloParseError))
    outer = decode(SCHEMA.HloProto(), data, HloParseError)
    if not outer.HasField("hlo_module"):
        raise HloParseError(f"the {len(data)} bytes are neither an HloModuleProto nor an HloProto")
    return module_of(outer.hlo_module)


def _module_of_snapshot(data: bytes) -> Message | None:
    """The HloModuleProto of an HloSnapshot, or None.

    A module's name is in the place of a snapshot's HloProto. It is no such message with a module
    that has computations.
    """
    try:
        outer = decode(SCHEMA.HloSnapshot(), data, HloParseError)
    except HloParseError:
        return None
    return outer.hlo.hlo_module if outer.hlo.hlo_module.computations else None


def module_of(proto: Message) -> HloModule:
    """The module of an HloModuleProto message."""
    return _ProtoReader(proto).read()


class _ProtoReader:
    def __init__(self, proto: Message) -> None:
        self.proto = proto
        self.module = HloModule(proto.name)
        self.computations: dict[int, HloComputation] = {}
        self.instructions: dict[int, dict[int, HloInstruction]] = {}
        self.shapes: dict[bytes, Shape] = {}

    def read(self) -> HloModule:
        proto, module = self.proto, self.module
        for p in proto.computations:
            if p.id in self.computations:
                raise HloParseError(f"two computations have the id {p.id}: {self.computations[p.id].name} and {p.name}")
            self.computations[p.id] = self._computation(p)
        entry = self._entry()
        for number in sorted(self.computations):
            module.adopt_computation(self.computations[number])
        module.set_entry(entry)
        self._layout()
        module.tables = tables_from_proto(proto.stack_frame_index)
        frames_from_proto(proto.stack_frame_index).resolve(module.instructions())
        texts = {
            "input_output_alias": header.alias_from_proto(proto),
            "buffer_donor": header.donor_from_proto(proto),
            "frontend_attributes": header.frontend_header_from_proto(proto),
            "origin_recovery_table": header.recovery_from_proto(proto, lambda p: str(module_of(p))),
            "debug_attributes": header.debug_attributes_from_proto(proto),
        }
        module.header.update({name: text for name, text in texts.items() if text})
        self._schedule()
        return module

    def _entry(self) -> HloComputation:
        found = self.computations.get(self.proto.entry_computation_id)
        if found is None:
            raise HloParseError(
                f"module {self.proto.name}: no computation has the entry's id {self.proto.entry_computation_id}"
            )
        return found

    def _layout(self) -> None:
        if not self.proto.HasField("host_program_shape"):
            return
        shape = self.proto.host_program_shape
        parameters = tuple(map(self._shape, shape.parameters))
        entry = self.module.entry_computation
        if len(parameters) != len(entry.parameters):
            raise HloParseError(
                f"module {self.proto.name}: {len(parameters)} parameters in its program shape, "
                f"{len(entry.parameters)} in {entry.name}"
            )
        self.module.entry_layout = parameters, self._shape(shape.result)

    def _schedule(self) -> None:
        if not self.proto.HasField("schedule"):
            return
        self.module.header["is_scheduled"] = "true"
        for row in self.proto.schedule.sequences:
            computation = self.computations.get(row.key)
            if computation is None:
                raise HloParseError(f"the schedule names a computation {row.key} that does not exist")
            known = self.instructions[row.key]
            order = [known[n] for n in row.value.instruction_ids if n in known]
            if (
                len(order) != len(row.value.instruction_ids)
                or len(set(order)) != len(known)
                or len(order) != len(known)
            ):
                raise HloParseError(
                    f"the schedule of {computation.name} is not a permutation of its {len(known)} instructions"
                )
            self.module.set_schedule(computation, order)

    # -- computations ------------------------------------------------------------------------------

    def _computation(self, proto: Message) -> HloComputation:
        computation = HloComputation(sanitized(proto.name) or "computation", self.module, proto.execution_thread)
        known: dict[int, HloInstruction] = {}
        for p in proto.instructions:
            if p.id in known:
                raise HloParseError(
                    f"{proto.name}: two instructions have the id {p.id}: {known[p.id].name} and {p.name}"
                )
            try:
                known[p.id] = self._instruction(p, known, computation)
            except (HloParseError, ShapeError, LiteralError) as error:
                raise type(error)(f"{proto.name}: {p.name} = {p.opcode}(...): {error}") from error
        root = known.get(proto.root_id)
        if root is None:
            raise HloParseError(f"{proto.name}: no instruction has the root's id {proto.root_id}")
        self.instructions[proto.id] = known
        self._finish(computation, known, root)
        return computation

    def _finish(self, computation: HloComputation, known: dict[int, HloInstruction], root: HloInstruction) -> None:
        # Ids are in the order of insertion; the list is in post order.
        computation._instructions = {known[n]: None for n in sorted(known)}
        computation._parameters = [i for i in computation._instructions if i.opcode is HloOpcode.PARAMETER]
        computation._parameters_in_order = False
        computation._root = root
        computation._touch()
        successors: dict[HloInstruction, list[HloInstruction]] = {}
        for i in computation._instructions:
            for p in i.control_predecessors:
                successors.setdefault(p, []).append(i)
        for p, after in successors.items():
            p.control_successors = tuple(after)
        numbers = sorted(p.parameter_number for p in computation._parameters)
        if numbers != list(range(len(numbers))):
            raise HloParseError(
                f"{computation.name}: parameter numbers are {numbers[:20]}, not 0 to {len(numbers) - 1}"
            )
        names = {i.name for i in computation._instructions}
        if len(names) != len(known):
            raise HloParseError(f"{computation.name}: {len(known) - len(names)} instructions have duplicate names")

    # -- instructions ------------------------------------------------------------------------------

    def _instruction(self, proto: Message, known: dict[int, HloInstruction], parent: HloComputation) -> HloInstruction:
        opcode = BY_TEXT.get(proto.opcode)
        if opcode is None:
            raise HloParseError(f"unknown opcode {proto.opcode!r}")
        operands = tuple(self._others(proto.operand_ids, known, "operand"))
        if opcode.arity is not None and len(operands) != opcode.arity:
            raise HloParseError(f"{opcode} has {opcode.arity} operands, not {len(operands)}")
        attributes = self._attributes(proto, opcode, [o.shape for o in operands])
        new = HloInstruction(
            sanitized(proto.name) or opcode.text,
            opcode,
            self._shape(proto.shape),
            operands,
            attributes,
            parent,
        )
        for o in operands:
            o._users[new] = o._users.get(new, 0) + 1
        new.control_predecessors = tuple(
            dict.fromkeys(self._others(proto.control_predecessor_ids, known, "control predecessor"))
        )
        self._common(proto, new)
        return new

    def _others(self, ids: Any, known: dict[int, HloInstruction], what: str) -> list[HloInstruction]:
        found = [known.get(n) for n in ids]
        for n, instruction in zip(ids, found, strict=True):
            if instruction is None:
                raise HloParseError(f"{what} {n} does not refer to an earlier instruction")
        return [i for i in found if i is not None]

    def _shape(self, proto: Message) -> Shape:
        key = proto.SerializeToString()
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = shape_from_proto(proto)
        return found

    def _attributes(self, proto: Message, opcode: HloOpcode, operands: list[Shape]) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        self._called(proto, opcode, operands, attributes)
        missing = [n for n in _REQUIRED.get(opcode, ()) if n not in attributes]
        if missing:
            raise HloParseError(f"attribute {missing[0]} is missing")
        for row, codec in codecs(opcode):
            value = codec.read(proto, operands)
            if value is None and row.name == "replica_groups" and opcode not in _PERMUTES:
                value = "{}"
            if value is None and row.required:
                raise HloParseError(f"attribute {row.name} is missing")
            if isinstance(value, str) and row.kind in WORDS and value not in WORDS[row.kind]:
                raise HloParseError(f"{row.name} must be one of {', '.join(sorted(WORDS[row.kind]))}, not {value!r}")
            if value is not None and value != row.default:
                attributes[row.name] = value
        return attributes

    def _called(self, proto: Message, opcode: HloOpcode, operands: list[Shape], attributes: dict[str, Any]) -> None:
        called = [self._callee(n) for n in proto.called_computation_ids]
        if not called or opcode in _LINKED:
            return
        if opcode is HloOpcode.CONDITIONAL:
            if operands and operands[0].element_type is PrimitiveType.PRED:
                _spread(("true_computation", "false_computation"), called, attributes)
            else:
                attributes["branch_computations"] = tuple(called)
        elif opcode is HloOpcode.CUSTOM_CALL:
            attributes["called_computations"] = tuple(called)
        else:
            names = CALLED_ORDER.get(opcode) or tuple(r.name for r in opcode.attributes if r.kind in COMPUTATION_KINDS)
            _spread(names, called, attributes)

    def _callee(self, number: int) -> HloComputation:
        found = self.computations.get(number)
        if found is None:
            raise HloParseError(f"called computation {number} does not refer to an earlier computation")
        return found

    def _common(self, proto: Message, new: HloInstruction) -> None:
        if proto.HasField("metadata"):
            new.metadata = metadata_from_proto(proto.metadata)
        if proto.HasField("sharding"):
            new.sharding = tuple_sharding(sharding_from_proto(proto.sharding), new.shape)
        if proto.HasField("frontend_attributes"):
            new.frontend_attributes = frontend_from_proto(proto.frontend_attributes)
        if proto.HasField("statistics_viz"):
            new.statistics = statistics_from_proto(proto.statistics_viz)
        if proto.HasField("original_value"):
            new.origin = origin_from_proto(proto.original_value)
        if proto.backend_config:
            new.backend_config = proto.backend_config.decode("utf-8", "surrogateescape")


_LINKED = (HloOpcode.ASYNC_UPDATE, HloOpcode.ASYNC_DONE)
_REQUIRED = {
    o: tuple(a.name for a in o.attributes if a.required and a.kind in COMPUTATION_KINDS and o not in _LINKED)
    for o in HloOpcode
}
"""The computations that an instruction must call."""
"""Their computation is that of the async-start before them."""

_PERMUTES = (HloOpcode.COLLECTIVE_PERMUTE, HloOpcode.COLLECTIVE_PERMUTE_START)
"""The collectives that may have no replica groups; others have at least an empty list."""


def _spread(names: tuple[str, ...], called: list[HloComputation], attributes: dict[str, Any]) -> None:
    if len(called) > len(names):
        _too_many(names, called)
    attributes.update(zip(names, called, strict=False))


def _too_many(names: tuple[str, ...], called: list[HloComputation]) -> NoReturn:
    raise HloParseError(
        f"{len(called)} called computations do not match {', '.join(names) or 'an opcode without called computations'}"
    )
