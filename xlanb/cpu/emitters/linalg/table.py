"""The LAPACK and BLAS routines that compute custom-calls and opcodes: signatures, arguments, and XLA's conventions for their results.

Sources: LAPACK's reference (netlib.org/lapack), jaxlib's lapack_kernels for operands and results of the custom-calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import part
from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.lapack import (
    INFO,
    ONE,
    WORK,
    Argument,
    Copied,
    Iteration,
    LapackCall,
    Operand,
    Result,
    Scratch,
    lapack_way,
)
from xlanb.cpu.emitters.linalg.routine import (
    COMPLEX,
    CUSTOM_CALLS,
    OPCODES,
    Call,
    Signature,
    Spec,
    element_type,
    is_by_rows,
    is_used,
    number,
    result_bytes,
    size_of,
)
from xlanb.cpu.emitters.linalg.systems import custom_call_system, opcode_system, system_of, system_size
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType
_INFO: Spec = (T.S32, ())


def _letter(i: HloInstruction, option: str, letters: str) -> str:
    """An option as a letter; empty if it is missing or none of those known."""
    found = chr(lapack_options(i).get(option, 0))
    return found if found in letters else ""


def _is_square(i: HloInstruction) -> bool:
    rows, columns = size_of(i)
    return rows == columns


def _order(i: HloInstruction) -> int:
    return size_of(i)[1]


def _real(i: HloInstruction) -> PrimitiveType:
    return part(element_type(i))


# -- Cholesky factors -----------------------------------------------------------------------------------------------


def potrf_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (factor, info)"""
    matrix = (element_type(i), size_of(i))
    return Signature((matrix,), (matrix, _INFO)) if _is_square(i) and _letter(i, "uplo", "LU") else None


def cholesky_signature(i: HloInstruction) -> Signature | None:
    """(a) -> factor"""
    matrix = (element_type(i), size_of(i))
    return Signature((matrix,), (matrix,)) if _is_square(i) else None


def potrf_is_upper(i: HloInstruction) -> bool:
    """Whether the factor is the upper triangle."""
    return _letter(i, "uplo", "LU") == "U"


def cholesky_is_upper(i: HloInstruction) -> bool:
    """Whether the factor of the opcode is the upper triangle of what lies column after column: a matrix by rows is its transpose by columns."""
    return bool(i.get("lower")) == is_by_rows(i, 0)


def _potrf(i: HloInstruction) -> LapackCall:
    n = _order(i)
    return LapackCall("potrf", (_letter(i, "uplo", "LU"), n, Result(0), n, Result(1)))


def _cholesky(i: HloInstruction) -> LapackCall:
    n = _order(i)
    return LapackCall("potrf", ("U" if cholesky_is_upper(i) else "L", n, Result(0), n, INFO))


TRIANGLE = (
    Parameter(PTR, "a", "noalias"),
    Parameter(PTR, "info", "noalias readonly"),
    *(Parameter(I64, name) for name in ("n", "count")),
)


def _finish_potrf(call: Call, arguments: Sequence[Value]) -> None:
    """A matrix that is not positive definite has NaN in its factor's triangle."""
    emit_potrf_failed(call, arguments[4], upper=potrf_is_upper(call.instruction))


def _finish_cholesky(call: Call, arguments: Sequence[Value]) -> None:
    emit_cholesky_finish(call, arguments[4])


def emit_potrf_failed(call: Call, info: Value, *, upper: bool) -> None:
    """Fill the triangles of factors with NaN where info is not 0."""
    name = f"potrf.failed.{'upper' if upper else 'lower'}"
    given = (call.results[0], info, _order(call.instruction), call.count)
    call.routine(name, lambda f: _write_triangle(f, call.type, upper=upper, zeros=False), TRIANGLE, *given)


def emit_cholesky_finish(call: Call, info: Value) -> None:
    """Set the other triangles to zero; fill all of a matrix with NaN that is not positive definite or has a NaN in its factor."""
    upper = cholesky_is_upper(call.instruction)
    name = f"cholesky.{'upper' if upper else 'lower'}"
    given = (call.results[0], info, _order(call.instruction), call.count)
    call.routine(name, lambda f: _write_triangle(f, call.type, upper=upper, zeros=True), TRIANGLE, *given)


