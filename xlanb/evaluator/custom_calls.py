"""custom-call: targets with semantics that do not need their library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator import gpu_libraries, host
from xlanb.evaluator.dynamic import resized
from xlanb.evaluator.factorizations import reflected
from xlanb.evaluator.lapack import check_operands, lapack_routine, tridiagonal_solve_perturbed
from xlanb.evaluator.nn import top_k
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value, scalar_int
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape.shape import subshape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

# They annotate, place or pin a value, and return it.
_IDENTITIES = frozenset(
    (
        "Sharding SPMDFullToShardShape SPMDShardToFullShape LayoutConstraint MoveToHost MoveToDevice "
        "annotate_device_placement Pin Unpin ShardBarrierFrom ShardBarrierTo "
        "xla.sdy.FuncResultSharding xla.sdy.LocalToGlobalShape xla.sdy.GlobalToLocalShape SetBound"
    ).split()
)


def _top_k(i: HloInstruction, x: Array) -> Value:
    return top_k(x, subshape(i.shape, (0,)).as_array().dimensions[-1], largest=True)


def _pad_to_static(i: HloInstruction, *operands: Array) -> Value:
    """The array at its full size, then the actual sizes (s32)."""
    shapes = getattr(i.shape, "shapes", ())
    if len(operands) != 1 or len(shapes) != operands[0].ndim + 1:
        raise EvaluationError(f"PadToStatic takes an array and returns it with its sizes, not {i.shape}")
    (x,) = operands
    full = x
    for axis, size in enumerate(subshape(i.shape, (0,)).as_array().dimensions):
        full = resized(full, axis, size)
    return (full, *(np.asarray(n, np.int32) for n in x.shape))


def _slice_to_dynamic(i: HloInstruction, *operands: Array) -> Value:
    if len(operands) != i.array_shape.rank + 1 or operands[0].ndim != i.array_shape.rank:
        raise EvaluationError(
            f"SliceToDynamic takes an array of {i.array_shape.rank} dimensions and one size per dimension"
        )
    x, *sizes = operands
    for axis, (size, bound) in enumerate(zip(sizes, i.array_shape.dimensions, strict=True)):
        wanted = scalar_int(size)
        if not 0 <= wanted <= bound:
            raise EvaluationError(f"size {wanted} exceeds the bound {bound} of the dimension")
        x = resized(x, axis, wanted)
    return x


def _allocate_buffer(i: HloInstruction) -> Value:
    """The contents of an allocation, which are undefined: zeros."""
    shape = i.array_shape
    return np.zeros(shape.dimensions, shape.dtype)


def _qr(i: HloInstruction, a: Array) -> Value:
    """The packed factors and the scales of the reflections, as from LAPACK's geqrf."""
    packed, scales = np.linalg.qr(_wide(a), mode="raw")
    return np.swapaxes(packed, -1, -2).astype(a.dtype), scales.astype(a.dtype)


def _householder_product(i: HloInstruction, a: Array, scales: Array) -> Value:
    """The first columns of the product of reflections stored below the diagonal of `a`.

    As LAPACK's orgqr.
    """
    wide = _wide(a)
    q = reflected(wide, scales.astype(wide.dtype), np.broadcast_to(np.eye(*a.shape[-2:], dtype=wide.dtype), a.shape))
    return q.astype(a.dtype)


def _eigh(i: HloInstruction, a: Array) -> Value:
    """Eigenvectors as columns, and eigenvalues in ascending order.

    The first option in backend_config says whether the lower triangle is read.
    """
    is_lower = i.backend_config.strip('"').startswith("1")
    values, vectors = np.linalg.eigh(_wide(a), UPLO="L" if is_lower else "U")
    return vectors.astype(a.dtype), values.astype(subshape(i.shape, (1,)).as_array().dtype)


def _wide(a: Array) -> Array:
    return a if a.dtype in (np.float64, np.complex64, np.complex128) else a.astype(np.float64)


_TARGETS: dict[str, Callable[..., Value]] = {
    "AllocateBuffer": _allocate_buffer,
    "Eigh": _eigh,
    "PadToStatic": _pad_to_static,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "Qr": _qr,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _top_k,
    "tridiagonal_solve_perturbed_ffi": tridiagonal_solve_perturbed,
    **host.TARGETS,
    **gpu_libraries.TARGETS,
}


_OPERANDS = {
    "AllocateBuffer": "",
    "Eigh": "nn",
    "ProductOfElementaryHouseholderReflectors": "mk t",
    "Qr": "mk",
    "TopK": "n",
    "tridiagonal_solve_perturbed_ffi": "n n n nk",
}
"""The dimensions of operands after the batch dimensions (`check_operands`)."""


def knows_target(target: str) -> bool:
    """Whether custom calls of this target can be evaluated."""
    return target in _IDENTITIES or target in _TARGETS or lapack_routine(target) is not None


@rule("custom-call")
def _custom_call(ev: Evaluator, i: HloInstruction, *operands: Any) -> Value:
    target = i.attributes["custom_call_target"]
    if target in _IDENTITIES and len(operands) == 1:
        return operands[0]
    if target in _TARGETS:
        if target in _OPERANDS:
            check_operands(target, _OPERANDS[target], operands)
        return _TARGETS[target](i, *operands)
    routine = lapack_routine(target)
    if routine is not None:
        return routine(i, *operands)
    raise EvaluationError(f'custom-call target "{target}" is unknown')
