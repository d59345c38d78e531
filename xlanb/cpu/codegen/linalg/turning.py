"""A triangle turned over the diagonal: into another array, square tile by square tile in registers."""

from __future__ import annotations

from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.linalg.custom_call import Call
from xlanb.cpu.codegen.matmul.lanes import Lanes
from xlanb.cpu.codegen.transpose import turned
from xlanb.shape import PrimitiveType

_PARAMETERS = ("ptr noalias readonly %a", "i64 %lda", "ptr noalias %b", "i64 %ldb", "i64 %n")


def emit_turned(call: Call, a: str, lda: int, b: str, ldb: int, n: int, *, lower: bool) -> None:
    """The lower (or upper) triangle of the (n, n) matrix at b becomes the other one of a; nothing else of it is written."""
    call.routine(
        f"turned.{'lower' if lower else 'upper'}",
        lambda f: _Turned(f, call.type, lower=lower).emit(),
        _PARAMETERS,
        a, lda, b, ldb, n,
    )  # fmt: skip


class _Turned:
    """The routine: tiles at (row, column) of b are those at (column, row) of a."""

    def __init__(self, f: Function, t: PrimitiveType, *, lower: bool) -> None:
        self.f = f
        self.c = Columns(f, t)
        self.lower = lower
        self.bits = PrimitiveType.U32 if t.bits == 32 else PrimitiveType.U64
        self.v = Lanes(f, self.bits, self.c.lanes)

    def emit(self) -> None:
        f, c = self.f, self.c
        blocks = c.rounds("%n", c.lanes)
        with f.loop(blocks, guarded=True) as across:
            first: Ix = across if self.lower else 0
            last: Ix = blocks if self.lower else c.index("add", across, 1)
            with f.loop(last, first, guarded=True) as down:
                self._tile(c.index("mul", down, c.lanes), c.index("mul", across, c.lanes))

    def _tile(self, row: str, column: str) -> None:
        f, c, n = self.f, self.c, self.c.lanes
        source = c.at("%a", c.index("add", column, c.index("mul", row, "%lda")))
        target = c.at("%b", c.index("add", row, c.index("mul", column, "%ldb")))
        rows, columns = c.index("sub", "%n", row), c.index("sub", "%n", column)
        inside = c.v.first(columns)
        found = [
            self.v.load(self.bits, c.at(source, c.index("mul", k, "%lda")), 0, self._if(rows, k, inside))
            for k in range(n)
        ]
        mask = c.v.first(rows)
        numbers = ", ".join(f"i64 {k}" for k in range(n))
        here = f.let(f"add <{n} x i64> <{numbers}>, {self._splat(c.index('sub', row, column))}")
        for k, value in enumerate(turned(f, self.bits.bits, found)):
            own = ", ".join([f"i64 {k}"] * n)
            half = f.let(f"icmp {'sge' if self.lower else 'sle'} <{n} x i64> {here}, <{own}>")
            wanted = self._if(columns, k, c.both(mask, half))
            self.v.store(self.bits, c.at(target, c.index("mul", k, "%ldb")), 0, value, wanted)

    def _if(self, count: str, k: int, mask: str) -> str:
        """A mask where k < count, none elsewhere."""
        there, n = self.f.let(f"icmp sgt i64 {count}, {k}"), self.c.lanes
        return self.f.let(f"select i1 {there}, <{n} x i1> {mask}, <{n} x i1> zeroinitializer")

    def _splat(self, value: str) -> str:
        f, kind = self.f, f"<{self.c.lanes} x i64>"
        one = f.let(f"insertelement {kind} poison, i64 {value}, i64 0")
        return f.let(f"shufflevector {kind} {one}, {kind} poison, <{self.c.lanes} x i32> zeroinitializer")
