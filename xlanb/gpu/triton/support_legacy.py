"""Instructions that the emitter of Triton's gemm fusions supports.

Follows xla/backends/gpu/codegen/triton/support_legacy.cc. Each function returns why an instruction
is not supported, or "".
"""

from __future__ import annotations

from math import prod
from typing import Final

from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.devices import GpuDevice
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType as T

UNSET: Final = "unset"
"""The default algorithm of a dot."""

AMPERE: Final = (8, 0)
HOPPER: Final = (9, 0)

_FLOATS: Final = frozenset((T.F32, T.BF16, T.F16, T.F64))
_NUMBER_OPCODES: Final = frozenset(
    (O.CONVERT, O.ABS, O.NEGATE, O.ADD, O.COMPARE, O.MAXIMUM, O.MINIMUM, O.MULTIPLY, O.SUBTRACT)
)
_FLOAT_OPCODES: Final = frozenset(
    (
        *(O.COSINE, O.EXPONENTIAL, O.EXPONENTIAL_MINUS_ONE, O.FLOOR, O.CEIL, O.LOG, O.LOG_PLUS_ONE, O.RSQRT, O.SINE),
        *(O.SQRT, O.CBRT, O.TAN, O.TANH, O.ERF, O.ATAN2, O.POWER, O.ROUND_NEAREST_EVEN),
        *(O.SINH, O.COSH, O.ASIN, O.ACOS, O.ASINH, O.ACOSH, O.ATANH),
    )
)
_PREDICATE_OPCODES: Final = frozenset((O.CONVERT, O.NOT, O.AND, O.OR, O.XOR, O.COMPARE))
_TERNARY: Final = frozenset((O.SELECT, O.CLAMP))
_MOVING: Final = frozenset((O.TRANSPOSE, O.SLICE, O.RESHAPE, O.PAD, O.CONCATENATE, O.PARAMETER, O.BROADCAST))
_ALGORITHMS: Final = frozenset(
    (
        *("dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32", "dot_f16_f16_f32", "dot_bf16_bf16_f32"),
        *("dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6", "dot_bf16_bf16_f32_x9"),
    )
)
_INDICES: Final = frozenset((T.S8, T.S16, T.S32))


def has_triton(device: GpuDevice) -> bool:
    """Whether a device runs Triton's kernels: NVIDIA's from Ampere on."""
    return device.architecture.platform == "CUDA" and device.architecture.capability >= AMPERE


def is_elementwise_opcode(opcode: O, element_type: T) -> bool:
    """Whether the emitter supports an elementwise opcode for an operand type, possibly as f32."""
    if opcode in _TERNARY:
        return True
    if element_type is T.PRED:
        return opcode in _PREDICATE_OPCODES
    if opcode in _NUMBER_OPCODES:
        return True
    if element_type not in _FLOATS:
        return False
    return opcode in _FLOAT_OPCODES or (opcode is O.DIVIDE and element_type is not T.F16)


def objection(i: HloInstruction, device: GpuDevice) -> str:
    """Return why an instruction is not supported in a gemm fusion, or ""."""
    if i.opcode is O.CONSTANT or is_elementwise(i):
        return _elementwise_objection(i, device)
    if i.opcode is O.DOT:
        return dot_objection(i, device)
    if i.opcode is O.DYNAMIC_SLICE:
        return _dynamic_slice_objection(i)
    if i.opcode is O.BITCAST:
        same = i.shape.element_type is i.operands[0].shape.element_type
        return "" if same else "it changes the element type"
    return "" if i.opcode in _MOVING else f"the emitter does not support {i.opcode}"


def dot_objection(dot: HloInstruction, device: GpuDevice) -> str:
    """Return why a dot is not supported as a gemm fusion's hero, or ""."""
    for operand, side in zip(dot.operands, ("lhs", "rhs"), strict=False):
        if len(free_dimensions(dot, side)) == 0:
            return f"`{operand.name}` has no non-contracting dimension"
    return gemm_objection(dot, device)


def gemm_objection(dot: HloInstruction, device: GpuDevice) -> str:
    """Return why the types or algorithm of a dot are not supported, or ""."""
    algorithm = dot.get("algorithm")
    if algorithm != UNSET and algorithm not in _ALGORITHMS:
        return f"the emitter does not support {algorithm}"
    result, operands = dot.shape.element_type, [o.shape.element_type for o in dot.operands[:2]]
    if not _is_result_type(result, device):
        return f"results of type {result} are not supported"
    for t in operands:
        if not _is_type(t, device):
            return f"operands of type {t} are not supported"
    if result is T.S32 and any(t not in (T.S8, T.U8) for t in operands):
        return "a result of type s32 needs 8-bit operands"
    return ""


def dot_sizes(dot: HloInstruction) -> tuple[int, int, int, int]:
    """Return batch, rows, columns, and contracting size."""
    left, right = (o.array_shape.dimensions for o in dot.operands[:2])
    return (
        prod(left[d] for d in dot.ints("lhs_batch_dims")),
        prod(left[d] for d in free_dimensions(dot, "lhs")),
        prod(right[d] for d in free_dimensions(dot, "rhs")),
        prod(left[d] for d in dot.ints("lhs_contracting_dims")),
    )


def elements_of(dot: HloInstruction) -> int:
    """Return the elements of both operands of one product of a batch."""
    _, rows, columns, contracted = dot_sizes(dot)
    return (rows + columns) * contracted


def _is_result_type(t: T, device: GpuDevice) -> bool:
    capability = device.architecture.capability
    if t in (T.F16, T.F32, T.BF16):
        return True
    if t in (T.F8E5M2, T.S32):
        return capability >= AMPERE
    return t is T.F8E4M3FN and capability >= HOPPER


def _is_type(t: T, device: GpuDevice) -> bool:
    return t in (T.PRED, T.S8, T.S16, T.S32) or _is_result_type(t, device)


def _elementwise_objection(i: HloInstruction, device: GpuDevice) -> str:
    if not i.shape.is_array or not _is_type(i.shape.element_type, device):
        return f"results of type {i.shape} are not supported"
    for o in i.operands:
        t = o.shape.element_type
        if not _is_type(t, device) and not (i.opcode is O.CONVERT and t is T.S4):
            return f"operands of type {t} are not supported"
    if i.opcode is O.CONSTANT or is_elementwise_opcode(i.opcode, i.operands[0].shape.element_type):
        return ""
    return f"the emitter does not support {i.opcode} of {i.operands[0].shape.element_type}"


def _dynamic_slice_objection(i: HloInstruction) -> str:
    if any(o.shape.element_type not in _INDICES for o in i.operands[1:]):
        return "its indices are not s8, s16 or s32"
    shape, sizes = i.operands[0].array_shape, i.ints("dynamic_slice_sizes")
    cut = [d for d in shape.minor_to_major[:-1] if sizes[d] != shape.dimensions[d]]
    return f"it slices dimension {cut[0]}, which is not the most major one" if cut else ""
