"""The values of structured HLO attributes: windows, paddings, dimension numbers, metadata (xla_data.proto)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window, as xla_data.proto's WindowDimension."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution, reduce-window or select-and-scatter; one entry per (spatial) dimension."""

    dimensions: tuple[WindowDimension, ...] = ()


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Padding of one dimension; `low` and `high` may be negative, `interior` not."""

    low: int = 0
    high: int = 0
    interior: int = 0


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """Elements start, start + stride, ... below limit of one dimension."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """Which dimension of input, kernel and output is what; XLA's text is `b01f_01io->b01f`."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpMetadata:
    """Where an instruction comes from: for TensorFlow, `op_type` is the op, `op_name` the node.

    `source_file` and `source_line` (1-based, 0 unknown) are the Python line; `rest` holds further fields verbatim in XLA's text form, in order.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    stack_frame_id: int = 0
    rest: tuple[tuple[str, str], ...] = ()
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0


NO_METADATA = OpMetadata()
