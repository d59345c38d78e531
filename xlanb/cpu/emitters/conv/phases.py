"""Split base dilation: with D - 1 zeros between input elements, run D undilated convolutions.

    out[q * D + phase] = sum over j of in[q + j + shift] * kernel[first + j * D]

Each phase uses only the window's taps that hit elements. The gradient of a strided convolution
and the transposed convolution then cost no more than the convolution itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xlanb.codegen.convolution import Convolution
from xlanb.hlo.attributes import WindowDimension
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """`count` outputs start, start + step, ... of one dimension, and their `taps` taps.

    The taps are first, first + step, ... of the window. The first tap of the first output hits
    element -low of the input (counting holes if `dilation` is not 1); each output advances by
    `stride`.
    """

    start: int
    step: int
    count: int
    first: int
    taps: int
    low: int
    stride: int
    dilation: int = 1


def phases_of(w: WindowDimension, outputs: int) -> tuple[Phase, ...]:
    """The phases of one dimension; one if it has no base dilation or its window has strides."""
    d = w.base_dilation
    if d == 1 or w.stride != 1 or w.window_dilation != 1:
        return (Phase(0, 1, outputs, 0, w.size, w.padding_low, w.stride, d),)
    made = []
    for start in range(min(d, outputs)):
        first = (w.padding_low - start) % d
        taps = max(0, -(-(w.size - first) // d))
        made.append(Phase(start, d, -(-(outputs - start) // d), first, taps, (w.padding_low - start - first) // d, 1))
    return tuple(made)


def phases(c: Convolution) -> tuple[tuple[Phase, ...], ...]:
    """The phases of each spatial dimension."""
    outputs = (c.result.dimensions[o] for o in c.numbers.output_spatial)
    return tuple(phases_of(w, n) for w, n in zip(c.window, outputs, strict=True))


def combinations(c: Convolution) -> Iterator[tuple[Phase, ...]]:
    """Yield all combinations of one phase per dimension."""
    return product(*phases(c))
