"""Facts about values that several rule files use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.regions import binary_region, reducer
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import common_factors
from xlanb.transforms.builder import Builder
from xlanb.transforms.match import constant_behind, is_all

_MAX_DEPTH = 8


def is_real(i: HloInstruction) -> bool:
    """Whether the elements are real floating-point numbers."""
    return i.shape.element_type.is_floating


def is_integral(i: HloInstruction) -> bool:
    """Whether the elements are integers (predicates are not)."""
    return i.shape.element_type.is_integral


def is_inexact(i: HloInstruction) -> bool:
    """Whether the elements are floating-point or complex numbers."""
    return i.shape.element_type.is_floating or i.shape.element_type.is_complex


def wrapped(value: int, t: PrimitiveType) -> int:
    """The integer of type `t` that equals `value` modulo 2 to the power of the type's bits."""
    low = value % (1 << t.bits)
    return low - (1 << t.bits) if t.is_signed and low >> (t.bits - 1) else low


def is_predicate(i: HloInstruction) -> bool:
    """Whether the elements are truth values."""
    return i.shape.element_type is PrimitiveType.PRED


def is_constant(i: HloInstruction) -> bool:
    """Whether it is a constant, or a broadcast scalar constant, with known values."""
    return constant_behind(i) is not None


def only_user(i: HloInstruction) -> bool:
    """Whether exactly one instruction uses it."""
    return i.user_count == 1 and not i.is_root


def is_non_negative(i: HloInstruction, depth: int = 0) -> bool:
    """Whether the elements are known to be non-negative.

    Floats: true for real iotas, exp, x * x, and selects and shape changes of such values (an
    element may be NaN); false for all others.
    """
    if i.shape.element_type.is_unsigned or is_predicate(i):
        return True
    if depth > _MAX_DEPTH:
        return False
    behind = constant_behind(i)
    if behind is not None:
        return is_integral(i) and bool(np.all(behind.literal.array >= 0))
    if i.opcode is O.IOTA:
        return not is_integral(i) or not _wraps(i)
    if i.opcode is O.EXPONENTIAL:
        return is_real(i)
    if i.opcode is O.SELECT:
        return all(is_non_negative(o, depth + 1) for o in i.operands[1:])
    if i.opcode is O.MAXIMUM and is_integral(i):
        return any(is_non_negative(o, depth + 1) for o in i.operands)
    if i.opcode is O.MINIMUM and is_integral(i):
        return all(is_non_negative(o, depth + 1) for o in i.operands)
    if i.opcode in (O.BROADCAST, O.RESHAPE, O.TRANSPOSE, O.SLICE, O.REVERSE):
        return is_non_negative(i.operands[0], depth + 1)
    if i.opcode in (O.AND, O.REMAINDER) and is_integral(i):
        return is_non_negative(i.operands[0], depth + 1)
    if i.opcode is O.CONVERT and is_integral(i):
        o = i.operands[0]
        fits = is_predicate(o) or (is_integral(o) and o.shape.element_type.bits < i.shape.element_type.bits)
        return fits and is_non_negative(o, depth + 1)
    if i.opcode is O.MULTIPLY and is_real(i):
        return i.operands[0] is i.operands[1]
    return False


def _wraps(iota: HloInstruction) -> bool:
    """Whether a signed iota exceeds its type's maximum and wraps to the minimum, as s8[200] does.

    XLA's IsNonNegative treats such an iota as non-negative.
    """
    count: int = iota.array_shape.dimensions[iota.get("iota_dimension")]
    return count > 1 << (iota.shape.element_type.bits - 1)


def power_of_two(i: HloInstruction) -> int | None:
    """The exponent k if every element of an integral constant is 2**k, else None."""
    behind = constant_behind(i)
    if behind is None or not is_integral(i) or behind.literal.array.size == 0:
        return None
    value = int(behind.literal.array.flat[0])
    if value <= 0 or value & (value - 1) or not is_all(i, value):
        return None
    return value.bit_length() - 1


def evaluated(b: Builder, opcode: O, *operands: HloInstruction) -> HloInstruction:
    """A new constant: an elementwise opcode of constants that are scalar or of equal shape."""
    from xlanb.evaluator import evaluate_instruction

    made = b.add(opcode, operands, operands[0].shape)
    value = evaluate_instruction(made, [o.literal.array for o in operands])
    made.parent.remove(made)
    return b.computation.constant(value, like=b.root)


