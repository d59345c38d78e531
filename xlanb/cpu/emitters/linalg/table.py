"""The LAPACK and BLAS routines behind custom-calls and opcodes.

Gives their operands, results, arguments, and XLA's conventions for results and failures.
Sources: LAPACK's reference (netlib.org/lapack); jaxlib's lapack_kernels for operands and results of
the custom-calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import part
from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32
from xlanb.codegen.values import Ix, Value
from xlanb.cpu.emitters.linalg.lapack import lapack_way
from xlanb.cpu.emitters.linalg.routine import (
    COPY,
    OPERAND,
    RESULT,
    SCRATCH,
    WAYS,
    WORK,
    Arguments,
    Routine,
    RoutineCall,
    Spec,
    element_type,
    is_by_rows,
    number,
    size_of,
)
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType
COMPLEX = {T.F32: T.C64, T.F64: T.C128, T.C64: T.C64, T.C128: T.C128}
"""The complex type of the same precision."""
_INFO: Spec = (T.S32, ())
_NO_INFO = SCRATCH(4)
"""An info that is not a result."""


def _letter(i: HloInstruction, option: str, letters: str) -> str:
    """An option as a letter; empty if it is missing or unknown."""
    found = lapack_options(i).get(option)
    return next((letter for letter in letters if ord(letter) == found), "")


def _matrix(i: HloInstruction, operand: int = 0) -> Spec:
    return element_type(i), size_of(i, operand)


def _square(i: HloInstruction) -> tuple[PrimitiveType, int, Spec]:
    """The element type, the order, and the spec of operand 0 as a square matrix."""
    t, n = element_type(i), size_of(i)[1]
    return t, n, (t, (n, n))


def _reals(t: PrimitiveType, count: int) -> Arguments:
    """Scratch memory for `count` real numbers, an argument only of complex routines."""
    return (SCRATCH(count * part(t).byte_size),) if t.is_complex else ()


# -- Cholesky factors ------------------------------------------------------------------------------


def potrf(i: HloInstruction) -> Routine | None:
    """(a) -> (factor, info)"""
    (_, n, matrix), uplo = _square(i), _letter(i, "uplo", "LU")
    if not uplo:
        return None
    return Routine((matrix,), (matrix, _INFO), "potrf", (uplo, n, RESULT(0), n, RESULT(1)), n**3 / 3)


def cholesky(i: HloInstruction) -> Routine:
    """(a) -> factor. A row-major matrix is the transpose of a column-major one."""
    (_, n, matrix), uplo = _square(i), "U" if bool(i.get("lower")) == is_by_rows(i, 0) else "L"
    return Routine((matrix,), (matrix,), "potrf", (uplo, n, RESULT(0), n, _NO_INFO), n**3 / 3)


def finish_potrf(call: RoutineCall, arguments: Sequence[Value]) -> None:
    """Fill the triangles of factors with NaN where info, the last argument, is not 0.

    The opcode (no info result) also zeroes the other triangles, and fills the whole factor with NaN
    if it failed or contains a NaN.
    """
    upper, zeros = call.routine.arguments[0] == "U", len(call.results) == 1
    given = (call.results[0], arguments[-1], size_of(call.instruction)[1], call.count)
    call.step("cholesky.triangle", _write_triangle, *given, upper, zeros)


def _write_triangle(
    f: Function, t: PrimitiveType, a: Value, info: Value, n: Value, count: Value, upper: bool, zeros: bool
) -> None:
    kind, parts = number(t), 2 if t.is_complex else 1
    zero = f.zero(kind)
    nan = [f.const(kind, float("nan")), zero][:parts]
    with f.loop(count, guarded=True) as b:
        matrix = Pointer(a, kind).by(f.value(b) * n * n * parts)
        failed = Pointer(info, I32)[b].differs(0)
        if zeros:  # a NaN in the triangle that is read reaches the last pivot
            failed = failed | matrix[(n * n - 1) * parts].is_nan()
        with f.loop(n, guarded=True) as column:
            j = f.value(column)
            mine = matrix.by(j * n * parts)
            inside, outside = ((0, j + 1), (j + 1, n)) if upper else ((j, n), (0, j))
            with f.when(failed):
                for rows in (inside, outside) if zeros else (inside,):
                    _fill(f, mine, rows, nan)
            if zeros:
                with f.when(~failed):
                    _fill(f, mine, outside, [zero] * parts)


def _fill(f: Function, column: Pointer, rows: tuple[Ix, Ix], number: Sequence[Value]) -> None:
    """Set elements low..high of a column to a number, given by its parts."""
    with f.loop(rows[1], rows[0], guarded=True) as row:
        for k, part in enumerate(number):
            column[f.value(row) * len(number) + k] = part


WAYS["potrf"] = [lapack_way(potrf, finish=finish_potrf)]
WAYS[Op.CHOLESKY] = [lapack_way(cholesky, finish=finish_potrf)]


# -- LU factors and triangular systems -------------------------------------------------------------


def getrf(i: HloInstruction) -> Routine:
    """(a) -> (packed factors, 1-based pivots, info)"""
    matrix, (m, n) = _matrix(i), size_of(i)
    results = (matrix, (T.S32, (min(m, n),)), _INFO)
    return Routine((matrix,), results, "getrf", (m, n, RESULT(0), m, RESULT(1), RESULT(2)), _cube(i))


def _cube(i: HloInstruction) -> float:
    m, n = size_of(i)
    return m * n * min(m, n)


def trsm(i: HloInstruction) -> Routine | None:
    """(a, b) -> x: op(a) x = b or x op(a) = b for a triangular a; op transposes or conjugates"""
    if len(i.operands) != 2 or array_of(i.operands[1]).rank < 2:
        return None
    letters, (rows, columns) = _system(i), size_of(i, 1)
    if letters is None:
        return None
    left = bool(i.get("left_side")) if i.opcode is Op.TRIANGULAR_SOLVE else letters[0] == "L"
    n, others = (rows, columns) if left else (columns, rows)
    m, k = (n, others) if letters[0] == "L" else (others, n)
    matrix, sides = (element_type(i), (n, n)), _matrix(i, 1)
    arguments: Arguments = (*letters, m, k, 1.0, OPERAND(0), n, RESULT(0), m)
    return Routine((matrix, sides), (sides,), "trsm", arguments, n * n * others)


def _system(i: HloInstruction) -> tuple[str, ...] | None:
    """The letters side, uplo, trans and diag of a triangular system; None if trsm has no such form.

    The opcode's letters are for column-major data: a row-major matrix is the transpose of a
    column-major one. BLAS cannot conjugate without transposing.
    """
    if i.opcode is Op.CUSTOM_CALL:
        known = {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"}
        letters = tuple(_letter(i, name, of) for name, of in known.items())
        return letters if all(letters) else None
    how = str(i.get("transpose_a") or "NO_TRANSPOSE")
    flip, left = is_by_rows(i, 0), bool(i.get("left_side"))
    transposed = (how != "NO_TRANSPOSE") != flip
    if is_by_rows(i, 1):  # op(a) x = b is x^T op(a)^T = b^T
        left, transposed = not left, not transposed
    conjugated = how == "ADJOINT" and element_type(i).is_complex
    if how == "TRANSPOSE_INVALID" or (conjugated and not transposed):
        return None
    lower = bool(i.get("lower")) != flip
    trans = "N" if not transposed else "C" if conjugated else "T"
    return "L" if left else "R", "L" if lower else "U", trans, "U" if i.get("unit_diagonal") else "N"


WAYS["getrf"] = [lapack_way(getrf)]
WAYS["trsm"] = WAYS[Op.TRIANGULAR_SOLVE] = [lapack_way(trsm, in_place=(1,))]


# -- QR --------------------------------------------------------------------------------------------


def geqrf(i: HloInstruction) -> Routine:
    """(a) -> (reflections and R, tau)"""
    matrix, (m, n) = _matrix(i), size_of(i)
    results = (matrix, (matrix[0], (min(m, n),)))
    return Routine((matrix,), results, "geqrf", (m, n, RESULT(0), m, RESULT(1), WORK, _NO_INFO), 2 * _cube(i))


def orgqr(i: HloInstruction) -> Routine | None:
    """(reflections, tau) -> Q"""
    if len(i.operands) != 2 or array_of(i.operands[1]).rank < 1:
        return None
    matrix, (m, n), count = _matrix(i), size_of(i), array_of(i.operands[1]).dimensions[-1]
    if not count <= n <= m:
        return None
    arguments = (m, n, count, RESULT(0), m, OPERAND(1), WORK, _NO_INFO)
    return Routine((matrix, (matrix[0], (count,))), (matrix,), _unitary(i, "gqr"), arguments, 2 * _cube(i))


def ormqr(i: HloInstruction) -> Routine | None:
    """(reflections, tau, c) -> Q c, c Q, or those with Q's adjoint"""
    if len(i.operands) != 3 or array_of(i.operands[1]).rank < 1 or array_of(i.operands[2]).rank < 2:
        return None
    t, (rows, columns), (m, n) = element_type(i), size_of(i), size_of(i, 2)
    count, options = array_of(i.operands[1]).dimensions[-1], lapack_options(i)
    left = bool(options.get("left", 1))
    if rows != (m if left else n) or count > min(rows, columns):
        return None
    adjoint = "N" if not options.get("transpose", 0) else "C" if t.is_complex else "T"
    # The reflections are copied: the routine changes and restores them, and operands may be
    # read-only.
    letters, reflections = ("L" if left else "R", adjoint), (COPY(0), rows, OPERAND(1))
    arguments = (*letters, m, n, count, *reflections, RESULT(0), m, WORK, _NO_INFO)
    operands = (_matrix(i), (t, (count,)), _matrix(i, 2))
    return Routine(operands, operands[2:], _unitary(i, "mqr"), arguments, 4 * m * n * count)


