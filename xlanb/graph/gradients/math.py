"""Gradients of elementwise functions (the nodes of TensorFlow's python/ops/math_grad.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    ones,
    ones_like,
    reshape,
    shape,
    where,
    where_v2,
    zeros,
    zeros_like,
)
from xlanb.graph.builders.math_ops import cast, conj, divide, reduce_sum
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import float32, int32
from xlanb.graph.gradients.broadcasting import reduce_gradients, same_known_shape
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor

not_differentiable(
    "Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "ApproximateEqual", "NotEqual", "LogicalAnd", "LogicalOr",
    "LogicalNot",
    "Range", "LinSpace", "ArgMax", "ArgMin", "Floor", "Ceil", "Round", "Rint", "FloorDiv", "TruncateDiv", "IsFinite",
    "IsInf", "IsNan", "Bincount",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift", "All", "Any", "Bucketize",
)  # fmt: skip


def _after(grad: Any) -> Any:
    """Make gradients only after `grad`, so that nothing large is computed too early."""
    return get_default_graph().control_dependencies([grad])


# ------------------------------------------------------------------------------------- one argument


@register_gradient("Abs")
def _abs(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.sign(op.inputs[0])


@register_gradient("Neg")
def _neg(_: Operation, grad: Any) -> Any:
    return -grad


@register_gradient("Inv", "Reciprocal")
def _reciprocal(op: Operation, grad: Tensor) -> Any:
    return call("ReciprocalGrad", op.outputs[0], grad)


@register_gradient("InvGrad", "ReciprocalGrad")
def _reciprocal_grad(op: Operation, grad: Tensor) -> Any:
    b = op.inputs[1]
    with _after(grad):
        ca, cg = conj(op.inputs[0]), conj(grad)
        return cg * -2.0 * b * ca, call("ReciprocalGrad", ca, grad)


@register_gradient("Square")
def _square(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        x = conj(op.inputs[0])
        return call("Mul", grad, call("Mul", x, constant(2.0, x.dtype)))


@register_gradient("Sqrt")
def _sqrt(op: Operation, grad: Tensor) -> Any:
    return call("SqrtGrad", op.outputs[0], grad)


@register_gradient("SqrtGrad")
def _sqrt_grad(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        ga = grad / op.inputs[0]
        return -conj(ga) * op.outputs[0], 0.5 * ga


@register_gradient("Rsqrt")
def _rsqrt(op: Operation, grad: Tensor) -> Any:
    return call("RsqrtGrad", op.outputs[0], grad)


@register_gradient("RsqrtGrad")
def _rsqrt_grad(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        ca, cg = conj(op.inputs[0]), conj(grad)
        return -1.5 * cg * op.inputs[1] * call("Square", ca), call("RsqrtGrad", ca, grad)


@register_gradient("Exp")
def _exp(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * conj(op.outputs[0])


@register_gradient("Expm1")
def _expm1(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Exp", conj(op.inputs[0]))


@register_gradient("Log")
def _log(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Reciprocal", conj(op.inputs[0]))


@register_gradient("Log1p")
def _log1p(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Reciprocal", 1 + conj(op.inputs[0]))


@register_gradient("Sinh")
def _sinh(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Cosh", conj(op.inputs[0]))


@register_gradient("Cosh")
def _cosh(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Sinh", conj(op.inputs[0]))


@register_gradient("Tanh")
def _tanh(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return call("TanhGrad", conj(op.outputs[0]), grad)


@register_gradient("TanhGrad")
def _tanh_grad(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        a, b = conj(op.inputs[0]), conj(op.inputs[1])
        return grad * -2.0 * b * a, call("TanhGrad", a, grad)


@register_gradient("Sigmoid")
def _sigmoid(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return call("SigmoidGrad", conj(op.outputs[0]), grad)


@register_gradient("SigmoidGrad")
def _sigmoid_grad(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        a, b = conj(op.inputs[0]), conj(op.inputs[1])
        gb = grad * b
        return gb - 2.0 * gb * a, call("SigmoidGrad", a, grad)


@register_gradient("Asinh")
def _asinh(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad / call("Cosh", conj(op.outputs[0]))


@register_gradient("Acosh")
def _acosh(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad / call("Sinh", conj(op.outputs[0]))


@register_gradient("Atanh")
def _atanh(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        squared = call("Square", conj(op.inputs[0]))
        return grad * call("Reciprocal", call("Sub", constant(1, grad.dtype), squared))


@register_gradient("Sign")
def _sign(op: Operation, _: Tensor) -> Any:
    return zeros_like(op.inputs[0])


@register_gradient("Sin")
def _sin(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Cos", conj(op.inputs[0]))


@register_gradient("Cos")
def _cos(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        x = conj(op.inputs[0])
        return -grad * call("Sin", x)


@register_gradient("Tan")
def _tan(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        secant = call("Reciprocal", call("Cos", conj(op.inputs[0])))
        return call("Square", secant) * grad


def _inverse_sine(op: Operation, grad: Tensor) -> Tensor:
    """1 / sqrt(1 - x^2)."""
    squared = call("Square", conj(op.inputs[0]))
    return call("Reciprocal", call("Sqrt", call("Sub", constant(1, grad.dtype), squared)))


@register_gradient("Asin")
def _asin(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * _inverse_sine(op, grad)


@register_gradient("Acos")
def _acos(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        inverse = _inverse_sine(op, grad)
        return -grad * inverse


@register_gradient("Atan")
def _atan(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        squared = call("Square", conj(op.inputs[0]))
        return grad * call("Reciprocal", math_ops.add(constant(1, grad.dtype), squared))


@register_gradient("Erf")
def _erf(op: Operation, grad: Tensor) -> Any:
    factor = constant(2 / np.sqrt(np.pi), grad.dtype)
    with _after(grad):
        return grad * factor * call("Exp", -call("Square", conj(op.inputs[0])))


@register_gradient("Erfc")
def _erfc(op: Operation, grad: Tensor) -> Any:
    factor = constant(-2 / np.sqrt(np.pi), grad.dtype)
    with _after(grad):
        return grad * factor * call("Exp", -call("Square", conj(op.inputs[0])))


@register_gradient("Erfinv")
def _erfinv(op: Operation, grad: Tensor) -> Any:
    factor = constant(np.sqrt(np.pi) / 2, grad.dtype)
    with _after(grad):
        return grad * factor * call("Exp", call("Square", op.outputs[0]))


@register_gradient("Ndtri")
def _ndtri(op: Operation, grad: Tensor) -> Any:
    factor = constant(np.sqrt(2 * np.pi), grad.dtype)
    with _after(grad):
        return grad * factor * call("Exp", call("Square", op.outputs[0]) / 2.0)


@register_gradient("Lgamma")
def _lgamma(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("Digamma", conj(op.inputs[0]))


@register_gradient("Digamma")
def _digamma(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        x = conj(op.inputs[0])
        return grad * call("Polygamma", constant(1, x.dtype), x)


@register_gradient("Cast")
def _cast(op: Operation, grad: Tensor) -> Any:
    source = op.inputs[0].dtype.base_dtype
    flows = all(t.is_floating or t.is_complex for t in (source, grad.dtype.base_dtype))
    return cast(grad, source) if flows else None


@register_gradient("Real")
def _real(_: Operation, grad: Tensor) -> Any:
    return math_ops.complex(grad, constant(0, grad.dtype))


@register_gradient("Imag")
def _imag(_: Operation, grad: Tensor) -> Any:
    return math_ops.complex(constant(0, grad.dtype), grad)


@register_gradient("Conj")
def _conj(_: Operation, grad: Tensor) -> Any:
    return conj(grad)


@register_gradient("ComplexAbs")
def _complex_abs(op: Operation, grad: Tensor) -> Any:
    y = op.outputs[0]
    numerator = math_ops.complex(grad, zeros_like(grad)) * op.inputs[0]
    return math_ops.div_no_nan(numerator, math_ops.complex(y, zeros_like(y)))


# ------------------------------------------------------------------------------------ two arguments


@register_gradient("Add", "AddV2")
def _add(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    return (grad, grad) if same_known_shape(x, y, grad) else reduce_gradients(x, y, grad, grad)


@register_gradient("Sub")
def _sub(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    negative = -grad
    return (grad, negative) if same_known_shape(x, y, grad) else reduce_gradients(x, y, grad, negative)


@register_gradient("Mul")
def _mul(op: Operation, grad: Any) -> Any:
    x, y = op.inputs
    if same_known_shape(x, y, grad) and grad.dtype in {int32, float32}:
        return call("Mul", grad, y), call("Mul", grad, x)
    gx = call("Mul", grad, conj(y))
    return reduce_gradients(x, y, gx, call("Mul", conj(x), grad))


@register_gradient("MulNoNan")
def _mul_no_nan(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    gx, gy = call("MulNoNan", grad, y), call("MulNoNan", x, grad)
    return (gx, gy) if same_known_shape(x, y, grad) else reduce_gradients(x, y, gx, gy)


@register_gradient("Div")
def _div(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    cx, cy = conj(x), conj(y)
    gx = divide(grad, cy)
    return reduce_gradients(x, y, gx, grad * divide(divide(-cx, cy), cy))


@register_gradient("RealDiv")
def _real_div(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    cx, cy = conj(x), conj(y)
    gx = call("RealDiv", grad, cy)
    return reduce_gradients(x, y, gx, grad * call("RealDiv", call("RealDiv", -cx, cy), cy))


@register_gradient("DivNoNan")
def _div_no_nan(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    gx = math_ops.div_no_nan(grad, y)
    return reduce_gradients(x, y, gx, grad * math_ops.div_no_nan(math_ops.div_no_nan(-x, y), y))


@register_gradient("FloorMod")
def _floor_mod(op: Operation, grad: Tensor) -> Any:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    quotient = call("FloorDiv", x, y)
    return reduce_gradients(x, y, grad, grad * call("Neg", quotient))


@register_gradient("Pow")
def _pow(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    cx, cy = conj(x), conj(y)
    gx = grad * cy * math_ops.pow(cx, cy - 1)
    # log(x) only where it has a value: 0 elsewhere, so that no NaN gets out.
    mask = call("NotEqual", cx, 0) if x.dtype.is_complex else cx > 0
    safe = where(mask, cx, ones_like(x))
    log_x = where(mask, call("Log", safe), zeros_like(x))
    return reduce_gradients(x, y, gx, grad * conj(op.outputs[0]) * log_x)


@register_gradient("Maximum")
def _maximum(op: Operation, grad: Tensor) -> Any:
    return _selected(op, grad, "GreaterEqual")


@register_gradient("Minimum")
def _minimum(op: Operation, grad: Tensor) -> Any:
    return _selected(op, grad, "LessEqual")


def _selected(op: Operation, grad: Tensor, comparison: str) -> Any:
    x, y = op.inputs
    nothing = zeros_like(grad)
    mask = call(comparison, x, y)
    gx = where_v2(mask, grad, nothing)
    return reduce_gradients(x, y, gx, where_v2(mask, nothing, grad))


@register_gradient("SquaredDifference")
def _squared_difference(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    with _after(grad):
        gx = math_ops.scalar_mul(2.0, grad) * (x - y)
    gy = -gx
    return (gx, gy) if same_known_shape(x, y, grad) else reduce_gradients(x, y, gx, gy)


@register_gradient("Atan2")
def _atan2(op: Operation, grad: Tensor) -> Any:
    y, x = op.inputs
    with _after(grad):
        inverse = grad / (call("Square", y) + call("Square", x))
        gy = x * inverse
        gx = -y * inverse
        return reduce_gradients(y, x, gy, gx)


@register_gradient("Complex")
def _complex(op: Operation, grad: Tensor) -> Any:
    gx = math_ops.real(grad)
    return reduce_gradients(op.inputs[0], op.inputs[1], gx, math_ops.imag(grad))


def _by_broadcast_args(op: Operation, grad: Tensor, partials: Any) -> Any:
    """Multiply partials of x and y by grad and sum, always by BroadcastGradientArgs."""
    x, y = op.inputs
    shapes = shape(x), shape(y)
    axes = call_n("BroadcastGradientArgs", *shapes)
    with _after(grad):
        made = partials(x, y)
        return tuple(
            None if p is None else reshape(reduce_sum(p * grad, a), s)
            for p, a, s in zip(made, axes, shapes, strict=True)
        )


def _is_nonzero(x: Tensor) -> Tensor:
    result: Tensor = cast(call("NotEqual", x, cast(0.0, x.dtype)), x.dtype)
    return result


@register_gradient("Xlogy")
def _xlogy(op: Operation, grad: Tensor) -> Any:
    return _by_broadcast_args(op, grad, lambda x, y: (call("Xlogy", _is_nonzero(x), y), call("Xdivy", x, y)))


@register_gradient("Xlog1py")
def _xlog1py(op: Operation, grad: Tensor) -> Any:
    return _by_broadcast_args(op, grad, lambda x, y: (call("Xlog1py", _is_nonzero(x), y), call("Xdivy", x, y + 1.0)))


@register_gradient("Xdivy")
def _xdivy(op: Operation, grad: Tensor) -> Any:
    return _by_broadcast_args(
        op, grad, lambda x, y: (call("Xdivy", _is_nonzero(x), y), call("Xdivy", call("Neg", x), y**2))
    )


@register_gradient("Igamma")
def _igamma(op: Operation, grad: Tensor) -> Any:
    def partials(a: Tensor, x: Tensor) -> Any:
        # In logarithms, because the gamma function grows fast.
        by_a = call("IgammaGradA", a, x)
        return by_a, call("Exp", -x + (a - 1) * call("Log", x) - call("Lgamma", a))

    return _by_broadcast_args(op, grad, partials)


@register_gradient("Igammac")
def _igammac(op: Operation, grad: Tensor) -> Any:
    by_a, by_x = _igamma(op, grad)
    return -by_a, -by_x


@register_gradient("Polygamma")
def _polygamma(op: Operation, grad: Tensor) -> Any:
    return _by_broadcast_args(op, grad, lambda n, x: (None, call("Polygamma", conj(n) + 1, conj(x))))


@register_gradient("Zeta")
def _zeta(op: Operation, grad: Tensor) -> Any:
    return _by_broadcast_args(op, grad, lambda x, q: (None, -conj(x) * call("Zeta", conj(x) + 1, conj(q))))


@register_gradient("NextAfter")
def _next_after(op: Operation, grad: Tensor) -> Any:
    def partials(x: Tensor, y: Tensor) -> Any:
        return ones(shape(x), x.dtype), zeros(shape(y), y.dtype)

    return _by_broadcast_args(op, grad, partials)


@register_gradient("Select")
def _select(op: Operation, grad: Tensor) -> Any:
    condition, x, _ = op.inputs
    nothing = zeros_like(x)
    return None, where(condition, grad, nothing), where(condition, nothing, grad)


@register_gradient("SelectV2")
def _select_v2(op: Operation, grad: Tensor) -> Any:
    condition, x, y = op.inputs
    nothing = zeros([], grad.dtype.base_dtype)
    gx, gy = where_v2(condition, grad, nothing), where_v2(condition, nothing, grad)
    reduced, _ = reduce_gradients(x, op.outputs[0], gx, None)
    return None, reduced, reduce_gradients(y, op.outputs[0], gy, None)[0]


@register_gradient("AddN")
def _add_n(op: Operation, grad: Any) -> Any:
    return [grad] * len(op.inputs)


@register_gradient("Betainc")
def _betainc(op: Operation, grad: Tensor) -> Any:
    """By x only, as in TensorFlow: the density, in logarithms."""

    def partials(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        beta = call("Lgamma", a) + call("Lgamma", b) - call("Lgamma", a + b)
        return call("Exp", call("Xlog1py", b - 1.0, -x) + call("Xlogy", a - 1.0, x) - beta)

    a, b, x = op.inputs
    by_x = partials(a, b, x) * grad
    return None, None, reshape(reduce_gradients(x, op.outputs[0], by_x, None)[0], shape(x))


@register_gradient("BesselI0")
def _bessel_i0(op: Operation, grad: Tensor) -> Any:
    with _after(grad):
        return grad * call("BesselI1", op.inputs[0])


@register_gradient("BesselI0e")
def _bessel_i0e(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    with _after(grad):
        return grad * (call("BesselI1e", x) - math_ops.sign(x) * op.outputs[0])


def _over_or_half(x: Tensor, value: Tensor, at_zero: float) -> Tensor:
    """A value that is 0 / 0 at 0, and its limit there."""
    return where_v2(call("Equal", x, zeros_like(x)), constant(at_zero, x.dtype), value)


@register_gradient("BesselI1")
def _bessel_i1(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    with _after(grad):
        return grad * _over_or_half(x, call("BesselI0", x) - divide(op.outputs[0], x), 1.0)


@register_gradient("BesselI1e")
def _bessel_i1e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    with _after(grad):
        slope = call("BesselI0e", x) - y * (math_ops.sign(x) + call("Reciprocal", x))
        return grad * _over_or_half(x, slope, 0.5)


@register_gradient("Angle")
def _angle(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    turned = call("Reciprocal", math_ops.complex(math_ops.imag(x), math_ops.real(x)))
    return -math_ops.complex(grad, zeros_like(grad)) * turned


@register_gradient("ClipByValue")
def _clip_by_value(op: Operation, grad: Tensor) -> Any:
    """To whichever of the three was taken."""
    x, low, high = op.inputs
    below, above = call("Less", x, low), call("Greater", x, high)
    nothing = zeros_like(grad)
    inside = where_v2(call("LogicalOr", below, above), nothing, grad)
    ends = (where_v2(below, grad, nothing), where_v2(above, grad, nothing))
    by_low, by_high = (reduce_gradients(v, op.outputs[0], g, None)[0] for v, g in zip((low, high), ends, strict=True))
    return reduce_gradients(x, op.outputs[0], inside, None)[0], by_low, by_high


@register_gradient("CumulativeLogsumexp")
def _cumulative_logsumexp(op: Operation, grad: Tensor) -> Any:
    """Positive and negative parts of the gradient in logarithms, summed up the other way."""
    x, axis = op.inputs
    reverse, exclusive = not op.get_attr("reverse"), op.get_attr("exclusive")
    least = constant(np.finfo(grad.dtype.as_numpy_dtype).min, grad.dtype)

    def part(side: Tensor) -> Tensor:
        is_there = call("Greater", side, zeros_like(side))
        logs = where_v2(is_there, call("Log", where_v2(is_there, side, ones_like(side))), least)
        summed = call("CumulativeLogsumexp", logs - op.outputs[0], axis, reverse=reverse, exclusive=exclusive)
        return call("Exp", summed + x)

    return part(grad) - part(-grad), None


@register_gradient("EuclideanNorm")
def _euclidean_norm(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    if not op.get_attr("keep_dims"):
        kept = math_ops.reduced_shape(shape(x), op.inputs[1])
        y, grad = reshape(y, kept), reshape(grad, kept)
    return divide(x, divide(y, grad)), None
