"""syevd: eigenvalues, ascending, and eigenvectors of a symmetric matrix: tridiagonal form, implicit QL (see `tridiagonal`), order. And sytrd, the first of these by itself.

Matrices with numbers that are not finite have results that are none, and info -4, as the evaluator gives it.
"""

from __future__ import annotations

from functools import partial

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native
from xlanb.cpu.codegen.linalg.qr import emit_product
from xlanb.cpu.codegen.linalg.scratch import (
    Room,
    ascending,
    behind,
    bring,
    fail,
    has_results,
    is_small,
    mirror,
    normalize,
    step,
    take,
)
from xlanb.cpu.codegen.linalg.tridiagonal import write_ql, write_tridiagonal
from xlanb.cpu.codegen.linalg.values import LINE, Code, stride
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType


def _parameters(*pointers: str) -> tuple[str, ...]:
    return *(f"ptr {p}" if p == "%source" else f"ptr noalias {p}" for p in pointers), "i64 %n", "i64 %stride"


SYMMETRIC = (*_parameters("%source", "%a", "%state"), "i64 %upper", "i64 %scaled")
TRIDIAGONAL = _parameters("%a", "%d", "%e", "%tau", "%v", "%w")
QL = _parameters("%d", "%e", "%z", "%turns", "%info")
RESULTS = _parameters("%d", "%z", "%order", "%state", "%values", "%vectors", "%info")
PACKED = _parameters("%source", "%result")


def _room(t: PrimitiveType, n: int) -> Room:
    """The matrix, its vectors, d, e, tau, v, w, the order, rotations, and what is known of the matrix."""
    column = (n + 1, 1)
    return Room(t, ((n, n), (n, n), column, (n + 16, 1), column, column, column, (2 * n, 1), (2 * n, 1), (2, 1)))


def emit_syevd(call: Call) -> None:
    """Vectors in place of the first result (with mode V), eigenvalues, info."""
    n, _ = call.size(0)
    vectors, values, info = call.results
    sizes = (n, stride(n, call.type))
    a, z, d, e, tau, v, w, order, turns, state = _room(call.type, n).addresses(call)
    e = behind(call, e, LINE)
    upper = int(call.options["uplo"] == ord("U"))
    wanted = call.options["mode"] == ord("V")
    step(call, "symmetric", write_symmetric, SYMMETRIC, vectors, a, state, *sizes, upper, 1)
    step(call, "sytrd", write_tridiagonal, TRIDIAGONAL, a, d, e, tau, v, w, *sizes)
    if wanted:
        emit_product(call, (z, a, tau, v), (n, *sizes, n - 1), below=1)
    names = ("steqr", "eigh") if wanted else ("sterf", "eigvalsh")
    step(call, names[0], partial(write_ql, vectors=wanted), QL, d, e, z, turns, info, *sizes)
    results = (d, z, order, state, values, vectors, info)
    step(call, names[1], partial(write_results, vectors=wanted), RESULTS, *results, *sizes)


def write_symmetric(c: Code) -> None:
    """The routine that brings a matrix to scratch, of one of its triangles, scaled if wanted: %state becomes what eigenvalues are multiplied with, and 1 if all are finite."""
    n, apart, a, end = c.given("n"), c.given("stride"), c.place("a"), c.up(c.given("n"))
    bring(c, c.place("source"), n, n, a, apart)
    mirror(c, a, apart, n, c.given("upper").same(1))
    with c.when(c.given("scaled").same(1)):
        back, finite = normalize(c, a, apart, end, n)
        state = c.place("state")
        state[0], state[1] = back, finite.pick(c.real(1), 0.0)


def write_results(c: Code, *, vectors: bool) -> None:
    """The routine that puts eigenvalues in order, and vectors with them."""
    n, d, order, values = c.given("n"), c.place("d"), c.place("order", "i64"), c.place("values")
    state, info = c.place("state"), c.place("info", "i32")
    ascending(c, d, n, order)
    with c.count(0, n) as loop:
        values[loop.index] = d[order[loop.index]] * state[0]
    if vectors:
        take(c, c.place("z"), c.given("stride"), c.place("vectors"), n, n, order)
    finite = state[1].same(1.0)
    info[0] = finite.pick(info[0], -4)
    with c.when(info[0].differs(0)):
        fail(c, values, n)
        if vectors:
            fail(c, c.place("vectors"), n * n)


def emit_sytrd(call: Call) -> None:
    """The packed reflections in place of the first result, d, e, tau, info."""
    n, _ = call.size(0)
    packed, d, e, tau, info = call.results
    sizes = (n, stride(n, call.type))
    a, v, w = _sytrd_room(call.type, n).addresses(call)
    step(call, "symmetric", write_symmetric, SYMMETRIC, packed, a, v, *sizes, 0, 0)
    step(call, "sytrd", write_tridiagonal, TRIDIAGONAL, a, d, e, tau, v, w, *sizes)
    step(call, "triangle", write_triangle, PACKED, a, packed, *sizes)
    call.f.do(f"store i32 0, ptr {info}")


def _sytrd_room(t: PrimitiveType, n: int) -> Room:
    return Room(t, ((n, n), (n, 1), (n, 1)))


def write_triangle(c: Code) -> None:
    """The routine that takes the lower triangle out of scratch."""
    n, apart, end = c.given("n"), c.given("stride"), c.up(c.given("n"))
    with c.count(0, n) as loop:
        j = loop.index
        a, b = c.place("source").by(j * apart), c.place("result").by(j * n)
        with c.count(c.down(j), end, step=c.width) as r:
            inside = c.lanes_to(r.index, n) & c.lanes_from(r.index, j)
            b.write(r.index, a.vector(r.index), inside)


def _size(i: HloInstruction) -> int:
    return array_of(i.operands[0]).dimensions[-1]


def _is_square(i: HloInstruction) -> bool:
    return array_of(i.operands[0]).dimensions[-2] == _size(i)


def _fits(i: HloInstruction) -> bool:
    options = lapack_options(i)
    known = options.get("mode") in (ord("V"), ord("N")) and options.get("uplo") in (ord("L"), ord("U"))
    return known and is_small(i) and _is_square(i) and has_results(i, (_size(i), _size(i)), (_size(i),), ())


def _fits_sytrd(i: HloInstruction) -> bool:
    n = _size(i)
    is_lower = lapack_options(i).get("uplo") == ord("L")
    return is_small(i) and is_lower and n > 1 and _is_square(i) and has_results(i, (n, n), (n,), (n - 1,), (n - 1,), ())


def nanoseconds(i: HloInstruction) -> float:
    """The time of one matrix, roughly."""
    n = _size(i)
    return 200.0 + 25.0 * n * n + n**3 * array_of(i.operands[0]).element_type.byte_size / 20


NATIVE["syevd"] = Native(
    emit_syevd,
    operands=(2,),
    results=(2, 1, 0),
    nanoseconds=nanoseconds,
    fits=_fits,
    overwrites=(0,),
    scratch=lambda i: _room(array_of(i.operands[0]).element_type, _size(i)).bytes,
)
NATIVE["sytrd"] = Native(
    emit_sytrd,
    operands=(2,),
    results=(2, 1, 1, 1, 0),
    nanoseconds=nanoseconds,
    fits=_fits_sytrd,
    overwrites=(0,),
    scratch=lambda i: _sytrd_room(array_of(i.operands[0]).element_type, _size(i)).bytes,
)