def geqp3(i: HloInstruction) -> Routine | None:
    """(a, columns to put first) -> (reflections and R, order of the columns, tau)"""
    matrix, (m, n) = _matrix(i), size_of(i)
    order, tau = (T.S32, (n,)), (matrix[0], (min(m, n),))
    arguments: Arguments = (m, n, RESULT(0), m, RESULT(1), RESULT(2), WORK, *_reals(matrix[0], 2 * n), _NO_INFO)
    return Routine((matrix, order), (matrix, order, tau), "geqp3", arguments, 2 * _cube(i))


def _unitary(i: HloInstruction, name: str) -> str:
    """The routine's name; it begins with "un" for complex numbers."""
    return f"{'un' if element_type(i).is_complex else 'or'}{name}"


WAYS["geqrf"] = [lapack_way(geqrf)]
WAYS["orgqr"] = WAYS["ungqr"] = [lapack_way(orgqr)]
WAYS["ormqr"] = WAYS["unmqr"] = [lapack_way(ormqr, in_place=(2,))]
WAYS["geqp3"] = [lapack_way(geqp3, in_place=(0, 1))]


# -- symmetric and Hermitian matrices --------------------------------------------------------------


def syevd(i: HloInstruction) -> Routine | None:
    """(a) -> (eigenvectors with mode V, else a, eigenvalues, info)"""
    (t, n, matrix), mode, uplo = _square(i), _letter(i, "mode", "VN"), _letter(i, "uplo", "LU")
    if not (mode and uplo):
        return None
    is_wanted = mode == "V"
    reals, integers = (1 + 5 * n + 2 * n * n, 3 + 5 * n) if is_wanted else (n, 1)
    more: Arguments = (*_reals(t, reals), reals) if t.is_complex else ()
    head: Arguments = (mode, uplo, n, RESULT(0) if is_wanted else COPY(0), n, RESULT(1))
    arguments: Arguments = (*head, WORK, *more, SCRATCH(4 * integers), integers, RESULT(2))
    results, failing = (matrix, (part(t), (n,)), _INFO), (0, 1) if is_wanted else (1,)
    return Routine((matrix,), results, "heevd" if t.is_complex else "syevd", arguments, 9 * n**3, uplo, failing)


