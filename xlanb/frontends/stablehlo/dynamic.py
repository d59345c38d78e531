"""Operations with sizes as operands: if these are constant, they equal the operations with sizes as
attributes.
"""

from __future__ import annotations

from xlanb.frontends.stablehlo import data, elementwise, linalg
from xlanb.frontends.stablehlo.control import target
from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, rule
from xlanb.hlo.instruction import HloInstruction


def _sizes(s: RegionScope, op: StablehloOperation, operand: HloInstruction) -> list[int]:
    """The numbers of an operand that must be known."""
    known = s.constant_of(operand)
    if known is None:
        s.refuse(op, f"its operand {operand.name} is only known at run time: expected constant sizes")
    if known.dtype.kind not in "iu":
        s.fail(op, f"expected integers as sizes, not {operand.shape.text(layout=False)}")
    return [int(n) for n in known.reshape(-1)]


@rule("stablehlo.dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, shape = s.operands(op, 2)
    return data.broadcast_in_dim(s, op, x, _sizes(s, op, shape))


@rule("stablehlo.dynamic_reshape", "chlo.dynamic_reshape")
def _dynamic_reshape(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, shape = s.operands(op, 2)
    sizes = _sizes(s, op, shape)
    if sizes.count(-1) == 1:
        rest = 1
        for n in sizes:
            rest *= n if n != -1 else 1
        sizes[sizes.index(-1)] = x.array_shape.element_count // rest if rest else 0
    return s.b.reshape(x, sizes)


@rule("stablehlo.dynamic_iota")
def _dynamic_iota(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (shape,) = s.operands(op, 1)
    return elementwise.iota(s, op, tuple(_sizes(s, op, shape)))


@rule("stablehlo.dynamic_pad")
def _dynamic_pad(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, value, *parts = s.operands(op, 5)
    return data.pad(s, op, x, value, [_sizes(s, op, p) for p in parts])


@rule("stablehlo.real_dynamic_slice")
def _real_dynamic_slice(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, *parts = s.operands(op, 4)
    starts, limits, strides = (_sizes(s, op, p) for p in parts)
    if not len(starts) == len(limits) == len(strides) == x.array_shape.rank:
        s.fail(op, f"expected a range for each of {x.array_shape.rank} dimensions")
    return s.b.slice(x, starts, limits, strides)


@rule("stablehlo.dynamic_gather")
def _dynamic_gather(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, indices, sizes = s.operands(op, 3)
    return data.gather(s, op, x, indices, _sizes(s, op, sizes))


@rule("stablehlo.dynamic_conv")
def _dynamic_conv(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, kernel, padding = s.operands(op, 3)
    flat = _sizes(s, op, padding)
    if len(flat) % 2:
        s.fail(op, "expected a pair of padding for each dimension")
    return linalg.convolution(s, op, x, kernel, list(zip(flat[::2], flat[1::2], strict=True)))


@target("shape_assertion")
def _shape_assertion(s: RegionScope, op: StablehloOperation) -> Instructions:
    """Check JAX's assertion on symbolic sizes at compile time; emit nothing if it holds."""
    condition, *numbers = s.operands(op, at_least=1)
    known = s.constant_of(condition)
    if known is None:
        s.refuse(op, "its condition is only known at run time")
    if not bool(known):
        message = str(op.attributes.get("error_message", "a condition on the sizes does not hold"))
        values = [_sizes(s, op, n)[0] for n in numbers]
        for n, value in enumerate(values):
            message = message.replace(f"{{{n}}}", str(value))
        s.fail(op, message)
    return []
