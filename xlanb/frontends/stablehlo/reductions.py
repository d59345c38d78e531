"""Reductions, windows and map: operations with a region over scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, is_integer, rule
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction


@rule("stablehlo.reduce")
def _reduce(s: RegionScope, op: StablehloOperation) -> Instructions:
    inputs, inits = halves(s, op)
    made = s.b.reduce(inputs, inits, s.ints(op, "dimensions"), s.reducer(op, 0, len(inputs)))
    return s.unpacked(made, op)


def halves(s: RegionScope, op: StablehloOperation) -> tuple[list[HloInstruction], list[HloInstruction]]:
    """The operands: arrays, and as many initial values behind them."""
    operands = s.operands(op)
    count = len(operands) // 2
    if not count or len(operands) % 2:
        s.fail(op, f"expected arrays and as many initial values, not {len(operands)} operands")
    return operands[:count], operands[count:]


@rule("stablehlo.reduce_window")
def _reduce_window(s: RegionScope, op: StablehloOperation) -> Instructions:
    inputs, inits = halves(s, op)
    sizes = s.ints(op, "window_dimensions")
    window = make_window(
        s,
        op,
        sizes,
        strides=s.ints(op, "window_strides", (1,) * len(sizes)),
        padding=pairs(s, op, "padding", len(sizes)),
        base=s.ints(op, "base_dilations", (1,) * len(sizes)),
        dilation=s.ints(op, "window_dilations", (1,) * len(sizes)),
    )
    return s.unpacked(s.b.reduce_window(inputs, inits, window, s.reducer(op, 0, len(inputs))), op)


def pairs(s: RegionScope, op: StablehloOperation, name: str, count: int) -> list[tuple[int, int]]:
    """Return low and high padding of each dimension: from a matrix or a list of pairs; zeros if
    missing.
    """
    value: Any = op.attributes.get(name)
    if value is None:
        return [(0, 0)] * count
    if isinstance(value, Elements):
        full = value.full()
        value = full.tolist() if full.ndim == 2 and full.size <= 2 * count else None
    is_fine = isinstance(value, list | tuple) and len(value) == count
    if not is_fine or any(not isinstance(p, list | tuple) or len(p) != 2 for p in value):
        s.fail(op, f"expected a pair for each of {count} dimensions as '{name}'")
    if not all(is_integer(n) for p in value for n in p):
        s.fail(op, f"expected integers as '{name}'")
    return [(int(low), int(high)) for low, high in value]


def make_window(
    s: RegionScope,
    op: StablehloOperation,
    sizes: Sequence[int],
    *,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    dilation: Sequence[int],
    reversal: Sequence[bool] = (),
) -> Window:
    """A window with an entry for each dimension."""
    reverse = tuple(reversal) or (False,) * len(sizes)
    lists = (strides, padding, base, dilation, reverse)
    if any(len(x) != len(sizes) for x in lists):
        s.fail(op, f"expected a value for each of {len(sizes)} dimensions of the window")
    return Window(
        tuple(
            WindowDimension(size, stride, low, high, wide, grown, bool(back))
            for size, stride, (low, high), grown, wide, back in zip(sizes, *lists, strict=True)
        )
    )


@rule("stablehlo.select_and_scatter")
def _select_and_scatter(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, source, init = s.operands(op, 3)
    rank = x.array_shape.rank
    ones = (1,) * rank
    window = make_window(
        s,
        op,
        s.ints(op, "window_dimensions", ones),
        strides=s.ints(op, "window_strides", ones),
        padding=pairs(s, op, "padding", rank),
        base=ones,
        dilation=ones,
    )
    return s.b.select_and_scatter(x, source, init, window, s.region(op, 0), s.reducer(op, 1, 1))


@rule("stablehlo.map")
def _map(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    operands = s.operands(op)
    if not operands:
        s.fail(op, "expected operands")
    return s.b.map(operands, s.region(op, 0))
