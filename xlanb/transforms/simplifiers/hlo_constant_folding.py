"""Fold instructions with constant operands.

    c = s32[] constant(7);  f = f32[] convert(c)    =>    f = f32[] constant(7)

The evaluator computes the value, so a fold is correct by definition. Instructions with many
elements (XLA's limit) or many operations are not folded; the cost is estimated before anything is
computed.
Source: xla/hlo/transforms/simplifiers/hlo_constant_folding.h.
"""

from __future__ import annotations

import math

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.cost import cost
from xlanb.errors import EvaluationError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import BY_TEXT
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Literal
from xlanb.tracing import Decision, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

# They have no operands, enlarge their operands, hide a value on purpose, or are not functions of
# their operands.
_NEVER = frozenset(
    BY_TEXT[text]
    for text in (
        "constant parameter tuple get-tuple-element broadcast iota after-all add-dependency "
        "opt-barrier fft rng rng-bit-generator rng-get-and-update-state custom-call fusion bitcast "
        "copy-start copy-done domain partition-id replica-id infeed outfeed"
    ).split()
)
_WINDOWED = frozenset((O.REDUCE_WINDOW, O.SELECT_AND_SCATTER))
_MAX_STEPS = 200_000  # evaluated instructions of called computations
_MAX_ELEMENTS = 1 << 16  # in a result that is larger than all operands together
_MAX_BYTES = 64 << 20
_XLA_ELEMENTS = 45_000_000  # in all operands together, or in the result (hlo_constant_folding.cc)
_OPERATIONS = 1 << 26  # per fold: takes less than a second
_ALL_OPERATIONS = 1 << 28  # per run of the pass; after it only cheap folds are done
_CHEAP = 1 << 14
_BY_LIBRARY = 16  # multiply-adds of a matrix product in the time of one other operation


class HloConstantFolding(HloPass):
    """Evaluates instructions whose operands are constant."""

    name = "constant_folding"

    def apply(self, module: HloModule) -> None:
        left = _ALL_OPERATIONS
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i in c and is_foldable(i):
                    wanted = operations(i)
                    if wanted <= (_OPERATIONS if wanted <= left else _CHEAP):
                        left -= int(wanted)
                        self._fold(i)
                    else:
                        _report(i, "it needs few enough operations", f"about {wanted:.3g}")

    @reason("op(constants) => constant")
    def _fold(self, i: HloInstruction) -> None:
        from xlanb.evaluator import evaluate_instruction

        try:
            value = evaluate_instruction(
                i, [value_of(o) for o in i.operands], max_steps=_MAX_STEPS, max_bytes=_MAX_BYTES
            )
        except EvaluationError as error:
            # Evaluation takes too long, the value is too large or unknown: don't fold, and report
            # why.
            _report(i, "the evaluator can compute its value", str(error).splitlines()[0])
            return
        i.parent.replace(i, i.parent.constant(Literal(i.array_shape, value, is_own=True), like=i))


def _report(i: HloInstruction, condition: str, found: str) -> None:
    """Report to observers why an instruction is not folded."""
    if is_observed():
        emit(Decision(current_cause(), "fold", (i.name,), False, (Predicate(condition, False, found),)))


def operations(i: HloInstruction) -> float:
    """Estimate the number of elements and operations that the evaluator handles for `i`.

    Includes the called computations, once per element and instruction, and the arithmetic.
    """
    elements = i.array_shape.element_count + sum(o.array_shape.element_count for o in i.operands)
    places = math.prod(d.size for d in i.window.dimensions) if i.opcode in _WINDOWED else 1
    applied = sum(len(c) for c in i.called_computations)
    arithmetic = cost(i)
    flops = arithmetic.flops / (_BY_LIBRARY if i.opcode in (O.DOT, O.CONVOLUTION) else 1)
    return elements * places * max(applied, 1) + flops + arithmetic.transcendentals


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
    given = sum(o.array_shape.element_count for o in i.operands)
    return max(_MAX_ELEMENTS, given) if given <= _XLA_ELEMENTS else 0


def _is_constant(i: HloInstruction) -> bool:
    if i.opcode is O.BROADCAST:
        i = i.operands[0]
    return i.opcode is O.CONSTANT and i.shape.is_array and not i.literal.is_elided


def value_of(i: HloInstruction) -> object:
    """The value of a constant, or of a broadcast constant."""
    if i.opcode is O.BROADCAST:
        from xlanb.evaluator.data_movement import broadcasted

        # a view of the constant, however large the shape
        return broadcasted(i, i.operands[0].literal.array)
    return i.literal.array
