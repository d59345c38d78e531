"""reduce: dimensions reduced by a computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.evaluator.folding import fold
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


@rule("reduce")
def _reduce(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    count = len(operands) // 2
    results = fold(ev, i.to_apply, operands[:count], operands[count:], i.dimensions)
    return results if i.shape.is_tuple else results[0]
