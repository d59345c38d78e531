"""Eigenvalues and eigenvectors of small symmetric matrices: syevd by tridiagonal form, implicit QL and sorting.

A matrix with numbers that are not finite has results of NaN and info -4.
"""

from __future__ import annotations

from functools import partial

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8, I32, I64
from xlanb.cpu.emitters.linalg.columns import Columns, Room, parameters, step, stride
from xlanb.cpu.emitters.linalg.lapack import NOT_FINITE
from xlanb.cpu.emitters.linalg.padded import ascending, bring, fail, mirror, normalize, take
from xlanb.cpu.emitters.linalg.qr import emit_product
from xlanb.cpu.emitters.linalg.routine import CUSTOM_CALLS, LINE, Call, Way, element_type, size_of, small
from xlanb.cpu.emitters.linalg.table import syevd_signature
from xlanb.cpu.emitters.linalg.tridiagonal import write_ql, write_tridiagonal
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

# the source of the matrix may be its result
SYMMETRIC = (*parameters("source", "", attributes=""), *parameters("a state", "n stride upper"))
TRIDIAGONAL = parameters("a d e tau v w", "n stride")
QL = parameters("d e z turns info", "n stride")
RESULTS = parameters("d z order state values vectors info", "n stride")


def _room(t: PrimitiveType, n: int) -> Room:
    """The matrix, its vectors, d, e, tau, v, w, the order, rotations, and what is known of the matrix."""
    column = (n + 1, 1)
    return Room(t, ((n, n), (n, n), column, (n + 16, 1), column, column, column, (2 * n, 1), (2 * n, 1), (2, 1)))


def emit_syevd(call: Call) -> None:
    """Vectors in place of the first result (with mode V), eigenvalues, info."""
    n, _ = size_of(call.instruction)
    vectors, values, info = call.results
    sizes = (n, stride(n, call.type))
    a, z, d, e, tau, v, w, order, turns, state = _room(call.type, n).addresses(call)
    e = Pointer(e, I8).address(LINE)
    upper = int(call.options["uplo"] == ord("U"))
    wanted = call.options["mode"] == ord("V")
    step(call, "symmetric", write_symmetric, SYMMETRIC, vectors, a, state, *sizes, upper)
    step(call, "sytrd", write_tridiagonal, TRIDIAGONAL, a, d, e, tau, v, w, *sizes)
    if wanted:
        emit_product(call, (z, a, tau, v), (n, *sizes, n - 1), below=1)
    names = ("steqr", "eigh") if wanted else ("sterf", "eigvalsh")
    step(call, names[0], partial(write_ql, vectors=wanted), QL, d, e, z, turns, info, *sizes)
    results = (d, z, order, state, values, vectors, info)
    step(call, names[1], partial(write_results, vectors=wanted), RESULTS, *results, *sizes)


def write_symmetric(c: Columns) -> None:
    """The routine that brings a matrix, of one of its triangles, to scratch, scaled: %state becomes what eigenvalues are multiplied with, and 1 if all are finite."""
    n, apart, a, state = c.given("n"), c.given("stride"), c.place("a"), c.place("state")
    bring(c, c.place("source"), n, n, a, apart)
    mirror(c, a, apart, n, c.given("upper").equals(1))
    back, finite = normalize(c, a, apart, c.up(n), n)
    state[0], state[1] = back, finite.select(c.real(1), 0.0)


def write_results(c: Columns, *, vectors: bool) -> None:
    """The routine that puts eigenvalues in order, and vectors with them."""
    n, d, order, values = c.given("n"), c.place("d"), c.place("order", I64), c.place("values")
    state, info = c.place("state"), c.place("info", I32)
    ascending(c, d, n, order)
    with c.count(0, n) as loop:
        values[loop.index] = d[order[loop.index]] * state[0]
    if vectors:
        take(c, c.place("z"), c.given("stride"), c.place("vectors"), n, n, order)
    finite = state[1].equals(1.0)
    info[0] = finite.select(info[0], NOT_FINITE)
    with c.f.when(info[0].differs(0)):
        fail(c, values, n)
        if vectors:
            fail(c, c.place("vectors"), n * n)


def nanoseconds(i: HloInstruction) -> float:
    """The time of one matrix, roughly."""
    n = size_of(i)[1]
    return 200.0 + 25.0 * n * n + n**3 * element_type(i).byte_size / 20


CUSTOM_CALLS["syevd"].insert(
    0,
    Way(
        small(syevd_signature),
        emit_syevd,
        nanoseconds,
        lambda i: _room(element_type(i), size_of(i)[1]).bytes,
        (0,),
    ),
)
