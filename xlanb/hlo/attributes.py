"""Values of structured HLO attributes: windows, paddings, dimension numbers, metadata.

Source: xla_data.proto.
"""

from __future__ import annotations

from dataclasses import field

from xlanb.lazy_dataclass import dataclass


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
    """The window of a convolution, reduce-window or select-and-scatter.

    It has one entry per (spatial) dimension.
    """

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
    """The roles of the dimensions of input, kernel and output; XLA's text is `b01f_01io->b01f`."""

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
class StackFrame:
    """A location in a Python function, and the frame that called it.

    `line` and `column` count from 1; 0 is unknown.
    """

    file: str
    function: str
    line: int
    column: int = 0
    caller: StackFrame | None = None


@dataclass(frozen=True, slots=True)
class OpMetadata:
    """Where an instruction comes from: for TensorFlow, `op_type` is the op, `op_name` the node.

    Attributes:
        source_file: the Python file.
        source_line: the Python line, 1-based; 0 if unknown.
        frame: the frame of `stack_frame_id` in the tables of the module that it was read with.
        rest: further fields verbatim in XLA's text form, in order.
        python_line: the line, from the source fields or the frame.
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
    frame: StackFrame | None = field(default=None, compare=False, repr=False)

    @property
    def python_line(self) -> tuple[str, int]:
        """The file and the line (1-based); ("", 0) if neither is known."""
        if self.source_line or self.frame is None:
            return self.source_file, self.source_line
        return self.frame.file, self.frame.line

    @property
    def stack(self) -> tuple[StackFrame, ...]:
        """The stack frames, innermost first; empty if there are no tables."""
        found = []
        at = self.frame
        while at is not None:
            found.append(at)
            at = at.caller
        return tuple(found)


NO_METADATA = OpMetadata()


def index_text(index: tuple[int, ...]) -> str:
    """A ShapeIndex, `{0,1}`."""
    return "{" + ",".join(map(str, index)) + "}"
