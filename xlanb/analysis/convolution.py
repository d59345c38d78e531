"""Details of convolutions that XLA leaves undefined, as XLA:CPU implements them."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.shape_inference.registry import product_type

_MOST_DIMENSIONS = 3


def multiplies_padding(i: HloInstruction) -> bool:
    """Whether padding is multiplied as zeros, so that a weight of NaN or infinity gives NaN.

    True if XLA:CPU passes the convolution to Eigen: floats of up to 32 bits over one to three
    spatial dimensions, without base dilation or reversal. Its own loops skip padding and dilation
    holes.
    """
    left, right = (o.shape.element_type for o in i.operands[:2])
    kind, window = product_type(left, right, i.shape.element_type), i.window.dimensions
    if not kind.is_floating or kind.bits > 32 or not 1 <= len(window) <= _MOST_DIMENSIONS:
        return False
    return all(w.base_dilation == 1 and not w.reversal for w in window)
