"""Cholesky factors, LU factors and triangular systems of small matrices, those of a batch side by side (see side_by_side.py)."""

from __future__ import annotations

from collections.abc import Callable

from xlanb.codegen.function import Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import parameters
from xlanb.cpu.emitters.linalg.routine import (
    CUSTOM_CALLS,
    LINE,
    OPCODES,
    Call,
    Signature,
    Way,
    element_type,
    size_of,
)
from xlanb.cpu.emitters.linalg.side_by_side import (
    Element,
    Interleaved,
    SideBySide,
    least_matrices,
    room_behind,
    vectors_bytes,
)
from xlanb.cpu.emitters.linalg.systems import system_of, system_size
from xlanb.cpu.emitters.linalg.table import (
    cholesky_is_upper,
    cholesky_signature,
    emit_cholesky_finish,
    emit_potrf_failed,
    getrf_signature,
    potrf_is_upper,
    potrf_signature,
    trsm_signature,
)
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

POTRF = parameters("a l info scratch", "n count down along", attributes="")
GETRF = parameters("a lu pivots info scratch rows", "m n steps count", attributes="")
TRSM = parameters("a b x s t", "n m count corner down along start step side unit conjugated", attributes="")


def _way(
    signature: Callable[[HloInstruction], Signature | None],
    emit: Callable[[Call], None],
    elements: Callable[[HloInstruction], tuple[int, int]],
    operations: Callable[[HloInstruction], float],
    in_place: int = 0,
) -> Way:
    """A way side by side; `elements` are those of the interleaved arrays of a matrix, `operations` its multiplications and additions."""
    return Way(
        signature,
        emit,
        lambda i: 60.0 + operations(i) * (4 if element_type(i).is_complex else 1),
        lambda i: LINE + sum(vectors_bytes(element_type(i), n) for n in elements(i)),
        (in_place,),
        copied=False,
        together=lambda i: least_matrices(element_type(i), sum(elements(i)), min(size_of(i))),
    )


# -- Cholesky factors -----------------------------------------------------------------------------------------------


def _emit_potrf(call: Call) -> None:
    upper = potrf_is_upper(call.instruction)
    _emit_factor(call, call.results[1], upper=upper)
    emit_potrf_failed(call, call.results[1], upper=upper)


def _emit_cholesky(call: Call) -> None:
    info = room_behind(call, _order(call.instruction) ** 2)
    _emit_factor(call, info, upper=cholesky_is_upper(call.instruction))
    emit_cholesky_finish(call, info)


def _emit_factor(call: Call, info: Value, *, upper: bool) -> None:
    n = _order(call.instruction)
    steps = (n, 1) if upper else (1, n)
    given = (call.operands[0], call.results[0], info, call.room(), n, call.count, *steps)
    call.routine("potrf.small", lambda f: _Factor(f, call.type).emit(), POTRF, *given)


class _Factor(SideBySide):
    """The routine of Cholesky factors; `down` and `along` are the steps from row to row and from column to column."""

    def emit(self) -> None:
        a, factor, info, scratch, self.n, count, self.down, self.along = (self.f.argument(p) for p in POTRF)

        def few(first: Value, some: Value) -> None:
            size = self.n * self.n
            failed = self._columns(self.take(a, first, some, size, scratch))
            self.put(factor, first, some, size, scratch)
            self.put_numbers(info, first, some, failed)

        self.each(count, few)

    def _columns(self, a: Interleaved) -> Value:
        """Factor in place, column by column; gives info."""
        f = self.f
        with f.carried(self.n, [self.none()], guarded=True) as column:
            j, info = f.value(column.index), column.values[0]
            own, below = j * self.along, j + 1
            diagonal = own + j * self.down
            pivot, *others = a.get(diagonal)
            bad = (pivot <= 0.0) & info.equals(0)
            column.next = [bad.select(self.everywhere(below), info)]
            root = pivot.sqrt()
            a.set(diagonal, (root, *(self.zeros for _ in others)))
            inverse = self.ones / root
            with f.loop(self.n, below, guarded=True) as i:
                at = own + f.value(i) * self.down
                a.set(at, self.scaled(a.get(at), inverse))
            with f.loop(self.n, below, guarded=True) as k:
                self._subtract(a, own, f.value(k))
        return column.values[0]

    def _subtract(self, a: Interleaved, own: Value, k: Value) -> None:
        """Subtract from column k, from row k on, what the column at `own` makes of it."""
        f, other = self.f, k * self.along
        factor = self.adjoint(a.get(own + k * self.down))
        with f.loop(self.n, k, guarded=True) as i:
            row = f.value(i) * self.down
            a.set(other + row, self.minus(a.get(other + row), a.get(own + row), factor))


