"""Replace paddings that cuDNN's convolutions do not support.

Follows xla/backends/gpu/transforms/conv_padding_legalization.cc.

    conv(x, k), pad=0_1         =>    conv(pad(x), k)
    conv(x, k), lhs_dilate=2    =>    conv(pad(x, interior=1), k)
    input gradient, pad=0_1     =>    slice(input gradient), pad=0_0

cuDNN pads both sides equally, and supports no input dilation and no negative padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlanb.analysis import cudnn_convolution
from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, PaddingDimension, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_NONE = PaddingDimension()
_Windows = tuple[WindowDimension, ...]


class ConvPaddingLegalization(HloPass):
    """Moves unsupported paddings out of cuDNN convolutions."""

    name = "conv-padding-legalization"
    triggers = frozenset((O.CUSTOM_CALL,))
    keeps = REAL
    ulps = 8.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if cudnn_convolution.is_cudnn_convolution(i):
                    _legalize(i)


def _legalize(i: HloInstruction) -> None:
    target, window = i.get("custom_call_target"), i.window.dimensions
    if target in (cudnn_convolution.FORWARD, cudnn_convolution.FUSED):
        if not _is_symmetric(window) or _is_negative(window) or _has_holes(window):
            _forward(i, window)
    # A gradient with negative padding cannot be legalized.
    elif not _is_symmetric(window) and not _is_negative(window):
        if target == cudnn_convolution.BACKWARD_FILTER:
            _backward_filter(i, window)
        else:
            _backward_input(i, window)


def _is_symmetric(window: _Windows) -> bool:
    return all(w.padding_low == w.padding_high for w in window)


def _is_negative(window: _Windows) -> bool:
    return any(w.padding_low < 0 or w.padding_high < 0 for w in window)


def _has_holes(window: _Windows) -> bool:
    """Whether the input is dilated."""
    return any(w.base_dilation != 1 for w in window)


def _padded(x: HloInstruction, config: Sequence[PaddingDimension]) -> HloInstruction:
    zero = x.parent.constant(np.zeros((), x.array_shape.dtype))
    return x.parent.add(O.PAD, (x, zero), metadata=x.metadata, padding=tuple(config))


@reason("conv(A, K) => conv(pad(A), K)")
def _forward(i: HloInstruction, window: _Windows) -> None:
    """Move uneven and negative padding to a pad and a slice, and then filter dilation too."""
    keeps_filter = _is_symmetric(window) and not _is_negative(window) and not _has_holes(window)
    labels: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    x, window = _padded_input(i.operands[0], window, labels)
    x, window = _cut_input(x, window, labels)
    k = i.operands[1]
    if any(w.window_dilation != 1 for w in window) and not keeps_filter:
        holes = dict(zip(labels.kernel_spatial, window, strict=True))
        rank = k.array_shape.rank
        k = _padded(
            k, [PaddingDimension(0, 0, holes[d].window_dilation - 1) if d in holes else _NONE for d in range(rank)]
        )
        sizes = [k.array_shape.dimensions[d] for d in labels.kernel_spatial]
        window = tuple(replace(w, size=n, window_dilation=1) for w, n in zip(window, sizes, strict=True))
    _renew(i, (x, k, *i.operands[2:]), window)


def _padded_input(
    x: HloInstruction, window: _Windows, labels: ConvolutionDimensionNumbers
) -> tuple[HloInstruction, _Windows]:
    if _is_symmetric(window) and not _has_holes(window):
        return x, window
    config = [_NONE] * x.array_shape.rank
    for d, w in zip(labels.input_spatial, window, strict=True):
        config[d] = PaddingDimension(max(w.padding_low, 0), max(w.padding_high, 0), w.base_dilation - 1)
    left = tuple(
        replace(w, padding_low=min(w.padding_low, 0), padding_high=min(w.padding_high, 0), base_dilation=1)
        for w in window
    )
    return _padded(x, config), left


def _cut_input(
    x: HloInstruction, window: _Windows, labels: ConvolutionDimensionNumbers
) -> tuple[HloInstruction, _Windows]:
    if not _is_negative(window):
        return x, window
    starts, limits = [0] * x.array_shape.rank, list(x.array_shape.dimensions)
    for d, w in zip(labels.input_spatial, window, strict=True):
        starts[d] -= min(w.padding_low, 0)
        limits[d] += min(w.padding_high, 0)
    left = tuple(replace(w, padding_low=max(w.padding_low, 0), padding_high=max(w.padding_high, 0)) for w in window)
    return Builder(x).slice(x, starts, limits), left


@reason("filter gradient(A, dY) => filter gradient(pad(A), dY)")
def _backward_filter(i: HloInstruction, window: _Windows) -> None:
    """Keep the smaller padding of both sides, and move the rest to a pad."""
    labels: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    config = [_NONE] * i.operands[0].array_shape.rank
    for d, w in zip(labels.input_spatial, window, strict=True):
        least = min(w.padding_low, w.padding_high)
        config[d] = PaddingDimension(w.padding_low - least, w.padding_high - least)
    _renew(i, (_padded(i.operands[0], config), *i.operands[1:]), _with_even_padding(window))


def _with_even_padding(window: _Windows) -> _Windows:
    least = [min(w.padding_low, w.padding_high) for w in window]
    return tuple(replace(w, padding_low=n, padding_high=n) for w, n in zip(window, least, strict=True))


@reason("input gradient(dY, K) => slice(input gradient(dY, K))")
def _backward_input(i: HloInstruction, window: _Windows) -> None:
    """Reduce the padding, so that the call computes more, and slice its result."""
    labels: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    shape, b = cudnn_convolution.result_shape(i), Builder(i)
    starts, limits, sizes = [0] * shape.rank, list(shape.dimensions), list(shape.dimensions)
    for d, w in zip(labels.input_spatial, window, strict=True):
        sizes[d] += abs(w.padding_low - w.padding_high)
        starts[d] = max(w.padding_low - w.padding_high, 0)
        limits[d] = starts[d] + shape.dimensions[d]
    larger = ArrayShape(shape.element_type, tuple(sizes), shape.layout)
    rest = i.shape.shapes[1:] if isinstance(i.shape, TupleShape) else ()
    c = i.parent
    call = c.clone_instruction(i, i.operands, tuple_of((larger, *rest)) if rest else larger)
    c.update(call, attributes={"window": Window(_with_even_padding(window))})
    if not rest:
        c.replace(i, b.slice(call, starts, limits))
        return
    part = b.slice(b.element(call, 0), starts, limits)
    c.replace(i, b.add(O.TUPLE, (part, *(b.element(call, n) for n in range(1, len(rest) + 1))), i.shape))


def _renew(i: HloInstruction, operands: Sequence[HloInstruction], window: _Windows) -> None:
    call = i.parent.clone_instruction(i, operands)
    i.parent.update(call, attributes={"window": Window(window)})
    i.parent.replace(i, call)
