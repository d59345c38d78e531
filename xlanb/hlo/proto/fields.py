"""Which fields of an HloInstructionProto hold which attribute of the table in opcode.py.

A codec writes an attribute's value into the message and reads it back; it reads None if the message
does not have it. Called computations, and facts with a field for every opcode (shape, operands,
metadata, ...), are handled by writer and reader.
Source: hlo_instructions.cc: ToProtoImpl, CreateFromProto.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import HloParseError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import Attribute, HloOpcode
from xlanb.hlo.proto import sharding, values
from xlanb.hlo.proto.shapes import (
    literal_from_proto,
    literal_to_proto,
    shape_from_proto,
    shape_to_proto,
)
from xlanb.lazy_dataclass import dataclass
from xlanb.protos import Message
from xlanb.shape import Shape


@dataclass(frozen=True, slots=True)
class Codec:
    """`write(message, value, instruction)`; `read(message, operand shapes)`, None where absent."""

    write: Callable[[Message, Any, HloInstruction], None]
    read: Callable[[Message, Sequence[Shape]], Any]


def _plain(path: str, *, always: bool = False) -> Codec:
    """A scalar field, or `a.b` for one of a nested message; 0 is absent unless `always`."""
    outer, _, name = path.rpartition(".")

    def write(proto: Message, value: Any, _: HloInstruction) -> None:
        setattr(getattr(proto, outer) if outer else proto, name, value)

    def read(proto: Message, _: Sequence[Shape]) -> Any:
        value = getattr(getattr(proto, outer) if outer else proto, name)
        return value if value or always else None

    return Codec(write, read)


def _ints(path: str, *, always: bool = False) -> Codec:
    """A repeated integer field."""
    parts = path.split(".")

    def field(proto: Message) -> Any:
        for part in parts:
            proto = getattr(proto, part)
        return proto

    return Codec(
        lambda proto, value, _: field(proto).extend(value),
        lambda proto, _: tuple(field(proto)) if always or field(proto) else None,
    )


def _words(path: str, words: Sequence[str], what: str) -> Codec:
    """An enum, with its keywords by number."""
    plain = _plain(path, always=True)

    def read(proto: Message, shapes: Sequence[Shape]) -> str:
        number: int = plain.read(proto, shapes)
        if not 0 <= number < len(words):
            raise HloParseError(f"{what} {number} is unknown")
        return words[number]

    return Codec(lambda proto, value, i: plain.write(proto, words.index(value), i), read)


def _bytes(name: str) -> Codec:
    """Text that may contain bytes that are not UTF-8."""
    return Codec(
        lambda proto, value, _: setattr(proto, name, value.encode("utf-8", "surrogateescape")),
        lambda proto, _: getattr(proto, name).decode("utf-8", "surrogateescape") or None,
    )


def _first(name: str) -> Codec:
    """An integer in a repeated field."""
    return Codec(
        lambda proto, value, _: getattr(proto, name).append(value),
        lambda proto, _: getattr(proto, name)[0] if getattr(proto, name) else None,
    )


def _copied(name: str, to: Callable[[Any], Message], back: Callable[[Message], Any]) -> Codec:
    """A message field."""
    return Codec(
        lambda proto, value, _: getattr(proto, name).CopyFrom(to(value)),
        lambda proto, _: back(getattr(proto, name)) if proto.HasField(name) else None,
    )


_DOT = "dot_dimension_numbers"
_GATHER, _SCATTER = "gather_dimension_numbers", "scatter_dimension_numbers"
_TRISTATE = (None, True, False)

CODECS: dict[str, Codec] = {
    **{
        name: _plain(name)
        for name in (
            "channel_id constrain_layout use_global_device_ids async_execution_thread is_composite "
            "custom_call_has_side_effect "
            "is_host_transfer is_stable is_reverse indices_are_sorted unique_indices "
            "has_dynamic_root feature_group_count batch_group_count"
        ).split()
    },
    **{
        name: _plain(name, always=True)
        for name in (
            "custom_call_target epsilon feature_index delta exponent_bits mantissa_bits "
            "num_carries k largest parameter_number"
        ).split()
    },
    "index": _plain("tuple_index", always=True),
    "direction": _plain("comparison_direction"),
    "kind": _plain("fusion_kind"),
    "type": Codec(lambda proto, value, _: setattr(proto, "comparison_type", value), values.read_comparison),
    "dimensions": _ints("dimensions"),
    "mode": Codec(values.write_shuffle_mode, values.read_shuffle_mode),
    "shifts": Codec(values.write_shifts, values.read_shifts),
    "dynamic_slice_sizes": _ints("dynamic_slice_sizes", always=True),
    "fft_length": _ints("fft_length", always=True),
    "slice_sizes": _ints("gather_slice_sizes", always=True),
    "iota_dimension": _first("dimensions"),
    "inferred_dimension": _first("dimensions"),
    "infeed_config": _bytes("infeed_config"),
    "outfeed_config": _bytes("outfeed_config"),
    "window": Codec(values.write_window, values.read_window),
    "padding": Codec(values.write_padding, values.read_padding),
    "slice": Codec(values.write_slices, values.read_slices),
    "dim_labels": Codec(values.write_conv, values.read_conv),
    "operand_precision": Codec(values.write_precisions, values.read_precisions),
    "result_accuracy": Codec(values.write_accuracy, values.read_accuracy),
    "output_to_operand_aliasing": Codec(values.write_aliasing, values.read_aliasing),
    "parameter_replication": Codec(values.write_bools, values.read_bools),
    "sparsity_config": Codec(values.write_sparsity, values.read_sparsity),
    "block_scaling_config": Codec(values.write_scaling, values.read_scaling),
    "domain": Codec(values.write_domain, values.read_domain),
    "replica_groups": Codec(
        lambda proto, value, _: sharding.groups_to_proto(value, proto),
        lambda proto, _: sharding.groups_from_proto(proto),
    ),
    "source_target_pairs": Codec(
        values.write_pairs,
        lambda proto, _: tuple((p.source, p.target) for p in proto.source_target_pairs),
    ),
    "operand_layout_constraints": Codec(values.write_constraints, values.read_constraints),
    "literal": _copied("literal", literal_to_proto, literal_from_proto),
    "outfeed_shape": _copied("outfeed_shape", shape_to_proto, shape_from_proto),
    "cross_program_prefetch_index": Codec(
        lambda proto, value, _: setattr(proto, "cross_program_prefetch_index", value),
        lambda proto, _: proto.cross_program_prefetch_index if proto.HasField("cross_program_prefetch_index") else None,
    ),
    "is_associative": Codec(
        lambda proto, value, _: setattr(proto, "is_associative", _TRISTATE.index(value)),
        lambda proto, _: _TRISTATE[proto.is_associative] if 0 <= proto.is_associative < len(_TRISTATE) else None,
    ),
    "algorithm": _words("precision_config.algorithm", values.ALGORITHMS, "dot algorithm"),
    "convolution_kind": _words("conv_kind", ("unset", "fprop", "dgrad", "wgrad"), "convolution kind"),
    "fft_type": _words("fft_type", ("FFT", "IFFT", "RFFT", "IRFFT"), "FFT type"),
    "distribution": _words("distribution", ("rng_invalid", "rng_uniform", "rng_normal"), "random distribution"),
    "padding_type": _words("padding_type", ("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"), "padding type"),
    "schedule": _words(
        "custom_call_schedule",
        ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"),
        "custom-call schedule",
    ),
    "api_version": _words(
        "custom_call_api_version",
        # Old messages have 0, the original version.
        (
            "API_VERSION_ORIGINAL",
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ),
        "custom-call API version",
    ),
    "lhs_batch_dims": _ints(f"{_DOT}.lhs_batch_dimensions"),
    "rhs_batch_dims": _ints(f"{_DOT}.rhs_batch_dimensions"),
    "lhs_contracting_dims": _ints(f"{_DOT}.lhs_contracting_dimensions", always=True),
    "rhs_contracting_dims": _ints(f"{_DOT}.rhs_contracting_dimensions", always=True),
    "offset_dims": _ints(f"{_GATHER}.offset_dims", always=True),
    "collapsed_slice_dims": _ints(f"{_GATHER}.collapsed_slice_dims", always=True),
    "start_index_map": _ints(f"{_GATHER}.start_index_map", always=True),
    "operand_batching_dims": _ints(f"{_GATHER}.operand_batching_dims"),
    "start_indices_batching_dims": _ints(f"{_GATHER}.start_indices_batching_dims"),
    "index_vector_dim": _plain(f"{_GATHER}.index_vector_dim", always=True),
    "update_window_dims": _ints(f"{_SCATTER}.update_window_dims", always=True),
    "inserted_window_dims": _ints(f"{_SCATTER}.inserted_window_dims", always=True),
    "scatter_dims_to_operand_dims": _ints(f"{_SCATTER}.scatter_dims_to_operand_dims", always=True),
    "input_batching_dims": _ints(f"{_SCATTER}.input_batching_dims"),
    "scatter_indices_batching_dims": _ints(f"{_SCATTER}.scatter_indices_batching_dims"),
}
"""By attribute name, whatever the opcode."""

_TRIANGULAR = "triangular_solve_options"
_RAGGED = "ragged_dot_dimension_numbers"
_ALWAYS_DIMENSIONS = _ints("dimensions", always=True)

OWN_CODECS: dict[tuple[HloOpcode, str], Codec] = {
    (HloOpcode.MAP, "dimensions"): _ALWAYS_DIMENSIONS,
    (HloOpcode.BROADCAST, "dimensions"): _ALWAYS_DIMENSIONS,
    (HloOpcode.CHOLESKY, "lower"): _plain("cholesky_options.lower"),
    (HloOpcode.TRIANGULAR_SOLVE, "lower"): _plain(f"{_TRIANGULAR}.lower"),
    (HloOpcode.TRIANGULAR_SOLVE, "left_side"): _plain(f"{_TRIANGULAR}.left_side"),
    (HloOpcode.TRIANGULAR_SOLVE, "unit_diagonal"): _plain(f"{_TRIANGULAR}.unit_diagonal"),
    (HloOpcode.TRIANGULAR_SOLVE, "transpose_a"): _words(
        f"{_TRIANGULAR}.transpose_a",
        ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
        "transpose",
    ),
    (HloOpcode.RNG_BIT_GENERATOR, "algorithm"): _words(
        "rng_algorithm", ("rng_default", "rng_three_fry", "rng_philox"), "random algorithm"
    ),
    (HloOpcode.SCATTER, "index_vector_dim"): _plain(f"{_SCATTER}.index_vector_dim", always=True),
    (HloOpcode.COLLECTIVE_PERMUTE, "slice_sizes"): Codec(values.write_boxes, values.read_boxes),
    (HloOpcode.COLLECTIVE_PERMUTE_START, "slice_sizes"): Codec(values.write_boxes, values.read_boxes),
    **{
        (HloOpcode.RAGGED_DOT, f"{side}_{what}_dims"): _ints(
            f"{_RAGGED}.{_DOT}.{side}_{what}_dimensions", always=what == "contracting"
        )
        for side in ("lhs", "rhs")
        for what in ("batch", "contracting")
    },
    (HloOpcode.RAGGED_DOT, "lhs_ragged_dims"): _ints(f"{_RAGGED}.lhs_ragged_dimensions"),
    (HloOpcode.RAGGED_DOT, "rhs_group_dims"): _ints(f"{_RAGGED}.rhs_group_dimensions"),
}
"""Codecs of opcodes that keep an attribute in another field than others do."""

COMPUTATION_KINDS = ("computation", "computations")
# the parser and the codec of `type` convert an order to a type
_ELSEWHERE = ("group_mode", "comparison_order")


def codecs(opcode: HloOpcode) -> list[tuple[Attribute, Codec]]:
    """The attributes of an opcode that a message's own fields hold, with their codecs."""
    return _BY_OPCODE[opcode]


_BY_OPCODE = {
    opcode: [
        (
            row,
            OWN_CODECS.get((opcode, row.name))
            or (_ALWAYS_DIMENSIONS if row.required and row.name == "dimensions" else CODECS[row.name]),
        )
        for row in opcode.attributes
        if row.kind not in (*COMPUTATION_KINDS, *_ELSEWHERE)
    ]
    for opcode in HloOpcode
}
