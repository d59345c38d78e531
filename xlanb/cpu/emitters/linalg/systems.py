"""Triangular systems as BLAS's trsm has them, of custom-calls and of the opcode triangular-solve."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.emitters.linalg.routine import element_type, is_by_rows, size_of
from xlanb.errors import CompilationError
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_LETTERS = {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"}


@dataclass(frozen=True)
class System:
    """op(a) x = b (left) or x op(a) = b for a triangular a; op transposes or conjugates; a unit diagonal is not read."""

    left: bool
    lower: bool
    transposed: bool
    unit: bool
    conjugated: bool = False

    @property
    def forward(self) -> bool:
        """Whether op(a) is lower triangular."""
        return self.lower != self.transposed


def custom_call_system(i: HloInstruction) -> System | None:
    """The system of a custom-call of trsm; None if an option is missing or unknown."""
    options = lapack_options(i)
    if any(chr(options.get(name, 0)) not in letters for name, letters in _LETTERS.items()):
        return None
    side, uplo, trans, diag = (chr(options[name]) for name in _LETTERS)
    return System(side == "L", uplo == "L", trans != "N", diag == "U", trans == "C")


def opcode_system(i: HloInstruction) -> System | None:
    """The system of a triangular-solve, of what lies column after column; None if trsm has none.

    A matrix by rows is its transpose by columns. BLAS cannot conjugate without transposing.
    """
    if i.get("transpose_a") == "TRANSPOSE_INVALID" or len(i.operands) != 2:
        return None
    flip = is_by_rows(i, 0)
    how = str(i.get("transpose_a") or "NO_TRANSPOSE")
    conjugated = how == "ADJOINT" and element_type(i).is_complex
    left, transposed = bool(i.get("left_side")), (how != "NO_TRANSPOSE") != flip
    if is_by_rows(i, 1):  # op(a) x = b is x^T op(a)^T = b^T
        left, transposed = not left, not transposed
    if conjugated and not transposed:
        return None
    return System(left, bool(i.get("lower")) != flip, transposed, bool(i.get("unit_diagonal")), conjugated)


def system_of(i: HloInstruction) -> System:
    """The system of either.

    Raises:
        CompilationError: trsm has none such.
    """
    found = custom_call_system(i) if i.opcode is Op.CUSTOM_CALL else opcode_system(i)
    if found is None:
        raise CompilationError(f"a triangular system that BLAS's trsm does not have:\n  {i}")
    return found


def system_size(i: HloInstruction, system: System) -> tuple[int, int]:
    """The order of a, and the number of right-hand sides."""
    n, sides = size_of(i)[0], size_of(i, 1)
    left = bool(i.get("left_side")) if i.opcode is Op.TRIANGULAR_SOLVE else system.left
    return n, sides[1 if left else 0]
