"""XlaDot, XlaConv and XlaGather: HLO with dimension numbers as a serialized message.

Source: tf2xla/kernels/xla_{dot,conv}_op.cc, gather_scatter_ops.cc.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from xlanb.hlo import HloInstruction
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.proto.values import read_conv
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.registry import register


def dimension_numbers(ctx: OpContext, message: Any) -> Any:
    """Read the attribute dimension_numbers into a message. Raises GraphError if it is malformed."""
    text = ctx.attr("dimension_numbers")
    data = text.encode() if isinstance(text, str) else bytes(text)
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        ctx.fail(f"dimension_numbers is not a {type(message).__name__}: {error}")
    return message


def _result_type(ctx: OpContext) -> PrimitiveType:
    """The second versions name the type of the result; the first have one type for all."""
    named = "preferred_element_type"
    return ctx.element_type(named) if named in ctx.op.attrs else ctx.shape(0).element_type


@register("XlaDot", "XlaDotV2")
def _dot(ctx: OpContext) -> HloInstruction:
    """DotGeneral."""
    numbers = dimension_numbers(ctx, SCHEMA.DotDimensionNumbers())
    return ctx.b.dot_general(
        ctx.input(0),
        ctx.input(1),
        lhs_contracting_dims=list(numbers.lhs_contracting_dimensions),
        rhs_contracting_dims=list(numbers.rhs_contracting_dimensions),
        lhs_batch_dims=list(numbers.lhs_batch_dimensions),
        rhs_batch_dims=list(numbers.rhs_batch_dimensions),
        element_type=_result_type(ctx),
    )


def _labels(ctx: OpContext) -> ConvolutionDimensionNumbers:
    holder = SCHEMA.HloInstructionProto()
    holder.convolution_dimension_numbers.CopyFrom(dimension_numbers(ctx, SCHEMA.ConvolutionDimensionNumbers()))
    found = read_conv(holder, ())
    if found is None:
        ctx.fail("dimension_numbers is empty")
    return found


@register("XlaConv", "XlaConvV2", constants=slice(2, 7))
def _conv(ctx: OpContext) -> HloInstruction:
    """ConvGeneralDilated of lhs, rhs, strides, paddings [n, 2], both dilations,
    feature_group_count.
    """
    labels = _labels(ctx)
    strides, base, dilations = ctx.ints(2), ctx.ints(4), ctx.ints(5)
    kernel = ctx.shape(1)
    if any(not 0 <= d < kernel.rank for d in labels.kernel_spatial):
        ctx.fail(f"dimension_numbers name spatial dimensions {list(labels.kernel_spatial)} of {kernel}")
    sizes = [kernel.dimensions[d] for d in labels.kernel_spatial]
    if any(len(numbers) != len(sizes) for numbers in (strides, base, dilations)):
        ctx.fail(f"strides and dilations must have {len(sizes)} elements each, one for each spatial dimension")
    columns = zip(sizes, strides, ctx.paddings(3, len(sizes)), dilations, base, strict=True)
    window = Window(tuple(WindowDimension(n, s, low, high, d, e) for n, s, (low, high), d, e in columns))
    return ctx.b.convolution(
        ctx.input(0),
        ctx.input(1),
        window,
        labels,
        feature_group_count=int(ctx.number(6)),
        batch_group_count=int(ctx.attr("batch_group_count", 1)),
        element_type=_result_type(ctx),
    )


@register("XlaGather", constants=(2,))
def _gather(ctx: OpContext) -> HloInstruction:
    """Gather; inputs: operand, start indices, the sizes of a slice."""
    numbers = dimension_numbers(ctx, SCHEMA.GatherDimensionNumbers())
    return ctx.b.gather(
        ctx.input(0),
        ctx.input(1),
        offset_dims=list(numbers.offset_dims),
        collapsed_slice_dims=list(numbers.collapsed_slice_dims),
        start_index_map=list(numbers.start_index_map),
        operand_batching_dims=list(numbers.operand_batching_dims),
        start_indices_batching_dims=list(numbers.start_indices_batching_dims),
        index_vector_dim=int(numbers.index_vector_dim),
        slice_sizes=ctx.ints(2),
        indices_are_sorted=bool(ctx.attr("indices_are_sorted", False)),
    )
