"""Base dilation without its holes: a convolution over an input with D - 1 zeros between its elements is D convolutions over the input itself.

    out[q * D + phase] = sum over j of in[q + j + shift] * kernel[first + j * D]

Each phase sees the taps of the window that fall on elements and no others: the gradient of a strided convolution and the transposed convolution then cost what the
convolution costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from xlanb.codegen.convolution import Convolution
from xlanb.hlo.attributes import WindowDimension


@dataclass(frozen=True, slots=True)
class Phase:
    """Outputs start, start + step, ... of one dimension, `count` of them, and the taps first, first + step, ... that they see, `taps` of them.

    The first tap of the first output falls on element -low of the input (with its holes where `dilation` is not 1), each output `stride` further.
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
    """The phases of one dimension: one where there are no holes, or strides that make them no matter of every D-th output."""
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
    """A phase of each dimension, in all combinations."""
    return product(*phases(c))
