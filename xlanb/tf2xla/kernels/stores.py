"""TF1 stacks and tensor arrays (tf2xla/kernels/{stack_ops,tensor_array_ops}.cc).

They are variables that the program itself makes. Their sizes are compile-time constants: an array
states its own, a stack's is the trip count of the loops that push to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext, Store, Value
from xlanb.tf2xla.kernels.constants import scalar_of
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.registry import register


def _store(ctx: OpContext, *, is_stack: bool) -> Store:
    value = ctx.values[0]
    if not isinstance(value, Store) or value.is_stack is not is_stack:
        ctx.fail(f"input 0 is not a {'stack' if is_stack else 'TensorArray'}")
    return value


def _row(ctx: OpContext, buffer: HloInstruction, index: HloInstruction) -> HloInstruction:
    dims = buffer.array_shape.dimensions[1:]
    return ctx.b.reshape(ctx.b.dynamic_slice(buffer, _starts(ctx, index, len(dims)), [1, *dims]), dims)


def _starts(ctx: OpContext, index: HloInstruction, rest: int) -> list[HloInstruction]:
    zero = scalar_of(ctx, index.array_shape.element_type, 0)
    return [index, *[zero] * rest]


def _with_row(ctx: OpContext, buffer: HloInstruction, index: HloInstruction, item: HloInstruction) -> HloInstruction:
    dims = buffer.array_shape.dimensions[1:]
    if item.array_shape.dimensions != dims:
        ctx.fail(
            f"an element of shape {list(item.array_shape.dimensions)} does not match the element shape {list(dims)}"
        )
    row = ctx.b.reshape(item, [1, *dims])
    return ctx.b.dynamic_update_slice(buffer, row, _starts(ctx, index, len(dims)))


# ------------------------------------------------------------------------------------------- stacks


@register("StackV2", constants=(0,))
def _stack(ctx: OpContext) -> Value:
    size = int(ctx.number(0))
    return Store(
        ctx.op.name, -1, None, False, ctx.element_type("elem_type"), size if size >= 0 else None, is_stack=True
    )


@register("StackPushV2")
def _push(ctx: OpContext) -> HloInstruction:
    store, item = _store(ctx, is_stack=True), ctx.input(1)
    store.form(ctx.b, item.array_shape.dimensions)
    store.pushes += 1
    buffer, count = _parts(ctx, ctx.input(0))
    more = ctx.b.add(count, scalar_of(ctx, PrimitiveType.S32, 1))
    ctx.assign_variable(0, ctx.b.tuple([_with_row(ctx, buffer, count, item), more]))
    return item


@register("StackPopV2")
def _pop(ctx: OpContext) -> HloInstruction:
    store = _store(ctx, is_stack=True)
    if store.value is None:
        ctx.fail("cannot pop from the stack before anything was pushed")
    buffer, count = _parts(ctx, store.value)
    less = ctx.b.subtract(count, scalar_of(ctx, PrimitiveType.S32, 1))
    ctx.assign_variable(0, ctx.b.tuple([buffer, less]))
    return _row(ctx, buffer, less)


@register("StackCloseV2")
def _close_stack(_: OpContext) -> Sequence[Value]:
    return []


def _parts(ctx: OpContext, held: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    return ctx.b.get_tuple_element(held, 0), ctx.b.get_tuple_element(held, 1)


# ------------------------------------------------------------------------------------------- arrays


@register("TensorArrayV3", constants=(0,))
def _array(ctx: OpContext) -> Sequence[Value]:
    store = Store(ctx.op.name, -1, None, False, ctx.element_type("dtype"), max(0, int(ctx.number(0))))
    shape = ctx.attr("element_shape")
    dims = None if shape is None else shape.as_tuple()
    if dims is not None and None not in dims:
        store.form(ctx.b, [int(d) for d in dims if d is not None])
    return [store, ctx.b.constant(np.zeros((), np.float32))]


@register("TensorArrayGradV3")
def _gradient(ctx: OpContext) -> Sequence[Value]:
    store, source = _store(ctx, is_stack=False), str(ctx.attr("source", ""))
    if source not in store.gradients:
        made = replace(
            store, name=f"{store.name}/{source}", value=None, is_written=False, is_gradient=True, gradients={}
        )
        if store.dims is not None:
            made.form(ctx.b, store.dims)
        store.gradients[source] = made
    return [store.gradients[source], ctx.input(1)]


@register("TensorArrayWriteV3")
def _write(ctx: OpContext) -> HloInstruction:
    """Write an element; in an array of gradients, add it to the old one."""
    store, index, item = _store(ctx, is_stack=False), ctx.input(1), ctx.input(2)
    store.form(ctx.b, item.array_shape.dimensions)
    buffer = ctx.input(0)
    if store.is_gradient:
        item = ctx.b.add(_row(ctx, buffer, index), item)
    ctx.assign_variable(0, _with_row(ctx, buffer, index, item))
    return ctx.input(3)


def _formed(ctx: OpContext) -> HloInstruction:
    store, shape = _store(ctx, is_stack=False), ctx.attr("element_shape")
    dims = None if shape is None else shape.as_tuple()
    if store.value is None and dims is not None and None not in dims:
        store.form(ctx.b, [int(d) for d in dims if d is not None])
    if store.value is None:
        ctx.fail("the shape of the array's elements is unknown when they are read")
    return store.value


@register("TensorArrayReadV3")
def _read(ctx: OpContext) -> HloInstruction:
    return _row(ctx, _formed(ctx), ctx.input(1))


@register("TensorArrayGatherV3")
def _gather(ctx: OpContext) -> HloInstruction:
    buffer, indices = _formed(ctx), ctx.known(ctx.input(1))
    if indices is not None and indices.tolist() == list(range(buffer.array_shape.dimensions[0])):
        return buffer
    return gather_slices(ctx, buffer, ctx.input(1), 0)


@register("TensorArrayScatterV3", constants=(1,))
def _scatter(ctx: OpContext) -> HloInstruction:
    store, value = _store(ctx, is_stack=False), ctx.input(2)
    store.form(ctx.b, value.array_shape.dimensions[1:])
    buffer, indices = ctx.input(0), ctx.ints(1)
    if len(indices) == buffer.array_shape.dimensions[0] and indices == list(range(len(indices))):
        ctx.assign_variable(0, ctx.b.add(buffer, value) if store.is_gradient else value)
        return ctx.input(3)
    for position, index in enumerate(indices):
        at = scalar_of(ctx, PrimitiveType.S32, index)
        item = _row(ctx, value, scalar_of(ctx, PrimitiveType.S32, position))
        buffer = _with_row(ctx, buffer, at, ctx.b.add(_row(ctx, buffer, at), item) if store.is_gradient else item)
    ctx.assign_variable(0, buffer)
    return ctx.input(3)


@register("TensorArrayConcatV3")
def _concat(ctx: OpContext) -> Sequence[HloInstruction]:
    buffer = _formed(ctx)
    count, first, *rest = buffer.array_shape.dimensions
    return [
        ctx.b.reshape(buffer, [count * first, *rest]),
        broadcast_to(ctx.b, ctx.b.constant(np.int64(first)), [count]),
    ]


@register("TensorArraySplitV3", constants=(2,))
def _split(ctx: OpContext) -> HloInstruction:
    store, value, lengths = _store(ctx, is_stack=False), ctx.input(1), ctx.ints(2)
    if len(set(lengths)) > 1 or len(lengths) != store.size:
        ctx.fail(f"parts of lengths {lengths} do not match an array of {store.size} elements of one shape")
    rows = ctx.b.reshape(value, [len(lengths), *lengths[:1], *value.array_shape.dimensions[1:]])
    store.form(ctx.b, rows.array_shape.dimensions[1:])
    ctx.assign_variable(0, ctx.b.add(ctx.input(0), rows) if store.is_gradient else rows)
    return ctx.input(3)


@register("TensorArraySizeV3")
def _size(ctx: OpContext) -> HloInstruction:
    return scalar_of(ctx, PrimitiveType.S32, _store(ctx, is_stack=False).size or 0)


@register("TensorArrayCloseV3")
def _close_array(_: OpContext) -> Sequence[Value]:
    return []