# -- LU factors -----------------------------------------------------------------------------------------------------


def _emit_getrf(call: Call) -> None:
    m, n = size_of(call.instruction)
    given = (call.operands[0], *call.results, call.room(), room_behind(call, m * n), m, n, min(m, n), call.count)
    call.routine("getrf.small", lambda f: _Pivoted(f, call.type).emit(), GETRF, *given)


class _Pivoted(SideBySide):
    """The routine of LU factors, whose pivots differ from lane to lane."""

    def emit(self) -> None:
        a, factors, pivots, info, scratch, rows, self.m, self.n, steps, count = (self.f.argument(p) for p in GETRF)

        def few(first: Value, some: Value) -> None:
            size = self.m * self.n
            given = self.take(a, first, some, size, scratch)
            with self.f.carried(steps, [self.none()], guarded=True) as step:
                step.next = [self._column(given, Pointer(rows, I32), self.f.value(step.index), step.values[0])]
            self.put(factors, first, some, size, scratch)
            self.put_integers(pivots, first, some, steps, rows)
            self.put_numbers(info, first, some, step.values[0])

        self.each(count, few)

    def _column(self, a: Interleaved, rows: Pointer, k: Value, info: Value) -> Value:
        """Column k: exchange rows, divide, and subtract from those right of it; gives info."""
        f, own, below = self.f, k * self.m, k + 1
        where = self._largest(a, own, k)
        rows.store(k * self.lanes, where + 1)
        self._exchange(a, k, where)
        pivot = a.get(own + k)
        is_zero = self.size(pivot).equals(0.0)
        divisor = self.chosen(is_zero, self.one(), pivot)
        inverse = self.inverse(divisor) if self.parts == 2 else None
        with f.loop(self.m, below, guarded=True) as i:
            at = own + f.value(i)
            x = a.get(at)
            a.set(at, (x[0] / divisor[0],) if inverse is None else self.times(x, inverse))
        with f.loop(self.n, below, guarded=True) as j:
            column = f.value(j) * self.m
            factor = a.get(column + k)
            with f.loop(self.m, below, guarded=True) as i:
                row = f.value(i)
                a.set(column + row, self.minus(a.get(column + row), a.get(own + row), factor))
        return (is_zero & info.equals(0)).select(self.everywhere(below), info)

    def _exchange(self, a: Interleaved, k: Value, where: Value) -> None:
        """Exchange row k with the row that `where` names, lane by lane."""
        f = self.f
        with f.loop(self.m, k + 1, guarded=True) as i:
            here = where.equals(self.everywhere(i))
            with f.loop(self.n, guarded=True) as j:
                column = f.value(j) * self.m
                places = column + k, column + f.value(i)
                x, y = (a.get(p) for p in places)
                a.set(places[0], self.chosen(here, y, x))
                a.set(places[1], self.chosen(here, x, y))

    def _largest(self, a: Interleaved, own: Value, k: Value) -> Value:
        """The rows of the largest elements of a column from row k on, the first of several."""
        start = [self.size(a.get(own + k)), self.everywhere(k)]
        with self.f.carried(self.m, start, k + 1, guarded=True) as row:
            found = self.size(a.get(own + self.f.value(row.index)))
            larger = found > row.values[0]
            row.next = [larger.select(found, row.values[0]), larger.select(self.everywhere(row.index), row.values[1])]
        return row.values[1]


# -- triangular systems ---------------------------------------------------------------------------------------------


