"""trsm: op(a) x = b, or x op(a) = b, for a triangular a; the other triangle is not read.

From the right, columns of x are solved from the first to the last (or back, by steps below zero): a vector of rows at a time, a few columns in registers. From the left,
rows are: a tile of x loses what the rows before it make of it, then its lanes are solved one after the other. What has to be turned for that is turned in scratch.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native, Together
from xlanb.cpu.codegen.linalg.rank_update import GROUP, LANES, emit_pack, emit_update, packed_elements, panels
from xlanb.cpu.codegen.linalg.side_by_side import Interleaved, SideBySide, Value, least_matrices, vectors_bytes
from xlanb.cpu.codegen.linalg.turning import emit_turned
from xlanb.cpu.codegen.matmul.shared import moved
from xlanb.evaluator.lapack import lapack_options
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

LEFT = (
    "ptr noalias %a",
    "i64 %lda",
    "i64 %n",
    "ptr noalias %b",
    "i64 %ldb",
    "i64 %m",
    "ptr noalias %inverses",
    "i1 %unit",
)
RIGHT = ("ptr noalias %x", "i64 %ldx", "i64 %m", "i64 %n", "ptr noalias %c", "i64 %down", "i64 %along", "i1 %unit")
_FEW = 2 * GROUP
"""Columns of right-hand sides that are few."""
PADDING = 16
"""Numbers behind the inverses of the diagonal, so that a vector of them can be read."""


@dataclass(frozen=True)
class System:
    """Which of the systems it is."""

    left: bool
    lower: bool
    transposed: bool
    unit: bool
    conjugated: bool = False

    @property
    def forward(self) -> bool:
        """Whether op(a) is lower triangular."""
        return self.lower != self.transposed


def emit_system(call: Call, system: System, n: int, m: int, a: str, b: str) -> None:
    """Solve in place of b: an (n, m) matrix from the left, an (m, n) matrix from the right, where a is (n, n)."""
    if system.left:
        _emit_left(call, system, n, m, a, b)
    else:
        _emit_right(call, system, n, m, a, b)


def _emit_left(call: Call, system: System, n: int, m: int, a: str, b: str) -> None:
    """Blocks of rows after each other; threads share the columns of b. What comes from a is packed before."""
    packed, blocks = _diagonals(n, m), _blocks(n, m)
    if system.transposed:
        turned, packed = packed, packed + n * n
        emit_turned(call, a, n, call.address(call.scratch, turned), n, n, lower=system.forward)
    steps = []
    for first, width in blocks if system.forward else reversed(blocks):
        rest = n - first - width if system.forward else first
        steps.append((first, width, rest, packed))
        if rest:
            begin = first + width if system.forward else 0
            source = call.address(call.scratch, turned) if system.transposed else a
            emit_pack(call, call.address(source, begin + first * n), n, rest, width, call.address(call.scratch, packed))
            packed += packed_elements(rest, width)
    groups = -(-m // GROUP)
    with call.parts(groups, nanoseconds=GROUP * nanoseconds(n, m) / m) as (low, high):
        columns, here = share(call, low, high, m), further(call, b, low, GROUP * n)
        source = call.address(call.scratch, turned) if system.transposed else a
        for first, width, rest, at in steps:
            emit_left(
                call,
                system,
                (width, columns),
                (call.address(source, first * (n + 1)), n),
                (further(call, here, 1, first), n),
                call.address(call.scratch, first + first // blocks[0][1] * PADDING),
            )
            if rest:
                out = further(call, here, 1, first + width if system.forward else 0)
                known = further(call, here, 1, first)
                emit_update(call, call.address(call.scratch, at), rest, columns, width, known, (1, n), out, n)


def _blocks(n: int, m: int) -> list[tuple[int, int]]:
    """The panels of a for m columns of b: one where so few columns read it that packing does not pay."""
    return panels(n) if m > _FEW else [(0, n)]


def _diagonals(n: int, m: int) -> int:
    """Elements for the inverses of the diagonal, those of each panel by themselves: threads that are at different panels write them, and what is behind them."""
    return n + len(_blocks(n, m)) * PADDING


def share(call: Call, low: Ix, high: Ix, m: int) -> Ix:
    """The columns of groups low..high."""
    f = call.f
    return f.sub(_least(f, f.mul(high, GROUP), m), f.mul(low, GROUP))


def _least(f: Function, a: Ix, b: int) -> Ix:
    """The smaller of two numbers."""
    return min(a, b) if isinstance(a, int) else f.call("i64", "llvm.umin.i64", ("i64", a), ("i64", str(b)))


def further(call: Call, pointer: str, count: Ix, elements: int) -> str:
    """An address so many times so many elements further."""
    offset = call.f.mul(count, elements * call.type.byte_size)
    return pointer if offset == 0 else moved(call.f, pointer, str(offset))


def emit_left(
    call: Call, system: System, size: tuple[int, Ix], a: tuple[str, int], b: tuple[str, int], inverses: str
) -> None:
    """The routine of op(a) x = b where op(a) is a: `size` is n and the columns of b, a and b addresses with the steps from column to column."""
    name, left = ("lower", Left) if system.forward else ("upper", LeftBack)
    unit = "true" if system.unit else "false"
    n, m = size
    call.routine(f"trsm.left.{name}", lambda f: left(f, call.type).emit(), LEFT, *a[:1], a[1], n, *b, m, inverses, unit)


def _emit_right(call: Call, system: System, n: int, m: int, a: str, b: str) -> None:
    """Panels of columns after each other; threads share the rows of b."""
    down, along = (n, 1) if system.transposed else (1, n)
    x, ldx, c = 0, m, 0
    if system.forward:  # the last column first
        x, c = (n - 1) * m, (n - 1) * (n + 1)
        ldx, down, along = -m, -down, -along
    tiles = -(-m // LANES)
    with call.parts(tiles, nanoseconds=LANES * nanoseconds(n, m) / m) as (low, high):
        f = call.f
        first_row = f.mul(low, LANES)
        rows = f.sub(_least(f, f.mul(high, LANES), m), first_row)
        here = further(call, b, low, LANES)
        # one panel is not packed, and has no scratch
        packed = further(call, call.scratch, low, LANES * panels(n)[0][1]) if call.scratch else ""
        for first, width in panels(n):
            diagonal = call.address(a, c + first * (down + along))
            panel = further(call, here, 1, x + first * ldx)
            unit = "true" if system.unit else "false"
            call.routine(
                "trsm.right",
                lambda f: Right(f, call.type).emit(),
                RIGHT,
                panel,
                ldx,
                rows,
                width,
                diagonal,
                down,
                along,
                unit,
            )
            rest = n - first - width
            if rest:
                emit_pack(call, panel, ldx, rows, width, packed)
                out = further(call, here, 1, x + (first + width) * ldx)
                emit_update(
                    call, packed, rows, rest, width, call.address(diagonal, width * along), (down, along), out, ldx
                )


class Right:
    """The routine of x c = b for an upper triangular c with steps `down` a column and `along` a row."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.c = Columns(f, t)

    def emit(self) -> None:
        f, c = self.f, self.c
        inverses = f.alloca(c.element, c.width)
        diagonal = c.index("add", "%down", "%along")
        with f.loop(c.rounds("%n", c.width), guarded=True) as group:
            first = c.index("mul", group, c.width)
            numbers = c.column_numbers(first, "%n")
            for j, at in enumerate(c.steps(numbers, diagonal)):
                c.set(c.at(inverses, j), _inverse(c, c.at("%c", at)))
            self._columns(first, numbers, inverses)

    def _columns(self, first: str, numbers: list[str], inverses: str) -> None:
        """Solve a few columns, all rows of them."""
        f, c = self.f, self.c
        columns = [c.at("%x", at) for at in c.steps(numbers, "%ldx")]
        above, before = c.steps(numbers, "%down"), c.steps(numbers, "%along")
        with f.loop(c.rounds("%m", c.lanes), guarded=True) as block:
            row = c.index("mul", block, c.lanes)
            mask = c.v.first(c.index("sub", "%m", row))
            here = [c.at(p, row) for p in columns]
            tile = c.load_tile(here, mask)
            tile = c.update(tile, mask, (c.at("%x", row), "%ldx"), ("%c", "%down"), before, first)
            tile = c.divide(
                tile, lambda k, j: c.at("%c", c.index("add", above[k], before[j])), lambda j: c.at(inverses, j)
            )
            c.store_tile(here, tile, mask)


