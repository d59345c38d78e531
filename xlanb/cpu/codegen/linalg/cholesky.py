"""potrf: a = L L^T of a positive definite matrix, a few columns at a time from left to right.

Columns j... of the tile at the diagonal lose what the columns before them make of it, then are factored in registers; the rows below follow a vector at a time, each
divided by the transpose of that tile. The other triangle is neither read nor written.
"""

from __future__ import annotations

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native, Together
from xlanb.cpu.codegen.linalg.rank_update import GROUP, emit_pack, emit_update_lower, packed_elements, panels
from xlanb.cpu.codegen.linalg.side_by_side import LARGEST, Interleaved, SideBySide, vectors_bytes
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_PARAMETERS = ("ptr noalias %a", "i64 %n", "i64 %width", "i64 %ld", "ptr noalias %info", "i64 %before")


_SMALL = ("ptr %a", "i64 %n", "i64 %count", "ptr %l", "ptr noalias %info", "ptr noalias %scratch")
_SPEED = 40
"""Multiplications and additions a nanosecond, roughly."""


def nanoseconds(n: int) -> float:
    """The time of one matrix."""
    return 20.0 + 15.0 * n + n**3 / (6 * _SPEED)


def emit_potrf(call: Call) -> None:
    """Factor the lower triangle of the first result in place; the second one is LAPACK's info."""
    n, _ = call.size(0)
    call.f.do(f"store i32 0, ptr {call.results[1]}")
    emit_lower(call, n, call.results[0], call.results[1])


