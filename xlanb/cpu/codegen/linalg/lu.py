"""getrf: a = P L U by partial pivoting, a few columns at a time from left to right.

A group of columns is first solved with the unit triangle left of it (its part of U), then loses what those columns make of it, then is factored a column at a time: the row of
the largest element, the first of several, is exchanged with the row at the diagonal. Rows are exchanged in whole. A column of zeros is left as it is and told in info.
"""

from __future__ import annotations

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native, Together
from xlanb.cpu.codegen.linalg.rank_update import GROUP, emit_pack, emit_update, packed_elements, panels
from xlanb.cpu.codegen.linalg.side_by_side import Interleaved, SideBySide, least_matrices, vectors_bytes
from xlanb.cpu.codegen.linalg.triangular import PADDING, Left, System, emit_left, further, share
from xlanb.cpu.codegen.matmul.shared import moved
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_PANEL = ("ptr %a", "i64 %m", "i64 %width", "i64 %ld", "ptr noalias %pivots", "ptr noalias %info", "i64 %before")
_EXCHANGE = ("ptr %a", "i64 %ld", "i64 %columns", "ptr noalias readonly %pivots", "i64 %count", "i64 %before")
_SMALL = (
    "ptr %a", "i64 %m", "i64 %n", "i64 %steps", "i64 %count", "ptr %lu", "ptr noalias %pivots", "ptr noalias %info", "ptr noalias %scratch",
    "ptr noalias %rows",
)  # fmt: skip
_UNIT_LOWER = System(left=True, lower=True, transposed=False, unit=True)
_SPEED = 40
"""Multiplications and additions a nanosecond, roughly."""


def emit_getrf(call: Call) -> None:
    """Factor the first result in place; the others are LAPACK's pivots and info."""
    m, n = call.size(0)
    a, pivots, info = call.results
    call.f.do(f"store i32 0, ptr {info}")
    for first, width in panels(min(m, n)):
        single = width == min(m, n)
        panel = call.address(a, first * (m + 1))
        here = moved(call.f, pivots, str(4 * first)) if first else pivots
        columns = n if single else width
        call.routine(
            "getrf", lambda f: _Panel(f, call.type).emit(), _PANEL, panel, m - first, columns, m, here, info, first
        )
        if not single:
            _exchange(call, call.address(a, first), m, first, (here, width, first))
            _emit_right(call, (m, n), a, pivots, (first, width))


