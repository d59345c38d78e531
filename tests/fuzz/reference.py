"""The interpreter as the reference of compiled code: it notes at which instructions a difference may arise, by the values that these see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlanb.evaluator import Evaluator
from xlanb.explorer.numbers import leaves_of
from xlanb.hlo import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_CHOLESKY = re.compile(r"lapack_[sdcz]potrf_ffi")
_SOLVE = re.compile(r"(blas|lapack)_[sdcz]trsm(_ffi)?")
_LINEAR_ALGEBRA = re.compile(
    r"(blas|lapack)_\w+|Eigh|Qr|ProductOfElementaryHouseholderReflectors|tridiagonal_solve_perturbed_ffi"
)


@dataclass
class Noted:
    """Instructions by what happened at them.

    `failed`: Cholesky factorizations with a pivot that is not positive. `singular`: triangular systems with 0, an infinity or NaN on
    the diagonal. `mixed`: algorithms over all elements (FFT, solves, decompositions) of which some are infinite or NaN.
    """

    failed: set[HloInstruction] = field(default_factory=set)
    singular: set[HloInstruction] = field(default_factory=set)
    mixed: set[HloInstruction] = field(default_factory=set)


class Reference(Evaluator):
    """The interpreter, which notes what it sees."""

    def __init__(self, max_steps: int, max_seconds: float) -> None:
        super().__init__(max_steps=max_steps, max_seconds=max_seconds)
        self.noted = Noted()

    def _apply(self, step: Any, operands: Sequence[Any], *, lifted: bool) -> Any:
        value = super()._apply(step, operands, lifted=lifted)
        i = step.instruction
        if _mixes(i) and not all(map(_is_finite, leaves_of(list(operands)))):
            self.noted.mixed.add(i)
        if _is_call(i, _CHOLESKY) and np.any(value[1]):
            self.noted.failed.add(i)
        if _solves(i) and not _is_regular(operands[0]):
            self.noted.singular.add(i)
        return value


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
    if x.dtype.kind not in "fc":  # of ml_dtypes; its integers too are no kind of NumPy's
        x = x.astype(np.float32)
    return bool(np.all(np.isfinite(x)))


def _is_regular(a: np.ndarray[Any, Any]) -> bool:
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    wide = diagonal if diagonal.dtype.kind in "fc" else diagonal.astype(np.float32)
    return bool(np.all(np.isfinite(wide) & (wide != 0)))


__all__ = ["Noted", "Reference"]
