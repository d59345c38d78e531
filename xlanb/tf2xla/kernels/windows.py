"""Windows over images and volumes: layouts, and SAME, VALID and EXPLICIT padding.

After core/kernels/conv_grad_shape_utils.cc and core/util/padding.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.tf2xla.context import OpContext


@dataclass(frozen=True)
class ImageLayout:
    """Positions of batch, channels and spatial dimensions in "NHWC", "NCHW", "NDHWC", "NCDHW"."""

    batch: int
    feature: int
    spatial: tuple[int, ...]

    @staticmethod
    def of(data_format: str) -> ImageLayout:
        """The layout that a data_format names."""
        return ImageLayout(
            data_format.index("N"), data_format.index("C"), tuple(i for i, c in enumerate(data_format) if c not in "NC")
        )

    @property
    def rank(self) -> int:
        """Number of all dimensions."""
        return len(self.spatial) + 2


@dataclass(frozen=True)
class SpatialWindow:
    """One spatial dimension: `size` of the input, `window`, and the padding `low` and `high`."""

    size: int
    window: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def extent(self) -> int:
        """The span of a window, dilation included."""
        return (self.window - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        """Number of windows: the result's size."""
        return (self.size + self.low + self.high - self.extent) // self.stride + 1


def layout_of(ctx: OpContext, rank: int) -> ImageLayout:
    """Return the node's layout by its attribute data_format, channels last by default."""
    default = "NHWC" if rank == 4 else "NDHWC"
    data_format = ctx.attr("data_format") or default
    if len(data_format) != rank or data_format not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        ctx.fail(f"data_format {data_format!r} does not match {rank} dimensions")
    return ImageLayout.of(data_format)


def spatial_windows(
    ctx: OpContext,
    layout: ImageLayout,
    sizes: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int] = (),
) -> list[SpatialWindow]:
    """Return the window of each spatial dimension.

    `sizes` and `windows` are for spatial dimensions only; `strides` and `dilations` for all, as in
    the attributes.

    Raises:
        GraphError: a stride or dilation is not positive, or no window fits; names the node.
    """
    padding, explicit = str(ctx.attr("padding")), [int(p) for p in ctx.attr("explicit_paddings", ())]
    if padding == "EXPLICIT" and len(explicit) != 2 * layout.rank:
        ctx.fail(f"explicit_paddings must have {2 * layout.rank} elements")
    for name, numbers in (("strides", strides), ("dilations", dilations)):
        if (numbers and len(numbers) < layout.rank) or (name == "strides" and not numbers):
            ctx.fail(f"{name} must have {layout.rank} elements, one for each dimension, not {len(numbers)}")
    out = []
    for axis, size, window in zip(layout.spatial, sizes, windows, strict=True):
        stride, dilation = int(strides[axis]), int(dilations[axis]) if dilations else 1
        if stride < 1 or dilation < 1 or window < 1:
            ctx.fail(f"window {window}, stride {stride} and dilation {dilation} of dimension {axis} must be positive")
        low, high = (explicit[2 * axis], explicit[2 * axis + 1]) if padding == "EXPLICIT" else (0, 0)
        if padding == "SAME":
            low, high = same_padding(size, (window - 1) * dilation + 1, stride)
        made = SpatialWindow(size, window, stride, dilation, low, high)
        if made.size + low + high < made.extent and size:
            ctx.fail(
                f"a window of {made.extent} does not fit dimension {axis} of size {size} with padding {low}, {high}"
            )
        out.append(made)
    return out


def same_padding(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Padding below and above with which ceil(size / stride) windows of this extent fit (SAME)."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def pooling_window(layout: ImageLayout, spatial: Sequence[SpatialWindow]) -> Window:
    """The window over all dimensions, of size 1 over batch and channels."""
    dims = [WindowDimension(1)] * layout.rank
    for axis, w in zip(layout.spatial, spatial, strict=True):
        dims[axis] = WindowDimension(w.window, w.stride, w.low, w.high)
    return Window(tuple(dims))
