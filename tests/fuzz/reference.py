"""The interpreter as the reference for compiled code.

It notes the instructions at which a difference may arise, given the values there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.conditioning import is_rounded
from tests.fuzz.orders import FOLDS, shows_order
from xlanb.evaluator import Evaluator
from xlanb.explorer.numbers import leaves_of
from xlanb.hlo import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

_CHOLESKY = re.compile(r"lapack_[sdcz]potrf_ffi")
_LU = re.compile(r"lapack_[sdcz]getrf(_ffi)?")
_SOLVE = re.compile(r"(blas|lapack)_[sdcz]trsm(_ffi)?")
_LINEAR_ALGEBRA = re.compile(
    r"(blas|lapack)_\w+|Eigh|Qr|ProductOfElementaryHouseholderReflectors|tridiagonal_solve_perturbed_ffi"
)

_UNCLEAR = 8.0
"""Units in the last place, per row, of the diagonal element below which a pivot may be rounding."""


@dataclass
class Noted:
    """Instructions by what happened at them.

    `failed`: Cholesky factorizations with a pivot that is not positive, or only by rounding.
    `singular`: triangular systems with 0, an infinity or NaN on the diagonal.
    `mixed`: algorithms over all elements (FFT, solves, decompositions) with infinite or NaN
    elements.
    `by_one`: products, quotients and powers of infinite or NaN complex numbers and ones.
    `by_predicate`: products of a converted predicate and a non-finite value.
    `tied`: LU factorizations in which rounding determines the pivot.
    `unordered`: sums and products of floats that depend on the order; products and quotients with
    constants, which may be folded first, and expressions that the simplifier combines, if a step
    leaves the type's range.
    """

    failed: set[HloInstruction] = field(default_factory=set)
    singular: set[HloInstruction] = field(default_factory=set)
    mixed: set[HloInstruction] = field(default_factory=set)
    by_one: set[HloInstruction] = field(default_factory=set)
    by_predicate: set[HloInstruction] = field(default_factory=set)
    tied: set[HloInstruction] = field(default_factory=set)
    unordered: set[HloInstruction] = field(default_factory=set)

    def union(self, other: Noted) -> Noted:
        """The union of both."""
        return Noted(**{f.name: getattr(self, f.name) | getattr(other, f.name) for f in fields(self)})


class Reference(Evaluator):
    """The interpreter, with notes on what it sees.

    Folds that depend on the order are found only if it `tries_orders`, which takes several times as
    long.
    """

    def __init__(self, max_steps: int, max_seconds: float, *, tries_orders: bool = False) -> None:
        super().__init__(max_steps=max_steps, max_seconds=max_seconds)
        self._seconds = max_seconds / 4  # for each other order
        self._tries_orders = tries_orders
        self.noted = Noted()

    def _apply(self, step: Any, operands: Sequence[Any], *, lifted: bool) -> Any:
        value = super()._apply(step, operands, lifted=lifted)
        i = step.instruction
        if _mixes(i) and not all(map(_is_finite, leaves_of(list(operands)))):
            self.noted.mixed.add(i)
        if (i.opcode is Op.CHOLESKY or _is_call(i, _CHOLESKY)) and not _is_definite(operands[0], leaves_of(value)[0]):
            self.noted.failed.add(i)
        if _is_call(i, _LU) and _has_tie(value[0]):
            self.noted.tied.add(i)
        is_tried = self._tries_orders and not lifted and i not in self.noted.unordered
        if is_tried and i.opcode in FOLDS and shows_order(i, operands, value, self._seconds):
            self.noted.unordered.add(i)
        if not lifted and (_is_chained(i) or _is_combined(i)) and _leaves_range(i, value, operands):
            self.noted.unordered.add(i)
        if _multiplies(i) and _is_by_one(operands):
            self.noted.by_one.add(i)
        if not lifted and _is_by_predicate(i, operands):
            self.noted.by_predicate.add(i)
        if _solves(i) and not _is_regular(operands[0]):
            self.noted.singular.add(i)
        return value


_COMBINED = {
    Op.LOG: {Op.EXPONENTIAL},
    Op.MULTIPLY: {Op.EXPONENTIAL},
    Op.POWER: {Op.EXPONENTIAL},
    Op.DIVIDE: {Op.EXPONENTIAL, Op.POWER, Op.DIVIDE},
    Op.SQRT: {Op.MULTIPLY},
    Op.RSQRT: {Op.MULTIPLY},
}
"""Simplifications that are exact only for real numbers: log(exp(A)) => A, ...

Also exp(A) * exp(B) => exp(A + B), and others.
"""


def _is_chained(i: HloInstruction) -> bool:
    """Whether an instruction is a product or quotient of another one, both with constants.

    Compilers fold such constants first.
    """
    return _scales(i) and any(_scales(o) for o in i.operands)


def _is_combined(i: HloInstruction) -> bool:
    """Whether compilers combine an instruction and an operand to one expression."""
    return any(_is_inner(o, i) for o in i.operands)


def _is_inner(operand: HloInstruction, i: HloInstruction) -> bool:
    return _source(operand).opcode in _COMBINED.get(i.opcode, ())


def _scales(i: HloInstruction) -> bool:
    return i.opcode in (Op.MULTIPLY, Op.DIVIDE) and any(map(_is_constant, i.operands))


def _is_constant(i: HloInstruction) -> bool:
    return _source(i).opcode is Op.CONSTANT


def _source(i: HloInstruction) -> HloInstruction:
    """The instruction that computes the elements, ignoring reshapes and conversions."""
    while i.opcode in (Op.BROADCAST, Op.CONVERT, Op.RESHAPE, Op.TRANSPOSE, Op.BITCAST, Op.COPY):
        i = i.operands[0]
    return i


def _leaves_range(i: HloInstruction, value: Any, operands: Sequence[Any]) -> bool:
    """Whether a value or operand exceeds its float type's range, or underflows in part."""
    if not is_rounded(value):
        return False
    smallest = float(ml_dtypes.finfo(value.dtype).smallest_normal)
    wide = np.complex128 if value.dtype.kind == "c" else np.float64
    result, *given = (np.abs(x.astype(wide)) for x in (value, *operands))
    is_lost = (result == 0) & np.all([x != 0 for x in given], axis=0) & (i.opcode is not Op.LOG)
    vanishes = any(bool(np.any(x == 0)) for x, o in zip(given, i.operands, strict=True) if _is_inner(o, i))
    return vanishes or any(
        bool(np.any(~np.isfinite(x) | ((x < smallest) & (x > 0)) | is_lost)) for x in (result, *given)
    )