def _write_triangle(f: Function, t: PrimitiveType, *, upper: bool, zeros: bool) -> None:
    a, info, n, count = (f.argument(p) for p in TRIANGLE)
    kind, parts = number(t), 2 if t.is_complex else 1
    nan = f.const(kind, float("nan"))
    with f.loop(count, guarded=True) as b:
        matrix = Pointer(a, kind).by(f.value(b) * n * n * parts)
        failed = Pointer(info, I32)[b].differs(0)
        if zeros:  # a NaN in the triangle that is read reaches the last pivot
            failed = failed | matrix[(n * n - 1) * parts].is_nan()
        with f.loop(n, guarded=True) as column:
            j = f.value(column)
            mine = matrix.by(j * n * parts)
            inside = (0, (j + 1) * parts) if upper else (j * parts, n * parts)
            outside = ((j + 1) * parts, n * parts) if upper else (0, j * parts)
            with f.when(failed):
                for low, high in (inside, outside) if zeros else (inside,):
                    with f.loop(high, low, guarded=True) as r:
                        mine[r] = nan
            if zeros:
                with f.when(~failed), f.loop(outside[1], outside[0], guarded=True) as r:
                    mine[r] = f.zero(kind)


CUSTOM_CALLS["potrf"] = [lapack_way(potrf_signature, _potrf, lambda i: _order(i) ** 3 / 3, finish=_finish_potrf)]
OPCODES[Op.CHOLESKY] = [
    lapack_way(cholesky_signature, _cholesky, lambda i: _order(i) ** 3 / 3, finish=_finish_cholesky)
]


# -- LU factors and triangular systems ------------------------------------------------------------------------------


def getrf_signature(i: HloInstruction) -> Signature:
    """(a) -> (packed factors, pivots from 1 on, info)"""
    matrix = (element_type(i), size_of(i))
    return Signature((matrix,), (matrix, (T.S32, (min(size_of(i)),)), _INFO))


def _getrf(i: HloInstruction) -> LapackCall:
    m, n = size_of(i)
    return LapackCall("getrf", (m, n, Result(0), m, Result(1), Result(2)))


def _lu_flops(i: HloInstruction) -> float:
    m, n = size_of(i)
    return m * n * min(m, n)


def trsm_signature(i: HloInstruction) -> Signature | None:
    """(a, b) -> x"""
    found = custom_call_system(i) if i.opcode is Op.CUSTOM_CALL else opcode_system(i)
    if found is None or len(i.operands) != 2 or array_of(i.operands[1]).rank < 2:
        return None
    t, (rows, columns) = element_type(i), size_of(i, 1)
    left = bool(i.get("left_side")) if i.opcode is Op.TRIANGULAR_SOLVE else found.left
    n = rows if left else columns
    return Signature(((t, (n, n)), (t, (rows, columns))), ((t, (rows, columns)),))


def _trsm(i: HloInstruction) -> LapackCall:
    system = system_of(i)
    n, others = system_size(i, system)
    m, k = (n, others) if system.left else (others, n)
    trans = "N" if not system.transposed else "C" if system.conjugated else "T"
    letters = "L" if system.left else "R", "L" if system.lower else "U", trans, "U" if system.unit else "N"
    return LapackCall("trsm", (*letters, m, k, ONE, Operand(0), n, Result(0), m))


def _trsm_flops(i: HloInstruction) -> float:
    n, others = system_size(i, system_of(i))
    return n * n * others


CUSTOM_CALLS["getrf"] = [lapack_way(getrf_signature, _getrf, _lu_flops)]
CUSTOM_CALLS["trsm"] = [lapack_way(trsm_signature, _trsm, _trsm_flops, in_place=(1,))]
OPCODES[Op.TRIANGULAR_SOLVE] = list(CUSTOM_CALLS["trsm"])


# -- QR -------------------------------------------------------------------------------------------------------------


def geqrf_signature(i: HloInstruction) -> Signature:
    """(a) -> (reflections and R, tau)"""
    t, size = element_type(i), size_of(i)
    return Signature(((t, size),), ((t, size), (t, (min(size),))))


def orgqr_signature(i: HloInstruction) -> Signature | None:
    """(reflections, tau) -> Q"""
    if len(i.operands) != 2:
        return None
    t, (m, n), count = element_type(i), size_of(i), reflections_of(i)
    return Signature(((t, (m, n)), (t, (count,))), ((t, (m, n)),)) if count <= n <= m else None


def ormqr_signature(i: HloInstruction) -> Signature | None:
    """(reflections, tau, c) -> Q c, c Q, or those with Q's adjoint"""
    if len(i.operands) != 3 or array_of(i.operands[2]).rank < 2:
        return None
    t, (rows, columns), count = element_type(i), size_of(i), reflections_of(i)
    size = size_of(i, 2)
    if rows != size[0 if lapack_options(i).get("left", 1) else 1] or count > min(rows, columns):
        return None
    return Signature(((t, (rows, columns)), (t, (count,)), (t, size)), ((t, size),))


