"""Operands as arrays in memory, and loops over elements of several types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.codegen.elemental import Elemental
from xlanb.codegen.elements import part
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import IrArray, same_order
from xlanb.codegen.nest import Nest, Vectors
from xlanb.codegen.parallel import parallel
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape, PrimitiveType

T = PrimitiveType


def array_in_order(e: Elemental, operand: HloInstruction, shape: ArrayShape) -> IrArray | None:
    """The array in memory that holds an operand in the order of `shape`, if any."""
    source = e.bindings.get(operand, {}).get(())
    return source if isinstance(source, IrArray) and same_order(source.shape, shape) else None


def along(
    f: Function,
    count: int,
    types: Sequence[PrimitiveType],
    body: Callable[[Ix], None],
    nanoseconds: float = 0.0,
    registers: int = 4,
) -> bool:
    """Emit `body(q)` for q = 0, ..., count - 1; return whether it is vectorized.

    With `nanoseconds`, the cost of an iteration, threads may share the loop. A body that is much
    code, or little of all the work, should use vectors of one register.
    """
    bits = [8 if t is T.PRED else 32 if t.is_floating and t.bits < 32 else max(8, part(t).bits) for t in types]
    widest = max(bits)
    lanes = f.target.vector_bits // (widest if widest <= 32 or min(bits) == 64 else 32)
    nest = Nest((count,), 1, Vectors(lanes, registers), nanoseconds)
    if count > 1 and f.target.explicit_vectors and nest.each(f, lambda at: body(at[0])):
        return True
    with parallel(f, count, nanoseconds=nanoseconds) as q:
        body(q)
    return count <= 2