def sytrd(i: HloInstruction) -> Routine | None:
    """(a) -> (reflections, diagonal, subdiagonal, tau, info)"""
    (t, n, matrix), uplo = _square(i), _letter(i, "uplo", "LU")
    if not (n > 1 and uplo):
        return None
    real = part(t)
    results = (matrix, (real, (n,)), (real, (n - 1,)), (t, (n - 1,)), _INFO)
    arguments: Arguments = (uplo, n, RESULT(0), n, *map(RESULT, range(1, 4)), WORK, RESULT(4))
    return Routine((matrix,), results, "hetrd" if t.is_complex else "sytrd", arguments, 4 / 3 * n**3)


WAYS["syevd"] = WAYS["heevd"] = [lapack_way(syevd)]
WAYS["sytrd"] = WAYS["hetrd"] = [lapack_way(sytrd)]


# -- singular values -------------------------------------------------------------------------------


def gesdd(i: HloInstruction) -> Routine | None:
    """(a) -> (a, singular values, U, V^H, info); zeros with mode N for U and V^H"""
    matrix, (m, n), mode = _matrix(i), size_of(i), _letter(i, "mode", "ASN")
    if not mode:
        return None
    t, k, large = matrix[0], min(m, n), max(m, n)
    places: Arguments = (RESULT(2), m, RESULT(3), k if mode == "S" else n)
    vectors: tuple[Spec | None, ...] = ((t, (m, m)), (t, (n, n))) if mode == "A" else ((t, (m, k)), (t, (k, n)))
    reals = max(5 * k**2 + 5 * k, 2 * large * k + 2 * k**2 + k)
    if mode == "N":
        places, vectors, reals = (None, 1, None, 1), (None, None), 7 * k
    head: Arguments = (mode, m, n, COPY(0), m, RESULT(1), *places)
    arguments: Arguments = (*head, WORK, *_reals(t, reals), SCRATCH(32 * k), RESULT(4))
    results = (matrix, (part(t), (k,)), *vectors, _INFO)
    failing, zeros = (range(1, 2), range(2, 4)) if mode == "N" else (range(1, 4), range(0))
    return Routine((matrix,), results, "gesdd", arguments, 10 * _cube(i), "A", failing, zeros)


