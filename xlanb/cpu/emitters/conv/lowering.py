"""Lower a convolution to a contraction.

Rows are pixels, columns are output features, depth is the window and the input features that one
output reads. No patches are gathered (no im2col): depth and row axes have their own strides into
the input, so that rows overlap in memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xlanb.codegen.convolution import Convolution
from xlanb.codegen.indexing import strides
from xlanb.cpu.emitters.conv.padded import PaddedInput
from xlanb.cpu.emitters.conv.phases import Phase
from xlanb.cpu.emitters.copies import Copy
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ConvolutionPart:
    """A contraction, and its first elements in input, kernel and result.

    With `spread`, the contraction's result is dense: a copy in scratch memory, from which the
    elements are spread over the convolution's result.
    """

    x: Contraction
    a: int
    b: int
    c: int
    spread: Copy | None = None

    @property
    def dense_bytes(self) -> int:
        """Bytes of the dense result."""
        return prod(axis.size for axis in self.spread.axes) * self.x.c_type.byte_size if self.spread else 0


def part_of(c: Convolution, p: PaddedInput, chosen: tuple[Phase, ...]) -> ConvolutionPart:
    """The contraction for one phase of each dimension, over the padded input."""
    n, b, out = c.numbers, strides(c.kernel), strides(c.result)
    a, groups, parts = p.strides, c.feature_groups, c.batch_groups
    features = c.kernel.dimensions[n.kernel_output_feature] // (groups * parts)
    batch = c.source.dimensions[n.input_batch] // parts
    to_kernel, to_result = features * b[n.kernel_output_feature], features * out[n.output_feature]
    rows = [ContractionAxis(batch, a[n.input_batch], 0, out[n.output_batch])]
    depth = [ContractionAxis(c.features, a[n.input_feature], b[n.kernel_input_feature])]
    first = [0, 0, 0]
    spatial = zip(c.window, chosen, n.input_spatial, n.kernel_spatial, n.output_spatial, strict=True)
    for w, phase, d, k, o in spatial:
        tap = -b[k] if w.reversal else b[k]
        rows.append(ContractionAxis(phase.count, phase.stride * a[d], 0, phase.step * out[o]))
        depth.append(ContractionAxis(phase.taps, w.window_dilation * a[d], phase.step * tap))
        first[0] += (p.sides[d].low - phase.low) * a[d]
        first[1] += ((w.size - 1) * b[k] if w.reversal else 0) + phase.first * tap
        first[2] += phase.start * out[o]
    x = Contraction(
        (
            ContractionAxis(groups, c.features * a[n.input_feature], to_kernel, to_result),
            ContractionAxis(parts, batch * a[n.input_batch], to_kernel, to_result),
        ),
        tuple(rows),
        (ContractionAxis(features, 0, b[n.kernel_output_feature], out[n.output_feature]),),
        tuple(depth),
        p.type,
        c.kernel.element_type,
        c.type,
        c.result.element_type,
    )
    return ConvolutionPart(x, first[0], first[1], first[2])


def dense(p: ConvolutionPart, *, columns_last: bool = False) -> ConvolutionPart:
    """The part with a dense result, in the same order of axes, or with columns fastest."""
    strides, axes, size = dict[ContractionAxis, int](), [], 1
    kinds = (p.x.columns, (*p.x.batch, *p.x.rows)) if columns_last else ((*p.x.batch, *p.x.rows, *p.x.columns),)
    for axis in [axis for kind in kinds for axis in sorted({*kind}, key=lambda axis: axis.c)]:
        if axis.size > 1:
            strides[axis] = size
            axes.append(ContractionAxis(axis.size, size, 0, axis.c))
            size *= axis.size
    batch, rows, columns = (
        tuple(replace(axis, c=strides.get(axis, 0)) for axis in kind) for kind in (p.x.batch, p.x.rows, p.x.columns)
    )
    t = p.x.c_type
    x = replace(p.x, batch=batch, rows=rows, columns=columns)
    return replace(p, x=x, spread=Copy(tuple(reversed(axes)), t, t))