def _solves(i: HloInstruction) -> bool:
    """Whether an instruction solves triangular systems."""
    return i.opcode is Op.TRIANGULAR_SOLVE or _is_call(i, _SOLVE)


def _mixes(i: HloInstruction) -> bool:
    return i.opcode in (Op.CHOLESKY, Op.TRIANGULAR_SOLVE, Op.FFT) or _is_call(i, _LINEAR_ALGEBRA)


def _is_call(i: HloInstruction, targets: re.Pattern[str]) -> bool:
    return i.opcode is Op.CUSTOM_CALL and targets.fullmatch(i.get("custom_call_target")) is not None


def _is_finite(x: Any) -> bool:
    if not isinstance(x, np.ndarray) or x.dtype.kind in "biu":
        return True
    if x.dtype.kind not in "fc":  # from ml_dtypes; its integers have no NumPy kind either
        x = x.astype(np.float32)
    return bool(np.all(np.isfinite(x)))


def _is_definite(a: np.ndarray[Any, Any], factor: np.ndarray[Any, Any]) -> bool:
    """Whether all pivots of a Cholesky factorization are positive beyond rounding."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    pivots, given = (np.abs(np.diagonal(x.astype(wide), axis1=-2, axis2=-1)) for x in (factor, a))
    return bool(np.all(pivots**2 > _UNCLEAR * a.shape[-1] * float(ml_dtypes.finfo(a.dtype).eps) * given))


def _has_tie(packed: np.ndarray[Any, Any]) -> bool:
    """Whether an LU factorization has a column with another element as large as the pivot.

    They are equal up to rounding. The first column, which holds the input, does not count.
    """
    wide = packed.astype(np.complex128 if packed.dtype.kind == "c" else np.float64)
    pivots = np.diagonal(wide, axis1=-2, axis2=-1)
    count, unit = pivots.shape[-1], float(ml_dtypes.finfo(packed.dtype).eps)
    candidates = np.tril(wide[..., :count], -1) * pivots[..., None, :]
    largest = np.max(_size(candidates), axis=-2, initial=0.0)
    return bool(
        np.any((largest > 0) & (largest >= (1 - _UNCLEAR * count * unit) * _size(pivots)), where=np.arange(count) > 0)
    )


def _size(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The magnitude that LAPACK compares; the sum of the parts' for complex numbers."""
    return np.abs(x.real) + np.abs(x.imag)


def _multiplies(i: HloInstruction) -> bool:
    """Whether elements are products, quotients or powers without a sum."""
    if i.opcode is Op.DOT:
        lhs = i.operands[0].array_shape
        return all(lhs.dimensions[d] == 1 for d in i.ints("lhs_contracting_dims"))
    return i.opcode in (Op.MULTIPLY, Op.DIVIDE, Op.POWER)


def _is_by_one(operands: Sequence[Any]) -> bool:
    """Whether one operand of complex numbers is all ones, and another not finite."""
    if not all(isinstance(x, np.ndarray) and x.dtype.kind == "c" for x in operands):
        return False
    return any(bool(np.all(x == 1)) for x in operands) and not all(map(_is_finite, operands))


def _is_by_predicate(i: HloInstruction, operands: Sequence[Any]) -> bool:
    """Whether a product has a converted predicate and a non-finite value as factors.

    A quotient is a product with the inverse.
    """
    if i.opcode not in (Op.MULTIPLY, Op.DIVIDE) or not any(map(_is_from_predicate, i.operands)):
        return False
    factors = [operands[0], 1 / operands[1].astype(np.complex128)] if i.opcode is Op.DIVIDE else operands
    pairs = [(i.operands[0], factors[1]), (i.operands[1], factors[0])][: 1 if i.opcode is Op.DIVIDE else 2]
    return any(_is_from_predicate(o) and not _is_finite(x) for o, x in pairs)


def _is_from_predicate(i: HloInstruction) -> bool:
    """Whether an instruction converts a predicate, possibly reshaped."""
    while i.opcode in (Op.BROADCAST, Op.RESHAPE, Op.TRANSPOSE, Op.COPY, Op.BITCAST):
        i = i.operands[0]
    return i.opcode is Op.CONVERT and i.operands[0].array_shape.element_type is PrimitiveType.PRED


def _is_regular(a: np.ndarray[Any, Any]) -> bool:
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    wide = diagonal if diagonal.dtype.kind in "fc" else diagonal.astype(np.float32)
    return bool(np.all(np.isfinite(wide) & (wide != 0)))


__all__ = ["Noted", "Reference"]
