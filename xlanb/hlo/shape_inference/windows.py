"""Output sizes of windows over an array.

Source: InferWindowOutputShape in xla/service/shape_inference.cc.
"""

from __future__ import annotations

from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.shape_inference.registry import Site, dynamics, make
from xlanb.shape import ArrayShape, PrimitiveType


def dilated(size: int, dilation: int) -> int:
    """A size with `dilation - 1` holes between adjacent elements."""
    return (size - 1) * dilation + 1 if size > 0 else 0


def window_count(size: int, window: WindowDimension) -> int:
    """How many windows fit into a dimension of this size, including padding."""
    padded = dilated(size, window.base_dilation) + window.padding_low + window.padding_high
    reach = dilated(window.size, window.window_dilation)
    return 0 if padded <= 0 or reach > padded else (padded - reach) // window.stride + 1


def check_window(site: Site, window: Window | None, rank: int) -> Window:
    """The window, which must have `rank` dimensions with positive sizes, strides and dilations."""
    window = window or Window()
    if len(window.dimensions) != rank:
        site.fail(f"expected a window of {rank} dimensions, not {len(window.dimensions)}")
    for d, w in enumerate(window.dimensions):
        for name, value in (
            ("size", w.size),
            ("stride", w.stride),
            ("window dilation", w.window_dilation),
            ("base dilation", w.base_dilation),
        ):
            if value < 1:
                site.fail(f"expected a positive {name} in window dimension {d}, not {value}")
    return window


def window_output(site: Site, base: ArrayShape, window: Window | None, kind: PrimitiveType) -> ArrayShape:
    """The shape with one element of type `kind` per window over `base`."""
    found = check_window(site, window, base.rank)
    sizes = [
        window_count(size, w) if size >= 0 else size for size, w in zip(base.dimensions, found.dimensions, strict=True)
    ]
    return make(kind, sizes, dynamics(base))
