"""HloModule -> HloModuleProto.

Source: hlo_module.cc, hlo_computation.cc, hlo_instruction.cc: ToProto.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Error

from xlanb.errors import HloParseError, UnimplementedError
from xlanb.hlo.attributes import NO_METADATA
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.proto import header
from xlanb.hlo.proto.fields import COMPUTATION_KINDS, codecs
from xlanb.hlo.proto.metadata import (
    frontend_to_proto,
    metadata_to_proto,
    origin_to_proto,
    statistics_to_proto,
    tables_to_proto,
)
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.proto.shapes import MESSAGE_LIMIT, shape_to_proto
from xlanb.hlo.proto.sharding import sharding_to_proto
from xlanb.hlo.proto.values import comparison_type, write_default_precision
from xlanb.hlo.text.parser import parse
from xlanb.protos import Message
from xlanb.shape import Shape

Signature = tuple[tuple[Shape, ...], Shape]
"""Shapes of the parameters, shape of the result."""

_ID_BITS = 32
"""The bits of an instruction's own id; its computation's id in the upper bits makes it unique."""


def to_proto(module: HloModule) -> bytes:
    """The binary HloModuleProto of a module, which the real XLA reads.

    Elided constants are written as zeros. Facts that XLA keeps outside the message are lost
    (header.WITHOUT_FIELD).

    Raises:
        UnimplementedError: the module does not fit into a binary message (2 GiB, nesting of 100).
        HloParseError: a text attribute (sharding, replica groups, ...) is malformed.
    """
    try:
        data: bytes = module_message(module).SerializeToString(deterministic=True)
    except (Error, UnicodeEncodeError, ValueError) as error:
        raise UnimplementedError(f"module {module.name} cannot be written as an HloModuleProto: {error}") from error
    return data


def module_message(module: HloModule) -> Message:
    """The HloModuleProto message of a module."""
    return _ProtoWriter(module).write()


class _ProtoWriter:
    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.computation_ids = {c: n for n, c in enumerate(module.computations)}
        self.ids: dict[HloInstruction, int] = {}
        self.shapes: dict[Shape, Message] = {}
        self.shardings: dict[str, Message] = {}
        for c, n in self.computation_ids.items():
            self.ids |= {i: n << _ID_BITS | k for k, i in enumerate(c)}

    def write(self) -> Message:
        module = self.module
        _check_size(module)
        entry = module.entry_computation
        proto = SCHEMA.HloModuleProto(
            name=module.name,
            entry_computation_name=entry.name,
            entry_computation_id=self.computation_ids[entry],
        )
        fused = {c for i in module.instructions() if i.opcode is HloOpcode.FUSION for c in i.called_computations}
        for c in _callees_first(module):
            self._computation(c, proto.computations.add(), is_fused=c in fused)
        names = [f"p{n}" for n in range(len(entry.parameters))]
        self._program_shape(proto.host_program_shape, module.entry_layout or _signature(entry), names)
        if module.schedule:
            proto.schedule.SetInParent()
        for c, order in module.schedule.items():
            proto.schedule.sequences.add(key=self.computation_ids[c]).value.instruction_ids.extend(
                self.ids[i] for i in order
            )
        self._header(proto)
        return proto

    def _header(self, proto: Message) -> None:
        fields = self.module.header
        # XLA requires them to be present.
        for name in ("input_output_alias", "buffer_donor", "frontend_attributes"):
            getattr(proto, name).SetInParent()
        if text := fields.get("input_output_alias"):
            header.alias_to_proto(text, proto)
        if text := fields.get("buffer_donor"):
            header.donor_to_proto(text, proto)
        if text := fields.get("frontend_attributes"):
            header.frontend_header_to_proto(text, proto)
        if text := fields.get("origin_recovery_table"):
            header.recovery_to_proto(text, proto, _nested)
        if text := fields.get("debug_attributes"):
            header.debug_attributes_to_proto(text, proto)
        if self.module.tables:
            tables_to_proto(self.module.tables, proto.stack_frame_index)

    def _program_shape(self, proto: Message, signature: Signature, names: list[str]) -> None:
        parameters, result = signature
        proto.parameters.extend(map(self._shape, parameters))
        proto.result.CopyFrom(self._shape(result))
        proto.parameter_names.extend(names)

    def _shape(self, shape: Shape) -> Message:
        found = self.shapes.get(shape)
        if found is None:
            found = self.shapes[shape] = shape_to_proto(shape)
        return found

    def _computation(self, computation: HloComputation, proto: Message, *, is_fused: bool) -> None:
        proto.name, proto.id = computation.name, self.computation_ids[computation]
        proto.root_id = self.ids[computation.root]
        proto.is_fusion_computation, proto.execution_thread = is_fused, computation.execution_thread
        self._program_shape(proto.program_shape, _signature(computation), [p.name for p in computation.parameters])
        for i in computation.post_order():
            self._instruction(i, proto.instructions.add())

    def _instruction(self, i: HloInstruction, proto: Message) -> None:
        proto.name, proto.opcode, proto.id = i.name, i.opcode.text, self.ids[i]
        proto.shape.CopyFrom(self._shape(i.shape))
        proto.operand_ids.extend(self.ids[o] for o in i.operands)
        proto.control_predecessor_ids.extend(self.ids[p] for p in i.control_predecessors)
        proto.called_computation_ids.extend(self.computation_ids[c] for c in _called(i))
        self._attributes(i, proto)
        self._common(i, proto)

    def _attributes(self, i: HloInstruction, proto: Message) -> None:
        attributes = i.attributes
        for row, codec in codecs(i.opcode):
            value = attributes.get(row.name)
            if value is not None:
                codec.write(proto, value, i)
        _complete(i, proto)

    def _common(self, i: HloInstruction, proto: Message) -> None:
        for name in ("metadata", "frontend_attributes", "statistics_viz"):
            getattr(proto, name).SetInParent()
        if i.metadata is not NO_METADATA:
            proto.metadata.CopyFrom(metadata_to_proto(i.metadata))
        if i.sharding:
            found = self.shardings.get(i.sharding)
            if found is None:
                found = self.shardings[i.sharding] = sharding_to_proto(i.sharding)
            proto.sharding.CopyFrom(found)
        if i.frontend_attributes:
            frontend_to_proto(i.frontend_attributes, proto.frontend_attributes)
        if i.backend_config:
            proto.backend_config = i.backend_config.encode("utf-8", "surrogateescape")
        if i.statistics:
            statistics_to_proto(i.statistics, proto.statistics_viz)
        if i.origin:
            origin_to_proto(i.origin, proto.original_value)


def _check_size(module: HloModule) -> None:
    """Raise if the module exceeds the message limit, before elided constants take memory."""
    literals = (i.attributes.get("literal") for i in module.instructions())
    if sum(literal.shape.byte_size for literal in literals if literal is not None) > MESSAGE_LIMIT:
        raise UnimplementedError(f"the constants of module {module.name} are too large for a binary message")


def _signature(computation: HloComputation) -> Signature:
    return tuple(p.shape for p in computation.parameters), computation.root.shape


def _callees_first(module: HloModule) -> list[HloComputation]:
    """All computations, callees first, as readers require.

    XLA's post order, in which modules are printed, is another one.
    """
    calls = {c: list(dict.fromkeys(d for i in c for d in i.called_computations)) for c in module.computations}
    order: dict[HloComputation, None] = {}
    for start in module.computations:
        stack = [(start, iter(calls[start]))]
        while stack:
            computation, rest = stack[-1]
            callee = next((d for d in rest if d not in order), None)
            if callee is not None:
                stack.append((callee, iter(calls[callee])))
            else:
                order[computation] = None
                stack.pop()
    return list(order)


def _complete(i: HloInstruction, proto: Message) -> None:
    """Write fields that XLA always writes, though the text omits default values."""
    rows, attributes = i.opcode.attribute, i.attributes
    for name in ("feature_group_count", "batch_group_count"):
        if name in rows and name not in attributes:
            setattr(proto, name, 1)
    if "operand_precision" in rows and "operand_precision" not in attributes:
        write_default_precision(proto, i)
    if "api_version" in rows and "api_version" not in attributes:
        proto.custom_call_api_version = 1
    if i.opcode is HloOpcode.COMPARE and "type" not in attributes:
        proto.comparison_type = comparison_type(i.operands[0].shape.element_type)
    elif i.opcode is HloOpcode.OUTFEED and "outfeed_shape" not in attributes:
        proto.outfeed_shape.CopyFrom(shape_to_proto(i.operands[0].shape))
    for name in _PRESENT.get(i.opcode, ()):
        getattr(proto, name).SetInParent()


_PRESENT: dict[HloOpcode, tuple[str, ...]] = {
    HloOpcode.CONVOLUTION: ("window", "sparsity_config"),
    HloOpcode.REDUCE_WINDOW: ("window",),
    HloOpcode.SELECT_AND_SCATTER: ("window",),
    HloOpcode.DOT: ("dot_dimension_numbers",),
    HloOpcode.SCALED_DOT: ("dot_dimension_numbers",),
    HloOpcode.RAGGED_DOT: ("ragged_dot_dimension_numbers",),
    HloOpcode.GATHER: ("gather_dimension_numbers",),
    HloOpcode.SCATTER: ("scatter_dimension_numbers",),
    HloOpcode.CHOLESKY: ("cholesky_options",),
    HloOpcode.TRIANGULAR_SOLVE: ("triangular_solve_options",),
}
"""Messages that are present even if all their fields are zero."""

CALLED_ORDER = {HloOpcode.WHILE: ("body", "condition")}
"""Opcodes whose called computations are in another order than in the text."""


def _called(i: HloInstruction) -> list[HloComputation]:
    """The called computations in the order of the message."""
    names = CALLED_ORDER.get(i.opcode) or [r.name for r in i.opcode.attributes if r.kind in COMPUTATION_KINDS]
    called: list[HloComputation] = []
    for name in names:
        value: Any = i.attributes.get(name)
        if isinstance(value, HloComputation):
            called.append(value)
        else:
            called.extend(value or ())
    return called


def _nested(text: str) -> Message:
    if not text.strip():
        raise HloParseError("a recovery table has an empty module")
    return module_message(parse(text))
