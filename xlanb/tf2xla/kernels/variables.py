"""Reference and resource variables (tf2xla/kernels/variable_ops.cc).

In TensorFlow, ops on reference variables have no kernel for XLA_CPU_JIT: they are lowered here to
run op by op, and never clustered.
"""

from __future__ import annotations

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.registry import register


@register("ReadVariableOp")
def _read(ctx: OpContext) -> HloInstruction:
    return ctx.read_variable(0)


@register("AssignVariableOp")
def _assign_resource(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.input(1))


@register("AssignAddVariableOp")
def _assign_add_resource(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.add(ctx.read_variable(0), ctx.input(1)))


@register("AssignSubVariableOp")
def _assign_sub_resource(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.subtract(ctx.read_variable(0), ctx.input(1)))


@register("Assign", is_compilable=False)
def _assign(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.input(1))


@register("AssignAdd", is_compilable=False)
def _assign_add(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.add(ctx.read_variable(0), ctx.input(1)))


@register("AssignSub", is_compilable=False)
def _assign_sub(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.subtract(ctx.read_variable(0), ctx.input(1)))


@register("VariableShape")
def _variable_shape(ctx: OpContext) -> HloInstruction:
    dims = ctx.read_variable(0).array_shape.dimensions
    wanted = ctx.attr("out_type")
    return ctx.b.constant(np.asarray(dims, np.int32 if wanted is None else wanted.as_numpy_dtype))


@register("VarIsInitializedOp")
def _is_initialized(ctx: OpContext) -> HloInstruction:
    return ctx.b.constant(np.asarray(ctx.has_value(0)))
