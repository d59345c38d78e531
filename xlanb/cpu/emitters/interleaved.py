"""Lines of numbers side by side: one of each line in a lane of vectors that are as long as a cache line, whatever the machine's are."""

from __future__ import annotations

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.nest import steps
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import transposed

VECTOR_BYTES = 64
"""Bytes of a vector of scratch: a cache line."""
PADDING = 16
"""Vectors that copies into scratch may write beyond the last number: lines are copied in squares."""


def lanes_of(number_bytes: int) -> int:
    """Lines that are side by side."""
    return VECTOR_BYTES // number_bytes


@shared("interleave")
def interleave(
    f: Function, a: Pointer, even: Pointer, odd: Pointer, count: Ix, stride: Ix, lines: Ix, step: Ix, out: bool,
    scale: Value | None,
) -> None:  # fmt: skip
    """Copy lines of `count` numbers, `stride` apart, to scratch or `out` of it, perhaps times a number: of each two one to `even` and one to `odd`, `step` pairs of vectors further than those before.

    Lanes without a line of their own hold the last one.
    """
    width = lanes_of(a.element.bytes)
    last, size = f.value(f.sub(lines, 1)), f.mul(stride, a.element.bytes)
    numbers = [f.const(I64, r).smin(last) for r in range(width)]
    rows = [Pointer(displaced(a.base, f.mul(r, size)), a.element) for r in numbers]
    with steps(f, count, width) as c:
        left = f.value(f.sub(count, c))
        mask = Mask(width, None, f.constants(I64, range(width)) < left)
        first = f.mul(f.mul(c, step), width)
        pair = even.by(first), odd.by(first)
        places = [pair[k % 2].by(f.mul(step, k // 2 * 2 * width)) for k in range(width)]
        if not out:
            for place, v in zip(places, transposed([row.load(c, width, mask) for row in rows]), strict=True):
                place.store(0, v)
            return
        given = [place.load(0, width) for place in places]
        for row, v in zip(rows, transposed(given if scale is None else [v * scale for v in given]), strict=True):
            row.store(c, v, mask)
