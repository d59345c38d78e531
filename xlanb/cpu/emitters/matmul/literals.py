"""Operands that are constants, packed at compile time so that a tile reads contiguous memory.

b[depth, column]  =>  packed[column / 32, depth, column % 32]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from xlanb.codegen.elemental import Elemental, array_of
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import Copy
from xlanb.cpu.emitters.matmul.blocks import has_blocks
from xlanb.cpu.emitters.matmul.plan import MatmulPlan, packed
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import Literal
from xlanb.shape.literal import aligned_zeros
from xlanb.shape.shape import of_array


def with_literal(
    e: Elemental, operands: tuple[HloInstruction, ...], p: MatmulPlan, first: int = 0
) -> tuple[MatmulPlan, Value] | None:
    """The plan of a contraction whose b is a constant, with b packed, and b's new address.

    None if b is not a constant, packing gains nothing, or the product is computed in blocks, which
    pack b themselves. `operands` are a and b before the plan swapped them; `first` is the
    constant's element at which the contraction begins.
    """
    if p.blocks is not None and has_blocks(p.blocks, e.f.target):
        return None
    held = operands[0 if p.x.is_swapped else 1]
    found = packed(p) if held.opcode is Op.CONSTANT and not held.literal.is_elided else None
    if found is None:
        return None
    made, copy, count = found
    arranged = _arranged(copy, _elements(held)[first:], count)
    literal = Literal(of_array(arranged), arranged, is_own=True)
    name = f"{held.name}.packed"
    constant = HloInstruction(name, Op.CONSTANT, literal.shape, (), {"literal": literal}, held.parent)
    e.f.decided("b", "packed at compile time", f"a constant of {literal.array.nbytes} bytes")
    return made, e.constants(constant).pointer


def _elements(i: HloInstruction) -> NDArray[Any]:
    """The elements of a constant in the order of its layout."""
    order = tuple(reversed(array_of(i).minor_to_major))
    return np.ascontiguousarray(i.literal.array.transpose(order)).reshape(-1)


def _arranged(copy: Copy, source: NDArray[Any], count: int) -> NDArray[Any]:
    """The array that the copy produces; zeros where it writes nothing."""
    made, item = aligned_zeros(count, source.dtype), source.itemsize
    sizes = [axis.size for axis in copy.axes]
    to = as_strided(made, sizes, [axis.c * item for axis in copy.axes])
    to[...] = as_strided(source, sizes, [axis.a * item for axis in copy.axes])
    return made
