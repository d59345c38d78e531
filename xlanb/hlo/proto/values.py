"""Write and read structured attributes in the fields of an HloInstructionProto.

`write_x(message, value, instruction)`, `read_x(message, operand shapes)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xlanb.errors import HloParseError
from xlanb.hlo.attributes import (
    ConvolutionDimensionNumbers,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
    index_text,
)
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.proto import sharding
from xlanb.hlo.proto.shapes import shape_from_proto, shape_to_proto
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_attributes import DOT_ALGORITHMS
from xlanb.hlo.text.parse_shape import compatible
from xlanb.protos import Message
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape

# -- windows, paddings, slices ---------------------------------------------------------------------


def write_window(proto: Message, window: Window, _: HloInstruction) -> None:
    """Write `window`."""
    for d in window.dimensions:
        proto.window.dimensions.add(
            size=d.size,
            stride=d.stride,
            padding_low=d.padding_low,
            padding_high=d.padding_high,
            window_dilation=d.window_dilation,
            base_dilation=d.base_dilation,
            window_reversal=d.reversal,
        )


def read_window(proto: Message, _: Sequence[Shape]) -> Window | None:
    """Read `window`; None if it has no dimensions."""
    rows = [
        WindowDimension(
            d.size,
            d.stride,
            d.padding_low,
            d.padding_high,
            d.window_dilation,
            d.base_dilation,
            d.window_reversal,
        )
        for d in proto.window.dimensions
    ]
    for row in rows:
        if min(row.size, row.stride, row.window_dilation, row.base_dilation) < 0:
            raise HloParseError(f"a window's sizes, strides and dilations must not be negative, got {row}")
    return Window(tuple(rows)) if rows else None


def write_padding(proto: Message, padding: tuple[PaddingDimension, ...], _: HloInstruction) -> None:
    """Write `padding_config`."""
    proto.padding_config.SetInParent()
    for d in padding:
        proto.padding_config.dimensions.add(
            edge_padding_low=d.low, edge_padding_high=d.high, interior_padding=d.interior
        )


def read_padding(proto: Message, _: Sequence[Shape]) -> tuple[PaddingDimension, ...]:
    """Read `padding_config`."""
    return tuple(
        PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding)
        for d in proto.padding_config.dimensions
    )


def write_slices(proto: Message, slices: tuple[SliceDimension, ...], _: HloInstruction) -> None:
    """Write `slice_dimensions`."""
    for d in slices:
        proto.slice_dimensions.add(start=d.start, limit=d.limit, stride=d.stride)


def read_slices(proto: Message, _: Sequence[Shape]) -> tuple[SliceDimension, ...]:
    """Read `slice_dimensions`."""
    return tuple(SliceDimension(d.start, d.limit, d.stride) for d in proto.slice_dimensions)


_CONV = {
    "input_batch": "input_batch_dimension",
    "input_feature": "input_feature_dimension",
    "input_spatial": "input_spatial_dimensions",
    "kernel_input_feature": "kernel_input_feature_dimension",
    "kernel_output_feature": "kernel_output_feature_dimension",
    "kernel_spatial": "kernel_spatial_dimensions",
    "output_batch": "output_batch_dimension",
    "output_feature": "output_feature_dimension",
    "output_spatial": "output_spatial_dimensions",
}


def write_conv(proto: Message, numbers: ConvolutionDimensionNumbers, _: HloInstruction) -> None:
    """Write `convolution_dimension_numbers`."""
    target = proto.convolution_dimension_numbers
    target.SetInParent()
    for ours, theirs in _CONV.items():
        value = getattr(numbers, ours)
        if isinstance(value, tuple):
            getattr(target, theirs).extend(value)
        else:
            setattr(target, theirs, value)


def read_conv(proto: Message, _: Sequence[Shape]) -> ConvolutionDimensionNumbers | None:
    """Read `convolution_dimension_numbers`; None if absent."""
    if not proto.HasField("convolution_dimension_numbers"):
        return None
    source = proto.convolution_dimension_numbers
    fields: dict[str, Any] = {}
    found: set[tuple[str, int]] = set()
    for ours, theirs in _CONV.items():
        value = getattr(source, theirs)
        numbers = (value,) if isinstance(value, int) else tuple(value)
        if not all(0 <= n < _MAX_LABELS for n in numbers):
            raise HloParseError(f"{theirs} of a convolution out of range")
        array = ours.partition("_")[0]
        for n in numbers:
            if (array, n) in found:
                raise HloParseError(f"dimension {n} of a convolution's {array} is named twice, once in {theirs}")
            found.add((array, n))
        fields[ours] = value if isinstance(value, int) else numbers
    return ConvolutionDimensionNumbers(**fields)


_MAX_LABELS = 64
"""Larger dimension numbers are refused: `dim_labels` lists every dimension."""

# -- precision, accuracy, comparison ---------------------------------------------------------------

_PRECISIONS = ("default", "high", "highest", "packed_nibble")
ALGORITHMS = tuple(
    n if n == "unset" else f"dot_{n}"
    for n in [*(a for a in DOT_ALGORITHMS if a != "bf16_bf16_f32_x9"), "bf16_bf16_f32_x9"]
)


def write_default_precision(proto: Message, instruction: HloInstruction) -> None:
    """Write default precisions, one per operand (two of a dot's four), as XLA always does."""
    count = len(instruction.operands) if instruction.opcode is HloOpcode.CUSTOM_CALL else 2
    proto.precision_config.operand_precision.extend([0] * count)


def write_precisions(proto: Message, precisions: tuple[str, ...], _: HloInstruction) -> None:
    """Write the operands of `precision_config`."""
    proto.precision_config.operand_precision.extend(map(_PRECISIONS.index, precisions))


def read_precisions(proto: Message, _: Sequence[Shape]) -> tuple[str, ...] | None:
    """Read the operands of `precision_config`; None if all are the default."""
    numbers = proto.precision_config.operand_precision
    if not any(numbers):
        return None
    if not all(0 <= n < len(_PRECISIONS) for n in numbers):
        raise HloParseError(f"operand precision {max(numbers)} is unknown")
    return tuple(_PRECISIONS[n] for n in numbers)


def write_accuracy(proto: Message, text: str, _: HloInstruction) -> None:
    """Write `result_accuracy` from its text."""
    cursor = Cursor(text)
    cursor.expect("{")
    if cursor.attribute_name() == "mode":
        proto.result_accuracy.mode = ("default", "highest").index(cursor.word())
        return
    tolerance = proto.result_accuracy.tolerance
    cursor.expect("{")
    while not cursor.accept("}"):
        name = cursor.attribute_name()
        number = cursor.number_kind()[1]
        cursor.eat(number)
        setattr(tolerance, name, int(float(number)) if name == "ulps" else float(number))
        cursor.accept(",")


def read_accuracy(proto: Message, _: Sequence[Shape]) -> str | None:
    """The text of `result_accuracy`; None if it is the default."""
    accuracy = proto.result_accuracy
    if accuracy.HasField("tolerance"):
        t = accuracy.tolerance
        return f"{{tolerance={{atol={t.atol:g},rtol={t.rtol:g},ulps={t.ulps:g}}}}}"
    return "{mode=highest}" if accuracy.mode == 1 else None


def comparison_type(kind: PrimitiveType) -> str:
    """The default comparison type of an element type."""
    return "FLOAT" if kind.is_floating or kind.is_complex else "SIGNED" if kind.is_signed else "UNSIGNED"


def read_comparison(proto: Message, shapes: Sequence[Shape]) -> str | None:
    """Read `comparison_type`, or `comparison_order`, which XLA of JAX 0.12 writes instead.

    None if it is the default of the operands' type.
    """
    kind = shapes[0].element_type if shapes else PrimitiveType.F32
    found: str = proto.comparison_type
    if not found and proto.comparison_order == "TOTAL" and kind.is_floating:
        return "TOTALORDER"
    return found if found and found != comparison_type(kind) else None


# -- what is text in the IR ------------------------------------------------------------------------


def write_aliasing(proto: Message, text: str, _: HloInstruction) -> None:
    """Write `output_operand_aliasing` from its text."""
    cursor = Cursor(text)
    cursor.expect("{")
    while not cursor.at("}"):
        row = proto.output_operand_aliasing.add(output_shape_index=cursor.ints())
        cursor.expect(":")
        cursor.expect("(")
        row.operand_index = cursor.integer()
        cursor.expect(",")
        row.operand_shape_index.extend(cursor.ints())
        cursor.expect(")")
        if not cursor.accept(","):
            break


def read_aliasing(proto: Message, _: Sequence[Shape]) -> str | None:
    """The text of `output_operand_aliasing`; None if empty."""
    rows = [
        f"{index_text(tuple(a.output_shape_index))}: ({a.operand_index}, {index_text(tuple(a.operand_shape_index))})"
        for a in proto.output_operand_aliasing
    ]
    return "{" + ", ".join(rows) + "}" if rows else None


def write_bools(proto: Message, text: str, _: HloInstruction) -> None:
    """Write `parameter_replication` from its text."""
    proto.parameter_replication.SetInParent()
    proto.parameter_replication.replicated_at_leaf_buffers.extend(w == "true" for w in text.strip("{}").split(",") if w)


def read_bools(proto: Message, _: Sequence[Shape]) -> str | None:
    """The text of `parameter_replication`; None if there is none."""
    if not proto.HasField("parameter_replication"):
        return None
    flags = proto.parameter_replication.replicated_at_leaf_buffers
    return "{" + ",".join("true" if f else "false" for f in flags) + "}"


def write_domain(proto: Message, text: str, _: HloInstruction) -> None:
    """Write the two shardings of a domain from its text."""
    cursor = Cursor(text)
    cursor.expect("{")
    while not cursor.at("}"):
        name = cursor.attribute_name()
        if name == "kind":
            cursor.string()
        else:
            # The message has it from the operand's perspective.
            side = proto.domain_exit_sharding if name == "entry" else proto.domain_entry_sharding
            side.CopyFrom(sharding.read_sharding(cursor))
        if not cursor.accept(","):
            break


def read_domain(proto: Message, _: Sequence[Shape]) -> str:
    """The text of a domain."""
    entry = sharding.sharding_from_proto(proto.domain_exit_sharding)
    return f'{{kind="sharding", entry={entry}, exit={sharding.sharding_from_proto(proto.domain_entry_sharding)}}}'


_SPARSITY = ("num_non_zero", "block_size", "dimension", "stride", "idx")


def write_sparsity(proto: Message, text: str, _: HloInstruction) -> None:
    """Write `sparsity_config` from its text."""
    proto.sparsity_config.SetInParent()
    for side, *numbers in _SPARSE_SIDE.findall(text):
        for name, number in zip(_SPARSITY, numbers, strict=True):
            setattr(getattr(proto.sparsity_config, side), name, int(number or 0))


_SPARSE_SIDE = re.compile(
    r"(lhs|rhs)=\{sparsity=(\d+)x(\d+)(?: dimension=(-?\d+))?(?: stride=(-?\d+))?(?: idx=(-?\d+))?\}"
)


def read_sparsity(proto: Message, _: Sequence[Shape]) -> str | None:
    """The text of `sparsity_config`; None if empty."""
    sides: list[str] = []
    for side in ("lhs", "rhs"):
        if proto.sparsity_config.HasField(side):
            s = getattr(proto.sparsity_config, side)
            sides.append(
                f"{side}={{sparsity={s.num_non_zero}x{s.block_size} dimension={s.dimension} stride={s.stride}"
                + (f" idx={s.idx}}}" if s.idx else "}")
            )
    return "{" + " ".join(sides) + "}" if sides else None


def write_shuffle_mode(proto: Message, mode: str, _: HloInstruction) -> None:
    """Write the shuffle mode; rotation is the only one."""
    proto.shuffle_mode.rotate.SetInParent()


def read_shuffle_mode(proto: Message, _: Sequence[Shape]) -> str | None:
    """The name of the set field of `shuffle_mode`, or None."""
    return "rotate" if proto.HasField("shuffle_mode") and proto.shuffle_mode.HasField("rotate") else None


def write_shifts(proto: Message, shifts: Sequence[int], _: HloInstruction) -> None:
    """Write the rotation of each dimension."""
    proto.shuffle_mode.rotate.shifts.extend(shifts)


def read_shifts(proto: Message, shapes: Sequence[Shape]) -> tuple[int, ...] | None:
    """The rotation of each dimension; None if it is not a rotation."""
    return tuple(proto.shuffle_mode.rotate.shifts) if read_shuffle_mode(proto, shapes) else None


_SCALED_SIDE = re.compile(r"(lhs|rhs)=\{(?:scale_idx=(-?\d+))?\}")


def write_scaling(proto: Message, text: str, _: HloInstruction) -> None:
    """Write `block_scaling_config` from its text."""
    for side, number in _SCALED_SIDE.findall(text):
        message = getattr(proto.block_scaling_config, side)
        message.SetInParent()
        message.scale_idx = int(number or 0)


def read_scaling(proto: Message, _: Sequence[Shape]) -> str | None:
    """The text of `block_scaling_config`; None if empty."""
    config = proto.block_scaling_config
    sides = [
        f"{side}={{scale_idx={getattr(config, side).scale_idx}}}" for side in ("lhs", "rhs") if config.HasField(side)
    ]
    return "{" + " ".join(sides) + "}" if sides else None


# -- lists of pairs and boxes ----------------------------------------------------------------------


def write_pairs(proto: Message, pairs: tuple[tuple[int, ...], ...], _: HloInstruction) -> None:
    """Write `source_target_pairs`."""
    for source, target in pairs:
        proto.source_target_pairs.add(source=source, target=target)


def write_boxes(proto: Message, boxes: tuple[tuple[int, ...], ...], _: HloInstruction) -> None:
    """Write the sizes of the slices that a collective-permute sends."""
    proto.dynamic_slice_sizes.extend(size for box in boxes for size in box)


def read_boxes(proto: Message, shapes: Sequence[Shape]) -> tuple[tuple[int, ...], ...] | None:
    """The sizes of all slices in one list, each as long as the source's rank."""
    sizes = tuple(proto.dynamic_slice_sizes)
    if not sizes:
        return None
    source = shapes[0] if shapes else None
    if isinstance(source, TupleShape) and source.shapes:
        source = source.shapes[0]
    rank = source.rank if isinstance(source, ArrayShape) else 0
    if not rank or len(sizes) % rank:
        raise HloParseError(f"{len(sizes)} slice sizes do not match operands of {rank} dimensions")
    return tuple(sizes[i : i + rank] for i in range(0, len(sizes), rank))


def write_constraints(proto: Message, shapes: tuple[Shape, ...], _: HloInstruction) -> None:
    """Write the layouts that a custom-call requires of its operands."""
    proto.constrain_layout = True
    proto.operand_shapes_with_layout.extend(map(shape_to_proto, shapes))


def read_constraints(proto: Message, operands: Sequence[Shape]) -> tuple[Shape, ...] | None:
    """Read the layouts that a custom-call requires of its operands; None if it requires none."""
    if not proto.constrain_layout:
        return None
    shapes = tuple(map(shape_from_proto, proto.operand_shapes_with_layout))
    if len(shapes) != len(operands):
        raise HloParseError(f"expected {len(operands)} operand layout constraints, not {len(shapes)}")
    for shape, operand in zip(shapes, operands, strict=True):
        if not compatible(shape, operand):
            raise HloParseError(
                f"operand layout constraint {shape} is not compatible with an operand of shape {operand}"
            )
    return shapes
