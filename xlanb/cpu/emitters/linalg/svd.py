"""Singular values, descending, and singular vectors of small matrices: gesdd by bidiagonal form, implicit QR and sorting.

A matrix with more columns than rows is transposed: left vectors are right ones then. One with numbers that are not
finite has results of NaN and info -4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8, I32, I64
from xlanb.cpu.emitters.linalg.bidiagonal import write_bidiagonal, write_golub_kahan
from xlanb.cpu.emitters.linalg.columns import Columns, Room, parameters, step, stride
from xlanb.cpu.emitters.linalg.lapack import NOT_FINITE
from xlanb.cpu.emitters.linalg.padded import (
    ascending,
    bring,
    bring_transposed,
    fail,
    normalize,
    take,
    take_transposed,
)
from xlanb.cpu.emitters.linalg.qr import emit_product
from xlanb.cpu.emitters.linalg.routine import CUSTOM_CALLS, LINE, Call, Way, element_type, size_of, small
from xlanb.cpu.emitters.linalg.table import clear_vectors, gesdd_signature
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

LOAD = parameters("source a state", "m n stride transposed")
BIDIAGONAL = parameters("a p d e tau other u v w", "m n stride others")
GOLUB_KAHAN = parameters("d e x y turns info", "m n stride others")
VALUES = parameters("d y order state values info", "n others columns")
TAKE = parameters("source target order", "stride rows columns")
FAILED = parameters("u vt info", "us vts")


@dataclass(frozen=True)
class _Sizes:
    """Rows m and columns n of the matrix as it stands in scratch, with m >= n; whether that is transposed; how many left vectors are wanted, 0 without any."""

    m: int
    n: int
    transposed: bool
    lefts: int

    @staticmethod
    def of(rows: int, columns: int, mode: int) -> _Sizes:
        m, n = max(rows, columns), min(rows, columns)
        return _Sizes(m, n, rows < columns, 0 if mode == ord("N") else m if mode == ord("A") else n)

    def room(self, t: PrimitiveType) -> Room:
        """a, p, x, y; d, e; tau, other, u, v, w; order, rotations, what is known of the matrix."""
        m, n, padded = self.m, self.n, self.n + 2 * LINE // t.byte_size
        rights = n if self.lefts else 0
        columns = [(m, 1)] * 5
        return Room(
            t, ((m, n), (n, n), (m, self.lefts), (n, rights), (padded, 1), (padded, 1), *columns, (2 * m, 1), (4 * n, 1), (2, 1))
        )  # fmt: skip


def emit_gesdd(call: Call) -> None:
    """The first result stays the matrix; singular values, U, V^H, info."""
    s, (m, n) = _sizes(call.instruction), size_of(call.instruction)
    _, values, left, right, info = call.results
    apart, others = stride(s.m, call.type), stride(s.n, call.type)
    sizes = (s.m, s.n, apart, others)
    a, p, x, y, d, e, tau, other, u, v, w, order, turns, state = s.room(call.type).addresses(call)
    d, e = Pointer(d, I8).address(LINE), Pointer(e, I8).address(LINE)
    step(call, "general", write_load, LOAD, call.results[0], a, state, s.m, s.n, apart, int(s.transposed))
    step(call, "gebrd", write_bidiagonal, BIDIAGONAL, a, p, d, e, tau, other, u, v, w, *sizes)
    if s.lefts:
        emit_product(call, (x, a, tau, u), (s.m, s.lefts, apart, s.n))
        emit_product(call, (y, p, other, v), (s.n, s.n, others, s.n - 1), below=1)
    name, vectors = ("", True) if s.lefts else (".values", False)
    places = (d, e, x, y, turns, info)
    step(call, f"bdsqr{name}", partial(write_golub_kahan, vectors=vectors), GOLUB_KAHAN, *places, *sizes)
    places = (d, y, order, state, values, info)
    step(call, f"gesdd{name}", partial(write_values, vectors=vectors), VALUES, *places, s.n, others, s.lefts)
    if not vectors:
        clear_vectors(call)
        return
    wide, narrow = (x, order, apart, s.lefts, s.m), (y, order, others, s.n, s.n)
    columns, rows = (narrow, wide) if s.transposed else (wide, narrow)
    for name, write, target, (source, names, distance, count, length) in (
        ("take.columns", write_take_columns, left, columns),
        ("take.rows", write_take_rows, right, rows),
    ):
        size = (length, count) if target is left else (count, length)
        step(call, name, write, TAKE, source, target, names, distance, *size)
    step(call, "failed", write_failed, FAILED, left, right, info, m * columns[3], n * rows[3])


def write_load(c: Columns) -> None:
    """The routine that brings a matrix, or its transpose, to scratch, scaled: %state becomes what singular values are multiplied with, and 1 if all are finite."""
    m, n, apart, a, source = c.given("m"), c.given("n"), c.given("stride"), c.place("a"), c.place("source")
    c.choose(
        c.given("transposed").equals(1),
        lambda: bring_transposed(c, source, n, m, a, apart),
        lambda: bring(c, source, m, n, a, apart),
    )
    state = c.place("state")
    state[0], finite = normalize(c, a, apart, c.up(m), n)
    state[1] = finite.select(c.real(1), 0.0)


def write_values(c: Columns, *, vectors: bool) -> None:
    """The routine that puts singular values in order, the largest first, and makes them positive, right vectors with them."""
    n, others, d, order = c.given("n"), c.given("others"), c.place("d"), c.place("order", I64)
    state, info, values = c.place("state"), c.place("info", I32), c.place("values")
    with c.count(0, n) as loop:
        found = d[loop.index]
        d[loop.index] = -abs(found)
        if vectors:
            with c.f.when(found < 0.0), c.count(0, c.up(n), step=c.width) as r:
                column = c.place("y").by(loop.index * others)
                column.write(r.index, -column.vector(r.index))
    ascending(c, d, n, order)
    with c.count(n, c.given("columns")) as loop:
        order[loop.index] = loop.index
    with c.count(0, n) as loop:
        values[loop.index] = abs(d[order[loop.index]]) * state[0]
    info[0] = state[1].equals(1.0).select(info[0], NOT_FINITE)
    with c.f.when(info[0].differs(0)):
        fail(c, values, n)


def write_take_columns(c: Columns) -> None:
    """The routine that takes columns out of scratch in order."""
    rows, columns = c.given("rows"), c.given("columns")
    take(c, c.place("source"), c.given("stride"), c.place("target"), rows, columns, c.place("order", I64))


def write_take_rows(c: Columns) -> None:
    """The routine that takes columns out of scratch in order, as rows."""
    rows, columns = c.given("rows"), c.given("columns")
    take_transposed(c, c.place("source"), c.given("stride"), c.place("target"), rows, columns, c.place("order", I64))


def write_failed(c: Columns) -> None:
    """The routine that leaves no number in vectors that were not found."""
    with c.f.when(c.place("info", I32)[0].differs(0)):
        fail(c, c.place("u"), c.given("us"))
        fail(c, c.place("vt"), c.given("vts"))


def _sizes(i: HloInstruction) -> _Sizes:
    return _Sizes.of(*size_of(i), lapack_options(i)["mode"])


def nanoseconds(i: HloInstruction) -> float:
    """The time of one matrix, roughly."""
    s = _sizes(i)
    work = s.m * s.n * (2 * s.n + s.lefts) * element_type(i).byte_size
    return 300.0 + 60.0 * s.n * s.n + work / 40


CUSTOM_CALLS["gesdd"].insert(
    0,
    Way(
        small(gesdd_signature),
        emit_gesdd,
        nanoseconds,
        lambda i: _sizes(i).room(element_type(i)).bytes,
        (0,),
    ),
)
