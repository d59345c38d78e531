"""Concatenations of many arrays in memory: each operand is copied as a block or as rows of bytes.

The loop kernel finds out for every element which operand it comes from: by as many loops as there are operands, or by a tree of branches. Both take LLVM longer
than linear time when there are thousands.
"""

from __future__ import annotations

import math

from xlanb.codegen.elemental import array_of
from xlanb.codegen.indexing import IrArray, order
from xlanb.codegen.lanes import MAX_CUTS
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8
from xlanb.cpu.emitters.copies import Rows, copy_rows
from xlanb.cpu.emitters.kernel import Kernel, emitter
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


@emitter(Op.CONCATENATE)
def emit_copied(k: Kernel) -> bool:
    """Copy the operands of a concatenation that is no fusion; False where they are few, or laid out in another order."""
    i, f, shape = k.root, k.f, k.output.shape
    here = order(shape)
    if k.instruction is not i or len(i.operands) < MAX_CUTS or any(order(array_of(o)) != here for o in i.operands):
        return False
    (d,) = i.dimensions
    place = here.index(d)
    unit = math.prod(shape.dimensions[n] for n in here[:place]) * shape.element_type.byte_size
    count = math.prod(shape.dimensions[n] for n in here[place + 1 :])
    f.goes_on = True  # a copy that was stopped is of no use, but nothing here reads it
    result, offset = Pointer(k.output.pointer, I8), 0
    for o in i.operands:
        size = unit * array_of(o).dimensions[d]
        if size:
            rows = Rows(count, size, unit * shape.dimensions[d])
            copy_rows(f, result.address(offset), _array(k, o).pointer, rows)
            offset += size
    f.ready = f.calls_only = True
    return True


def _array(k: Kernel, operand: HloInstruction) -> IrArray:
    """The memory of an operand."""
    source = k.e.constants(operand) if operand.opcode is Op.CONSTANT else k.e.bindings[operand][()]
    if not isinstance(source, IrArray):
        raise CompilationError(f"operand {operand.name} is not in memory:\n  {k.root}")
    return source
