"""Collectives among one participant: each gives what it was given, as long as the shapes say that there is no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.control import leaves
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Value, describe, mismatch
from xlanb.hlo.devices import check_one_device
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import Shape, TupleShape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


def _alone(i: HloInstruction, operands: tuple[Value, ...], shape: Shape) -> Value:
    """The operands as the result of `shape`; refused where there are other participants, or only they could give such a result."""
    check_one_device(i)
    return _of_shape(i, operands if isinstance(shape, TupleShape) else operands[0], shape)


def _of_shape(i: HloInstruction, result: Value, shape: Shape) -> Value:
    """The result; refused where it has not the shape."""
    if mismatch(result, shape) is not None:
        raise EvaluationError(
            f"{i.opcode} of {describe(result)} into {shape.text(layout=False)} takes more than one participant"
        )
    return result


@rule(
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-reduce",
    "reduce-scatter",
)
def _collective(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    sent = operands[:-1] if i.get("has_dynamic_root") else operands  # the last says who is the root
    return _alone(i, sent, i.shape)


@rule("all-reduce-start")
def _all_reduce_start(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return _alone(i, operands, i.shape)


@rule("all-reduce-done")
def _all_reduce_done(ev: Evaluator, i: HloInstruction, state: Value) -> Value:
    return _of_shape(i, state, i.shape)


@rule("all-gather-start", "collective-permute-start")
def _start(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    """(operands, result, contexts...) as the shape has them."""
    if not isinstance(i.shape, TupleShape) or len(i.shape.shapes) < 2:
        raise EvaluationError(f"{i.opcode} gives a tuple of operands and results, not {i.shape}")
    first, second, *rest = i.shape.shapes
    result = _permuted(i, operands) if i.opcode.text.startswith("collective-permute") else operands
    sent: Value = operands if isinstance(first, TupleShape) else operands[0]
    blank = tuple(np.zeros(s.as_array().dimensions, s.as_array().dtype) for s in rest)
    return (sent, _alone(i, result, second), *blank)


@rule("all-gather-done", "collective-permute-done")
def _done(ev: Evaluator, i: HloInstruction, state: tuple[Value, ...]) -> Value:
    return _of_shape(i, state[1], i.shape)


@rule("collective-permute")
def _collective_permute(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return _alone(i, _permuted(i, operands), i.shape)


def _permuted(i: HloInstruction, operands: tuple[Any, ...]) -> tuple[Value, ...]:
    """Participant 0, the only one there is, receives from itself; zeros where nobody sends to it."""
    check_one_device(i)
    pairs: Iterable[Sequence[int]] = i.get("source_target_pairs") or ()
    return operands if any(target == 0 for _, target in pairs) else tuple(np.zeros_like(a) for a in leaves(operands))
