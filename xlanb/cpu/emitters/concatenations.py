"""Concatenations of many arrays in memory: copy each operand to its offset in the result.

The loop kernel determines for every element which operand it comes from, by as many loops as
there are operands or by a tree of branches. LLVM compiles both in superlinear time, which is too
slow for thousands of operands.
"""

from __future__ import annotations

from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import array
from xlanb.codegen.indexing import strides
from xlanb.codegen.lanes import MAX_CUTS
from xlanb.cpu.emitters.copies import Copy, emit_copy
from xlanb.cpu.emitters.kernel import Kernel, emitter
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis
from xlanb.hlo.opcode import HloOpcode as Op


@emitter(Op.CONCATENATE)
def emit_copied(k: Kernel) -> bool:
    """Copy the operands of an unfused concatenation; return False if there are few."""
    i, f, shape = k.root, k.f, k.output.shape
    if k.instruction is not i or len(i.operands) < MAX_CUTS:
        return False
    (d,) = i.dimensions
    steps, t = strides(shape), shape.element_type
    to, offset = array(t, k.output.pointer), 0
    for o in i.operands:
        source = array_of(o)
        axes = tuple(
            ContractionAxis(n, a, 0, c) for n, a, c in zip(source.dimensions, strides(source), steps, strict=True)
        )
        emit_copy(f, Copy(axes, t, t), k.memory(o).pointer, to.address(offset))
        offset += source.dimensions[d] * steps[d]
    f.ready = f.calls_only = True
    return True
