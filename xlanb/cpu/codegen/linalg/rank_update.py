"""out -= a c for a matrix a of a few columns: what makes factorizations of large matrices quick.

Columns of a large matrix lie so far apart that they meet in the same places of the caches: a is packed first, tile after tile of a vector of rows, each column by column.

    pack     packed[tile, k, lane] = a[tile * lanes + lane, k], zeros beyond the last row
    update   out[:, j] -= sum over k of a[:, k] c[k, j], for columns j of some groups
    lower    the same for the lower triangle of out, where c is the transpose of the packed a itself
"""

from __future__ import annotations

from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.linalg.custom_call import Call
from xlanb.shape import PrimitiveType

GROUP = 8
"""Columns of a group, at most: threads share groups."""
LANES = 16
"""Rows of a tile, at most."""
_PACK = ("ptr noalias readonly %a", "i64 %lda", "i64 %m", "i64 %depth", "ptr noalias %packed")
_UPDATE = (
    "ptr noalias readonly %packed", "i64 %m", "i64 %n", "i64 %depth", "ptr %c", "i64 %down", "i64 %along", "ptr %out", "i64 %ldo",
)  # fmt: skip
_LOWER = ("ptr noalias readonly %packed", "i64 %m", "i64 %depth", "ptr noalias %out", "i64 %ldo", "i64 %lo", "i64 %hi")


_PANEL, _SMALL, _PANELS = 64, 96, 16


def panels(n: int) -> list[tuple[int, int]]:
    """(first column, number of columns) of the panels that a matrix of n columns is factored by: one of a small matrix, a few of a large one."""
    if n <= _SMALL:
        return [(0, n)]
    width = -(-n // (_PANEL * _PANELS)) * _PANEL
    return [(first, min(width, n - first)) for first in range(0, n, width)]


def packed_elements(m: int, depth: int) -> int:
    """Room for a packed matrix."""
    return -(-m // LANES) * LANES * depth


def emit_pack(call: Call, a: str, lda: int, m: Ix, depth: int, packed: str) -> None:
    """Pack an (m, depth) matrix."""
    call.routine("pack", lambda f: _Update(f, call.type).pack(), _PACK, a, lda, m, depth, packed)


def emit_update(
    call: Call, packed: str, m: Ix, n: Ix, depth: int, c: str, steps: tuple[int, int], out: str, ldo: int
) -> None:
    """Update an (m, n) matrix whose columns are `ldo` apart; `steps` are those from row to row of c, and from column to column."""
    call.routine("update", lambda f: _Update(f, call.type).all(), _UPDATE, packed, m, n, depth, c, *steps, out, ldo)


def emit_update_lower(call: Call, packed: str, m: int, depth: int, out: str, ldo: int, part: tuple[Ix, Ix]) -> None:
    """Update the lower triangle of an (m, m) matrix, the groups of GROUP columns from part[0] to part[1]."""
    call.routine("update.lower", lambda f: _Update(f, call.type).lower(), _LOWER, packed, m, depth, out, ldo, *part)


class _Update:
    """The routines."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.c = Columns(f, t)

    def pack(self) -> None:
        """Pack."""
        f, c = self.f, self.c
        with f.loop(c.rounds("%m", c.lanes), guarded=True) as tile:
            row = c.index("mul", tile, c.lanes)
            mask = c.v.first(c.index("sub", "%m", row))
            start = [("ptr", c.at("%a", row)), ("ptr", c.at("%packed", c.index("mul", row, "%depth")))]
            with f.carried("%depth", start, guarded=True) as loop:
                source, target = loop.values
                c.v.store(c.t, target, 0, c.load(source, mask), c.lanes)
                loop.next = [c.at(source, "%lda"), c.at(target, c.lanes)]

    def all(self) -> None:
        """All rows and columns."""
        f, c = self.f, self.c
        with f.loop(c.rounds("%n", c.width), guarded=True) as group:
            numbers = c.column_numbers(c.index("mul", group, c.width), "%n")
            columns = [c.at("%out", at) for at in c.steps(numbers, "%ldo")]
            along = c.steps(numbers, "%along")
            with f.loop(c.rounds("%m", c.lanes), guarded=True) as tile:
                row, mask = self._rows(tile)
                here = [c.at(p, row) for p in columns]
                c.store_tile(here, self._updated(here, row, mask, ("%c", "%down"), along), mask)

    def lower(self) -> None:
        """The lower triangle."""
        f, c = self.f, self.c
        groups = GROUP // c.width
        low, high = (c.index("mul", at, groups) for at in ("%lo", "%hi"))
        with f.loop(c.least(high, c.rounds("%m", c.width)), low, guarded=True) as group:
            first = c.index("mul", group, c.width)
            numbers = c.column_numbers(first, "%m")
            columns = [c.at("%out", at) for at in c.steps(numbers, "%ldo")]
            top = c.index("udiv", first, c.lanes)
            lane = c.index("urem", first, c.lanes)
            begin = c.at("%packed", c.index("add", c.index("mul", top, c.index("mul", "%depth", c.lanes)), lane))
            along = [c.index("sub", n, first) for n in numbers]
            with f.loop(c.rounds("%m", c.lanes), top, guarded=True) as tile:
                row, mask = self._rows(tile)
                here = [c.at(p, row) for p in columns]
                made = self._updated(here, row, mask, (begin, c.lanes), along)
                for p, n, value in reversed(list(zip(here, numbers, made, strict=True))):
                    c.store(p, value, c.both(mask, c.from_lane(c.index("sub", n, row))))

    def _rows(self, tile: Ix) -> tuple[str, str]:
        """The first row of a tile, and the mask of those that there are."""
        row = self.c.index("mul", tile, self.c.lanes)
        return row, self.c.v.first(self.c.index("sub", "%m", row))

    def _updated(self, here: list[str], row: str, mask: str, c: tuple[str, Ix], along: list[str]) -> list[str]:
        columns = self.c
        a = columns.at("%packed", columns.index("mul", row, "%depth"))
        return columns.update(columns.load_tile(here, mask), "", (a, columns.lanes), c, along, "%depth")