def _emit_trsm(call: Call) -> None:
    """Solve by steps that make every system t y = c for a lower triangular t."""
    i, system = call.instruction, system_of(call.instruction)
    n, m = system_size(i, system)
    transposed = system.transposed == system.left  # t is op(a) from the left, its transpose from the right
    down, along = (n, 1) if transposed else (1, n)
    step, side = (1, n) if system.left else (m, 1)
    corner, start = 0, 0
    if system.forward != system.left:  # upper triangular: from the last to the first
        corner, start = (n - 1) * (n + 1), (n - 1) * step
        down, along, step = -down, -along, -step
    places = (*call.operands, call.results[0], call.room(), room_behind(call, n * n))
    numbers = (n, m, call.count, corner, down, along, start, step, side, int(system.unit), int(system.conjugated))
    call.routine("trsm.small", lambda f: _Solve(f, call.type).emit(), TRSM, *places, *numbers)


class _Solve(SideBySide):
    """The routine of triangular systems: element (p, q) of t is corner + p down + q along of a, element (p, r) of y is start + p step + r side of x."""

    def emit(self) -> None:
        self.p = dict(zip([p.name for p in TRSM], (self.f.argument(p) for p in TRSM), strict=True))
        p, n = self.p, self.p["n"]

        def few(first: Value, some: Value) -> None:
            a = self.take(p["a"], first, some, n * n, p["s"])
            x = self.take(p["b"], first, some, n * p["m"], p["t"])
            with self.f.loop(n, guarded=True) as row:
                self._row(a, x, self.f.value(row))
            self.put(p["x"], first, some, n * p["m"], p["t"])

        self.each(p["count"], few)

    def _row(self, a: Interleaved, x: Interleaved, row: Value) -> None:
        """Solve for row `row` of y and subtract what it makes of those after it."""
        f, p = self.f, self.p
        column, own = p["corner"] + row * p["along"], p["start"] + row * p["step"]
        diagonal = self._element(a, column + row * p["down"])
        inverse = self.inverse(self.chosen(p["unit"].equals(1), self.one(), diagonal))
        with f.loop(p["m"], guarded=True) as r:
            at = own + f.value(r) * p["side"]
            x.set(at, self.times(x.get(at), inverse))
        with f.loop(p["n"], row + 1, guarded=True) as q:
            factor = self._element(a, column + f.value(q) * p["down"])
            other = p["start"] + f.value(q) * p["step"]
            with f.loop(p["m"], guarded=True) as r:
                across = f.value(r) * p["side"]
                x.set(other + across, self.minus(x.get(other + across), x.get(own + across), factor))

    def _element(self, a: Interleaved, index: Ix) -> Element:
        """An element of a, conjugated if asked for."""
        found = a.get(index)
        return found if self.parts == 1 else self.chosen(self.p["conjugated"].equals(1), self.adjoint(found), found)


# -- the tables -----------------------------------------------------------------------------------------------------


def _order(i: HloInstruction) -> int:
    return size_of(i)[1]


def _cholesky_operations(i: HloInstruction) -> float:
    n = _order(i)
    return n * (n + 10) * 1.5 + n**3 / 6


def _lu_operations(i: HloInstruction) -> float:
    m, n = size_of(i)
    return m * (n + 10) * 2 + min(m, n) * m * n / 2


def _lu_elements(i: HloInstruction) -> tuple[int, int]:
    m, n = size_of(i)
    return m * n, min(m, n)


def _trsm_elements(i: HloInstruction) -> tuple[int, int]:
    n, m = system_size(i, system_of(i))
    return n * n, n * m


def _trsm_operations(i: HloInstruction) -> float:
    n, m = system_size(i, system_of(i))
    return n * (n + 2 * m) * 1.5 + n * n * m / 2


def _square(i: HloInstruction) -> tuple[int, int]:
    return _order(i) ** 2, 0


CUSTOM_CALLS["potrf"].insert(0, _way(potrf_signature, _emit_potrf, _square, _cholesky_operations))
OPCODES[Op.CHOLESKY].insert(0, _way(cholesky_signature, _emit_cholesky, _square, _cholesky_operations))
CUSTOM_CALLS["getrf"].insert(0, _way(getrf_signature, _emit_getrf, _lu_elements, _lu_operations))
for _ways in (CUSTOM_CALLS["trsm"], OPCODES[Op.TRIANGULAR_SOLVE]):
    _ways.insert(0, _way(trsm_signature, _emit_trsm, _trsm_elements, _trsm_operations, in_place=1))