WAYS["gesdd"] = WAYS["gesvd"] = [lapack_way(gesdd)]


# -- general matrices ------------------------------------------------------------------------------


def geev(i: HloInstruction) -> Routine | None:
    """(a) -> (eigenvalues, left and right eigenvectors, info).

    Eigenvalues of real matrices are two results: real and imaginary parts.
    """
    t, n, matrix = _square(i)
    letters = [_letter(i, f"compute_{side}", "VN") for side in ("left", "right")]
    if not all(letters):
        return None
    vectors: Spec = (COMPLEX[t], (n, n))
    head: Arguments = (*letters, n, COPY(0), n, RESULT(0))
    rest: Arguments = (RESULT(1), n, RESULT(2), n, WORK, *_reals(t, 2 * n), RESULT(3))
    if not t.is_complex:
        made = SCRATCH(n * n * t.byte_size)
        rest = (RESULT(1), made, n, made, n, WORK, RESULT(4))
    values = _eigenvalues(t, n)
    zeros = [len(values) + k for k, letter in enumerate(letters) if letter == "N"]
    results = (*values, vectors, vectors, _INFO)
    return _iteration("geev", matrix, results, (*head, *rest), zeros)


def gees(i: HloInstruction) -> Routine | None:
    """(a) -> (T, Z, eigenvalues as of geev, the number selected, info)"""
    (t, n, matrix), mode = _square(i), _letter(i, "mode", "VN")
    if not mode:
        return None
    values = _eigenvalues(t, n)
    k = 2 + len(values)
    head: Arguments = (mode, "N", None, n, RESULT(0), n, RESULT(k), *map(RESULT, range(2, k)))
    arguments: Arguments = (*head, RESULT(1), n, WORK, *_reals(t, n), None, RESULT(k + 1))
    zeros = (1, k) if mode == "N" else (k,)
    return _iteration("gees", matrix, (matrix, matrix, *values, _INFO, _INFO), arguments, zeros)


def _eigenvalues(t: PrimitiveType, n: int) -> tuple[Spec, ...]:
    """Specs of a general matrix's eigenvalues: complex numbers, or real and imaginary parts."""
    return ((t, (n,)),) * (1 if t.is_complex else 2)


def _iteration(name: str, matrix: Spec, results: Sequence[Spec], arguments: Arguments, zeros: Sequence[int]) -> Routine:
    failing = [k for k in range(len(results) - 1) if k not in zeros]
    return Routine((matrix,), results, name, arguments, 25 * matrix[1][0] ** 3, "A", failing, zeros)


def gehrd(i: HloInstruction) -> Routine | None:
    """(a) -> (H and reflections, tau, info)"""
    (t, n, matrix), options = _square(i), lapack_options(i)
    low, high = options.get("low", 0), options.get("high", 0)
    if not (n > 1 and 1 <= low <= high <= n):
        return None
    arguments = (n, low, high, RESULT(0), n, RESULT(1), WORK, RESULT(2))
    return Routine((matrix,), (matrix, (t, (n - 1,)), _INFO), "gehrd", arguments, 10 / 3 * n**3)


def _finish_geev(call: RoutineCall, arguments: Sequence[Value]) -> None:
    """Convert LAPACK's real eigenvectors to complex ones."""
    for k, result in enumerate((2, 3)):
        if call.routine.arguments[k] == "V" and not call.type.is_complex:
            given = (arguments[7 + 2 * k], call.results[1], call.results[result], size_of(call.instruction)[1])
            call.step("eigenvectors", _write_pairs, *given)


def _write_pairs(f: Function, t: PrimitiveType, v: Value, imaginary: Value, result: Value, n: Value) -> None:
    """Write complex eigenvectors: for a conjugate pair, v[j] + i v[j + 1] and its conjugate."""
    kind = number(t)
    with f.loop(n, guarded=True) as column:
        j, y = f.value(column), Pointer(imaginary, kind)[column]
        first, second = y > 0.0, y < 0.0
        real = Pointer(v, kind).by(second.select(j - 1, j) * n)
        other = Pointer(v, kind).by(first.select(j + 1, j) * n)
        sign = first.select(f.const(kind, 1.0), second.select(f.const(kind, -1.0), f.zero(kind)))
        into = Pointer(result, kind).by(j * n * 2)
        with f.loop(n, guarded=True) as row:
            r = f.value(row)
            into[r * 2], into[r * 2 + 1] = real[r], other[r] * sign


WAYS["geev"] = [lapack_way(geev, finish=_finish_geev, in_place=())]
WAYS["gees"] = [lapack_way(gees)]
WAYS["gehrd"] = [lapack_way(gehrd)]
