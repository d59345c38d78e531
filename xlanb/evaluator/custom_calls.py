"""custom-call: the targets that have a meaning without the library that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.dynamic import resized
from xlanb.evaluator.nn import top_k
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value, scalar_int
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape.shape import subshape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

# They mark, place or pin; the value goes through.
_IDENTITIES = frozenset(
    "Sharding SPMDFullToShardShape SPMDShardToFullShape LayoutConstraint MoveToHost MoveToDevice annotate_device_placement Pin Unpin "
    "ShardBarrierFrom ShardBarrierTo xla.sdy.FuncResultSharding xla.sdy.LocalToGlobalShape xla.sdy.GlobalToLocalShape SetBound".split()
)


def _top_k(i: HloInstruction, x: Array) -> Value:
    return top_k(x, subshape(i.shape, (0,)).as_array().dimensions[-1], largest=True)


def _pad_to_static(i: HloInstruction, x: Array) -> Value:
    """The array at its full size, then the actual sizes (s32)."""
    full = x
    for axis, size in enumerate(subshape(i.shape, (0,)).as_array().dimensions):
        full = resized(full, axis, size)
    return (full, *(np.asarray(n, np.int32) for n in x.shape))


def _slice_to_dynamic(i: HloInstruction, x: Array, *sizes: Array) -> Value:
    for axis, size in enumerate(sizes):
        x = resized(x, axis, scalar_int(size))
    return x


def _allocate_buffer(i: HloInstruction) -> Value:
    """What an allocation holds is not defined; zeros."""
    shape = i.array_shape
    return np.zeros(shape.dimensions, shape.dtype)


_TARGETS: dict[str, Callable[..., Value]] = {
    "AllocateBuffer": _allocate_buffer,
    "PadToStatic": _pad_to_static,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _top_k,
}


@rule("custom-call")
def _custom_call(ev: Evaluator, i: HloInstruction, *operands: Any) -> Value:
    target = i.attributes["custom_call_target"]
    if target in _IDENTITIES and len(operands) == 1:
        return operands[0]
    if target in _TARGETS:
        return _TARGETS[target](i, *operands)
    raise EvaluationError(f'custom-call target "{target}" is not known here')
