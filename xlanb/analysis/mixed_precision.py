"""Instructions on floats of several types ("mixed precision"), and the type to compute in."""

from __future__ import annotations

from collections.abc import Iterable

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.shape_inference.registry import component_type
from xlanb.shape import PrimitiveType, Shape, TupleShape

UNTOUCHED = frozenset(
    {
        *(
            HloOpcode.TUPLE,
            HloOpcode.GET_TUPLE_ELEMENT,
            HloOpcode.CONSTANT,
            HloOpcode.DOMAIN,
            HloOpcode.PARAMETER,
            HloOpcode.FUSION,
            HloOpcode.CONVERT,
            HloOpcode.CALL,
            HloOpcode.CUSTOM_CALL,
            HloOpcode.WHILE,
            HloOpcode.CONDITIONAL,
            HloOpcode.COPY_START,
            HloOpcode.COPY_DONE,
        ),
        *(
            HloOpcode.BITCAST_CONVERT,
            HloOpcode.BITCAST,
            HloOpcode.OPT_BARRIER,
            HloOpcode.ASYNC_START,
            HloOpcode.ASYNC_UPDATE,
            HloOpcode.ASYNC_DONE,
        ),
    }
)
"""Opcodes that only forward values, or accept any types."""

SEVERAL_TYPES = UNTOUCHED | {
    HloOpcode.DOT, HloOpcode.CONVOLUTION, HloOpcode.RAGGED_DOT, HloOpcode.SCALED_DOT,
    HloOpcode.STOCHASTIC_CONVERT, HloOpcode.BATCH_NORM_TRAINING,
    HloOpcode.BATCH_NORM_INFERENCE, HloOpcode.BATCH_NORM_GRAD, HloOpcode.RNG, HloOpcode.COMPLEX,
}  # fmt: skip
"""Opcodes whose operands and results may have unrelated types."""

WIDER: dict[PrimitiveType, PrimitiveType] = {
    PrimitiveType.BF16: PrimitiveType.F32,
    PrimitiveType.F8E5M2: PrimitiveType.F16,
    PrimitiveType.F8E4M3: PrimitiveType.F16,
    PrimitiveType.F8E4M3FN: PrimitiveType.F16,
    PrimitiveType.F8E4M3B11FNUZ: PrimitiveType.F16,
    PrimitiveType.F8E5M2FNUZ: PrimitiveType.F16,
    PrimitiveType.F8E4M3FNUZ: PrimitiveType.F16,
    PrimitiveType.F8E3M4: PrimitiveType.F16,
    PrimitiveType.S4: PrimitiveType.S8,
    PrimitiveType.U4: PrimitiveType.U8,
    PrimitiveType.F4E2M1FN: PrimitiveType.F16,
    PrimitiveType.F8E8M0FNU: PrimitiveType.F32,
}
"""The type in which XLA:CPU computes a narrow type, after its float-normalization passes."""


def common_type(kinds: set[PrimitiveType]) -> PrimitiveType:
    """The type that represents the values of all.

    The widest, or a wider one if two are equally wide but neither represents the other's values.
    """
    widest = max(kinds, key=lambda k: k.bits)
    if any(k is not widest and k.bits == widest.bits for k in kinds):
        return PrimitiveType.F32
    return widest


def is_mixed(i: HloInstruction) -> bool:
    """Whether an instruction that computes in one type has floats of several types."""
    if i.opcode in SEVERAL_TYPES or not i.operands:
        return False
    shape = i.shape
    if isinstance(shape, TupleShape) or i.called_computations:
        return bool(mixed_types(i))
    t = shape.element_type
    return any(o.shape.is_array and o.shape.element_type is not t for o in i.operands) and bool(mixed_types(i))


def mixed_types(i: HloInstruction) -> set[PrimitiveType]:
    """The float types that an instruction mixes; empty if it does not."""
    for group in _groups(i):
        kinds = {s.element_type for s in group if s.is_array and s.as_array().element_type.is_floating}
        if len(kinds) > 1:
            return kinds
    return set()


def _groups(i: HloInstruction) -> Iterable[list[Shape]]:
    """Groups of shapes that must have one type: all, or one group per array.

    Parameters and results of a scalar computation belong to the array whose elements they are.
    """
    results = _parts(i.shape)
    operands = [o.shape for o in i.operands]
    n = len(results)
    match i.opcode:
        case HloOpcode.TOPK:
            return ([a, b] for a, b in zip(operands, results, strict=False))
        case HloOpcode.SORT:
            sides = _parameters(i.to_apply)
            return ([operands[k], results[k], *sides[2 * k : 2 * k + 2]] for k in range(n))
        case HloOpcode.REDUCE | HloOpcode.REDUCE_WINDOW:
            return ([operands[k], operands[n + k], results[k], *_folding(i.to_apply, k, n)] for k in range(n))
        case HloOpcode.SCATTER:
            return ([operands[k], operands[n + 1 + k], results[k], *_folding(i.to_apply, k, n)] for k in range(n))
        case HloOpcode.SELECT_AND_SCATTER:
            select, scatter = i.attributes["select"], i.attributes["scatter"]
            return ([*operands, i.shape, *_parameters(select), *_folding(scatter, 0, 1)],)
        case HloOpcode.MAP:
            pairs = zip(operands, _parameters(i.to_apply), strict=True)
            return (*([a, p] for a, p in pairs), [i.shape, i.to_apply.root.shape])
        case _:
            return () if isinstance(i.shape, TupleShape) else ([*operands, i.shape],)


def _parts(shape: Shape) -> list[Shape]:
    return list(shape.shapes) if isinstance(shape, TupleShape) else [shape]


def _parameters(computation: HloComputation) -> list[Shape]:
    return [p.shape for p in computation.parameters]


def _folding(reducer: HloComputation, k: int, n: int) -> list[Shape]:
    """The accumulator, element and result of a reducer of `n` arrays, for array `k`."""
    parameters = _parameters(reducer)
    return [parameters[k], parameters[n + k], _parts(reducer.root.shape)[k]]


def part_type(i: HloInstruction) -> PrimitiveType | None:
    """The type of a complex operand's parts, if real, imag or abs converts to another type.

    Otherwise None.
    """
    if i.opcode not in (HloOpcode.REAL, HloOpcode.IMAG, HloOpcode.ABS) or not i.operands[0].shape.is_array:
        return None
    given = i.operands[0].shape.as_array().element_type
    kind = component_type(given)
    return kind if given.is_complex and kind is not i.shape.as_array().element_type else None


def rounded_operation(computation: HloComputation) -> tuple[HloInstruction, PrimitiveType | None]:
    """The sum or product of a reducer, and the narrow type to which each result is rounded.

    Float normalization computes a step of a narrow type in f32, converts it and converts it back.
    For other computations: the root, and None.
    """
    root = computation.root
    if root.opcode is HloOpcode.CONVERT and root.operands[0].opcode is HloOpcode.CONVERT:
        operation, to = root.operands[0].operands[0], root.operands[0].array_shape.element_type
        is_narrower = to.is_floating and to.bits < root.array_shape.element_type.bits
        if operation.opcode in (HloOpcode.ADD, HloOpcode.MULTIPLY) and operation.shape == root.shape and is_narrower:
            return operation, to
    return root, None
