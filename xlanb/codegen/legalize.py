"""Prepare a module for code generation.

Each computation that runs as a program gets one caller, and each fusion is one kernel:

floats of several types in one instruction    =>  converts to the widest (mixed_precision)
fusion with an instruction without a rule     =>  call
call graph with shared computations           =>  a copy for every further caller
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from xlanb.analysis.expansion import check_expansion
from xlanb.codegen.mixed_precision import unmix
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op

PROGRAM_OPCODES = frozenset({Op.WHILE, Op.CONDITIONAL, Op.CALL})
"""Opcodes whose computations run as programs, with buffers of their own."""


IsKernel = Callable[[HloInstruction], bool]
"""Whether a fusion can be one kernel."""


def legalize(module: HloModule, is_kernel: IsKernel, too_large: Collection[str] = ()) -> bool:
    """Rewrite a module in place for code generation; return whether it changed.

    `too_large` names fusions that must not be one kernel.
    """
    check_expansion(module, "code generation")
    changed = unmix(module)
    changed |= _open_fusions(module.entry_computation, is_kernel, frozenset(too_large), set())
    changed |= _flatten(module, module.entry_computation, set())
    return changed


def _open_fusions(c: HloComputation, is_kernel: IsKernel, too_large: frozenset[str], seen: set[HloComputation]) -> bool:
    """Replace fusions that cannot be one kernel by calls, in computations that run as programs."""
    if c in seen:
        return False
    seen.add(c)
    changed = False
    for i in c:
        if i.opcode is Op.FUSION and (i.name in too_large or not is_kernel(i)):
            target = i.fused_computation
            c.update(
                i,
                opcode=Op.CALL,
                attributes={"calls": None, "kind": None, "to_apply": target, "output_to_operand_aliasing": None},
            )
            changed = True
        if i.opcode in PROGRAM_OPCODES:
            for d in i.called_computations:
                changed |= _open_fusions(d, is_kernel, too_large, seen)
    return changed


def _flatten(module: HloModule, c: HloComputation, seen: set[HloComputation]) -> bool:
    seen.add(c)
    changed = False
    for i in c:
        if i.opcode not in PROGRAM_OPCODES:
            continue
        for d in i.called_computations:
            if d in seen:
                d = _own_copy(module, c, i, d, seen)
                changed = True
            changed |= _flatten(module, d, seen)
    return changed


def _own_copy(
    module: HloModule, c: HloComputation, i: HloInstruction, d: HloComputation, seen: set[HloComputation]
) -> HloComputation:
    """Give one call of a computation, the first that refers to it, its own copy."""
    copy = module.clone_computation(d)
    for k, value in i.attributes.items():
        if value is d:
            c.update(i, attributes={k: copy})
            break
        if isinstance(value, tuple) and d in value:
            # later branches with the same computation in this tuple
            at = max(n for n, v in enumerate(value) if v is d)
            c.update(i, attributes={k: (*value[:at], copy, *value[at + 1 :])})
            break
    return copy
