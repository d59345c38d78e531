"""Semantics of cuDNN convolutions, created by XLA:GPU's conv-rewriter, as HLO convolutions.

A call's window and dimension numbers describe the forward convolution. Backward convolutions
compute its input or its filter from the other two arrays.

    __cudnn$convForward(input, filter)               output = conv(input, filter)
    __cudnn$convBackwardInput(output, filter)        input
    __cudnn$convBackwardFilter(input, output)        filter
    __cudnn$convBiasActivationForward(input, filter, bias[, side])
                                    activation(scale * conv + side_scale * side + bias)

Source: xla/service/gpu/cublas_cudnn.h, xla/service/gpu/gpu_conv_runner.cc.
"""

from __future__ import annotations

from dataclasses import replace

from xlanb.analysis.cublas_gemm import config_of
from xlanb.errors import UnimplementedError
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, TupleShape

FORWARD = "__cudnn$convForward"
BACKWARD_INPUT = "__cudnn$convBackwardInput"
BACKWARD_FILTER = "__cudnn$convBackwardFilter"
FUSED = "__cudnn$convBiasActivationForward"
TARGETS = (FORWARD, BACKWARD_INPUT, BACKWARD_FILTER, FUSED)


@dataclass(frozen=True)
class Activation:
    """The epilogue of a fused convolution.

    Its scale, that of the side input, and the activation function ("kNone", "kRelu", "kRelu6",
    "kElu", "kLeakyRelu").
    """

    mode: str
    scale: float
    side_scale: float
    alpha: float


@dataclass(frozen=True)
class CudnnConvolution:
    """An HLO convolution of a call's first two operands that computes its result.

    `filter_groups`: the number of groups of output features of the filter, the second operand. If
    above 1, the groups must be moved to the input features: [groups * o, i] -> [o, groups * i].
    """

    window: Window
    numbers: ConvolutionDimensionNumbers
    feature_groups: int = 1
    batch_groups: int = 1
    filter_groups: int = 1


def is_cudnn_convolution(i: HloInstruction) -> bool:
    """Whether an instruction is a call of a cuDNN convolution."""
    return i.opcode is HloOpcode.CUSTOM_CALL and i.get("custom_call_target") in TARGETS


def result_shape(i: HloInstruction) -> ArrayShape:
    """The shape of the convolution; a call returns it in a tuple with cuDNN's workspace."""
    return (i.shape.shapes[0] if isinstance(i.shape, TupleShape) and i.shape.shapes else i.shape).as_array()


def activation(i: HloInstruction) -> Activation:
    """The epilogue of a fused convolution; a neutral one for others.

    Raises:
        UnimplementedError: the config has something other than a number where one is required.
    """
    config = config_of(i, "cudnn_conv_backend_config")
    try:
        return Activation(
            str(config.get("activation_mode", "kNone")),
            float(config.get("conv_result_scale", 1.0)),
            float(config.get("side_input_scale", 0.0)),
            float(config.get("leakyrelu_alpha", 0.0)),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise UnimplementedError(f"{i.name}: its backend config does not describe a convolution: {error}") from None


def as_convolution(i: HloInstruction) -> CudnnConvolution:
    """The HLO convolution that is equivalent to a call."""
    target = i.get("custom_call_target")
    numbers: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    window: Window = i.attributes.get("window") or Window()
    groups = i.get("feature_group_count") or 1
    if target == BACKWARD_INPUT:
        return _backward_input(i, window, numbers, groups)
    if target == BACKWARD_FILTER:
        return _backward_filter(i, window, numbers, groups)
    return CudnnConvolution(window, numbers, groups)


def _backward_input(i: HloInstruction, window: Window, n: ConvolutionDimensionNumbers, groups: int) -> CudnnConvolution:
    """The gradient of the input: the outputs convolved with the reversed filter.

    Strides of the forward convolution become base dilation.
    """
    shape, output = result_shape(i).dimensions, i.operands[0].array_shape.dimensions
    made = []
    for w, p, q in zip(window.dimensions, n.input_spatial, n.output_spatial, strict=True):
        reach = (w.size - 1) * w.window_dilation
        low = reach - w.padding_low
        spread = (output[q] - 1) * w.stride + 1
        high = (shape[p] - 1) * w.base_dilation + 1 + reach - spread - low
        made.append(WindowDimension(w.size, w.base_dilation, low, high, w.window_dilation, w.stride, not w.reversal))
    turned = ConvolutionDimensionNumbers(
        n.output_batch, n.output_feature, n.output_spatial,
        n.kernel_output_feature, n.kernel_input_feature, n.kernel_spatial,
        n.input_batch, n.input_feature, n.input_spatial,
    )  # fmt: skip
    return CudnnConvolution(replace(window, dimensions=tuple(made)), turned, groups, filter_groups=groups)


def _backward_filter(
    i: HloInstruction, window: Window, n: ConvolutionDimensionNumbers, groups: int
) -> CudnnConvolution:
    """The gradient of the filter: the outputs are the window over the input.

    The batch is summed over.
    """
    output = i.operands[1].array_shape.dimensions
    source = i.operands[0].array_shape.dimensions
    made = []
    for w, p, q in zip(window.dimensions, n.input_spatial, n.output_spatial, strict=True):
        reach = (output[q] - 1) * w.stride + 1
        needed = (w.size - 1) * w.window_dilation + reach
        spread = (source[p] - 1) * w.base_dilation + 1
        high = needed - spread - w.padding_low
        made.append(
            WindowDimension(
                output[q], w.window_dilation, w.padding_low, high, w.stride, w.base_dilation, reversal=False
            )
        )
    turned = ConvolutionDimensionNumbers(
        n.input_feature, n.input_batch, n.input_spatial,
        n.output_batch, n.output_feature, n.output_spatial,
        n.kernel_input_feature, n.kernel_output_feature, n.kernel_spatial,
    )  # fmt: skip
    return CudnnConvolution(replace(window, dimensions=tuple(made)), turned, batch_groups=groups)
