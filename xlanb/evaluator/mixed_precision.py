"""Mixed precision: floats of several types are computed in the widest and rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlanb.analysis.mixed_precision import common_type, is_mixed, mixed_types, part_type
from xlanb.evaluator.registry import EvaluationRule
from xlanb.evaluator.values import Array, is_floating, narrow
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


def unmixed(i: HloInstruction, found: EvaluationRule) -> EvaluationRule:
    """The rule of an instruction, with operands converted to the type it is computed in.

    `f32[] exponential(f8e5m2[] x)` is e^x in f32.
    """
    if part_type(i) is not None:
        return lambda ev, i, /, *operands: narrow(found(ev, i, *operands), i.array_shape.dtype)
    if i.called_computations or not isinstance(i.shape, ArrayShape) or not is_mixed(i):
        return found
    dtype = common_type(mixed_types(i)).dtype

    def compute(ev: Evaluator, i: HloInstruction, /, *operands: Any) -> Array:
        made = found(ev, i, *(narrow(o, dtype) if is_floating(o) else o for o in operands))
        return narrow(made, i.array_shape.dtype) if i.array_shape.element_type.is_floating else made

    return compute
