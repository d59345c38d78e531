"""Interleaved lines of numbers: one line per lane, in vectors as long as a cache line.

The vectors have this size whatever the machine's vector width is.
"""

from __future__ import annotations

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.nest import steps
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import shared
from xlanb.codegen.shuffles import transposed
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value

VECTOR_BYTES = 64
"""Bytes of a vector of scratch memory: a cache line."""
PADDING = 16
"""Vectors that copies to scratch may write past the last number: lines are copied in squares."""


def lanes_of(number_bytes: int) -> int:
    """The number of lines that are interleaved."""
    return VECTOR_BYTES // number_bytes


@shared("interleave")
def interleave(
    f: Function, a: Pointer, even: Pointer, odd: Pointer, count: Ix, stride: Ix, lines: Ix, step: Ix, out: bool,
    scale: Value | None,
) -> None:  # fmt: skip
    """Copy lines of `count` numbers to scratch memory, or from it if `out`, perhaps scaled.

    Lines are `stride` apart. Alternate numbers go to `even` and `odd`; each pair is `step` pairs of
    vectors after the last. Lanes without a line of their own hold the last line.
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
