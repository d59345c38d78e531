"""scan: a running reduction along one dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xlanb.evaluator.folding import as_tuple
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import TupleShape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


@rule("scan")
def _scan(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    """Apply the computation to each slice along the dimension.

    Operands are the inputs, then the initial carries. The computation takes a slice of each input
    and the carries, and returns a slice of each output and the carries. The results are the outputs
    and the last carries.
    """
    count = len(operands) - (i.get("num_carries") or 0)
    axis = i.dimensions[0]
    inputs, carries = operands[:count], operands[count:]
    length = inputs[0].shape[axis]
    lines = [np.moveaxis(x, axis, 0) for x in inputs]
    shapes = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
    outputs = [np.empty(s.as_array().dimensions, s.as_array().dtype) for s in shapes[: len(shapes) - len(carries)]]
    views = [np.moveaxis(o, axis, 0) for o in outputs]
    for k in reversed(range(length)) if i.get("is_reverse") else range(length):
        row = as_tuple(ev.call(i.to_apply, (*(x[k, ...] for x in lines), *carries)))
        carries = row[len(outputs) :]
        for view, element in zip(views, row, strict=False):
            view[k, ...] = element
    results = (*outputs, *carries)
    return results if isinstance(i.shape, TupleShape) else results[0]