def _inverse(c: Columns, pointer: str) -> str:
    """One over an element of the diagonal; one where that counts as one."""
    found = c.f.let(f"select i1 %unit, {c.element} 1.0, {c.element} {c.scalar(pointer)}")
    return c.f.let(f"fdiv {c.element} 1.0, {found}")


class Left:
    """The routine of a x = b for a lower triangular a, whose columns are `lda` apart; of a unit triangle where there are no `inverses`."""

    def __init__(
        self,
        f: Function,
        t: PrimitiveType,
        *,
        lda: str = "%lda",
        n: str = "%n",
        b: str = "%b",
        inverses: str = "%inverses",
    ) -> None:
        self.f = f
        self.c = Columns(f, t)
        self.lda, self.n, self.b, self.inverses = lda, n, b, inverses

    def emit(self) -> None:
        f, c = self.f, self.c
        self._invert()
        blocks = c.rounds("%n", c.lanes)
        with f.loop(c.rounds("%m", c.width), guarded=True) as group:
            numbers = c.column_numbers(c.index("mul", group, c.width), "%m")
            offsets = c.steps(numbers, "%ldb")
            with f.loop(blocks, guarded=True) as block:
                self.block(c.index("mul", self._place(block, blocks), c.lanes), offsets)

    def _invert(self) -> None:
        """One over the diagonal, and zeros behind it."""
        f, c = self.f, self.c
        step = c.index("add", "%lda", 1)
        end = c.at("%inverses", "%n")
        c.v.store(c.t, end, 0, c.v.zero(), c.lanes)
        with f.loop("%n", guarded=True) as k:
            c.set(c.at("%inverses", k), _inverse(c, c.at("%a", c.index("mul", k, step))))

    def _place(self, block: Ix, blocks: str) -> Ix:
        """Which block of rows is the next."""
        del blocks
        return block

    def _known(self, row: str) -> tuple[Ix, str]:
        """The rows of x that are known before a block: the first, and their number."""
        return 0, row

    def _order(self) -> list[int]:
        """The lanes of a block as they are solved."""
        return list(range(self.c.lanes))

    def _open(self, k: int, mask: str, left: str) -> str:
        """The lanes of column k of a block that are not yet solved when lane k is."""
        del left
        return self.c.both(mask, self.c.lane_mask(lambda lane: lane > k))

    def block(self, row: str, offsets: list[str]) -> None:
        """A block of rows of a few columns of x."""
        c = self.c
        left = c.index("sub", self.n, row)
        mask = c.v.first(left)
        here = [c.at(self.b, c.index("add", row, at)) for at in offsets]
        first, count = self._known(row)
        a = c.at("%a", c.index("add", row, c.index("mul", first, self.lda)))
        tile = c.update(c.load_tile(here, mask), mask, (a, self.lda), (c.at(self.b, first), 1), offsets, count)
        for k in self._order():
            column = c.index("add", row, k)
            at = c.at("%a", c.index("add", row, c.index("mul", column, self.lda)))
            still = self._open(k, mask, left)
            below = c.load(at, still)
            solved = [c.lane(x, k) for x in tile]
            if self.inverses:
                inverse = c.v.broadcast(c.t, c.at(self.inverses, column), 0)
                solved = [c.times(x, inverse) for x in solved]
            tile = [c.minus_where(still, x, below, y) for x, y in zip(tile, solved, strict=True)]
        if self.inverses:
            inverses = c.load(c.at(self.inverses, row), mask)
            tile = [c.times(x, inverses) for x in tile]
        c.store_tile(here, tile, mask)


