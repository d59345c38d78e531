"""Tensor lists in HLO (tf2xla/kernels/{tensor_list_ops,tensor_list_utils}.cc).

A list is a tuple: a buffer whose rows are its elements and, if elements are pushed, the number of
filled rows. Its size is a compile-time constant; until the shape of its elements is known, it is a
PendingList.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType, TupleShape
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext, PendingList, Value
from xlanb.tf2xla.kernels.constants import scalar_of
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.registry import register


def is_list(x: HloInstruction) -> bool:
    """Whether a value is a list."""
    return isinstance(x.shape, TupleShape)


def zeros_list(ctx: OpContext, pending: PendingList, dims: Sequence[int]) -> HloInstruction:
    """A list of zeros, of elements of this shape."""
    zero = ctx.b.constant(np.zeros((), pending.element_type.dtype))
    buffer = broadcast_to(ctx.b, zero, [pending.size, *dims])
    count = [scalar_of(ctx, PrimitiveType.S32, 0)] if pending.is_pushed else []
    return ctx.b.tuple([buffer, *count])


def _dims(ctx: OpContext, index: int) -> list[int] | None:
    """An element shape that is known whole, else None."""
    value = ctx.known(ctx.input(index))
    dims = None if value is None or not value.ndim else [int(d) for d in value]
    return None if dims is None or any(d < 0 for d in dims) else dims


def _made(ctx: OpContext, size: int, *, is_pushed: bool) -> Value:
    if ctx.attr("element_dtype").name == "variant":
        ctx.fail("a list of lists cannot be expressed in HLO")
    pending = PendingList(ctx.element_type("element_dtype"), size, is_pushed)
    dims = _dims(ctx, 0)
    return pending if dims is None else zeros_list(ctx, pending, dims)


@register("TensorListReserve", constants=(1,))
def _reserve(ctx: OpContext) -> Value:
    return _made(ctx, max(0, int(ctx.number(1))), is_pushed=False)


@register("EmptyTensorList", constants=(1,))
def _empty(ctx: OpContext) -> Value:
    size = int(ctx.number(1))
    if size < 0:
        ctx.fail("a list that grows needs max_num_elements, known at compile time: give the loop maximum_iterations")
    return _made(ctx, size, is_pushed=True)


def _held(ctx: OpContext, like: Sequence[int] | None = None) -> HloInstruction:
    """The list of input 0; one that is pending becomes zeros of elements of the shape `like`."""
    value = ctx.values[0]
    if isinstance(value, PendingList):
        if like is None:
            ctx.fail("the shape of the list's elements is unknown when they are read")
        return zeros_list(ctx, value, like)
    found = ctx.input(0)
    if not is_list(found):
        ctx.fail(f"expected the handle of a list, not {found.shape}")
    return found


def _parts(ctx: OpContext, held: HloInstruction) -> tuple[HloInstruction, HloInstruction | None]:
    """Return the buffer, and the number of filled rows if it can change."""
    shape = held.shape
    is_pushed = isinstance(shape, TupleShape) and len(shape.shapes) > 1
    if held.opcode is HloOpcode.TUPLE:  # made here: its parts remain known
        return held.operands[0], held.operands[1] if is_pushed else None
    return ctx.b.get_tuple_element(held, 0), ctx.b.get_tuple_element(held, 1) if is_pushed else None


def _row(ctx: OpContext, buffer: HloInstruction, index: HloInstruction) -> HloInstruction:
    dims = buffer.array_shape.dimensions[1:]
    row = ctx.b.dynamic_slice(buffer, [index, *_zeros(ctx, len(dims))], [1, *dims])
    return ctx.b.reshape(row, dims)


def _with_row(ctx: OpContext, buffer: HloInstruction, index: HloInstruction, item: HloInstruction) -> HloInstruction:
    dims = buffer.array_shape.dimensions[1:]
    if item.array_shape.dimensions != dims:
        ctx.fail(f"an element of shape {list(item.array_shape.dimensions)} in a list of {list(dims)}")
    return ctx.b.dynamic_update_slice(buffer, ctx.b.reshape(item, [1, *dims]), [index, *_zeros(ctx, len(dims))])


def _zeros(ctx: OpContext, count: int) -> list[HloInstruction]:
    return [scalar_of(ctx, PrimitiveType.S32, 0)] * count


def _whole(ctx: OpContext, held: HloInstruction) -> HloInstruction:
    """Return the buffer of a list whose rows are all filled."""
    buffer, count = _parts(ctx, held)
    filled = None if count is None else ctx.known(count)
    if count is not None and (filled is None or int(filled) != buffer.array_shape.dimensions[0]):
        ctx.fail("the number of pushed elements is only known at run time")
    return buffer


@register("TensorListFromTensor")
def _from_tensor(ctx: OpContext) -> HloInstruction:
    if not ctx.shape(0).rank:
        ctx.fail("a scalar cannot be sliced")
    return ctx.b.tuple([ctx.input(0)])


@register("TensorListGetItem")
def _get(ctx: OpContext) -> HloInstruction:
    return _row(ctx, _parts(ctx, _held(ctx, _dims(ctx, 2)))[0], ctx.input(1))


@register("TensorListSetItem")
def _set(ctx: OpContext) -> HloInstruction:
    if ctx.attr("resize_if_index_out_of_bounds"):
        ctx.fail("the size of a list that grows is unknown at compile time: give the TensorArray a fixed size")
    item = ctx.input(2)
    buffer, count = _parts(ctx, _held(ctx, item.array_shape.dimensions))
    return ctx.b.tuple([_with_row(ctx, buffer, ctx.input(1), item), *([] if count is None else [count])])


@register("TensorListPushBack")
def _push(ctx: OpContext) -> HloInstruction:
    item = ctx.input(1)
    buffer, count = _parts(ctx, _held(ctx, item.array_shape.dimensions))
    if count is None:
        ctx.fail("cannot push to a list of fixed size")
    more = ctx.b.add(count, scalar_of(ctx, PrimitiveType.S32, 1))
    return ctx.b.tuple([_with_row(ctx, buffer, count, item), more])


@register("TensorListPopBack")
def _pop(ctx: OpContext) -> Sequence[HloInstruction]:
    buffer, count = _parts(ctx, _held(ctx, _dims(ctx, 1)))
    if count is None:
        ctx.fail("cannot pop from a list of fixed size")
    less = ctx.b.subtract(count, scalar_of(ctx, PrimitiveType.S32, 1))
    return [ctx.b.tuple([buffer, less]), _row(ctx, buffer, less)]


@register("TensorListStack")
def _stack(ctx: OpContext) -> HloInstruction:
    return _whole(ctx, _held(ctx, _dims(ctx, 1)))


@register("TensorListGather")
def _gather(ctx: OpContext) -> HloInstruction:
    return gather_slices(ctx, _parts(ctx, _held(ctx, _dims(ctx, 2)))[0], ctx.input(1), 0)


@register("TensorListLength")
def _length(ctx: OpContext) -> HloInstruction:
    value = ctx.values[0]
    if isinstance(value, PendingList):
        return scalar_of(ctx, PrimitiveType.S32, 0 if value.is_pushed else value.size)
    buffer, count = _parts(ctx, _held(ctx))
    return scalar_of(ctx, PrimitiveType.S32, buffer.array_shape.dimensions[0]) if count is None else count


@register("TensorListElementShape")
def _element_shape(ctx: OpContext) -> HloInstruction:
    buffer, _ = _parts(ctx, _held(ctx))
    return ctx.b.constant(np.asarray(buffer.array_shape.dimensions[1:], ctx.element_type("shape_type").dtype))


@register("TensorListSplit", constants=(2,))
def _split(ctx: OpContext) -> HloInstruction:
    """Split rows into pieces of equal length, as one buffer requires."""
    x, lengths = ctx.input(0), ctx.ints(2)
    dims = x.array_shape.dimensions
    if not dims or sum(lengths) != dims[0] or min(lengths, default=0) < 0:
        ctx.fail(f"lengths {lengths} do not match {x.shape}")
    if len(set(lengths)) > 1:
        ctx.fail(f"pieces of different lengths {lengths} cannot be expressed in HLO")
    return ctx.b.tuple([ctx.b.reshape(x, [len(lengths), *lengths[:1], *dims[1:]])])


@register("TensorListConcatV2", "TensorListConcat")
def _concat(ctx: OpContext) -> Sequence[HloInstruction]:
    """The elements one after the other, and how many rows each has."""
    known = _dims(ctx, 1) if ctx.op.type == "TensorListConcatV2" else None
    whole = _whole(ctx, _held(ctx, known))
    count, *dims = whole.array_shape.dimensions
    if not dims:
        ctx.fail("scalars cannot be concatenated")
    return [
        ctx.b.reshape(whole, [count * dims[0], *dims[1:]]),
        broadcast_to(ctx.b, ctx.b.constant(np.int64(dims[0])), [count]),
    ]