def geqp3_signature(i: HloInstruction) -> Signature | None:
    """(a, columns that are to come first) -> (reflections and R, order of the columns, tau)"""
    t, (m, n) = element_type(i), size_of(i)
    order = (T.S32, (n,))
    return Signature(((t, (m, n)), order), ((t, (m, n)), order, (t, (min(m, n),))))


def reflections_of(i: HloInstruction) -> int:
    """How many reflections operand 1, their factors tau, holds."""
    return array_of(i.operands[1]).dimensions[-1]


def _unitary(i: HloInstruction, name: str) -> str:
    """The routine's name for complex numbers, which begins with un."""
    return f"{'un' if element_type(i).is_complex else 'or'}{name}"


def _geqrf(i: HloInstruction) -> LapackCall:
    m, n = size_of(i)
    return LapackCall("geqrf", (m, n, Result(0), m, Result(1), WORK, INFO))


def _orgqr(i: HloInstruction) -> LapackCall:
    (m, n), count = size_of(i), reflections_of(i)
    return LapackCall(_unitary(i, "gqr"), (m, n, count, Result(0), m, Operand(1), WORK, INFO))


def _ormqr(i: HloInstruction) -> LapackCall:
    (m, n), rows, count = size_of(i, 2), size_of(i)[0], reflections_of(i)
    options, adjoint = lapack_options(i), "C" if element_type(i).is_complex else "T"
    letters = "L" if options.get("left", 1) else "R", adjoint if options.get("transpose", 0) else "N"
    # The reflections are copied: the routine changes and restores them, and operands may be read-only.
    reflections: tuple[Argument, ...] = (Copied(0), rows, Operand(1))
    return LapackCall(_unitary(i, "mqr"), (*letters, m, n, count, *reflections, Result(0), m, WORK, INFO))


def _geqp3(i: HloInstruction) -> LapackCall:
    (m, n), t = size_of(i), element_type(i)
    more = (Scratch(2 * n * _real(i).byte_size),) if t.is_complex else ()
    return LapackCall("geqp3", (m, n, Result(0), m, Result(1), Result(2), WORK, *more, INFO))


def _ormqr_flops(i: HloInstruction) -> float:
    m, n = size_of(i, 2)
    return 4 * m * n * reflections_of(i)


def _qr_flops(i: HloInstruction) -> float:
    return 2 * _lu_flops(i)


CUSTOM_CALLS["geqrf"] = [lapack_way(geqrf_signature, _geqrf, _qr_flops)]
CUSTOM_CALLS["orgqr"] = [lapack_way(orgqr_signature, _orgqr, _qr_flops)]
CUSTOM_CALLS["ormqr"] = [lapack_way(ormqr_signature, _ormqr, _ormqr_flops, in_place=(2,))]
CUSTOM_CALLS["geqp3"] = [lapack_way(geqp3_signature, _geqp3, _qr_flops, in_place=(0, 1))]
CUSTOM_CALLS["ungqr"], CUSTOM_CALLS["unmqr"] = CUSTOM_CALLS["orgqr"], CUSTOM_CALLS["ormqr"]


# -- symmetric and Hermitian matrices -------------------------------------------------------------------------------


def syevd_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (eigenvectors with mode V, else a, eigenvalues, info)"""
    n, matrix = _order(i), (element_type(i), size_of(i))
    if not (_is_square(i) and _letter(i, "mode", "VN") and _letter(i, "uplo", "LU")):
        return None
    return Signature((matrix,), (matrix, (_real(i), (n,)), _INFO))


def sytrd_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (reflections, diagonal, subdiagonal, tau, info)"""
    n, t, real = _order(i), element_type(i), _real(i)
    if not (_is_square(i) and n > 1 and _letter(i, "uplo", "LU")):
        return None
    return Signature(((t, (n, n)),), ((t, (n, n)), (real, (n,)), (real, (n - 1,)), (t, (n - 1,)), _INFO))


def _syevd(i: HloInstruction) -> LapackCall:
    n, t, mode = _order(i), element_type(i), _letter(i, "mode", "VN")
    wanted = mode == "V"
    integers = 3 + 5 * n if wanted else 1
    rest: tuple[Argument, ...] = (Scratch(4 * integers), integers)
    if t.is_complex:
        reals = 1 + 5 * n + 2 * n * n if wanted else n
        rest = (Scratch(reals * _real(i).byte_size), reals, *rest)
    head = mode, _letter(i, "uplo", "LU"), n, Result(0) if wanted else Copied(0), n
    return LapackCall("heevd" if t.is_complex else "syevd", (*head, Result(1), WORK, *rest, Result(2)))