class LeftBack(Left):
    """The routine of a x = b for an upper triangular a."""

    def _place(self, block: Ix, blocks: str) -> Ix:
        return self.c.index("sub", self.c.index("sub", blocks, 1), block)

    def _known(self, row: str) -> tuple[Ix, str]:
        first = self.c.index("add", row, self.c.lanes)
        return first, self.c.index("sub", "%n", first)

    def _order(self) -> list[int]:
        return list(reversed(range(self.c.lanes)))

    def _open(self, k: int, mask: str, left: str) -> str:
        c = self.c
        is_there = self.f.let(f"icmp sgt i64 {left}, {k}")
        before = c.both(mask, c.lane_mask(lambda lane: lane < k))
        return self.f.let(f"select i1 {is_there}, <{c.lanes} x i1> {before}, <{c.lanes} x i1> zeroinitializer")


def scratch_bytes(n: int, m: int, system: System, element: int) -> int:
    """The scratch of a thread: from the left what is turned, the inverses of the diagonal and all of a that is packed; from the right a panel of x."""
    if not system.left:
        return packed_elements(m, panels(n)[0][1]) * element if len(panels(n)) > 1 else 0
    packed = sum(
        packed_elements(n - first - width if system.forward else first, width) for first, width in _blocks(n, m)
    )
    return (_diagonals(n, m) + (n * n if system.transposed else 0) + packed) * element