def spread(b: Builder, constant: HloInstruction, like: HloInstruction) -> HloInstruction:
    """Broadcast a scalar constant to the shape of `like`, unless it has that shape."""
    shape = like.array_shape
    if constant.array_shape.dimensions == shape.dimensions:
        return constant
    return b.broadcast(b.reshape(constant, ()), (), shape)


def is_total_order_free(root: HloInstruction) -> bool:
    """Whether a comparison uses its type's default comparison, not a total order of floats."""
    return root.attributes.get("type") != "TOTALORDER"


def degenerate_only(a: ArrayShape, b: ArrayShape) -> bool:
    """Whether two shapes differ only in dimensions of size 1."""
    return [d for d in a.dimensions if d != 1] == [d for d in b.dimensions if d != 1]


def inserted_ones(source: ArrayShape, target: ArrayShape) -> tuple[int, ...] | None:
    """The dimensions of size 1 that a reshape to `target` inserts.

    None if the reshape changes anything else; () if the dimensions are equal.
    """
    added: list[int] = []
    k = 0
    for n, size in enumerate(target.dimensions):
        if k < source.rank and source.dimensions[k] == size:
            k += 1
        elif size == 1:
            added.append(n)
        else:
            return None
    return tuple(added) if k == source.rank else None


def unmodified_dimensions(source: ArrayShape, target: ArrayShape, wanted: tuple[int, ...]) -> list[int] | None:
    """The dimensions of `target` that a reshape maps `wanted` of `source` to, each kept whole.

    None if one of them is split or merged. A dimension is kept if its size and the product of the
    sizes before it are equal in both shapes (ShapeUtil::ReshapeLeavesDimensionsUnmodified).
    """
    kept = dict(unmodified_pairs(source.dimensions, target.dimensions))
    out = [kept.get(d) for d in wanted]
    return None if None in out else [d for d in out if d is not None]


def unmodified_pairs(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pairs (i, j): a reshape keeps dimension i of its operand as dimension j of its result."""
    pairs: list[tuple[int, int]] = []
    for start_i, end_i, start_j, end_j in common_factors(source, target):
        if end_i - start_i == 1 and end_j - start_j == 1:
            pairs.append((start_i, start_j))
    return pairs


def scalar_reducer(module: HloModule, opcode: O, element_type: PrimitiveType) -> HloComputation:
    """Find or create the computation that combines two scalars of a type by an opcode."""
    for c in module.computations:
        combines = len(c) == _REDUCER and c.root.opcode is opcode and c.root.operands == tuple(c.parameters)
        if combines and c.root.shape.element_type is element_type and c.root.array_shape.is_scalar:
            return c
    return binary_region(module, {}, opcode, element_type)


PLAIN_ALGORITHMS = (None, "unset", "dot_f32_f32_f32")
"""Algorithms of dots that ask for no less precision than that of sums in f32."""


def sum_type(kind: PrimitiveType) -> PrimitiveType:
    """The type in which products of a type are summed: those of narrow floats are rounded after."""
    return PrimitiveType.F32 if kind.is_floating and kind.bits < PrimitiveType.F32.bits else kind


def sum_of(b: Builder, a: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
    """The sum over some dimensions."""
    kind = a.shape.element_type
    return b.add(
        O.REDUCE,
        (a, b.scalar(0, kind)),
        dimensions=tuple(dimensions),
        to_apply=scalar_reducer(b.computation.module, O.ADD, kind),
    )


_REDUCER = 3
"""The number of instructions in a computation that combines two parameters."""


def is_neutral(root: HloInstruction, init: HloInstruction) -> bool:
    """Whether `init` is the neutral value of the reduction."""
    kind = reducer(root.to_apply)
    return (
        (kind in (O.ADD, O.OR, O.XOR) and is_all(init, 0))
        or (kind is O.MULTIPLY and is_all(init, 1))
        or (kind is O.AND and init.shape.element_type is PrimitiveType.PRED and is_all(init, 1))
        or _is_extreme(kind, init)
    )


def _is_extreme(kind: O | None, init: HloInstruction) -> bool:
    if kind not in (O.MAXIMUM, O.MINIMUM) or not init.shape.element_type.is_floating:
        return False
    return is_all(init, float("-inf") if kind is O.MAXIMUM else float("inf"))
