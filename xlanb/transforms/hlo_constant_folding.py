"""Constant folding: instructions over constants become constants (xla/hlo/transforms/simplifiers/hlo_constant_folding.h).

    c = s32[] constant(7);  f = f32[] convert(c)    =>    f = f32[] constant(7)

The evaluator computes the value, so a fold is right by definition; what takes too long or gives a large array stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate_instruction
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import BY_TEXT
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Literal
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

# They have no operands, grow what they are given, hide their value on purpose, or are not functions of their operands.
_NEVER = frozenset(
    BY_TEXT[text]
    for text in (
        "constant parameter tuple get-tuple-element broadcast iota after-all add-dependency opt-barrier fft rng rng-bit-generator rng-get-and-update-state "
        "custom-call fusion bitcast copy-start copy-done domain partition-id replica-id infeed outfeed"
    ).split()
)
_MAX_STEPS = 200_000  # evaluated instructions of called computations
_MAX_ELEMENTS = 1 << 16  # of a result that is larger than its operands together
_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class HloConstantFolding(HloPass):
    """Evaluates what is constant."""

    name = "constant_folding"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i in c and is_foldable(i):
                    self._fold(i)

    @reason("op(constants) => constant")
    def _fold(self, i: HloInstruction) -> None:
        try:
            value = evaluate_instruction(
                i, [value_of(o) for o in i.operands], max_steps=_MAX_STEPS, max_bytes=_MAX_BYTES
            )
        except EvaluationError as error:
            # Too long, too large, or without a value here: the instruction stays, and whoever looks is told why.
            if is_observed():
                failed = Predicate("the evaluator gives a value", False, str(error).splitlines()[0])
                emit(Decision(current_cause(), "fold", (i.name,), False, (failed,)))
            return
        i.parent.replace(i, i.parent.constant(Literal(i.array_shape, value), like=i))


def is_foldable(i: HloInstruction) -> bool:
    """Whether an instruction is constant and worth folding."""
    if (
        i.opcode in _NEVER
        or not i.operands
        or not isinstance(i.shape, ArrayShape)
        or not i.shape.is_array
        or i.shape.is_dynamic
    ):
        return False
    if not any(o.opcode is O.CONSTANT for o in i.operands) or not all(_is_constant(o) for o in i.operands):
        return False
    if i.control_predecessors or i.control_successors or i.has_side_effect or i.shape.element_count > _limit(i):
        return False
    return not any(_is_opaque(inner) for c in i.called_computations for inner in c)


def _is_opaque(i: HloInstruction) -> bool:
    return i.opcode in (O.RNG, O.CUSTOM_CALL, O.WHILE, O.RNG_GET_AND_UPDATE_STATE)


def _limit(i: HloInstruction) -> int:
    return max(_MAX_ELEMENTS, sum(o.array_shape.element_count for o in i.operands))


def _is_constant(i: HloInstruction) -> bool:
    if i.opcode is O.BROADCAST:
        i = i.operands[0]
    return i.opcode is O.CONSTANT and i.shape.is_array and not i.literal.is_elided


def value_of(i: HloInstruction) -> object:
    """The value of a constant or of a broadcast one."""
    if i.opcode is O.BROADCAST:
        return evaluate_instruction(i, [i.operands[0].literal.array], max_bytes=_MAX_BYTES)
    return i.literal.array
