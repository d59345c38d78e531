"""Replace convolutions by cuDNN calls (xla/backends/gpu/transforms/conv_rewriter.cc).

    convolution(x, k)
    =>  custom-call(x, k), "__cudnn$convForward", with a workspace
    convolution(dy, reverse(k)), dim_labels=..01oi..
    =>  custom-call(dy, k), "__cudnn$convBackwardInput"
    convolution(x, dy), dim_labels=f01b_i01o->01bf
    =>  custom-call(x, dy), "__cudnn$convBackwardFilter"

A program has forward convolutions only; which of them are gradients is recognized by their form.
The window and the labels of a backward call are those of the convolution whose gradient it
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Final

from xlanb.analysis import cudnn_convolution
from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.conditions import Condition, decide, objecting
from xlanb.gpu import backend_config
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType as T
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

NAMES: Final = {
    cudnn_convolution.FORWARD: "cudnn-conv",
    cudnn_convolution.BACKWARD_INPUT: "cudnn-conv-bw-input",
    cudnn_convolution.BACKWARD_FILTER: "cudnn-conv-bw-filter",
    cudnn_convolution.FUSED: "cudnn-conv-bias-activation",
}
"""Names of the calls by target."""

NO_ACTIVATION: Final = {"activation_mode": "kNone", "conv_result_scale": 1, "side_input_scale": 0, "leakyrelu_alpha": 0}
"""The config of a call that computes only the convolution."""

_ADA: Final = (8, 9)
_MAX_SPATIAL: Final = 3
_FLOAT8: Final = frozenset((T.F8E4M3FN, T.F8E5M2))


@dataclass(frozen=True)
class ConvRewriter(HloPass):
    """Replaces every convolution that cuDNN supports."""

    name = "conv-rewriter"
    triggers = frozenset((O.CONVOLUTION,))
    keeps = REAL
    ulps = 8.0
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if i.opcode is O.CONVOLUTION and _holds("call cuDNN", _CALLABLE, conv := ConvCandidate(i, self.device)):
                    _rewrite(conv)


@dataclass(frozen=True)
class ConvCandidate:
    """A convolution that may become a call."""

    instruction: HloInstruction
    device: GpuDevice

    @property
    def numbers(self) -> ConvolutionDimensionNumbers:
        found: ConvolutionDimensionNumbers = self.instruction.attributes["dim_labels"]
        return found

    @property
    def window(self) -> tuple[WindowDimension, ...]:
        return self.instruction.window.dimensions

    @property
    def groups(self) -> tuple[int, int]:
        """The feature and batch group counts."""
        return self.instruction.get("feature_group_count") or 1, self.instruction.get("batch_group_count") or 1

    def sizes(self, dimensions: Sequence[int], operand: int | None = None) -> tuple[int, ...]:
        """Return the sizes of some dimensions of an operand, or of the result."""
        i = self.instruction if operand is None else self.instruction.operands[operand]
        return tuple(i.array_shape.dimensions[d] for d in dimensions)

    @cached_property
    def input_window(self) -> tuple[WindowDimension, ...] | str:
        """Return the window of the convolution whose input gradient this is, or why not."""
        return _windows(self, _input_gradient)

    @cached_property
    def filter_window(self) -> tuple[WindowDimension, ...] | str:
        """Return the window of the convolution whose filter gradient this is, or why not."""
        return _windows(self, _filter_gradient)


def _rewrite(conv: ConvCandidate) -> None:
    if _holds("rewrite as the gradient of the input", _OF_INPUT, conv):
        _call_backward_input(conv)
    elif _holds("rewrite as the gradient of the filter", _OF_FILTER, conv):
        _call_backward_filter(conv)
    elif _holds("rewrite as a forward convolution", _FORWARD, conv):
        _call_forward(conv)


# -- windows of gradients --------------------------------------------------------------------------


def _windows(
    conv: ConvCandidate, of: Callable[[ConvCandidate, int], WindowDimension | str]
) -> tuple[WindowDimension, ...] | str:
    found = [of(conv, n) for n in range(len(conv.window))]
    reasons = [w for w in found if isinstance(w, str)]
    return reasons[0] if reasons else tuple(w for w in found if isinstance(w, WindowDimension))


def _input_gradient(conv: ConvCandidate, n: int) -> WindowDimension | str:
    """Return one dimension of that window for an input gradient.

    Base dilation becomes the stride, and the padding is the filter's reach less the old padding.
    """
    w, numbers = conv.window[n], conv.numbers
    stride, low = w.base_dilation, w.size - 1 - w.padding_low
    if low < 0:
        return f"the low padding would be {low}"
    (given,) = conv.sizes(numbers.input_spatial[n : n + 1], 0)
    (made,) = conv.sizes(numbers.output_spatial[n : n + 1])
    least = w.size + stride * (given - 1) - made - low
    high = _nearest(low, least, stride)
    return f"the high padding would be {high}" if high < 0 else replace(
        w, stride=stride, base_dilation=1, padding_low=low, padding_high=high
    )  # fmt: skip


def _filter_gradient(conv: ConvCandidate, n: int) -> WindowDimension | str:
    """Return one dimension for a filter gradient: the result is the filter, dilation the stride."""
    w, numbers = conv.window[n], conv.numbers
    (given,) = conv.sizes(numbers.input_spatial[n : n + 1], 0)
    (size,) = conv.sizes(numbers.output_spatial[n : n + 1])
    stride, low = w.window_dilation, w.padding_low
    least = size + (w.size - 1) * stride - given - low
    high = _nearest(low, least, stride)
    return f"the high padding would be {high}" if high < 0 else WindowDimension(size, stride, low, high)


def _nearest(wanted: int, least: int, stride: int) -> int:
    """Return the padding nearest to `wanted` that gives as many windows as `least`.

    cuDNN pads both sides equally.
    """
    return min(max(wanted, least), least + stride - 1)


# -- choice of the call ----------------------------------------------------------------------------


def _type_objection(conv: ConvCandidate) -> str:
    i = conv.instruction
    for t in (i.shape.element_type, *(o.shape.element_type for o in i.operands)):
        if t.is_complex or t is T.PRED:
            return f"cuDNN does not support convolutions of {t}"
        if t.text.startswith("f8") and (t not in _FLOAT8 or conv.device.architecture.capability < _ADA):
            return f"{conv.device.architecture.name} does not support convolutions of {t}"
    return ""


def _count(i: HloInstruction) -> int:
    return i.array_shape.element_count


def _window_objection(conv: ConvCandidate, *, of_input: bool) -> str:
    """Return why a window is not that of a gradient, or ""."""
    for w in conv.window:
        if w.stride != 1:
            return "it has a stride"
        if w.reversal:
            return "its window is reversed"
        if of_input and w.window_dilation != 1:
            return "its filter is dilated"
        if not of_input and w.base_dilation != 1:
            return "its input is dilated"
        if not of_input and w.padding_low < 0:
            return "its low padding is negative"
    return ""


def _is_reversed(conv: ConvCandidate) -> bool:
    """Whether the filter is spatially reversed, or reversing it would change nothing.

    That is so for a filter of one element or a constant one, if the input is dilated.
    """
    k, spatial = conv.instruction.operands[1], conv.numbers.kernel_spatial
    if k.opcode is O.REVERSE and sorted(k.dimensions) == sorted(spatial):
        return True
    if _is_from_one_dimension(conv) and k.operands[0].opcode is O.REVERSE:
        return True
    has_holes = any(w.base_dilation != 1 for w in conv.window)
    return has_holes and (k.opcode is O.CONSTANT or all(w.size == 1 for w in conv.window))


def _is_from_one_dimension(conv: ConvCandidate) -> bool:
    """Whether a two-dimensional convolution has a one-dimensional filter, extended by a reshape."""
    k = conv.instruction.operands[1]
    if len(conv.window) != 2 or k.opcode is not O.RESHAPE:
        return False
    source, made = k.operands[0].array_shape.dimensions, k.array_shape.dimensions
    # If several positions give the same shape, the reshape inserts the dimension at the first.
    places = [d for d in range(len(made)) if made[d] == 1 and (*made[:d], *made[d + 1 :]) == source]
    return bool(places) and places[0] in conv.numbers.kernel_spatial


def _looks_forward(conv: ConvCandidate) -> bool:
    """Whether the convolution looks like a forward one.

    Batch and features of the result are those of input and filter, and the filter is no larger than
    the result. In a filter gradient they are exchanged.
    """
    n, i = conv.numbers, conv.instruction
    if conv.sizes([n.input_batch], 0) != conv.sizes([n.output_batch]):
        return False
    if conv.sizes([n.kernel_output_feature], 1) != conv.sizes([n.output_feature]):
        return False
    kernel = [i.operands[1].array_shape.dimensions[d] for d in n.kernel_spatial]
    return all(k <= made for k, made in zip(kernel, conv.sizes(n.output_spatial), strict=True))


def _has_large_filter(conv: ConvCandidate) -> bool:
    """Whether the window is larger than the result, as for a filter gradient.

    A dilated window indicates a gradient too.
    """
    if any(w.window_dilation != 1 for w in conv.window):
        return True
    n = conv.numbers
    sizes = zip(conv.sizes(n.kernel_spatial, 1), conv.sizes(n.output_spatial), strict=True)
    small = sum(kernel <= made for kernel, made in sizes)
    return bool(n.kernel_spatial) and (small == 0 or (small == 1 and _is_from_one_dimension(conv)))


_CALLABLE: Final[tuple[Condition[ConvCandidate], ...]] = (
    Condition(
        "it has no control dependencies",
        lambda c: not (c.instruction.control_predecessors or c.instruction.control_successors),
    ),
    objecting("cuDNN supports its element types", _type_objection),
    Condition("its sizes are static", lambda c: not any(o.array_shape.is_dynamic for o in c.instruction.operands)),
)
_OF_INPUT: Final[tuple[Condition[ConvCandidate], ...]] = (
    Condition("feature_group_count is 1", lambda c: c.groups[0] == 1, lambda c: f"{c.groups[0]} groups"),
    Condition("batch_group_count is 1", lambda c: c.groups[1] == 1, lambda c: f"{c.groups[1]} groups"),
    Condition(
        "its filter is reversed in the spatial dimensions",
        _is_reversed,
        lambda c: c.instruction.operands[1].opcode.text,
    ),
    objecting("its window matches a gradient", lambda c: _window_objection(c, of_input=True)),
    objecting(
        "the forward convolution has no negative padding",
        lambda c: c.input_window if isinstance(c.input_window, str) else "",
    ),
)
_OF_FILTER: Final[tuple[Condition[ConvCandidate], ...]] = (
    Condition("feature_group_count is 1", lambda c: c.groups[0] == 1, lambda c: f"{c.groups[0]} groups"),
    Condition(
        "its batch and feature dimensions are not those of a forward convolution", lambda c: not _looks_forward(c)
    ),
    objecting("its window matches a gradient", lambda c: _window_objection(c, of_input=False)),
    Condition("its window is larger than its result, or dilated", _has_large_filter),
    objecting(
        "the forward convolution has no negative padding",
        lambda c: c.filter_window if isinstance(c.filter_window, str) else "",
    ),
)
_FORWARD: Final[tuple[Condition[ConvCandidate], ...]] = (
    Condition(
        f"it has at most {_MAX_SPATIAL} spatial dimensions",
        lambda c: len(c.window) <= _MAX_SPATIAL,
        lambda c: f"{len(c.window)} dimensions",
    ),
    Condition("its operands are not empty", lambda c: all(_count(o) for o in c.instruction.operands)),
    Condition(
        "its window is reversed in no dimension, or in both of two dimensions",
        lambda c: not any(w.reversal for w in c.window) or (len(c.window) == 2 and all(w.reversal for w in c.window)),
    ),
)


def _holds(action: str, conditions: Sequence[Condition[ConvCandidate]], conv: ConvCandidate) -> bool:
    return decide(action, (conv.instruction.name,), conditions, conv)


# -- calls -----------------------------------------------------------------------------------------


@reason("conv(dY, reverse(K)) => cuDNN's gradient of the input")
def _call_backward_input(conv: ConvCandidate) -> None:
    i, n = conv.instruction, conv.numbers
    b = Builder(i)
    kernel = i.operands[1]
    if kernel.opcode is O.REVERSE:
        kernel = kernel.operands[0]
    elif kernel.opcode is O.CONSTANT:  # reversed twice: the call absorbs one reversal
        kernel = b.add(O.REVERSE, (kernel,), kernel.shape, dimensions=n.kernel_spatial)
    elif kernel.opcode is O.RESHAPE and kernel.operands[0].opcode is O.REVERSE:
        kernel = b.add(O.RESHAPE, (kernel.operands[0].operands[0],), kernel.shape)
    labels = ConvolutionDimensionNumbers(
        n.output_batch, n.output_feature, n.output_spatial,
        n.kernel_output_feature, n.kernel_input_feature, n.kernel_spatial,
        n.input_batch, n.input_feature, n.input_spatial,
    )  # fmt: skip
    _call(conv, cudnn_convolution.BACKWARD_INPUT, (i.operands[0], kernel), conv.input_window, labels, 1)


@reason("conv(X, dY) => cuDNN's gradient of the filter")
def _call_backward_filter(conv: ConvCandidate) -> None:
    n = conv.numbers
    labels = ConvolutionDimensionNumbers(
        n.input_feature, n.input_batch, n.input_spatial,
        n.output_batch, n.output_feature, n.output_spatial,
        n.kernel_input_feature, n.kernel_output_feature, n.kernel_spatial,
    )  # fmt: skip
    operands = conv.instruction.operands
    _call(conv, cudnn_convolution.BACKWARD_FILTER, operands, conv.filter_window, labels, conv.groups[1])


@reason("conv(X, K) => cuDNN's convolution")
def _call_forward(conv: ConvCandidate) -> None:
    features, batches = conv.groups
    x, k = conv.instruction.operands
    if batches > 1:
        x, features = _batches_as_features(conv, batches), batches
    _call(conv, cudnn_convolution.FORWARD, (x, k), conv.window, conv.numbers, features)


def _batches_as_features(conv: ConvCandidate, groups: int) -> HloInstruction:
    """Return the input with batch groups as feature groups."""
    b, x, n = Builder(conv.instruction), conv.instruction.operands[0], conv.numbers
    dims = x.array_shape.dimensions
    batch, feature = n.input_batch, n.input_feature
    split = b.reshape(x, (*dims[:batch], groups, dims[batch] // groups, *dims[batch + 1 :]))
    order = [d for d in range(len(dims) + 1) if d != batch]
    order.insert(order.index(feature + (feature > batch)), batch)
    merged = list(dims)
    merged[batch] //= groups
    merged[feature] *= groups
    return b.reshape(b.transpose(split, order), merged)


def _call(
    conv: ConvCandidate,
    target: str,
    operands: Sequence[HloInstruction],
    window: tuple[WindowDimension, ...] | str,
    labels: ConvolutionDimensionNumbers,
    groups: int,
) -> None:
    """Replace a convolution by a call, which also returns a workspace of a size chosen later."""
    if isinstance(window, str):
        raise TypeError(f"{conv.instruction.name}: its window is not that of a gradient: {window}")
    i = conv.instruction
    c = i.parent
    call = c.add(
        O.CUSTOM_CALL,
        operands,
        tuple_of((i.shape, array(T.U8, (0,)))),
        name=NAMES[target],
        metadata=i.metadata,
        window=Window(window),
        dim_labels=labels,
        feature_group_count=groups if groups > 1 else None,
        operand_precision=i.attributes.get("operand_precision"),
        custom_call_target=target,
    )
    config = backend_config.changed(cudnn_conv_backend_config=NO_ACTIVATION)
    c.update(call, backend_config=config)
    c.replace(i, c.add(O.GET_TUPLE_ELEMENT, (call,), i.shape, like=i, index=0))


__all__ = ["NAMES", "NO_ACTIVATION", "ConvCandidate", "ConvRewriter"]
