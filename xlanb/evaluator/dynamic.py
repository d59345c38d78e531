"""Dynamic dimensions: an array is held at its actual size, so a size is set by cutting and read off the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, scalar_int
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


@rule("get-dimension-size")
def _get_dimension_size(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.asarray(x.shape[i.dimensions[0]], np.int32)


@rule("set-dimension-size")
def _set_dimension_size(ev: Evaluator, i: HloInstruction, x: Array, size: Array) -> Array:
    """Elements beyond the new size are gone; where the size grows, zeros stand for what nobody may read."""
    axis = i.dimensions[0]
    shape = i.array_shape
    wanted = scalar_int(size)
    bound = shape.dimensions[axis]
    if wanted < 0 or (bound >= 0 and wanted > bound):
        raise EvaluationError(f"size {wanted} for a dimension of at most {bound}")
    if not shape.is_dynamic_dimension(axis):
        wanted = bound
    return resized(x, axis, wanted)


def resized(x: Array, axis: int, size: int) -> Array:
    """x with one dimension cut or filled up with zeros."""
    if size <= x.shape[axis]:
        return x[(slice(None),) * axis + (slice(size),)]
    sizes = list(x.shape)
    sizes[axis] = size - x.shape[axis]
    return np.concatenate([x, np.zeros(sizes, x.dtype)], axis=axis)


@rule("dynamic-reshape")
def _dynamic_reshape(ev: Evaluator, i: HloInstruction, x: Array, *sizes: Array) -> Array:
    return x.reshape([scalar_int(s) for s in sizes])
