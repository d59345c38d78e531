"""A convolution as a contraction: rows are pixels, columns output features, depth the window and the input features that one output sees.

No patches are gathered: along the window the input moves by strides of its own, as it does along rows, so that rows overlap in memory.
"""

from __future__ import annotations

from xlanb.cpu.codegen.conv.numbers import Convolution
from xlanb.cpu.codegen.conv.padded import Padded
from xlanb.cpu.codegen.indexing import strides
from xlanb.cpu.codegen.matmul.contraction import Axis, Contraction


def contraction_of(c: Convolution, p: Padded) -> tuple[Contraction, int]:
    """The axes of a convolution over its padded input, and the element of the kernel at which a reversed window begins."""
    n, b, out = c.numbers, strides(c.kernel), strides(c.result)
    a, groups, parts = p.strides, c.feature_groups, c.batch_groups
    features = c.kernel.dimensions[n.kernel_output_feature] // (groups * parts)
    batch = c.source.dimensions[n.input_batch] // parts
    to_kernel, to_result = features * b[n.kernel_output_feature], features * out[n.output_feature]
    rows = [Axis(batch, a[n.input_batch], 0, out[n.output_batch])]
    depth = [Axis(c.features, a[n.input_feature], b[n.kernel_input_feature])]
    first = 0
    for w, d, k, o in zip(c.window, n.input_spatial, n.kernel_spatial, n.output_spatial, strict=True):
        rows.append(Axis(c.result.dimensions[o], w.stride * a[d], 0, out[o]))
        depth.append(Axis(w.size, w.window_dilation * a[d], -b[k] if w.reversal else b[k]))
        first += (w.size - 1) * b[k] if w.reversal else 0
    return (
        Contraction(
            (
                Axis(groups, c.features * a[n.input_feature], to_kernel, to_result),
                Axis(parts, batch * a[n.input_batch], to_kernel, to_result),
            ),
            tuple(rows),
            (Axis(features, 0, b[n.kernel_output_feature], out[n.output_feature]),),
            tuple(depth),
            p.type,
            c.kernel.element_type,
            c.type,
            c.result.element_type,
        ),
        first,
    )
