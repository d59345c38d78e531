"""Compute instructions with floats of several types in the widest: kernels use one type each.

    r = bf16[8] add(f32[8] a, bf16[8] b)  =>  r = convert(bf16, f32[8] add(a, convert(f32, b)))
    r = s32[8,8] dot(f32[8,8] a, f32[8,8] b)  =>  r = convert(s32, f32[8,8] dot(a, b))
    r = bf16[8,8] cholesky(a)                 =>  r = convert(bf16, cholesky(convert(f32, a)))
    r = bf16[8] reduce(a, 0), to_apply=f      =>  r = convert(bf16, reduce(convert(f32, a), 0))

HLO allows this mixed precision. XLA:CPU's float-normalization passes do the same, among other
things, and its result_caster converts sums of floats to integers. Instructions that take several
types themselves (dot, convolution, convert) are otherwise unchanged. A reduction whose computation
rounds narrow floats more than once per step (f above) computes in f32, and its result is rounded.
"""

from __future__ import annotations

from xlanb.analysis.mixed_precision import common_type, is_mixed, mixed_types, part_type, rounded_operation
from xlanb.codegen.elements import is_narrow
from xlanb.codegen.folds import simple_reducer
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.operand_upcaster import PRODUCTS, computed_in
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.simplifiers.tuple_simplifier import TupleSimplifier

_SOLVED = (Op.CHOLESKY, Op.TRIANGULAR_SOLVE)
"""Opcodes that LAPACK computes, which has no narrow floats."""
_FOLDS = (Op.REDUCE, Op.REDUCE_WINDOW)
_FORWARDED = frozenset({Op.CONSTANT, Op.GET_TUPLE_ELEMENT, Op.PARAMETER, Op.TUPLE})
_EXACT = _FORWARDED | {Op.ABS, Op.COPY, Op.MAXIMUM, Op.MINIMUM, Op.NEGATE, Op.SELECT, Op.SIGN}
"""Opcodes that round no float: with only these, a fold has the same result in a wider type."""


def _widened(i: HloInstruction, low: PrimitiveType, high: PrimitiveType, *, throughout: bool = False) -> HloInstruction:
    from xlanb.transforms.precision.float_normalization import widened

    return widened(i, low, high, throughout=throughout)


def unmix(module: HloModule) -> bool:
    """Rewrite a module until each instruction computes floats of one type; whether it changed."""
    was_mixed = False
    # Widening clones called computations, which may contain instructions yet to be widened.
    while mixed := [i for c in module.computations for i in c if is_mixed(i)]:
        was_mixed = True
        for found in mixed:
            i = found
            while kinds := mixed_types(i):
                high = common_type(kinds)
                i = _widened(i, next(k for k in kinds if k is not high), high)
    parts = [(i, t) for c in module.computations for i in c if (t := part_type(i)) is not None]
    for i, t in parts:
        _compute_in(i, t)
    narrow = [(i, t) for c in module.computations for i in c if (t := _computed_in_f32(i)) is not None]
    for i, t in narrow:
        _widened(i, t, PrimitiveType.F32, throughout=True)
    products = [i for c in module.computations for i in c if i.opcode in PRODUCTS]
    changed = [i for i in products if _compute_in_one_type(i)]
    if was_mixed or narrow:
        TupleSimplifier().apply(module)
        HloDce().apply(module)
    return bool(was_mixed or parts or narrow or changed)


def _compute_in(i: HloInstruction, t: PrimitiveType) -> None:
    """Replace an instruction by one of type t with the same operands, converted to its own type."""
    made = i.parent.clone_instruction(i, shape=i.array_shape.with_type(t))
    i.parent.replace(i, Builder(i).convert(made, i.array_shape.element_type))


def _computed_in_f32(i: HloInstruction) -> PrimitiveType | None:
    """The narrow type of an instruction that should compute in f32 instead, if any."""
    if i.opcode in _FOLDS:
        return _rounded_in_each_step(i.to_apply)
    return i.shape.element_type if i.opcode in _SOLVED and is_narrow(i.shape.element_type) else None


def _rounded_in_each_step(step: HloComputation) -> PrimitiveType | None:
    """The narrow type of a fold's computation that rounds in each step.

    None if it does not, or calls others. The emitters know single operations themselves.
    """
    given = {p.shape.element_type for p in step.parameters if p.shape.is_array and is_narrow(p.shape.element_type)}
    if not given or rounded_operation(step)[1] is not None or simple_reducer(step) is not None:
        return None
    if any(not (i.opcode.is_elementwise or i.opcode in _FORWARDED) for i in step):
        return None
    rounding = (i.shape.element_type for i in step if i.shape.is_array and i.opcode not in _EXACT)
    return next((t for t in rounding if t in given), None)


def _compute_in_one_type(i: HloInstruction) -> bool:
    """Insert converts around a dot or convolution whose kernel would compute in another type.

    Returns whether any were needed. A kernel converts operands to the accumulation type, which is
    f32 for narrow floats and otherwise the result's type.
    """
    kind, result = computed_in(i), i.shape.element_type
    c, operands = i.parent, i.operands
    is_small = kind.is_floating and kind.bits < 32
    if is_small and any(o.shape.element_type is not kind for o in operands[:2]):
        b = Builder(i)
        rounded = [b.as_type(o, kind) for o in operands[:2]]
        c.set_operands(i, [*rounded, *operands[2:]])
    if _sums_alike(kind, result):
        return operands != i.operands
    _compute_in(i, kind)
    return True


def _sums_alike(kind: PrimitiveType, result: PrimitiveType) -> bool:
    """Whether kernels with these result types accumulate alike and round once.

    Integers wrap around at any width.
    """
    if kind is PrimitiveType.F32:
        return result is kind or (result.is_floating and result.bits < 32)
    return result is kind or (kind.is_integral and result.is_integral)


__all__ = ["unmix"]
