"""Fuse the users of a convolution into the cuDNN call.

Follows xla/backends/gpu/transforms/cudnn_fused_conv_rewriter.cc.

    c = conv(x, k);  a = add(c, broadcast(b));  maximum(a, 0)
    =>  custom-call(x, k, b), "__cudnn$convBiasActivationForward", kRelu

The call computes activation(scale * conv(x, k) + side_scale * side + bias). Nearest users are fused
first: a scale, a bias and a side input, a ReLU. Conversions of operands and result make it an f16
or s8 convolution. Activations that cuDNN compiles at run time (ELU, ReLU6, leaky ReLU) are left to
XLA's own kernels, as in XLA by default. s8 results, which cuDNN rounds and clamps, and f8
convolutions are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from xlanb.analysis import cudnn_convolution
from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.conditions import Condition, decide
from xlanb.gpu import backend_config
from xlanb.gpu.transforms.conv_rewriter import NAMES
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType as T
from xlanb.shape import TupleShape
from xlanb.shape.narrow_types import finfo, iinfo
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_CONFIG: Final = "cudnn_conv_backend_config"
_CALLS: Final = (cudnn_convolution.FORWARD, cudnn_convolution.FUSED)
_MOVING: Final = (O.RESHAPE, O.TRANSPOSE)


class CudnnFusedConvRewriter(HloPass):
    """Fuses the users of cuDNN forward convolutions into the calls."""

    name = "cudnn-fused-convolution-rewriter"
    triggers = frozenset((O.CUSTOM_CALL,))
    keeps = REAL
    ulps = 8.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            if not any(_is_call(i) for i in c):
                continue
            _each(c, _to_f32)
            _each(c, _scale)
            _fuse_around(c)
            _each(c, _to_f16)
            _each(c, _to_s8)
            _fuse_around(c)


def _fuse_around(c: HloComputation) -> None:
    _each(c, _addend)
    _each(c, _addend)  # a bias and a side input
    _each(c, _side_scale)
    _each(c, _relu)


def _each(c: HloComputation, rewrite: Callable[[HloInstruction], None]) -> None:
    for i in c.post_order():
        if i in c:
            rewrite(i)


# -- calls and their results -----------------------------------------------------------------------


def _is_call(i: HloInstruction) -> bool:
    return i.opcode is O.CUSTOM_CALL and i.get("custom_call_target") in _CALLS and isinstance(i.shape, TupleShape)


def _is_depthwise(call: HloInstruction) -> bool:
    """Whether each feature is its own group: some fused calls are slower for those."""
    groups = call.get("feature_group_count") or 1
    labels = _labels(call)
    return bool(groups > 1 and call.operands[0].array_shape.dimensions[labels.input_feature] == groups)


def _labels(call: HloInstruction) -> ConvolutionDimensionNumbers:
    found: ConvolutionDimensionNumbers = call.attributes["dim_labels"]
    return found


@dataclass(frozen=True)
class _ConvUse:
    """A use of a call's result."""

    instruction: HloInstruction
    result: HloInstruction

    @property
    def call(self) -> HloInstruction:
        return self.result.operands[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The call's config of the convolution."""
        return _settings(self.call)

    @property
    def other(self) -> HloInstruction:
        """The other one of two operands."""
        a, b = self.instruction.operands
        return b if a is self.result else a


def _settings(call: HloInstruction) -> dict[str, Any]:
    found = {"activation_mode": "kNone", "conv_result_scale": 1, "side_input_scale": 0, "leakyrelu_alpha": 0}
    given: dict[str, Any] = backend_config.read(call).get(_CONFIG, {})
    return found | given


def _use(i: HloInstruction, opcode: O) -> _ConvUse | None:
    """Return an instruction of this opcode as a use of a call's result, its first such operand."""
    if i.opcode is not opcode:
        return None
    for o in i.operands:
        if o.opcode is O.GET_TUPLE_ELEMENT and o.tuple_index == 0 and _is_call(o.operands[0]):
            return _ConvUse(i, o)
    return None


def _has_zero_bias(call: HloInstruction) -> bool:
    return len(call.operands) < 3 or _is_repeated(call.operands[2], 0)


def _is_repeated(i: HloInstruction, value: float) -> bool:
    scalar = _repeated(i)
    return scalar is not None and scalar == value


def _repeated(i: HloInstruction) -> float | None:
    """Return the number that an array repeats, or None."""
    while i.opcode in (O.BROADCAST, O.RESHAPE, O.BITCAST):
        i = i.operands[0]
    if i.opcode is not O.CONSTANT or i.array_shape.element_count != 1 or i.literal.is_elided:
        return None
    value = i.literal.array.reshape(-1)[0]
    return None if np.iscomplexobj(value) else float(value)


def _holds(action: str, conditions: Sequence[Condition[_ConvUse]], use: _ConvUse) -> bool:
    return decide(action, (use.instruction.name, use.call.name), conditions, use)


_READ_ONCE: Final[tuple[Condition[_ConvUse], ...]] = (
    Condition(
        "the convolution has no other users",
        lambda u: u.result.user_count == 1 and not u.result.is_root and u.result.uses_by(u.instruction) == 1,
        lambda u: f"{u.result.name} has {u.result.user_count} users",
    ),
    Condition(
        "it has no control dependencies",
        lambda u: not any(i.control_predecessors or i.control_successors for i in (u.instruction, u.result, u.call)),
    ),
)
_ALONE: Final[Condition[_ConvUse]] = Condition(
    "the call's other results are unused", lambda u: u.call.user_count == 1, lambda u: f"{u.call.user_count} users"
)
_DEPTHWISE: Final[Condition[_ConvUse]] = Condition(
    "it is not a depthwise convolution, some of which are slower fused", lambda u: not _is_depthwise(u.call)
)
_NO_ACTIVATION: Final[Condition[_ConvUse]] = Condition(
    "the call has no activation yet",
    lambda u: u.settings["activation_mode"] == "kNone",
    lambda u: str(u.settings["activation_mode"]),
)


# -- new calls -------------------------------------------------------------------------------------


def _renew(
    call: HloInstruction,
    operands: Sequence[HloInstruction] | None = None,
    element_type: T | None = None,
    **settings: Any,
) -> HloInstruction:
    """Return a call with other operands, result type or settings.

    Adds a bias of zeros if there is none.
    """
    c = call.parent
    shape = cast("TupleShape", call.shape)
    made = shape.shapes[0].as_array()
    if element_type is not None:
        shape = tuple_of((made.with_type(element_type), *shape.shapes[1:]))
    given = list(call.operands if operands is None else operands)
    fused = len(given) > 2 or bool(settings)
    if fused and len(given) == 2:
        given.append(_zeros(call))
    new = c.clone_instruction(call, given, shape)
    if fused:
        c.update(new, attributes={"custom_call_target": cudnn_convolution.FUSED})
        c.rename(new, NAMES[cudnn_convolution.FUSED])
    if settings:
        c.update(new, backend_config=backend_config.changed(new, **{_CONFIG: _settings(new) | settings}))
    return c.add(O.GET_TUPLE_ELEMENT, (new,), shape.shapes[0], like=call, index=0)


def _zeros(call: HloInstruction) -> HloInstruction:
    """Return a bias of zeros; f32 for integers."""
    made = cudnn_convolution.result_shape(call)
    count = made.dimensions[_labels(call).output_feature]
    return Builder(call).full(0, array(_bias_type(made.element_type), (count,)))


def _bias_type(t: T) -> T:
    return t if t.is_floating else T.F32


def _converted(i: HloInstruction, t: T) -> HloInstruction:
    return i if i.shape.element_type is t else Builder(i).convert(i, t)


# -- the rewrites ----------------------------------------------------------------------------------

_SCALE: Final = (
    *_READ_ONCE,
    _DEPTHWISE,
    Condition("it is multiplied by a constant", lambda u: _repeated(u.other) is not None),
    Condition(
        "the call has no scale, bias or side input yet",
        lambda u: (
            u.settings["conv_result_scale"] == 1
            and u.settings["activation_mode"] == "kNone"
            and _has_zero_bias(u.call)
            and len(u.call.operands) < 4
        ),
    ),
    Condition(
        "the constant is exact in the type of scales",
        lambda u: _is_exact(u.other, T.F64 if u.result.shape.element_type is T.F64 else T.F32),
    ),
)


@reason("multiply(conv(A, K), s) => conv(A, K) scaled by s")
def _scale(i: HloInstruction) -> None:
    use = _use(i, O.MULTIPLY)
    if use is not None and _holds("scale in the call", _SCALE, use):
        i.parent.replace(i, _renew(use.call, conv_result_scale=_number(_repeated(use.other) or 0.0)))


def _number(value: float) -> float:
    """Return the number as JSON has it: 2, not 2.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


_ADDEND: Final = (
    *_READ_ONCE,
    _ALONE,
    _DEPTHWISE,
    _NO_ACTIVATION,
    Condition(
        "the call can take another bias or side input", lambda u: _bias(u) is not None or len(u.call.operands) < 4
    ),
    Condition(
        "the array has the result's type",
        lambda u: _bias(u) is not None or u.other.shape.element_type is u.result.shape.element_type,
    ),
)


@reason("add(conv(A, K), B) => conv(A, K) with a bias or a side input")
def _addend(i: HloInstruction) -> None:
    use = _use(i, O.ADD)
    if use is None or not _holds("add in the call", _ADDEND, use):
        return
    call, other = use.call, use.other
    dims = _bias(use)
    if dims is None:
        operands = call.operands if len(call.operands) == 3 else (*call.operands, _zeros(call))
        i.parent.replace(i, _renew(call, (*operands, other), side_input_scale=1))
        return
    b = Builder(other)
    bias = _converted(other.operands[0], _bias_type(use.result.shape.element_type))
    if not dims:
        count = use.result.array_shape.dimensions[_labels(call).output_feature]
        bias = b.broadcast(bias, (), array(bias.shape.element_type, (count,)))
    i.parent.replace(i, _renew(call, (*call.operands[:2], bias, *call.operands[3:])))


def _bias(u: _ConvUse) -> tuple[int, ...] | None:
    """Return an addend's broadcast dimensions if it can be the bias (per feature, or scalar)."""
    other, call = u.other, u.call
    if other.opcode is not O.BROADCAST or not _has_zero_bias(call):
        return None
    if other.dimensions not in ((), (_labels(call).output_feature,)):
        return None
    if not _is_exact(other, _bias_type(u.result.shape.element_type)):
        return None
    return other.dimensions


@reason("conv(A, K) + s * B => conv(A, K) with the side input B, scaled by s")
def _side_scale(call: HloInstruction) -> None:
    if not _is_call(call) or len(call.operands) < 4 or _settings(call)["side_input_scale"] != 1:
        return
    if call.control_predecessors or call.control_successors or call.user_count != 1:
        return
    (result,) = call.users
    if result.opcode is not O.GET_TUPLE_ELEMENT or result.tuple_index != 0:
        return
    path, product = [], call.operands[3]
    while product.opcode in _MOVING:
        path.append(product)
        product = product.operands[0]
    if product.opcode is not O.MULTIPLY:
        return
    scale_type = T.F64 if result.shape.element_type is T.F64 else T.F32
    for scale, side in (product.operands, product.operands[::-1]):
        value = _repeated(scale)
        if value is not None and _is_exact(scale, scale_type):
            for i in reversed(path):
                side = i.parent.clone_instruction(i, (side,))
            made = _renew(call, (*call.operands[:3], side), side_input_scale=_number(value))
            call.parent.replace(result, made)
            return


_RELU: Final = (
    *_READ_ONCE,
    _ALONE,
    _DEPTHWISE,
    _NO_ACTIVATION,
    Condition("the other operand is 0", lambda u: u.other.opcode is O.BROADCAST and _is_repeated(u.other, 0)),
)


@reason("maximum(conv(A, K), 0) => conv(A, K) with a ReLU")
def _relu(i: HloInstruction) -> None:
    use = _use(i, O.MAXIMUM)
    if use is not None and _holds("apply a ReLU in the call", _RELU, use):
        i.parent.replace(i, _renew(use.call, activation_mode="kRelu"))


@reason("convert(conv(A, K)) of integers => conv(A, K) of f32")
def _to_f32(i: HloInstruction) -> None:
    use = _use(i, O.CONVERT)
    if use is None or use.result.shape.element_type is not T.S32 or i.shape.element_type is not T.F32:
        return
    if _holds("convert in the call", _READ_ONCE, use):
        i.parent.replace(i, _renew(use.call, element_type=T.F32))


@reason("convert(conv(convert(A), convert(K))) => conv(A, K) of f16")
def _to_f16(i: HloInstruction) -> None:
    use = _use(i, O.CONVERT)
    if use is None or i.shape.element_type is not T.F16:
        return
    of_f16 = Condition[_ConvUse](
        "all operands are exact in f16",
        lambda u: all(o.shape.element_type is T.F32 and _is_exact(o, T.F16) for o in u.call.operands),
    )
    if _holds("convolve f16", (*_READ_ONCE, of_f16), use):
        i.parent.replace(i, _renew(use.call, [_converted(o, T.F16) for o in use.call.operands], T.F16))


@reason("conv(convert(A), convert(K)) => conv(A, K) of s8")
def _to_s8(result: HloInstruction) -> None:
    """Convert a call with an f32 result to s8 operands, with an f32 bias and side input."""
    if result.opcode is not O.GET_TUPLE_ELEMENT or result.tuple_index != 0 or result.shape.element_type is not T.F32:
        return
    call = result.operands[0]
    if not _is_call(call) or any(i.control_predecessors or i.control_successors for i in (result, call)):
        return
    factors, others = call.operands[:2], call.operands[2:]
    if all(o.shape.element_type is T.S8 for o in factors) or not all(_is_exact(o, T.S8) for o in factors):
        return
    if all(o.shape.element_type is T.F32 for o in others):
        call.parent.replace(result, _renew(call, (*(_converted(o, T.S8) for o in factors), *others)))


# -- exact conversions -----------------------------------------------------------------------------


def _is_exact(i: HloInstruction, t: T) -> bool:
    """Whether every element is exactly representable in a type.

    It must have that type, be converted from it, or be constant.
    """
    while i.opcode in (O.BROADCAST, O.RESHAPE, O.TRANSPOSE):
        i = i.operands[0]
    if i.shape.element_type is t:
        return True
    if i.opcode is O.CONVERT:
        return i.operands[0].shape.element_type is t and _keeps_values(t, i.shape.element_type)
    if i.opcode is not O.CONSTANT or i.literal.is_elided:
        return False
    given = i.literal.array
    with np.errstate(all="ignore"):
        back = given.astype(t.dtype).astype(given.dtype)
    return bool(np.array_equal(given, back))


def _keeps_values(source: T, target: T) -> bool:
    """Whether every number of a type is representable in another."""
    if source.is_floating:
        if not target.is_floating:
            return False
        a, b = (finfo(x.dtype) for x in (source, target))
        return bool(a.nmant <= b.nmant and a.max <= b.max and a.smallest_subnormal >= b.smallest_subnormal)
    given = iinfo(source.dtype)
    if target.is_floating:
        return int(given.max).bit_length() <= int(finfo(target.dtype).nmant) + 1
    wide = iinfo(target.dtype)
    return bool(wide.min <= given.min and given.max <= wide.max)