def emit_lower(call: Call, n: int, a: str, info: str) -> None:
    """Factor the lower triangle of an (n, n) matrix: a panel of columns, then what it makes of those right of it, by several threads where that pays."""
    for first, width in panels(n):
        rest = n - first - width
        panel = call.address(a, first * (n + 1))
        call.routine(
            "potrf", lambda f: _Lower(f, call.type).emit(), _PARAMETERS, panel, n - first, width, n, info, first
        )
        if rest:
            emit_pack(call, call.address(panel, width), n, rest, width, call.scratch)
            groups = -(-rest // GROUP)
            with call.parts(groups, nanoseconds=GROUP * (40 + rest * width / _SPEED)) as part:
                out = call.address(a, (first + width) * (n + 1))
                emit_update_lower(call, call.scratch, rest, width, out, n, part)


class _Lower:
    """The routine: the first `width` columns of n rows (all n, or so many that no group of them is cut).

    `info` becomes the order of the first leading minor that is not positive, where it is 0; `before` columns were factored before.
    """

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.c = Columns(f, t)

    def emit(self) -> None:
        f, c = self.f, self.c
        inverses = f.alloca(c.element, c.width)
        so_far = f.let("load i32, ptr %info")
        with f.carried(c.rounds("%width", c.width), [("i32", so_far)], guarded=True) as loop:
            first = c.index("mul", loop.index, c.width)
            loop.next = [self._columns(first, loop.values[0], inverses)]
        f.do(f"store i32 {loop.values[0]}, ptr %info")

    def _columns(self, first: str, info: str, inverses: str) -> str:
        """The columns from `first` on; gives info."""
        f, c = self.f, self.c
        numbers = c.column_numbers(first, "%width")
        columns = [c.at("%a", offset) for offset in c.steps(numbers, "%ld")]
        left = c.index("sub", "%n", first)
        mask = c.v.first(left)
        info = self._diagonal([c.at(p, first) for p in columns], mask, first, numbers, info, inverses)
        rest = c.rounds(c.index("sub", left, c.lanes), c.lanes)
        with f.loop(rest, guarded=True) as block:
            row = c.index("add", first, c.index("mul", c.index("add", block, 1), c.lanes))
            mask = c.v.first(c.index("sub", "%n", row))
            here = [c.at(p, row) for p in columns]
            tile = c.update(c.load_tile(here, mask), mask, (c.at("%a", row), "%ld"), ("%a", "%ld"), numbers, first)
            tile = c.divide(tile, lambda k, j: c.at(columns[k], numbers[j]), lambda j: c.at(inverses, j))
            c.store_tile(here, tile, mask)
        return info

    def _diagonal(self, here: list[str], mask: str, first: str, numbers: list[str], info: str, inverses: str) -> str:
        """The tile at the diagonal, factored."""
        c = self.c
        row = c.at("%a", first)
        tile = c.update(c.load_tile(here, mask), mask, (row, "%ld"), ("%a", "%ld"), numbers, first)
        for j in range(c.width):
            pivot = self.f.let(f"extractelement {c.v.kind} {tile[j]}, i64 {j}")
            info = self._checked(info, pivot, c.index("add", first, j))
            root = self._root(pivot)
            inverse = self.f.let(f"fdiv {c.element} 1.0, {root}")
            c.set(c.at(inverses, j), inverse)
            scaled = c.times(tile[j], c.v.splat(inverse))
            tile[j] = self.f.let(f"insertelement {c.v.kind} {scaled}, {c.element} {root}, i64 {j}")
            for later in range(j + 1, c.width):
                tile[later] = c.minus(tile[later], tile[j], c.lane(tile[j], later))
        for j in reversed(range(c.width)):
            c.store(here[j], tile[j], c.both(mask, c.lane_mask(lambda k, j=j: k >= j)))  # type: ignore[misc]
        return info

    def _root(self, pivot: str) -> str:
        kind = self.c.element
        return self.f.call(kind, f"llvm.sqrt.{'f32' if kind == 'float' else 'f64'}", (kind, pivot))

    def _checked(self, info: str, pivot: str, column: str) -> str:
        """Info after a column: its number from 1 on, where its pivot is the first that is not positive."""
        f = self.f
        bad = f.let(f"fcmp ule {self.c.element} {pivot}, 0.0")
        is_there = f.let(f"icmp slt i64 {column}, %n")
        is_first = f.let(f"icmp eq i32 {info}, 0")
        counts = f.both(f.both(bad, is_there), is_first)
        number = f.let(f"trunc i64 {self.c.index('add', self.c.index('add', column, 1), '%before')} to i32")
        return f.let(f"select i1 {counts}, i32 {number}, i32 {info}")


def _emit_together(call: Call) -> None:
    n, _ = call.size(0)
    call.routine(
        "potrf.small",
        lambda f: _Small(f, call.type).emit(),
        _SMALL,
        call.operands[0], n, call.count, call.results[0], call.results[1], call.scratch,
    )  # fmt: skip


class _Small(SideBySide):
    """The routine for small matrices side by side."""

    def emit(self) -> None:
        self.each(self._factor)

    def _factor(self, first: str, count: str) -> None:
        f, c = self.f, self.c
        size = c.index("mul", "%n", "%n")
        self.gather(self.matrices("%a", first, count, size, self.t.bits), size, "%scratch")
        a = Interleaved(self, "%scratch")
        kind = c.v.kind
        with f.carried("%n", [(self.integers, "zeroinitializer")], guarded=True) as column:
            j, info = str(column.index), column.values[0]
            own = c.index("mul", j, "%n")
            pivot = a.get(c.index("add", own, j))
            bad = c.both(
                f.let(f"fcmp ule {kind} {pivot}, zeroinitializer"),
                f.let(f"icmp eq {self.integers} {info}, zeroinitializer"),
            )
            below = c.index("add", j, 1)
            column.next = [self.choose(bad, self.integers, self.splat(below), info)]
            root = f.call(kind, f"llvm.sqrt.v{c.lanes}{'f32' if c.element == 'float' else 'f64'}", (kind, pivot))
            a.set(c.index("add", own, j), root)
            inverse = f.let(f"fdiv {kind} {c.v.splat('1.0')}, {root}")
            with f.loop("%n", below, guarded=True) as i:
                at = c.index("add", own, i)
                a.set(at, c.times(a.get(at), inverse))
            with f.loop("%n", below, guarded=True) as k:
                other = c.index("mul", k, "%n")
                factor = a.get(c.index("add", own, k))
                with f.loop("%n", k, guarded=True) as i:
                    at = c.index("add", other, i)
                    a.set(at, c.minus(a.get(at), a.get(c.index("add", own, i)), factor))
        self.scatter(self.matrices("%l", first, count, size, self.t.bits), size, "%scratch")
        self.numbers(column.values[0], "%info", first, count)


def _enough(i: HloInstruction) -> int:
    n = array_of(i.operands[0]).dimensions[-1]
    return max(2, n // 4) if n <= LARGEST else 0


def _nanoseconds_together(i: HloInstruction) -> float:
    n = array_of(i.operands[0]).dimensions[-1]
    return 60.0 + n * (n + 10) * 1.5 + n**3 / 6


def _fits(i: HloInstruction) -> bool:
    rows, columns = array_of(i.operands[0]).dimensions[-2:]
    return rows == columns and lapack_options(i).get("uplo") == ord("L")


def _scratch(i: HloInstruction) -> int:
    a = array_of(i.operands[0])
    return (
        max(
            (packed_elements(a.dimensions[-1] - first - width, width) for first, width in panels(a.dimensions[-1])),
            default=0,
        )
        * a.element_type.byte_size
    )


NATIVE["potrf"] = Native(
    emit_potrf,
    operands=(2,),
    results=(2, 0),
    nanoseconds=lambda i: nanoseconds(array_of(i.operands[0]).dimensions[-1]),
    fits=_fits,
    overwrites=(0,),
    scratch=_scratch,
    together=Together(
        _emit_together,
        _enough,
        scratch=lambda i: vectors_bytes(array_of(i.operands[0]).dimensions[-1] ** 2),
        nanoseconds=_nanoseconds_together,
    ),
)
