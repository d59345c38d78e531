"""A convolution's operands, window and groups by name."""

from __future__ import annotations

from xlanb.codegen.elemental import array_of
from xlanb.codegen.products import accumulator_type
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType


@dataclass(frozen=True)
class Convolution:
    """A convolution's shapes and dimension numbers: equal ones are computed alike."""

    numbers: ConvolutionDimensionNumbers
    window: tuple[WindowDimension, ...]
    source: ArrayShape
    kernel: ArrayShape
    result: ArrayShape
    features: int
    """Input features that one output feature reads."""
    feature_groups: int
    """Groups of input and output features that are independent of each other."""
    batch_groups: int
    """Parts of the input's batch that each produce their own output features."""

    @staticmethod
    def of(i: HloInstruction) -> Convolution:
        """The properties of a convolution instruction."""
        source, kernel = (array_of(o) for o in i.operands[:2])
        numbers: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
        window = (i.attributes.get("window") or Window()).dimensions
        return Convolution(
            numbers,
            window,
            source,
            kernel,
            array_of(i),
            kernel.dimensions[numbers.kernel_input_feature],
            i.get("feature_group_count") or 1,
            i.get("batch_group_count") or 1,
        )

    @property
    def type(self) -> PrimitiveType:
        """The accumulation type."""
        return accumulator_type(self.result.element_type)
