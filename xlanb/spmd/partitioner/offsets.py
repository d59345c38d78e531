"""Offsets that depend on a shard's ordinal.

They are known for every shard at compile time, and computed by HLO at run time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder


def truncated_quotient(dividend: int, divisor: int) -> int:
    """Divide integers rounding toward zero, as HLO's divide does."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def truncated_remainder(dividend: int, divisor: int) -> int:
    """Return the remainder of `truncated_quotient`, which has the dividend's sign."""
    return dividend - truncated_quotient(dividend, divisor) * divisor


class OffsetCalculation(ABC):
    """An integer for every shard ordinal of one dimension."""

    @property
    @abstractmethod
    def is_constant(self) -> bool:
        """Whether it is the same on every shard."""

    @abstractmethod
    def at(self, ordinal: int) -> int:
        """Return the value on the shard with that ordinal."""

    @abstractmethod
    def calculate(self, ordinal: HloInstruction, b: SpmdBuilder) -> HloInstruction:
        """Return HLO that computes the value (s32[]) from an ordinal (s32[])."""

    def max_in_range(self, start: int, limit: int) -> int:
        """Return the largest value on the shards in [start, limit).

        `start` always counts, even if the range is empty.
        """
        if self.is_constant:
            return self.at(start)
        return max(self.at(i) for i in (start, *range(start + 1, limit)))

    def __sub__(self, other: OffsetCalculation) -> OffsetCalculation:
        return CombinedOffset(HloOpcode.SUBTRACT, self, other)

    def __add__(self, other: OffsetCalculation) -> OffsetCalculation:
        return CombinedOffset(HloOpcode.ADD, self, other)


@dataclass(frozen=True)
class MultiplyAddDivide(OffsetCalculation):
    """(ordinal * multiplier + offset) / divisor, rounded toward zero."""

    multiplier: int = 0
    offset: int = 0
    divisor: int = 1

    def __post_init__(self) -> None:
        # (3 * i - 1) / 3 is neither i nor i - 1: divide term by term only if the signs are equal.
        m, o, d = self.multiplier, self.offset, self.divisor
        if d != 1 and m % d == 0 and (o % d == 0 or o * m > 0):
            object.__setattr__(self, "multiplier", truncated_quotient(m, d))
            object.__setattr__(self, "offset", truncated_quotient(o, d))
            object.__setattr__(self, "divisor", 1)

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on the ordinal."""
        return self.multiplier == 0

    def at(self, ordinal: int) -> int:
        """Return the value on the shard with that ordinal."""
        return truncated_quotient(ordinal * self.multiplier + self.offset, self.divisor)

    def calculate(self, ordinal: HloInstruction, b: SpmdBuilder) -> HloInstruction:
        """Multiply, add and divide, leaving out identity operations."""
        if self.multiplier == 0:
            return b.s32(self.at(0))
        result = ordinal
        for opcode, value, neutral in (
            (HloOpcode.MULTIPLY, self.multiplier, 1),
            (HloOpcode.ADD, self.offset, 0),
            (HloOpcode.DIVIDE, self.divisor, 1),
        ):
            if value != neutral:
                result = b.add(opcode, (result, b.s32(value)), result.shape)
        return result

    def __sub__(self, other: OffsetCalculation) -> OffsetCalculation:
        if isinstance(other, MultiplyAddDivide) and self.divisor == other.divisor == 1:
            return MultiplyAddDivide(self.multiplier - other.multiplier, self.offset - other.offset)
        return super().__sub__(other)

    def __add__(self, other: OffsetCalculation) -> OffsetCalculation:
        if isinstance(other, MultiplyAddDivide) and self.divisor == other.divisor == 1:
            return MultiplyAddDivide(self.multiplier + other.multiplier, self.offset + other.offset)
        return super().__add__(other)


@dataclass(frozen=True)
class CombinedOffset(OffsetCalculation):
    """The sum, difference or product of two offsets."""

    opcode: HloOpcode
    left: OffsetCalculation
    right: OffsetCalculation

    @property
    def is_constant(self) -> bool:
        """Whether both are constant, or one is subtracted from itself."""
        if self.opcode is HloOpcode.SUBTRACT and self.left == self.right:
            return True
        return self.left.is_constant and self.right.is_constant

    def at(self, ordinal: int) -> int:
        """Return the value on the shard with that ordinal."""
        left, right = self.left.at(ordinal), self.right.at(ordinal)
        if self.opcode is HloOpcode.MULTIPLY:
            return left * right
        return left + right if self.opcode is HloOpcode.ADD else left - right

    def calculate(self, ordinal: HloInstruction, b: SpmdBuilder) -> HloInstruction:
        """Compute both operands, then combine them."""
        left = self.left.calculate(ordinal, b)
        right = self.right.calculate(ordinal, b)
        return b.add(self.opcode, (left, right), left.shape)