def _sytrd(i: HloInstruction) -> LapackCall:
    n, name = _order(i), "hetrd" if element_type(i).is_complex else "sytrd"
    made = tuple(Result(k) for k in range(1, 4))
    return LapackCall(name, (_letter(i, "uplo", "LU"), n, Result(0), n, *made, WORK, Result(4)))


def _cubes(factor: float) -> Callable[[HloInstruction], float]:
    return lambda i: factor * _order(i) ** 3


SYMMETRIC = Iteration(
    lambda i: _letter(i, "uplo", "LU"), 2, lambda i: (0, 1) if _letter(i, "mode", "VN") == "V" else (1,)
)
CUSTOM_CALLS["syevd"] = CUSTOM_CALLS["heevd"] = [lapack_way(syevd_signature, _syevd, _cubes(9), iteration=SYMMETRIC)]
CUSTOM_CALLS["sytrd"] = CUSTOM_CALLS["hetrd"] = [lapack_way(sytrd_signature, _sytrd, _cubes(4 / 3))]


# -- singular values ------------------------------------------------------------------------------------------------


def gesdd_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (a, singular values, U, V^H, info); zeros with mode N for U and V^H"""
    t, (m, n), mode = element_type(i), size_of(i), _letter(i, "mode", "ASN")
    k = min(m, n)
    vectors: tuple[Spec | None, Spec | None] = (None, None)
    if mode in ("A", "S"):
        vectors = ((t, (m, m)), (t, (n, n))) if mode == "A" else ((t, (m, k)), (t, (k, n)))
    return Signature(((t, (m, n)),), ((t, (m, n)), (_real(i), (k,)), *vectors, _INFO)) if mode else None


def _gesdd(i: HloInstruction) -> LapackCall:
    (m, n), t, mode = size_of(i), element_type(i), _letter(i, "mode", "ASN")
    small, large = min(m, n), max(m, n)
    reals = 7 * small if mode == "N" else max(5 * small**2 + 5 * small, 2 * large * small + 2 * small**2 + small)
    more = (Scratch(reals * _real(i).byte_size),) if t.is_complex else ()
    vectors: tuple[Argument, ...] = (Result(2), m, Result(3), small if mode == "S" else n)
    if mode == "N":
        vectors = (None, 1, None, 1)
    return LapackCall(
        "gesdd", (mode, m, n, Copied(0), m, Result(1), *vectors, WORK, *more, Scratch(32 * small), Result(4))
    )


def _clear_vectors(call: Call, arguments: Sequence[Value]) -> None:
    """Set vectors that are not computed to zero if they are used."""
    del arguments
    clear_vectors(call)


def clear_vectors(call: Call) -> None:
    """Set the vectors of gesdd to zero with mode N, those that are used."""
    i, sizes = call.instruction, result_bytes(call.instruction)
    if _letter(i, "mode", "ASN") == "N":
        for k in (2, 3):
            if is_used(i, k):
                call.f.fill(call.results[k], 0, sizes[k])


def _gesdd_failing(i: HloInstruction) -> Sequence[int]:
    return (1,) if _letter(i, "mode", "ASN") == "N" else (1, 2, 3)


def _gesdd_flops(i: HloInstruction) -> float:
    return 10 * _lu_flops(i)


CUSTOM_CALLS["gesdd"] = CUSTOM_CALLS["gesvd"] = [
    lapack_way(
        gesdd_signature,
        _gesdd,
        _gesdd_flops,
        finish=_clear_vectors,
        iteration=Iteration(lambda _: "A", 4, _gesdd_failing),
    )
]


# -- general matrices -----------------------------------------------------------------------------------------------


def _geev_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (eigenvalues, as real and imaginary parts of real matrices; left and right eigenvectors; info)"""
    t, size, n = element_type(i), size_of(i), _order(i)
    if not (_is_square(i) and all(_letter(i, f"compute_{side}", "VN") for side in ("left", "right"))):
        return None
    values: tuple[Spec, ...] = ((t, (n,)),) * (1 if t.is_complex else 2)
    return Signature(((t, size),), (*values, (COMPLEX[t], size), (COMPLEX[t], size), _INFO))


