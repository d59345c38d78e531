"""gesdd and gesvd: singular values, descending, and singular vectors: bidiagonal form, implicit QR (see `bidiagonal`), order.

A matrix with more columns than rows is transposed: left vectors are right ones then. One with numbers that are not finite has results that are none, and info -4, as the
evaluator gives it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.linalg.bidiagonal import write_bidiagonal, write_golub_kahan
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native
from xlanb.cpu.codegen.linalg.qr import emit_product
from xlanb.cpu.codegen.linalg.scratch import (
    Room,
    ascending,
    behind,
    bring,
    bring_transposed,
    fail,
    has_results,
    is_read,
    is_small,
    normalize,
    step,
    take,
    take_transposed,
)
from xlanb.cpu.codegen.linalg.values import LINE, Code, stride
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType


def _pointers(names: str) -> tuple[str, ...]:
    return tuple(f"ptr noalias %{p}" for p in names.split())


def _numbers(names: str) -> tuple[str, ...]:
    return tuple(f"i64 %{p}" for p in names.split())


LOAD = (*_pointers("source a state"), *_numbers("m n stride transposed"))
BIDIAGONAL = (*_pointers("a p d e tau other u v w"), *_numbers("m n stride others"))
GOLUB_KAHAN = (*_pointers("d e x y turns info"), *_numbers("m n stride others"))
VALUES = (*_pointers("d y order state values info"), *_numbers("n others columns"))
TAKE = (*_pointers("source target order"), *_numbers("stride rows columns"))
FAILED = (*_pointers("u vt info"), *_numbers("us vts"))


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
    s, (m, n) = _sizes(call.instruction), call.size(0)
    _, values, left, right, info = call.results
    apart, others = stride(s.m, call.type), stride(s.n, call.type)
    sizes = (s.m, s.n, apart, others)
    a, p, x, y, d, e, tau, other, u, v, w, order, turns, state = s.room(call.type).addresses(call)
    d, e = behind(call, d, LINE), behind(call, e, LINE)
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
        _clear_what_is_read(call)
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


def _clear_what_is_read(call: Call) -> None:
    """Vectors that are not computed are zero; most programs do not look."""
    i = call.instruction
    for k in (2, 3):
        if is_read(i, k):
            size = math.prod(array_of(i, (k,)).dimensions[-2:]) * call.type.byte_size
            call.f.module.declare("void", "llvm.memset.p0.i64", "ptr, i8, i64, i1")
            call.f.do(f"call void @llvm.memset.p0.i64(ptr {call.results[k]}, i8 0, i64 {size}, i1 false)")


def write_load(c: Code) -> None:
    """The routine that brings a matrix, or its transpose, to scratch, scaled: %state becomes what singular values are multiplied with, and 1 if all are finite."""
    m, n, apart, a, source = c.given("m"), c.given("n"), c.given("stride"), c.place("a"), c.place("source")
    c.choose(
        c.given("transposed").same(1),
        lambda: bring_transposed(c, source, n, m, a, apart),
        lambda: bring(c, source, m, n, a, apart),
    )
    state = c.place("state")
    state[0], finite = normalize(c, a, apart, c.up(m), n)
    state[1] = finite.pick(c.real(1), 0.0)


def write_values(c: Code, *, vectors: bool) -> None:
    """The routine that puts singular values in order, the largest first, and makes them positive, right vectors with them."""
    n, others, d, order = c.given("n"), c.given("others"), c.place("d"), c.place("order", "i64")
    state, info, values = c.place("state"), c.place("info", "i32"), c.place("values")
    with c.count(0, n) as loop:
        found = d[loop.index]
        d[loop.index] = -abs(found)
        if vectors:
            with c.when(found < 0.0), c.count(0, c.up(n), step=c.width) as r:
                column = c.place("y").by(loop.index * others)
                column.write(r.index, -column.vector(r.index))
    ascending(c, d, n, order)
    with c.count(n, c.given("columns")) as loop:
        order[loop.index] = loop.index
    with c.count(0, n) as loop:
        values[loop.index] = abs(d[order[loop.index]]) * state[0]
    info[0] = state[1].same(1.0).pick(info[0], -4)
    with c.when(info[0].differs(0)):
        fail(c, values, n)


def write_take_columns(c: Code) -> None:
    """The routine that takes columns out of scratch in order."""
    rows, columns = c.given("rows"), c.given("columns")
    take(c, c.place("source"), c.given("stride"), c.place("target"), rows, columns, c.place("order", "i64"))


def write_take_rows(c: Code) -> None:
    """The routine that takes columns out of scratch in order, as rows."""
    rows, columns = c.given("rows"), c.given("columns")
    take_transposed(c, c.place("source"), c.given("stride"), c.place("target"), rows, columns, c.place("order", "i64"))


def write_failed(c: Code) -> None:
    """The routine that leaves no number in vectors that were not found."""
    with c.when(c.place("info", "i32")[0].differs(0)):
        fail(c, c.place("u"), c.given("us"))
        fail(c, c.place("vt"), c.given("vts"))


def _fits(i: HloInstruction) -> bool:
    rows, columns = array_of(i.operands[0]).dimensions[-2:]
    mode, n = lapack_options(i).get("mode"), min(rows, columns)
    if not is_small(i):
        return False
    if mode == ord("N"):
        return has_results(i, (rows, columns), (n,), None, None, ())
    if mode == ord("A"):
        return has_results(i, (rows, columns), (n,), (rows, rows), (columns, columns), ())
    return mode == ord("S") and has_results(i, (rows, columns), (n,), (rows, n), (n, columns), ())


def _sizes(i: HloInstruction) -> _Sizes:
    rows, columns = array_of(i.operands[0]).dimensions[-2:]
    return _Sizes.of(rows, columns, lapack_options(i)["mode"])


def nanoseconds(i: HloInstruction) -> float:
    """The time of one matrix, roughly."""
    s = _sizes(i)
    work = s.m * s.n * (2 * s.n + s.lefts) * array_of(i.operands[0]).element_type.byte_size
    return 300.0 + 60.0 * s.n * s.n + work / 40


NATIVE["gesdd"] = NATIVE["gesvd"] = Native(
    emit_gesdd,
    operands=(2,),
    results=(2, 1, 2, 2, 0),
    nanoseconds=nanoseconds,
    fits=_fits,
    overwrites=(0,),
    scratch=lambda i: _sizes(i).room(array_of(i.operands[0]).element_type).bytes,
)
