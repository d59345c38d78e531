"""Dimensions of a dot's operands."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction


def free_dimensions(dot: HloInstruction, side: str) -> list[int]:
    """Return an operand's ("lhs" or "rhs") dimensions that are neither batch nor contracting."""
    taken = (*dot.ints(f"{side}_batch_dims"), *dot.ints(f"{side}_contracting_dims"))
    shape = dot.operands[0 if side == "lhs" else 1].array_shape
    return [d for d in range(shape.rank) if d not in taken]
