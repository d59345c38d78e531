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
from xlanb.cpu.codegen.linalg.side_by_side import SideBySide, least_matrices, vectors_bytes
from xlanb.cpu.codegen.linalg.turning import emit_turned
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_PARAMETERS = ("ptr noalias %a", "i64 %n", "i64 %width", "i64 %ld", "ptr noalias %info", "i64 %before")


_SMALL = (
    "ptr %a",
    "i64 %n",
    "i64 %count",
    "ptr %l",
    "ptr noalias %info",
    "ptr noalias %scratch",
    "i64 %down",
    "i64 %along",
)
_SPEED = 40
"""Multiplications and additions a nanosecond, roughly."""


def nanoseconds(n: int) -> float:
    """The time of one matrix."""
    return 20.0 + 15.0 * n + n**3 / (6 * _SPEED)


def emit_factor(call: Call, n: int, a: str, info: str, *, upper: bool) -> None:
    """Factor a triangle of an (n, n) matrix in place: the upper one is turned in scratch. `info` becomes LAPACK's."""
    call.f.do(f"store i32 0, ptr {info}")
    if not upper:
        _emit_lower(call, n, a, info)
        return
    turned = call.address(call.scratch, _packed(n))
    emit_turned(call, a, n, turned, n, n, lower=True)
    _emit_lower(call, n, turned, info, _packed(n))
    emit_turned(call, call.address(call.scratch, _packed(n)), n, a, n, n, lower=False)


def _emit_lower(call: Call, n: int, a: str, info: str, offset: int = 0) -> None:
    """Factor the lower triangle: a panel of columns, then what it makes of those right of it, by several threads where that pays.

    The matrix stands at `a`, in scratch from element `offset` on if that is not 0.
    """
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
                # What was computed outside is not known within.
                begin = call.address(call.scratch, offset) if offset else a
                out = call.address(begin, (first + width) * (n + 1))
                emit_update_lower(call, call.scratch, rest, width, out, n, part)


def _packed(n: int) -> int:
    """Elements of scratch for panels that are packed."""
    return max((packed_elements(n - first - width, width) for first, width in panels(n)), default=0)


def scratch_bytes(n: int, element: int, *, upper: bool) -> int:
    """The scratch of a thread."""
    return (_packed(n) + (n * n if upper else 0)) * element


class _Lower:
    """The routine: the first `width` columns of n rows (all n, or so many that no group of them is cut).

    `info` becomes the order of the first leading minor that is not positive, where it is 0; `before` columns were factored before.
    A pivot that is NaN is no failure, as in OpenBLAS, which XLA:CPU calls: it and all that follows are NaN.
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
        bad = f.let(f"fcmp ole {self.c.element} {pivot}, 0.0")
        is_there = f.let(f"icmp slt i64 {column}, %n")
        is_first = f.let(f"icmp eq i32 {info}, 0")
        counts = f.both(f.both(bad, is_there), is_first)
        number = f.let(f"trunc i64 {self.c.index('add', self.c.index('add', column, 1), '%before')} to i32")
        return f.let(f"select i1 {counts}, i32 {number}, i32 {info}")


def emit_small(call: Call, n: int, a: str, factor: str, info: str, *, upper: bool) -> None:
    """Factor `call.count` small matrices side by side."""
    call.routine(
        "potrf.small",
        lambda f: _Small(f, call.type).emit(),
        _SMALL,
        a, n, call.count, factor, info, call.scratch, *((n, 1) if upper else (1, n)),
    )  # fmt: skip


class _Small(SideBySide):
    """The routine for small matrices side by side; %down and %along are the steps from row to row and from column to column."""

    def emit(self) -> None:
        self.each(self._factor)

    def _factor(self, first: str, count: str) -> None:
        f, c = self.f, self.c
        size = c.index("mul", "%n", "%n")
        a = self.take("%a", first, count, size, "%scratch")
        kind = c.v.kind
        with f.carried("%n", [(self.integers, "zeroinitializer")], guarded=True) as column:
            j, info = str(column.index), column.values[0]
            own = c.index("mul", j, "%along")
            diagonal = c.index("add", own, c.index("mul", j, "%down"))
            pivot, *others = a.get(diagonal)
            bad = c.both(
                f.let(f"fcmp ole {kind} {pivot}, zeroinitializer"),
                f.let(f"icmp eq {self.integers} {info}, zeroinitializer"),
            )
            below = c.index("add", j, 1)
            column.next = [self.choose(bad, self.integers, self.splat(below), info)]
            root = f.call(kind, f"llvm.sqrt.v{c.lanes}{'f32' if c.element == 'float' else 'f64'}", (kind, pivot))
            a.set(diagonal, (root, *("zeroinitializer" for _ in others)))
            inverse = f.let(f"fdiv {kind} {c.v.splat('1.0')}, {root}")
            with f.loop("%n", below, guarded=True) as i:
                at = c.index("add", own, c.index("mul", i, "%down"))
                a.set(at, self.scaled(a.get(at), inverse))
            with f.loop("%n", below, guarded=True) as k:
                other = c.index("mul", k, "%along")
                factor = self.adjoint(a.get(c.index("add", own, c.index("mul", k, "%down"))))
                with f.loop("%n", k, guarded=True) as i:
                    row = c.index("mul", i, "%down")
                    at = c.index("add", other, row)
                    a.set(at, self.minus(a.get(at), a.get(c.index("add", own, row)), factor))
        self.put("%l", first, count, size, "%scratch")
        self.numbers(column.values[0], "%info", first, count)


def enough(i: HloInstruction) -> int:
    """How many matrices must be there to be worth doing side by side."""
    n = array_of(i.operands[0]).dimensions[-1]
    return least_matrices(array_of(i.operands[0]).element_type, n * n, n)


def scratch_together(i: HloInstruction) -> int:
    """The scratch of matrices side by side."""
    a = array_of(i.operands[0])
    return vectors_bytes(a.element_type, a.dimensions[-1] ** 2)


def nanoseconds_together(n: int) -> float:
    """The time of a few matrices side by side."""
    return 60.0 + n * (n + 10) * 1.5 + n**3 / 6


def _n(i: HloInstruction) -> int:
    return array_of(i.operands[0]).dimensions[-1]


def _is_upper(i: HloInstruction) -> bool:
    return lapack_options(i).get("uplo") == ord("U")


def _fits(i: HloInstruction) -> bool:
    return array_of(i.operands[0]).dimensions[-2] == _n(i) and lapack_options(i).get("uplo") in (ord("L"), ord("U"))


def _emit(call: Call) -> None:
    emit_factor(call, _n(call.instruction), *call.results, upper=_is_upper(call.instruction))


def _emit_together(call: Call) -> None:
    emit_small(call, _n(call.instruction), call.operands[0], *call.results, upper=_is_upper(call.instruction))


NATIVE["potrf"] = Native(
    _emit,
    operands=(2,),
    results=(2, 0),
    nanoseconds=lambda i: nanoseconds(_n(i)),
    fits=_fits,
    overwrites=(0,),
    scratch=lambda i: scratch_bytes(_n(i), array_of(i.operands[0]).element_type.byte_size, upper=_is_upper(i)),
    together=Together(
        _emit_together,
        matrices=enough,
        scratch=scratch_together,
        nanoseconds=lambda i: nanoseconds_together(_n(i)),
    ),
)