def _gees_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (T, Z, eigenvalues as geev's, how many are selected, info)"""
    t, size, n = element_type(i), size_of(i), _order(i)
    values: tuple[Spec, ...] = ((t, (n,)),) * (1 if t.is_complex else 2)
    fits = _is_square(i) and _letter(i, "mode", "VN")
    return Signature(((t, size),), ((t, size), (t, size), *values, _INFO, _INFO)) if fits else None


def _gehrd_signature(i: HloInstruction) -> Signature | None:
    """(a) -> (H and reflections, tau, info)"""
    t, size, n, options = element_type(i), size_of(i), _order(i), lapack_options(i)
    fits = _is_square(i) and n > 1 and 1 <= options.get("low", 0) <= options.get("high", 0) <= n
    return Signature(((t, size),), ((t, size), (t, (n - 1,)), _INFO)) if fits else None


def _geev(i: HloInstruction) -> LapackCall:
    n, t = _order(i), element_type(i)
    head: tuple[Argument, ...] = (*(_letter(i, f"compute_{side}", "VN") for side in ("left", "right")), n, Copied(0), n)
    if t.is_complex:
        rest: tuple[Argument, ...] = (Result(1), n, Result(2), n, WORK, Scratch(2 * n * _real(i).byte_size), Result(3))
        return LapackCall("geev", (*head, Result(0), *rest))
    matrix = Scratch(n * n * t.byte_size)
    return LapackCall("geev", (*head, Result(0), Result(1), matrix, n, matrix, n, WORK, Result(4)))


def _gees(i: HloInstruction) -> LapackCall:
    n, t = _order(i), element_type(i)
    values = (Result(2),) if t.is_complex else (Result(2), Result(3))
    more = (Scratch(n * _real(i).byte_size),) if t.is_complex else ()
    k = 2 + len(values)
    head = (_letter(i, "mode", "VN"), "N", None, n, Result(0), n, Result(k), *values, Result(1), n)
    return LapackCall("gees", (*head, WORK, *more, None, Result(k + 1)))


def _gehrd(i: HloInstruction) -> LapackCall:
    n, options = _order(i), lapack_options(i)
    return LapackCall("gehrd", (n, options["low"], options["high"], Result(0), n, Result(1), WORK, Result(2)))


PAIRS = (Parameter(PTR, "v"), Parameter(PTR, "imaginary"), Parameter(PTR, "result"), Parameter(I64, "n"))


def _eigenvectors(call: Call, arguments: Sequence[Value]) -> None:
    """Make complex eigenvectors of LAPACK's real ones; set those that were not asked for to zero."""
    i, sizes = call.instruction, result_bytes(call.instruction)
    for k, (side, result) in enumerate((("left", -3), ("right", -2))):
        if _letter(i, f"compute_{side}", "VN") == "N":
            call.f.fill(call.results[result], 0, sizes[result])
        elif not call.type.is_complex:
            given = (arguments[7 + 2 * k], call.results[1], call.results[result], _order(i))
            call.routine("eigenvectors", lambda f: _write_pairs(f, call.type), PAIRS, *given)


def _write_pairs(f: Function, t: PrimitiveType) -> None:
    """Complex eigenvectors: those of a pair of eigenvalues are v[j] + i v[j + 1] and its conjugate."""
    v, imaginary, result, n = (f.argument(p) for p in PAIRS)
    kind = number(t)
    with f.loop(n, guarded=True) as column:
        j, y = f.value(column), Pointer(imaginary, kind)[column]
        first, second = y > 0.0, y < 0.0
        real = Pointer(v, kind).by(second.select(j - 1, j) * n)
        other = Pointer(v, kind).by(first.select(j + 1, j) * n)
        zero = f.zero(kind)
        sign = first.select(f.const(kind, 1.0), second.select(f.const(kind, -1.0), zero))
        into = Pointer(result, kind).by(j * n * 2)
        with f.loop(n, guarded=True) as row:
            r = f.value(row)
            into[r * 2], into[r * 2 + 1] = real[r], other[r] * sign


def _schur_vectors(call: Call, arguments: Sequence[Value]) -> None:
    del arguments
    if _letter(call.instruction, "mode", "VN") == "N":
        call.f.fill(call.results[1], 0, result_bytes(call.instruction)[1])


def _all_but_info(i: HloInstruction) -> Sequence[int]:
    return range(len(result_bytes(i)) - 1)


def _last(i: HloInstruction) -> int:
    return len(result_bytes(i)) - 1


GENERAL = Iteration(lambda _: "A", -1, _all_but_info)
CUSTOM_CALLS["geev"] = [
    lapack_way(_geev_signature, _geev, _cubes(25), finish=_eigenvectors, iteration=GENERAL, in_place=())
]
CUSTOM_CALLS["gees"] = [lapack_way(_gees_signature, _gees, _cubes(25), finish=_schur_vectors, iteration=GENERAL)]
CUSTOM_CALLS["gehrd"] = [lapack_way(_gehrd_signature, _gehrd, _cubes(10 / 3))]
