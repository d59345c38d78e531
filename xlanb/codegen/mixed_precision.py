"""Instructions whose arrays are floats of several types, which HLO allows ("mixed precision"), computed in the widest of them: the kernels know one type each.

    r = bf16[8] add(f32[8] a, bf16[8] b)    =>    r = convert(bf16, f32[8] add(a, convert(f32, b)))
    r = s32[8,8] dot(f32[8,8] a, f32[8,8] b)    =>    r = convert(s32, f32[8,8] dot(a, b))

XLA:CPU's float-normalization passes do the same among the rest, and its result_caster makes integers of sums of floats. What takes several types
by itself (dot, convolution, convert) stays otherwise.
"""

from __future__ import annotations

from xlanb.analysis.mixed_precision import common_type, is_mixed, mixed_types, part_type
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.shape import PrimitiveType
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.float_normalization import widened
from xlanb.transforms.precision.operand_upcaster import PRODUCTS, computed_in
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.simplifiers.tuple_simplifier import TupleSimplifier


def unmix(module: HloModule) -> bool:
    """Rewrite a module in place until each instruction computes floats of one type; whether it changed."""
    was_mixed = False
    # To widen an instruction clones what it calls, which may have mixed ones that are not widened yet.
    while mixed := [i for c in module.computations for i in c if is_mixed(i)]:
        was_mixed = True
        for found in mixed:
            i = found
            while kinds := mixed_types(i):
                high = common_type(kinds)
                i = widened(i, next(k for k in kinds if k is not high), high)
    parts = [(i, t) for c in module.computations for i in c if (t := part_type(i)) is not None]
    for i, t in parts:
        made = i.parent.clone_instruction(i, shape=i.array_shape.with_type(t))
        i.parent.replace(i, Builder(i).convert(made, i.array_shape.element_type))
    products = [i for c in module.computations for i in c if i.opcode in PRODUCTS]
    changed = [i for i in products if _compute_in_one_type(i)]
    if was_mixed:
        TupleSimplifier().apply(module)
        HloDce().apply(module)
    return bool(was_mixed or parts or changed)


def _compute_in_one_type(i: HloInstruction) -> bool:
    """Converts around a dot or convolution where its kernel computes in another type than XLA does; whether any were needed.

    A kernel converts operands to the type that it sums in, which is f32 for narrow floats and else
    the result's.
    """
    kind, result = computed_in(i), i.shape.element_type
    c, operands = i.parent, i.operands
    is_small = kind.is_floating and kind.bits < 32
    if is_small and any(o.shape.element_type is not kind for o in operands[:2]):
        b = Builder(i)
        rounded = [o if o.shape.element_type is kind else b.convert(o, kind) for o in operands[:2]]
        c.set_operands(i, [*rounded, *operands[2:]])
    if _sums_alike(kind, result):
        return operands != i.operands
    made = c.clone_instruction(i, shape=i.array_shape.with_type(kind))
    c.replace(i, Builder(i).convert(made, result))
    return True


def _sums_alike(kind: PrimitiveType, result: PrimitiveType) -> bool:
    """Whether a kernel that gives `result` sums as one does that gives `kind`, and rounds once: integers wrap around at any width."""
    if kind is PrimitiveType.F32:
        return result is kind or (result.is_floating and result.bits < 32)
    return result is kind or (kind.is_integral and result.is_integral)


__all__ = ["unmix"]