_SMALL = (
    "ptr %a", "ptr %b", "ptr %x", "i64 %n", "i64 %m", "i64 %count", "i64 %corner", "i64 %down", "i64 %along", "i64 %start", "i64 %step", "i64 %side",
    "i1 %unit", "i1 %conjugated", "ptr noalias %s", "ptr noalias %t",
)  # fmt: skip


def emit_small(call: Call, system: System, n: int, m: int, a: str, b: str, x: str) -> None:
    """Solve `call.count` small systems side by side: all become t y = c for a lower triangular t by steps of what stands where."""
    transposed = system.transposed == system.left  # t is op(a) from the left, its transpose from the right
    down, along = (n, 1) if transposed else (1, n)
    step, side = (1, n) if system.left else (m, 1)
    corner, start = 0, 0
    if system.forward != system.left:  # upper triangular: from the last to the first
        corner, start = (n - 1) * (n + 1), (n - 1) * step
        down, along, step = -down, -along, -step
    second = call.address(call.scratch, vectors_bytes(call.type, n * n) // call.type.byte_size)
    unit, conjugated = ("true" if x else "false" for x in (system.unit, system.conjugated))
    call.routine(
        "trsm.small",
        lambda f: _Small(f, call.type).emit(),
        _SMALL,
        a, b, x, n, m, call.count, corner, down, along, start, step, side, unit, conjugated, call.scratch, second,
    )  # fmt: skip


class _Small(SideBySide):
    """The routine for small systems side by side: element (p, q) of t is %corner + p %down + q %along of a, element (p, r) of y is %start + p %step + r %side of x."""

    def emit(self) -> None:
        self.each(self._solve)

    def _solve(self, first: str, count: str) -> None:
        f, c = self.f, self.c
        square, sides = c.index("mul", "%n", "%n"), c.index("mul", "%n", "%m")
        a, x = self.take("%a", first, count, square, "%s"), self.take("%b", first, count, sides, "%t")
        with f.loop("%n", guarded=True) as p:
            column = c.index("add", "%corner", c.index("mul", p, "%along"))
            row = c.index("add", "%start", c.index("mul", p, "%step"))
            diagonal = self._element(a, c.index("add", column, c.index("mul", p, "%down")))
            inverse = self.inverse(
                self._if("%unit", (c.v.splat("1.0"), *("zeroinitializer" for _ in diagonal[1:])), diagonal)
            )
            with f.loop("%m", guarded=True) as r:
                at = c.index("add", row, c.index("mul", r, "%side"))
                x.set(at, self.times(x.get(at), inverse))
            with f.loop("%n", c.index("add", p, 1), guarded=True) as q:
                factor = self._element(a, c.index("add", column, c.index("mul", q, "%down")))
                other = c.index("add", "%start", c.index("mul", q, "%step"))
                with f.loop("%m", guarded=True) as r:
                    across = c.index("mul", r, "%side")
                    at = c.index("add", other, across)
                    x.set(at, self.minus(x.get(at), x.get(c.index("add", row, across)), factor))
        self.put("%x", first, count, sides, "%t")

    def _element(self, a: Interleaved, number: str) -> Value:
        """An element of a, conjugated where that is asked for."""
        found = a.get(number)
        return found if self.parts == 1 else self._if("%conjugated", self.adjoint(found), found)

    def _if(self, condition: str, then: Value, otherwise: Value) -> Value:
        """One of two values, of all lanes."""
        kind = self.c.v.kind
        return tuple(
            self.f.let(f"select i1 {condition}, {kind} {x}, {kind} {y}") for x, y in zip(then, otherwise, strict=True)
        )


def _emit_together(call: Call) -> None:
    i = call.instruction
    emit_small(call, _system(i), *_sizes(i), call.operands[0], call.operands[1], call.results[0])


def enough(t: PrimitiveType, n: int, m: int) -> int:
    """How many systems must be there to be worth doing side by side."""
    return least_matrices(t, n * (n + m), n)


def nanoseconds_together(n: int, m: int) -> float:
    """The time of a few systems side by side."""
    return 60.0 + n * (n + 2 * m) * 1.5 + n * n * m / 2


def scratch_together(t: PrimitiveType, n: int, m: int) -> int:
    """The scratch of systems side by side."""
    return vectors_bytes(t, n * n) + vectors_bytes(t, n * m)


def _system(i: HloInstruction) -> System:
    options = lapack_options(i)
    is_ = {name: options.get(name) for name in ("side", "uplo", "trans_x", "diag")}
    return System(
        left=is_["side"] == ord("L"),
        lower=is_["uplo"] == ord("L"),
        transposed=is_["trans_x"] != ord("N"),
        unit=is_["diag"] == ord("U"),
        conjugated=is_["trans_x"] == ord("C"),
    )


def _fits(i: HloInstruction) -> bool:
    given = lapack_options(i)
    if any(chr(given.get(name, 0)) not in letters for name, letters in _LETTERS.items()):
        return False
    (rows, columns), b = (array_of(o).dimensions[-2:] for o in i.operands)
    return rows == columns == b[0 if _system(i).left else 1]


_LETTERS = {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"}


def nanoseconds(n: int, m: int) -> float:
    """The time of one system of m right-hand sides."""
    return 30.0 + n * (n + 20) * (m + 8) / 100


def _type(i: HloInstruction) -> PrimitiveType:
    return array_of(i.operands[0]).element_type


def _sizes(i: HloInstruction) -> tuple[int, int]:
    rows, columns = array_of(i.operands[1]).dimensions[-2:]
    return (rows, columns) if _system(i).left else (columns, rows)


def _scratch(i: HloInstruction) -> int:
    return scratch_bytes(*_sizes(i), _system(i), array_of(i).element_type.byte_size)


def _emit(call: Call) -> None:
    i = call.instruction
    emit_system(call, _system(i), *_sizes(i), call.operands[0], call.results[0])


NATIVE["trsm"] = Native(
    _emit,
    operands=(2, 2),
    results=(2,),
    nanoseconds=lambda i: nanoseconds(*_sizes(i)),
    fits=_fits,
    overwrites=(1,),
    scratch=_scratch,
    together=Together(
        _emit_together,
        lambda i: enough(_type(i), *_sizes(i)),
        lambda i: scratch_together(_type(i), *_sizes(i)),
        lambda i: nanoseconds_together(*_sizes(i)),
    ),
)
