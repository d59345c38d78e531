"""Instructions that the emitter of generic Triton fusions supports.

Follows xla/backends/gpu/codegen/triton/support.cc. `objection` returns why an instruction is not
supported, or "".
"""

from __future__ import annotations

from typing import Final

from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.devices import GpuDevice
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.shape import PrimitiveType as T

_ADA: Final = (8, 9)
_FLOAT8: Final = frozenset((T.F8E5M2, T.F8E4M3FN))
_TYPES: Final = frozenset((T.PRED, T.S4, T.S8, T.S16, T.S32, T.S64, T.F16, T.F32, T.F64, T.BF16)) | _FLOAT8
_FLOATS: Final = frozenset((T.BF16, T.F16, T.F32, T.F64))
_FLOAT_UNARY: Final = frozenset(
    (O.ACOS, O.ACOSH, O.ASIN, O.ASINH, O.ATANH, O.CBRT, O.CEIL, O.COSINE, O.COSH, O.ERF, O.EXPONENTIAL,
     O.EXPONENTIAL_MINUS_ONE, O.FLOOR, O.LOG, O.LOG_PLUS_ONE, O.ROUND_NEAREST_EVEN, O.RSQRT, O.SINE, O.SINH, O.SQRT,
     O.TAN,
     O.TANH)
)  # fmt: skip
_FLOAT_BINARY: Final = frozenset((O.ATAN2, O.DIVIDE, O.REMAINDER, O.POWER))
_LOGICAL: Final = frozenset((O.AND, O.OR, O.XOR))
_MOVING: Final = frozenset((O.BROADCAST, O.RESHAPE, O.SLICE, O.TRANSPOSE, O.BITCAST))
_INTEGERS_OF_S4: Final = frozenset((T.S8, T.F16, T.BF16, T.F32, T.F64))


def objection(i: HloInstruction, device: GpuDevice) -> str:
    """Return why an instruction is not supported in a Triton fusion, or "".

    For a fusion, the first unsupported instruction in it.
    """
    if i.opcode is O.FUSION:
        found = (_objection(f, device) for f in i.fused_computation)
        return next((text for text in found if text), "")
    return _objection(i, device)


def _objection(i: HloInstruction, device: GpuDevice) -> str:
    if i.opcode is O.PARAMETER and isinstance(i.shape, ArrayShape) and i.shape.element_type in _TYPES:
        return ""
    if not isinstance(i.shape, ArrayShape):
        return f"{i.name} is not an array"
    if i.opcode is O.CONVERT:
        return _conversion(i, device)
    types = [i.shape.element_type, *(o.shape.element_type for o in i.operands if isinstance(o.shape, ArrayShape))]
    unknown = next((t for t in types if t not in _TYPES), None)
    if unknown is not None:
        return f"{i.name}: Triton does not support {unknown}"
    if i.opcode is O.CONSTANT:
        is_scalar = i.shape.element_count == 1 and i.shape.element_type is not T.S4
        return "" if is_scalar else f"{i.name} is a constant array"
    if i.opcode is O.REDUCE:
        return _reduction(i, device)
    if i.opcode in _MOVING or i.opcode is O.IOTA:
        return _moving(i)
    if is_elementwise(i) and i.operands and i.opcode is not O.MAP:
        # Use the last operand's type: a compare returns pred, and select's first operand is pred.
        last = i.operands[-1].array_shape.element_type
        return (
            "" if is_elementwise_opcode(i.opcode, last) else f"{i.name}: Triton does not support {i.opcode} of {last}"
        )
    return f"{i.name}: Triton does not support {i.opcode}"


def _moving(i: HloInstruction) -> str:
    result = i.array_shape.element_type
    if result is T.S4 or (i.opcode is O.IOTA and result in _FLOAT8):
        return f"{i.name}: Triton does not support {i.opcode} of {result}"
    if i.opcode is O.BITCAST:
        given = i.operands[0].array_shape
        if given.element_count != i.array_shape.element_count:
            return f"{i.name} changes the number of elements"
        if T.PRED in (given.element_type, result) and given.element_type is not result:
            return f"{i.name} mixes pred with another type"
    return ""


def _reduction(i: HloInstruction, device: GpuDevice) -> str:
    if i.array_shape.element_type in _FLOAT8:
        return f"{i.name} reduces {i.array_shape.element_type}"
    inside = next((text for f in i.to_apply if (text := _objection(f, device))), "")
    if inside:
        return inside
    return "" if len(i.dimensions) == 1 and len(i.operands) == 2 else f"{i.name} reduces several dimensions or arrays"


def _conversion(i: HloInstruction, device: GpuDevice) -> str:
    given, made = i.operands[0].array_shape.element_type, i.array_shape.element_type
    refused = f"{i.name}: Triton cannot convert {given} to {made}"
    if given not in _TYPES or made not in _TYPES or made is T.S4:
        return refused
    if given is not made and T.F8E4M3FN in (given, made) and device.architecture.capability < _ADA:
        return refused
    eight = (given in _FLOAT8) + (made in _FLOAT8)
    if given is not made and eight == 1 and not {given, made} & {T.F16, T.BF16, T.F32}:
        return refused
    return refused if given is T.S4 and made not in _INTEGERS_OF_S4 else ""


def is_elementwise_opcode(opcode: O, element_type: T) -> bool:
    """Whether Triton's emitter supports an elementwise opcode for an operand type."""
    if opcode is O.SELECT:
        return element_type is not T.S4
    if element_type is T.PRED:
        return opcode in _LOGICAL or opcode in (
            O.NOT, O.COPY, O.ADD, O.COMPARE, O.MAXIMUM, O.MINIMUM, O.MULTIPLY, O.CLAMP
        )  # fmt: skip
    if element_type is T.S4:
        return False
    if element_type in _FLOAT8:
        return opcode in (O.ABS, O.COPY, O.REDUCE_PRECISION)
    if opcode in (O.ABS, O.COPY, O.NEGATE, O.ADD, O.COMPARE, O.MAXIMUM, O.MINIMUM, O.MULTIPLY, O.SUBTRACT, O.CLAMP):
        return True
    if element_type in _FLOATS:
        return opcode in _FLOAT_UNARY or opcode in _FLOAT_BINARY or opcode is O.REDUCE_PRECISION
    return opcode in _LOGICAL or opcode in (O.NOT, O.DIVIDE, O.REMAINDER)
