"""Concatenations of many arrays in memory: each operand is copied as a block or as rows of bytes.

The loop kernel finds out for every element which operand it comes from: by as many loops as there are operands, or by a tree of branches. Both take LLVM longer
than linear time when there are thousands.
"""

from __future__ import annotations

import math

from xlanb.cpu.codegen.copies import Copies, Rows
from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import IrArray, order
from xlanb.cpu.codegen.vectors import MAX_CUTS
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


def emit_copied(e: Elemental, copies: Copies, i: HloInstruction, output: IrArray) -> bool:
    """Copy the operands of a concatenation, all in memory, into its result; False where they are few, or laid out in another order."""
    here = order(output.shape)
    if len(i.operands) < MAX_CUTS or any(order(array_of(o)) != here for o in i.operands):
        return False
    f = e.f
    (d,) = i.dimensions
    inner = here[: here.index(d)]
    outer = here[here.index(d) + 1 :]
    unit = math.prod(output.shape.dimensions[k] for k in inner) * output.shape.element_type.byte_size
    count = math.prod(output.shape.dimensions[k] for k in outer)
    stride = unit * output.shape.dimensions[d]
    offset = 0
    for o in i.operands:
        size = unit * array_of(o).dimensions[d]
        if size:
            source = e.constants(o) if o.opcode is Op.CONSTANT else e.bindings[o][()]
            if not isinstance(source, IrArray):
                raise CompilationError(f"operand {o.name} is not in memory:\n  {i}")
            target = f.let(f"getelementptr inbounds i8, ptr {output.pointer}, i64 {offset}")
            copies.emit_rows(f, target, source.pointer, Rows(count, size, stride))
            offset += size
    f.ready = f.calls_only = True
    return True