def _emit_right(call: Call, size: tuple[int, int], a: str, pivots: str, panel: tuple[int, int]) -> None:
    """What a panel makes of the columns right of it, which threads may share."""
    (m, n), (first, width) = size, panel
    below, right = m - first - width, n - first - width
    if right == 0:
        return
    top = call.address(a, first * (m + 1))
    packed = width + PADDING
    if below:
        emit_pack(call, call.address(top, width), m, below, width, call.address(call.scratch, packed))
    cost = GROUP * (40 + (below + width) * width / _SPEED)
    with call.parts(-(-right // GROUP), nanoseconds=cost) as (low, high):
        columns = share(call, low, high, right)
        begin = further(call, call.address(a, first + (first + width) * m), low, GROUP * m)
        here = moved(call.f, pivots, str(4 * first)) if first else pivots
        _exchange(call, begin, m, columns, (here, width, first))
        source = call.address(a, first * (m + 1))
        emit_left(call, _UNIT_LOWER, (width, columns), (source, m), (begin, m), call.scratch)
        if below:
            out = call.address(begin, width)
            emit_update(call, call.address(call.scratch, packed), below, columns, width, begin, (1, m), out, m)


def _exchange(call: Call, a: str, ld: int, columns: Ix, pivots: tuple[str, int, int]) -> None:
    """Exchange rows of some columns as (pivots, number, columns before) tell."""
    if columns != 0:
        call.routine(
            "exchange", lambda f: _Panel(f, call.type).exchange(), _EXCHANGE, a, ld, columns, pivots[0], *pivots[1:]
        )


class _Panel:
    """The routine: all columns of an (m, width) matrix, `before` of whose rows and columns are factored and lie above and left of it."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.c = Columns(f, t)
        self.index = f"i{t.bits}"

    def emit(self) -> None:
        f, c = self.f, self.c
        so_far = f.let("load i32, ptr %info")
        with f.carried(c.rounds("%width", c.width), [("i32", so_far)], guarded=True) as loop:
            first = c.index("mul", loop.index, c.width)
            known = c.least(first, "%m")
            self._apply(first, known)
            end = c.least(c.index("add", first, c.width), "%width")
            last = c.least(end, "%m")
            with f.carried(last, [("i32", loop.values[0])], first, guarded=True) as column:
                column.next = [self._column(str(column.index), first, end, column.values[0])]
            pivots = f.let(f"getelementptr i32, ptr %pivots, i64 {first}")
            count = c.index("sub", last, first)
            above = c.index("add", first, "%before")
            for begin, stop in (("0", first), (end, "%width")):
                self._exchange_all(
                    c.at("%a", c.index("add", c.index("mul", begin, "%ld"), first)),
                    c.index("sub", stop, begin), (pivots, count, above),
                )  # fmt: skip
            loop.next = column.values
        f.do(f"store i32 {loop.values[0]}, ptr %info")

    def exchange(self) -> None:
        """The routine that exchanges rows."""
        self._exchange_all("%a", "%columns", ("%pivots", "%count", "%before"))

    def _apply(self, first: str, known: str) -> None:
        """What the columns before make of a group: its part of U, and what is left of the rows below."""
        f, c = self.f, self.c
        numbers = c.column_numbers(first, "%width")
        offsets = c.steps(numbers, "%ld")
        left = Left(f, c.t, lda="%ld", n=known, b="%a", inverses="")
        with f.loop(c.rounds(known, c.lanes), guarded=True) as block:
            left.block(c.index("mul", block, c.lanes), offsets)
        rest = c.index("sub", "%m", known)
        rounds = f.let(f"select i1 {f.let(f'icmp eq i64 {first}, 0')}, i64 0, i64 {c.rounds(rest, c.lanes)}")
        with f.loop(rounds, guarded=True) as block:
            row = c.index("add", known, c.index("mul", block, c.lanes))
            mask = c.v.first(c.index("sub", "%m", row))
            here = [c.at("%a", c.index("add", row, at)) for at in offsets]
            tile = c.load_tile(here, mask)
            c.store_tile(here, c.update(tile, mask, (c.at("%a", row), "%ld"), ("%a", 1), offsets, known), mask)

    def _column(self, k: str, first: str, end: str, info: str) -> str:
        """Column k of a group that begins at `first`: exchange, divide, and take from those of the group right of it; gives info."""
        f, c = self.f, self.c
        column = c.at("%a", c.index("mul", k, "%ld"))
        best = self._largest(column, k)
        number = c.index("add", c.index("add", best, "%before"), 1)
        at = f.let(f"getelementptr i32, ptr %pivots, i64 {k}")
        f.do(f"store i32 {f.let(f'trunc i64 {number} to i32')}, ptr {at}")
        with f.loop(end, first, guarded=True) as j:
            self._swap(c.at("%a", c.index("mul", j, "%ld")), k, best)
        pivot = c.scalar(c.at(column, k))
        is_zero = f.let(f"fcmp oeq {c.element} {pivot}, 0.0")
        divisor = c.v.splat(f.let(f"select i1 {is_zero}, {c.element} 1.0, {c.element} {pivot}"))
        below = c.index("add", k, 1)
        with f.loop(c.rounds(c.index("sub", "%m", below), c.lanes), guarded=True) as block:
            row = c.index("add", below, c.index("mul", block, c.lanes))
            mask = c.v.first(c.index("sub", "%m", row))
            here = c.at(column, row)
            factor = f.let(f"fdiv {c.v.kind} {c.load(here, mask)}, {divisor}")
            c.store(here, factor, mask)
            with f.loop(end, below, guarded=True) as j:
                other = c.at("%a", c.index("mul", j, "%ld"))
                place = c.at(other, row)
                c.store(place, c.minus(c.load(place, mask), factor, c.v.broadcast(c.t, c.at(other, k), 0)), mask)
        counts = f.both(is_zero, f.let(f"icmp eq i32 {info}, 0"))
        number = f.let(f"trunc i64 {c.index('add', below, '%before')} to i32")
        return f.let(f"select i1 {counts}, i32 {number}, i32 {info}")

    def _largest(self, column: str, k: str) -> str:
        """The row from k on with the largest element of a column by size, the first of several; a NaN counts where it is the first of all only."""
        f, c, n = self.f, self.c, self.c.lanes
        kind, rows = c.v.kind, f"<{n} x {self.index}>"
        suffix = f"v{n}{'f32' if c.element == 'float' else 'f64'}"
        numbers = f"<{', '.join(f'{self.index} {lane}' for lane in range(n))}>"
        nothing = f"<{', '.join([f'{c.element} -1.0'] * n)}>"
        start = [(kind, nothing), (rows, "zeroinitializer")]
        with f.carried(c.rounds(c.index("sub", "%m", k), n), start, guarded=True) as loop:
            so_far, where = loop.values
            row = c.index("add", k, c.index("mul", loop.index, n))
            mask = c.v.first(c.index("sub", "%m", row))
            size = f.call(kind, f"llvm.fabs.{suffix}", (kind, c.load(c.at(column, row), mask)))
            larger = c.both(mask, f.let(f"fcmp ogt {kind} {size}, {so_far}"))
            here = f.let(f"add {rows} {numbers}, {self._splat(row)}")
            loop.next = [
                f.let(f"select <{n} x i1> {larger}, {kind} {size}, {kind} {so_far}"),
                f.let(f"select <{n} x i1> {larger}, {rows} {here}, {rows} {where}"),
            ]
        so_far, where = loop.values
        largest = f.call(c.element, f"llvm.vector.reduce.fmax.{suffix}", (kind, so_far))
        is_largest = f.let(f"fcmp oeq {kind} {so_far}, {c.v.splat(largest)}")
        none = f"<{', '.join([f'{self.index} -1'] * n)}>"
        places = f.let(f"select <{n} x i1> {is_largest}, {rows} {where}, {rows} {none}")
        first = f.call(self.index, f"llvm.vector.reduce.umin.v{n}{self.index}", (rows, places))
        wide = first if self.index == "i64" else f.let(f"zext i32 {first} to i64")
        own = c.scalar(c.at(column, k))
        return f.let(f"select i1 {f.let(f'fcmp uno {c.element} {own}, {own}')}, i64 {k}, i64 {wide}")

    def _splat(self, row: str) -> str:
        """A row's number in all lanes."""
        f, kind = self.f, f"<{self.c.lanes} x {self.index}>"
        value = row if self.index == "i64" else f.let(f"trunc i64 {row} to i32")
        one = f.let(f"insertelement {kind} poison, {self.index} {value}, i64 0")
        return f.let(f"shufflevector {kind} {one}, {kind} poison, <{self.c.lanes} x i32> zeroinitializer")

    def _exchange_all(self, a: str, columns: Ix, pivots: tuple[str, Ix, Ix]) -> None:
        """Exchange rows 0, 1, ... of some columns with those that (pivots, their number, what is to be taken off) tell."""
        f, c = self.f, self.c
        with f.loop(columns, guarded=True) as j:
            column = c.at(a, c.index("mul", j, "%ld"))
            with f.loop(pivots[1], guarded=True) as k:
                number = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {pivots[0]}, i64 {k}')}")
                row = c.index("sub", c.index("sub", f.let(f"zext i32 {number} to i64"), 1), pivots[2])
                self._swap(column, str(k), row)

    def _swap(self, column: str, a: str, b: str) -> None:
        """Exchange two elements."""
        c = self.c
        places = c.at(column, a), c.at(column, b)
        values = [c.scalar(p) for p in places]
        for p, v in zip(places, reversed(values), strict=True):
            c.set(p, v)


def _emit_together(call: Call) -> None:
    m, n = call.size(0)
    rows = call.address(call.scratch, vectors_bytes(call.type, m * n) // call.type.byte_size)
    call.routine(
        "getrf.small",
        lambda f: _Small(f, call.type).emit(),
        _SMALL,
        call.operands[0], m, n, min(m, n), call.count, *call.results, call.scratch, rows,
    )  # fmt: skip


class _Small(SideBySide):
    """The routine for small matrices side by side, whose pivots differ from lane to lane."""

    def emit(self) -> None:
        self.each(self._factor)

    def _factor(self, first: str, count: str) -> None:
        f, c = self.f, self.c
        size = c.index("mul", "%m", "%n")
        a = self.take("%a", first, count, size, "%scratch")
        with f.carried("%steps", [(self.integers, "zeroinitializer")], guarded=True) as step:
            step.next = [self._column(a, str(step.index), step.values[0])]
        self.put("%lu", first, count, size, "%scratch")
        self.scatter(self.matrices("%pivots", first, count, "%steps", 32), "%steps", "%rows", 32)
        self.numbers(step.values[0], "%info", first, count)

    def _column(self, a: Interleaved, k: str, info: str) -> str:
        """Column k: exchange, divide, and take from those right of it; gives info."""
        f, c = self.f, self.c
        kind, own, below = c.v.kind, c.index("mul", k, "%m"), c.index("add", k, 1)
        where = self._largest(a, own, k)
        at = f.let(f"getelementptr {self.integers}, ptr %rows, i64 {k}")
        number = f.let(f"add {self.integers} {where}, {self._ones()}")
        f.do(f"store {self.integers} {number}, ptr {at}, align 4")
        with f.loop("%m", below, guarded=True) as i:
            here = f.let(f"icmp eq {self.integers} {where}, {self.splat(i)}")
            with f.loop("%n", guarded=True) as j:
                column = c.index("mul", j, "%m")
                places = c.index("add", column, k), c.index("add", column, i)
                x, y = (a.get(p) for p in places)
                a.set(places[0], self.chosen(here, y, x))
                a.set(places[1], self.chosen(here, x, y))
        pivot = a.get(c.index("add", own, k))
        is_zero = f.let(f"fcmp oeq {kind} {self.size(pivot)}, zeroinitializer")
        one = (c.v.splat("1.0"), *("zeroinitializer" for _ in pivot[1:]))
        divisor = self.chosen(is_zero, one, pivot)
        inverse = self.inverse(divisor) if self.parts == 2 else divisor
        with f.loop("%m", below, guarded=True) as i:
            place = c.index("add", own, i)
            x = a.get(place)
            whole = self.parts == 2
            a.set(place, self.times(x, inverse) if whole else (f.let(f"fdiv {kind} {x[0]}, {divisor[0]}"),))
        with f.loop("%n", below, guarded=True) as j:
            column = c.index("mul", j, "%m")
            factor = a.get(c.index("add", column, k))
            with f.loop("%m", below, guarded=True) as i:
                place = c.index("add", column, i)
                a.set(place, self.minus(a.get(place), a.get(c.index("add", own, i)), factor))
        counts = c.both(is_zero, f.let(f"icmp eq {self.integers} {info}, zeroinitializer"))
        return self.choose(counts, self.integers, self.splat(below), info)

    def _largest(self, a: Interleaved, own: str, k: str) -> str:
        """The rows of the largest elements of column k from row k on."""
        f, c = self.f, self.c
        kind = c.v.kind

        def size(i: Ix) -> str:
            return self.size(a.get(c.index("add", own, i)))

        start = [(kind, size(k)), (self.integers, self.splat(k))]
        with f.carried("%m", start, c.index("add", k, 1), guarded=True) as row:
            found = size(row.index)
            larger = f.let(f"fcmp ogt {kind} {found}, {row.values[0]}")
            row.next = [
                self.choose(larger, kind, found, row.values[0]),
                self.choose(larger, self.integers, self.splat(row.index), row.values[1]),
            ]
        return row.values[1]

    def _ones(self) -> str:
        return f"<{', '.join(['i32 1'] * self.c.lanes)}>"


def _enough(i: HloInstruction) -> int:
    m, n = _sizes(i)
    return least_matrices(array_of(i.operands[0]).element_type, m * n, min(m, n))


def _scratch_together(i: HloInstruction) -> int:
    (m, n), t = _sizes(i), array_of(i.operands[0]).element_type
    return vectors_bytes(t, m * n) + vectors_bytes(t, min(m, n))


def _nanoseconds_together(i: HloInstruction) -> float:
    m, n = _sizes(i)
    return 60.0 + m * (n + 10) * 2 + min(m, n) * m * n / 2


def _sizes(i: HloInstruction) -> tuple[int, int]:
    m, n = array_of(i.operands[0]).dimensions[-2:]
    return m, n


def _fits(i: HloInstruction) -> bool:
    return array_of(i, (1,)).dimensions[-1] == min(_sizes(i))


def _scratch(i: HloInstruction) -> int:
    m, n = _sizes(i)
    made = panels(min(m, n))
    if len(made) == 1:
        return 0
    return (made[0][1] + PADDING + packed_elements(m, made[0][1])) * array_of(i.operands[0]).element_type.byte_size


def nanoseconds(m: int, n: int) -> float:
    """The time of one matrix."""
    k = min(m, n)
    return 30.0 + 40.0 * k + k * m * n / (2 * _SPEED)


NATIVE["getrf"] = Native(
    emit_getrf,
    operands=(2,),
    results=(2, 1, 0),
    nanoseconds=lambda i: nanoseconds(*_sizes(i)),
    fits=_fits,
    overwrites=(0,),
    scratch=_scratch,
    together=Together(_emit_together, _enough, _scratch_together, _nanoseconds_together),
)
