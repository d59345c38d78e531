"""Emit a kernel: the LLVM function of an instruction or fusion; decide what it does in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from xlanb.analysis.cumulative import cumulative
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.codegen import costs
from xlanb.codegen import elementwise as _elementwise  # noqa: F401 - registers its rules
from xlanb.codegen import movement as _movement  # noqa: F401 - registers its rules
from xlanb.codegen.arithmetic import function_name
from xlanb.codegen.elemental import RULES, Leaf, array_of
from xlanb.codegen.indexing import same_order
from xlanb.codegen.math import routines
from xlanb.cpu.emitters import kernel as emitters
from xlanb.cpu.emitters import loops, reductions, transposes
from xlanb.cpu.emitters.kernel import IN_PLACE, IS_CONTRACTION, OPTIONAL, ROUNDS, SCRATCH, SCRATCH_EACH
from xlanb.cpu.emitters.rows import Reads, is_in_place, reads_of
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape
from xlanb.shape.shape import subshape

_NUMBERS_ONLY = frozenset({Op.CONCATENATE, Op.CONVOLUTION, Op.DOT, Op.MULTIPLY, Op.REDUCE, Op.REDUCE_WINDOW})
"""Roots whose kernels keep only numbers in their scratch memory, never addresses or conditions.

What an interrupted call leaves there cannot harm the next one.
"""


def emit_elements(k: emitters.Kernel) -> None:
    """Emit a kernel that loops over the elements of its results."""
    if k.instruction.opcode is Op.FUSION and not k.f.module.debug:
        fused = k.instruction.fused_computation
        if len(fused) >= routines.MANY:
            k.f.uses = Counter(name for i in fused if (name := function_name(i.opcode)) is not None)
    loops.emit_loops(k.e, [(k.root, leaf, array) for leaf, array in k.outputs.items()])


def emit(k: emitters.Kernel) -> None:
    """Emit the body of a kernel."""
    if not any(a.shape.element_count for a in k.outputs.values()):
        return
    custom = emitters.custom_fusion(k.instruction)
    k.f.goes_on = custom is not None or k.root.opcode in _NUMBERS_ONLY
    if custom is not None and custom.emit(k):
        return
    own = emitters.EMITTERS.get(k.root.opcode)
    done = (
        own(k)
        if own is not None
        else _scaled_reduce(k) or transposes.emit_transposed(k) or _columns(k) or loops.emit_after_reduce(k)
    )
    if not done:
        reductions.emit_whole_reduces(k.e, k.instruction, k.scratch)
        emit_elements(k)


def _scaled_reduce(k: emitters.Kernel) -> bool:
    """Emit a mean: a reduction times one number."""
    if k.root.opcode is not Op.MULTIPLY or k.instruction.opcode is not Op.FUSION:
        return False
    for i, factor in (k.root.operands, reversed(k.root.operands)):
        scale = factor.operands[0] if factor.opcode is Op.BROADCAST else factor
        whole = i.opcode is Op.REDUCE and not i.shape.is_tuple and i.user_count == 1
        if (
            whole
            and scale.opcode is Op.CONSTANT
            and array_of(scale).rank == 0
            and same_order(array_of(i), k.output.shape)
        ):
            from xlanb.cpu.emitters.shared_reductions import emit_scaled_reduce

            return emit_scaled_reduce(k.e, i, scale, k.output)
    return False


def _columns(k: emitters.Kernel) -> bool:
    """Emit a function of reduced columns."""
    if k.instruction.opcode is not Op.FUSION or all(i.opcode is not Op.REDUCE for i in k.instruction.fused_computation):
        return False
    from xlanb.cpu.emitters.column_reductions import emit_columns

    return emit_columns(k)


# -- which fusions are kernels, and what they may write in place -----------------------------------


def is_kernel(fusion: HloInstruction) -> bool:
    """Whether a fusion can be one kernel.

    Every instruction in it needs an elemental rule, except the root, which may have an emitter.
    """
    custom = emitters.custom_fusion(fusion)
    if custom is not None:
        return custom.is_kernel(fusion)
    target = fusion.fused_computation
    for i in target:
        if i.opcode in (Op.PARAMETER, Op.TUPLE, Op.GET_TUPLE_ELEMENT, Op.OPT_BARRIER, Op.ADD_DEPENDENCY, Op.DOMAIN):
            continue
        if i.opcode in (Op.FUSION, Op.CALL):
            if not is_inlinable(i.called_computations[0]):
                return False
        elif i.opcode not in RULES:
            return False
        elif i is not target.root and cumulative(i) is not None:
            return False  # a single element would cost a whole window
        elif i.opcode in (Op.DOT, Op.CONVOLUTION) and IS_CONTRACTION[i.opcode](i) and not _by_itself(target, i):
            return False  # sums by element, or operands recomputed for every use, would cost more than a kernel
    return True


def _by_itself(target: HloComputation, i: HloInstruction) -> bool:
    """Whether an instruction is the only operation of a fused computation."""
    return i is target.root and all(o.opcode in (Op.PARAMETER, Op.CONSTANT) for o in i.operands)


def is_inlinable(computation: HloComputation) -> bool:
    """Whether every instruction of a called computation has an elemental rule."""
    return all(
        i.opcode in RULES or i.opcode in (Op.PARAMETER, Op.TUPLE, Op.GET_TUPLE_ELEMENT)
        if i.opcode not in (Op.FUSION, Op.CALL)
        else is_inlinable(i.called_computations[0])
        for i in computation
    )


class KernelPolicy:
    """What this backend's kernels can do in place, and the scratch memory they need.

    See buffers.buffer_assignment.Policy.
    """

    def __init__(self, threads: int = 1, apart: Collection[str] = ()) -> None:
        """`apart` are the names of instructions whose results must not alias an operand."""
        self.threads = threads
        self.apart = apart
        self._reads: dict[HloInstruction, Reads] = {}

    def can_share(self, instruction: HloInstruction, operand: int, operand_leaf: Leaf, leaf: Leaf) -> bool:
        if instruction.name in self.apart or emitters.custom_fusion(instruction) is not None:
            return False
        if instruction.opcode is Op.FUSION:
            target = instruction.fused_computation
            return self._reads_in_place(target.root, leaf, target.parameters[operand], operand_leaf)
        if instruction.opcode in (Op.DYNAMIC_UPDATE_SLICE, Op.SCATTER):
            inputs = (len(instruction.operands) - 1) // 2 if instruction.opcode is Op.SCATTER else 1
            return (
                operand < inputs
                and leaf == ((operand,) if instruction.shape.is_tuple else ())
                and _is_read_once(instruction, operand)
            )
        if instruction.opcode in IN_PLACE:
            same = leaf == ((operand,) if instruction.shape.is_tuple else ()) and _is_read_once(instruction, operand)
            return same and IN_PLACE[instruction.opcode](instruction, operand)
        if not instruction.opcode.is_elementwise and instruction.opcode is not Op.COPY:
            return False
        if operand_leaf != leaf:  # a copy of a tuple: each array is the operand's at the same leaf
            return False
        return same_order(array_of(instruction.operands[operand], operand_leaf), array_of(instruction, leaf))

    def _reads_in_place(
        self, root: HloInstruction, leaf: Leaf, parameter: HloInstruction, parameter_leaf: Leaf
    ) -> bool:
        """Whether a fusion reads a parameter's element only for results of the same index.

        All results must come from one loop. Reads before the loop over the element's row are fine
        too.
        """
        if root.opcode is Op.DYNAMIC_UPDATE_SLICE:
            return root.operands[0] is parameter and parameter.user_count == 1 and _is_read_once(root, 0)
        first = subshape(root.shape, leaf)
        if root.opcode in emitters.EMITTERS or not isinstance(first, ArrayShape):
            return False
        if not all(isinstance(s, ArrayShape) and same_order(s, first) for _, s in root.shape.leaves()):
            return False
        reads = self._reads.get(root)
        if reads is None:
            reads = self._reads[root] = reads_of(root, first)
        return is_in_place(reads, parameter, parameter_leaf)

    def is_optional(self, instruction: HloInstruction) -> bool:
        return instruction.opcode in OPTIONAL and not involves_dynamic(instruction)  # the runtime writes all results

    def scratch_bytes(self, instruction: HloInstruction) -> int:
        root = instruction.fused_computation.root if instruction.opcode is Op.FUSION else instruction
        once, each = scratch_of(instruction)
        custom = emitters.custom_fusion(instruction)
        rounds = ROUNDS.get(root.opcode) if custom is None else custom.rounds
        shared = self.threads > 1 and (rounds is None or _is_shared(*rounds(root if custom is None else instruction)))
        return once + (self.threads if shared else 1) * each


def scratch_of(instruction: HloInstruction) -> tuple[int, int]:
    """Bytes of scratch memory of an instruction's (or fusion root's) emitter.

    (Shared, per thread), both multiples of a cache line.
    """
    custom = emitters.custom_fusion(instruction)
    if custom is not None:
        return 0, -(-custom.scratch_each(instruction) // 64) * 64
    root = instruction.fused_computation.root if instruction.opcode is Op.FUSION else instruction
    needs = (table.get(root.opcode) for table in (SCRATCH, SCRATCH_EACH))
    once, each = (need(root) if need is not None else 0 for need in needs)
    once = max(once, reductions.loss_bytes(instruction))
    return -(-once // 64) * 64, -(-each // 64) * 64


def _is_shared(rounds: int, nanoseconds: float) -> bool:
    """Whether threads may share a kernel's work, if it is in a loop."""
    return rounds > 1 and rounds * nanoseconds >= costs.COMMON.repeated_wake_ns


def _is_read_once(i: HloInstruction, operand: int) -> bool:
    return sum(o is i.operands[operand] for o in i.operands) == 1
