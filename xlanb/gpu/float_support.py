"""The narrow float types that XLA:GPU's code computes in directly.

Follows xla/service/gpu/gpu_float_support.h.
"""

from __future__ import annotations

from dataclasses import field

from xlanb.gpu.backend_config import fusion_config
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.transforms.precision.float_normalization import FloatSupport

P = PrimitiveType

_ANY_TYPE = frozenset(
    (
        *(O.ALL_REDUCE, O.ALL_REDUCE_START, O.ALL_REDUCE_DONE, O.REDUCE_SCATTER, O.SCALED_DOT, O.RAGGED_DOT),
        *(O.ALL_GATHER, O.ALL_TO_ALL, O.BROADCAST, O.COLLECTIVE_PERMUTE, O.CONCATENATE, O.COPY, O.CONSTANT),
        *(O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE, O.GATHER, O.PAD, O.RAGGED_ALL_TO_ALL, O.RESHAPE, O.REVERSE),
        *(O.SCATTER, O.SELECT, O.SELECT_AND_SCATTER, O.SLICE, O.TRANSPOSE, O.BITCAST, O.BITCAST_CONVERT, O.CONVERT),
        *(O.COMPARE, O.REDUCE_PRECISION, O.XOR),
    )
)
_COLLECTIVES = frozenset((O.ALL_REDUCE, O.REDUCE_SCATTER, O.ALL_GATHER, O.ALL_TO_ALL, O.COLLECTIVE_PERMUTE))
_BF16_CUDA = frozenset((O.EXPONENTIAL, O.LOG))
_BF16_AMPERE = frozenset((O.ABS, O.MAXIMUM, O.MINIMUM, O.NEGATE))
_BF16_HOPPER = frozenset((O.ADD, O.MULTIPLY, O.SUBTRACT))
_F8_DOTS = {P.F8E4M3FN: (8, 0), P.F8E5M2: (9, 0)}
"""The first CUDA compute capability with dots of each type in Triton fusions."""


@dataclass(frozen=True)
class GpuFloatSupport(FloatSupport):
    """The narrow types that a device computes in.

    bf16 support grows from Ampere to Hopper; other narrow floats are supported where data only
    moves.
    """

    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def narrow(self, i: HloInstruction, low: PrimitiveType) -> bool:
        """Whether `i` may take and return `low`."""
        if i.opcode in _COLLECTIVES and _is_below_a_byte(i):
            return False
        if i.opcode in _ANY_TYPE:
            return True
        if i.opcode is O.DOT:
            return low is P.BF16 or self._has_f8_dot(i, low)
        if i.opcode in (O.REDUCE, O.SORT):
            return all(r.opcode is O.PARAMETER or self.narrow(r, low) for r in i.to_apply)
        if low is not P.BF16 or self.device.architecture.platform != "CUDA":
            return False
        capability = self.device.architecture.capability
        return (
            i.opcode in _BF16_CUDA
            or (i.opcode in _BF16_AMPERE and capability >= (8, 0))
            or (i.opcode in _BF16_HOPPER and capability >= (9, 0))
        )

    def mixed(self, i: HloInstruction) -> bool:
        """Whether `i` may mix narrow and wide types."""
        if i.opcode is O.SCALED_DOT:
            return True
        if i.opcode is not O.DOT:
            return False
        lhs, rhs = (o.array_shape.element_type for o in i.operands[:2])
        return lhs is rhs and lhs in (P.F16, P.BF16) and i.array_shape.element_type is P.F32

    def _has_f8_dot(self, i: HloInstruction, low: PrimitiveType) -> bool:
        needed = _F8_DOTS.get(low)
        architecture = self.device.architecture
        has = needed is not None and architecture.platform == "CUDA" and architecture.capability >= needed
        return has and _is_of_triton(i.parent)


def _is_below_a_byte(i: HloInstruction) -> bool:
    return i.shape.is_array and i.array_shape.element_type.bits < 8 and i.array_shape.element_type is not P.PRED


def _is_of_triton(c: HloComputation) -> bool:
    """Whether a computation is the body of a Triton fusion."""
    return any(
        i.opcode is O.FUSION and str(fusion_config(i).get("kind", "")).startswith("__triton")
        for i in c.module.callers(c)
    )
