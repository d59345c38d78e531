"""Policies of the GPU back end.

Which kernels may write in place, which instructions are library calls, and which fusions are one
kernel.
"""

from __future__ import annotations

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.codegen.elemental import SAME_INDEX, Leaf, array_of
from xlanb.codegen.host_opcodes import HOST_OPCODES
from xlanb.codegen.indexing import same_order
from xlanb.gpu.emitters import sorts
from xlanb.gpu.emitters.elements import RULES
from xlanb.gpu.emitters.hero import reached
from xlanb.gpu.emitters.table import ROOTS
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape
from xlanb.shape.shape import subshape

_LIBRARIES = {
    Op.FFT: "cufft", Op.CHOLESKY: "cusolver.potrf", Op.TRIANGULAR_SOLVE: "cublas.trsm", Op.INFEED: "host.infeed",
    Op.OUTFEED: "host.outfeed",
}  # fmt: skip
_STRUCTURE = frozenset({Op.PARAMETER, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.OPT_BARRIER, Op.ADD_DEPENDENCY, Op.DOMAIN})


def library_of(i: HloInstruction) -> str | None:
    """Return the name of the library that computes an instruction, or None."""
    if i.opcode is Op.CUSTOM_CALL:
        return str(i.get("custom_call_target"))
    if i.opcode in _LIBRARIES:
        return _LIBRARIES[i.opcode]
    if involves_dynamic(i) or i.opcode in HOST_OPCODES or i.opcode in _HOST:
        return f"host.{i.opcode}"
    return None


_HOST = frozenset({Op.SEND, Op.SEND_DONE, Op.RECV, Op.RECV_DONE, Op.SCAN})


def is_kernel(fusion: HloInstruction) -> bool:
    """Whether a fusion can be one kernel.

    Every instruction needs an elemental rule, except the root, which may have an emitter.
    """
    target = fusion.fused_computation
    return all(_is_inlinable(i) or (i is target.root and i.opcode in ROOTS) for i in target)


def is_inlinable(c: HloComputation) -> bool:
    """Whether every instruction of a computation, and of those it calls, has an elemental rule."""
    return all(_is_inlinable(i) for i in c)


def _is_inlinable(i: HloInstruction) -> bool:
    if i.opcode in (Op.FUSION, Op.CALL):
        return is_inlinable(i.called_computations[0])
    return (i.opcode in RULES or i.opcode in _STRUCTURE) and not involves_dynamic(i)


class GpuPolicy:
    """See buffers.buffer_assignment.Policy.

    Threads run in any order, so a kernel may overwrite an operand's element only if nothing else
    depends on it.
    """

    def can_share(self, instruction: HloInstruction, operand: int, operand_leaf: Leaf, leaf: Leaf) -> bool:
        if instruction.opcode is Op.FUSION:
            target = instruction.fused_computation
            root, parameter = target.root, target.parameters[operand]
            if root.opcode in _IN_PLACE:
                number = _written(root, leaf)
                alone = parameter.user_count == 1 and root.operands.count(parameter) == 1
                return not operand_leaf and root.operands[number] is parameter and alone
            return _reads_in_place(root, leaf, parameter, operand_leaf)
        if instruction.opcode in _IN_PLACE:
            once = instruction.operands.count(instruction.operands[operand]) == 1
            return not operand_leaf and operand == _written(instruction, leaf) and once
        if operand_leaf or leaf or not (instruction.opcode in SAME_INDEX or instruction.opcode is Op.COPY):
            return False
        return same_order(array_of(instruction.operands[operand]), array_of(instruction))

    def is_optional(self, instruction: HloInstruction) -> bool:
        return False

    def scratch_bytes(self, instruction: HloInstruction) -> int:
        root = instruction.fused_computation.root if instruction.opcode is Op.FUSION else instruction
        return sorts.scratch_bytes(root) if root.opcode is Op.SORT else 0


_IN_PLACE = frozenset({Op.DYNAMIC_UPDATE_SLICE, Op.SCATTER, Op.SORT})
"""Opcodes whose kernels overwrite operand n with result n; a sort overwrites all."""


def _written(root: HloInstruction, leaf: Leaf) -> int:
    """Return the operand that the result at a leaf overwrites."""
    return leaf[0] if leaf else 0


def _reads_in_place(root: HloInstruction, leaf: Leaf, parameter: HloInstruction, parameter_leaf: Leaf) -> bool:
    """Whether a fusion's loop kernel reads a parameter only for the same element of its results.

    All results must have one shape.
    """
    first = subshape(root.shape, leaf)
    if not isinstance(first, ArrayShape) or not same_order(array_of(parameter, parameter_leaf), first):
        return False
    if not all(isinstance(s, ArrayShape) and same_order(s, first) for _, s in root.shape.leaves()):
        return False
    return _reads_same_index(root, parameter, first)


def _reads_same_index(root: HloInstruction, parameter: HloInstruction, shape: ArrayShape) -> bool:
    """Whether every path from the root to a parameter preserves the element's index."""
    seen: set[HloInstruction] = set()
    stack, reads_elsewhere = [root], set[HloInstruction]()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if i.opcode in (Op.TUPLE, Op.COPY) or i.opcode in SAME_INDEX or _selects(i):
            stack += [o for o in i.operands if same_order(array_of(o), shape)]
            reads_elsewhere.update(o for o in i.operands if not same_order(array_of(o), shape))
        elif i.opcode is not Op.PARAMETER:
            reads_elsewhere.update(i.operands)
    return parameter not in reached(reads_elsewhere)


def _selects(i: HloInstruction) -> bool:
    """Whether it is a select or clamp, whose scalar operands are read at every index."""
    return i.opcode in (Op.SELECT, Op.CLAMP)
