"""Embed StableHLO programs, and gradients of functions.

Sources: tensorflow/compiler/tf2xla/kernels/xla_call_module_op.cc and
tensorflow/core/ops/function_grad.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.errors import XlanbError
from xlanb.graph.extensions import stablehlo_module
from xlanb.graph.gradients.functional import gradient_body
from xlanb.hlo import HloInstruction, HloModule
from xlanb.shape import TupleShape
from xlanb.tf2xla.compiler import lower_body
from xlanb.tf2xla.context import OpContext, Value
from xlanb.tf2xla.registry import register
from xlanb.wording import counted

_PLATFORM = "CPU"


@register("SymbolicGradient")
def _symbolic_gradient(ctx: OpContext) -> Sequence[Value]:
    return lower_body(gradient_body(ctx.op), ctx.values, ctx.b, ctx.constants)


@register("XlaCallModule")
def _call_module(ctx: OpContext) -> Sequence[Value]:
    """Call the module's entry, its open sizes set to those of the arguments.

    A module for several platforms takes the number of the platform as its first argument.
    """
    _check(ctx)
    platforms = [_text(p) for p in ctx.attr("platforms")]
    arguments = list(ctx.inputs)
    if len(platforms) > 1:
        arguments.insert(0, ctx.b.constant(np.int32(platforms.index(_PLATFORM))))
    module = _module(ctx, arguments)
    parameters = module.entry_computation.parameters
    if len(parameters) != len(arguments):
        ctx.fail(f"the StableHLO module takes {counted(len(parameters), 'argument')}, {len(arguments)} given")
    for number, (p, a) in enumerate(zip(parameters, arguments, strict=True)):
        if p.array_shape.dimensions != a.array_shape.dimensions or p.array_shape.dtype != a.array_shape.dtype:
            ctx.fail(f"argument {number} of the StableHLO module is {p.shape}, not {a.shape}")
    called = ctx.b.call(ctx.b.module.clone_computation(module.entry_computation), arguments)
    if not isinstance(called.shape, TupleShape):
        return [called]
    return [ctx.b.get_tuple_element(called, i) for i in range(len(called.shape.shapes))]


def _module(ctx: OpContext, arguments: Sequence[HloInstruction]) -> HloModule:
    source = ctx.attr("module")
    data = source if isinstance(source, bytes) else str(source).encode()
    shaped = [np.broadcast_to(np.zeros((), a.array_shape.dtype), a.array_shape.dimensions) for a in arguments]
    try:
        module: HloModule = stablehlo_module(data, shaped)
        module.verify(executable=True)
    except XlanbError as error:
        error.add_note(f"in the StableHLO module of node {ctx.op.name!r} (XlaCallModule)")
        raise
    return module


def _check(ctx: OpContext) -> None:
    """Raise GraphError for parts outside the module: callbacks, tokens, other platforms."""
    platforms = [_text(p) for p in ctx.attr("platforms")]
    skipped = {_text(c) for c in ctx.attr("disabled_checks", ())}
    if platforms and _PLATFORM not in platforms and (len(platforms) > 1 or "platform" not in skipped):
        ctx.fail(f"the current platform {_PLATFORM} is not among the platforms required by the module: {platforms}")
    if ctx.attr("function_list", ()):
        names = ", ".join(f.name for f in ctx.attr("function_list"))
        ctx.fail(f"the module calls TensorFlow functions ({names}), which is not supported")
    if ctx.attr("has_token_input_output", False):
        ctx.fail("the module passes tokens of host callbacks, which is not supported")
    if ctx.attr("dim_args_spec", ()):
        ctx.fail("dim_args_spec is not supported: serialize the module with version 5 or newer")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
