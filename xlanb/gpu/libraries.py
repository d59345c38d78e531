"""Lower library calls to instructions that have kernels.

cuDNN convolutions and cuBLAS matrix products become convolutions and dots, followed by what the
call applies to their results.

c = (f32[2,6,24,24], u8[0]) custom-call(x, w), custom_call_target="__cudnn$convForward"
=>  c = f32[2,6,24,24] convolution(x, w);  t = (f32[2,6,24,24], u8[0]) tuple(c, workspace)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from xlanb.analysis import cublas_gemm, cublas_triangular_solve, cudnn_convolution
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape, TupleShape
from xlanb.transforms.builder import Builder
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.simplifiers.tuple_simplifier import TupleSimplifier


def lower_library_calls(module: HloModule) -> bool:
    """Rewrite a module in place; return whether it changed."""
    calls = [i for c in module.computations for i in c if i.opcode is Op.CUSTOM_CALL]
    convolutions = [i for i in calls if cudnn_convolution.is_cudnn_convolution(i) and _has_known_activation(i)]
    products = [i for i in calls if cublas_gemm.is_gemm(i)]
    solves = [i for i in calls if cublas_triangular_solve.is_triangular_solve(i)]
    for i in convolutions:
        _replace(i, _convolution(i))
    for i in products:
        _replace(i, _product(i))
    for i in solves:
        _replace(i, _solve(i))
    if convolutions or products or solves:
        TupleSimplifier().apply(module)
        HloDce().apply(module)
    return bool(convolutions or products or solves)


def _replace(i: HloInstruction, made: HloInstruction) -> None:
    """Replace a call by a value, in a tuple with an unused workspace if the call returns one."""
    b = Builder(i)
    if not isinstance(i.shape, TupleShape):
        i.parent.replace(i, made)
        return
    rest = [b.full(0, s.as_array()) for s in i.shape.shapes[1:]]
    i.parent.replace(i, b.add(Op.TUPLE, (made, *rest), i.shape))


# -- convolutions ----------------------------------------------------------------------------------


def _has_known_activation(i: HloInstruction) -> bool:
    return cudnn_convolution.activation(i).mode in ("kNone", "kRelu", "kRelu6", "kElu", "kLeakyRelu")


def _convolution(i: HloInstruction) -> HloInstruction:
    b, c = Builder(i), cudnn_convolution.as_convolution(i)
    lhs, rhs = i.operands[:2]
    if c.filter_groups > 1:
        rhs = _regrouped(b, rhs, c.numbers.kernel_input_feature, c.numbers.kernel_output_feature, c.filter_groups)
    shape = cudnn_convolution.result_shape(i)
    groups = {"feature_group_count": c.feature_groups, "batch_group_count": c.batch_groups}
    made = b.add(
        Op.CONVOLUTION,
        (lhs, rhs),
        shape,
        window=c.window,
        dim_labels=c.numbers,
        **{k: v for k, v in groups.items() if v > 1},
    )
    if i.get("custom_call_target") == cudnn_convolution.FUSED:
        made = _activated(b, i, made, c.numbers.output_feature)
    return made


def _regrouped(b: Builder, x: HloInstruction, outer: int, inner: int, groups: int) -> HloInstruction:
    """Reduce dimension `outer` to one group's size, and put the groups before dimension `inner`."""
    shape = x.array_shape
    sizes = list(shape.dimensions)
    split = [*sizes[:outer], groups, sizes[outer] // groups, *sizes[outer + 1 :]]
    apart = b.reshape(x, split)
    rest = [d for d in range(len(split)) if d != outer]  # without the groups
    position = rest.index(inner if inner < outer else inner + 1)
    order = [*rest[:position], outer, *rest[position:]]
    moved = b.add(Op.TRANSPOSE, (apart,), dimensions=tuple(order))
    sizes[outer] //= groups
    sizes[inner] *= groups
    return b.reshape(moved, sizes)


def _activated(b: Builder, i: HloInstruction, made: HloInstruction, feature: int) -> HloInstruction:
    """Scale the products, add each feature's bias and the side input, and apply the activation."""
    a, shape = cudnn_convolution.activation(i), made.array_shape
    bias, *side = i.operands[2:]

    def scaled(x: HloInstruction, factor: float) -> HloInstruction:
        return x if factor == 1 else b.binary(Op.MULTIPLY, x, b.full(factor, shape))

    total = b.binary(Op.ADD, scaled(made, a.scale), b.broadcast(bias, (feature,), shape))
    if side:
        total = b.binary(Op.ADD, total, scaled(side[0], a.side_scale))
    zero = b.full(0, shape)
    if a.mode in ("kRelu", "kRelu6"):
        total = b.binary(Op.MAXIMUM, total, zero)
        return b.binary(Op.MINIMUM, total, b.full(6, shape)) if a.mode == "kRelu6" else total
    if a.mode == "kNone":
        return total
    below = b.unary(Op.EXPONENTIAL_MINUS_ONE, total) if a.mode == "kElu" else scaled(total, a.alpha)
    return b.select(b.compare(total, "GT", zero), total, below)


# -- matrix products -------------------------------------------------------------------------------


def _product(i: HloInstruction) -> HloInstruction:
    g, b, shape = cublas_gemm.gemm_of(i), Builder(i), cublas_gemm.result_shape(i)
    if g is None:
        raise AssertionError("the matrix product has no backend config")
    numbers: dict[str, Sequence[int]] = {
        "lhs_batch_dims": g.batch[0], "rhs_batch_dims": g.batch[1],
        "lhs_contracting_dims": g.contracting[0], "rhs_contracting_dims": g.contracting[1],
    }  # fmt: skip
    made = b.add(Op.DOT, i.operands[:2], shape, **{k: tuple(v) for k, v in numbers.items() if v})
    rest = list(i.operands[2:])
    if g.alpha != 1:
        made = b.binary(Op.MULTIPLY, made, b.full(_scalar(g.alpha, shape), shape))
    if g.beta:
        addend = rest.pop(0)
        if g.beta != 1:
            addend = b.binary(Op.MULTIPLY, addend, b.full(g.beta, shape))
        made = b.binary(Op.ADD, made, addend)
    if g.epilogue.startswith("BIAS"):
        bias = rest.pop(0)
        made = b.binary(Op.ADD, made, b.broadcast(bias, (shape.rank - 1,), shape))
    if g.epilogue.endswith("GELU"):
        return _gelu(b, made, shape)
    return b.binary(Op.MAXIMUM, made, b.full(0, shape)) if g.epilogue.endswith("RELU") else made


def _scalar(value: complex, shape: ArrayShape) -> complex:
    return value if shape.element_type.is_complex else value.real


def _gelu(b: Builder, x: HloInstruction, shape: ArrayShape) -> HloInstruction:
    """Return GELU in its tanh approximation, as cuBLAS computes it."""
    cubed = b.binary(Op.MULTIPLY, b.binary(Op.MULTIPLY, x, x), x)
    inner = b.binary(Op.ADD, x, b.binary(Op.MULTIPLY, cubed, b.full(0.044715, shape)))
    bent = b.unary(Op.TANH, b.binary(Op.MULTIPLY, inner, b.full(0.7978845608028654, shape)))
    half = b.binary(Op.MULTIPLY, x, b.full(0.5, shape))
    return b.binary(Op.MULTIPLY, half, b.binary(Op.ADD, bent, b.full(1, shape)))


# -- triangular solves -----------------------------------------------------------------------------


def _solve(i: HloInstruction) -> HloInstruction:
    shape = (i.shape.shapes[0] if isinstance(i.shape, TupleShape) else i.shape).as_array()
    options = asdict(cublas_triangular_solve.options_of(i))
    return Builder(i).add(Op.TRIANGULAR_SOLVE, i.operands, shape, **options)
