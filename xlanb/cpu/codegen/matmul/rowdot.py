"""The micro-kernel for operands that are both contiguous along the contraction: rows of a with rows of b, a vector along depth at a time.

    for k in depth, a vector at a time:      total[row, column] += a[row, k:] * b[column, k:]
    c[row, column] = sum of total[row, column]

It needs no copy of b, and pays where there are few rows: a matrix times a vector above all.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.contraction import Axis
from xlanb.cpu.codegen.matmul.lanes import Lanes, address
from xlanb.cpu.codegen.matmul.tile import once
from xlanb.cpu.codegen.types import register, store
from xlanb.shape import PrimitiveType


@dataclass(frozen=True)
class RowDot:
    """A block: (a offset, c offset) of each row, (b offset, c offset) of each column; `depth` axes, the last with stride 1 in a and b."""

    width: int
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    depth: tuple[Axis, ...]
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType

    @property
    def sums(self) -> int:
        """Accumulators per step."""
        return len(self.rows) * len(self.columns)


def rowdot_function(module: ModuleBuilder, block: RowDot) -> str:
    """The name of a block's function, `void rowdot(ptr a, ptr b, ptr c)`."""
    return once(module, block, "rowdot", lambda f: _emit(f, block))


def _emit(f: Function, block: RowDot) -> None:
    v = Lanes(f, block.type, block.width)
    whole = block.depth[-1].size // block.width
    sets = max(1, min(8 // block.sums, whole))
    totals = _nest(f, v, block, 0, "%a", "%b", [v.zero()] * (block.sums * sets), sets)
    for s in range(1, sets):
        part = totals[s * block.sums : (s + 1) * block.sums]
        totals[: block.sums] = [v.add(x, y) for x, y in zip(totals[: block.sums], part, strict=True)]
    n = 0
    for _, row in block.rows:
        for _, column in block.columns:
            store(f, block.c_type, "%c", row + column, _sum(v, totals[n]))
            n += 1


def _sum(v: Lanes, total: str) -> str:
    """The sum of a vector's lanes."""
    f, kind = v.f, register(v.t)
    if v.width == 1:
        return f.let(f"extractelement {v.kind} {total}, i64 0")
    if not v.t.is_floating:
        return f.call(kind, f"llvm.vector.reduce.add.v{v.width}{kind}", (v.kind, total))
    suffix = "f32" if kind == "float" else "f64"
    return f.call(kind, f"llvm.vector.reduce.fadd.v{v.width}{suffix}", (kind, "-0.0"), (v.kind, total), flags="reassoc")


def _nest(f: Function, v: Lanes, block: RowDot, level: int, a: str, b: str, totals: list[str], sets: int) -> list[str]:
    axis = block.depth[level]
    if level < len(block.depth) - 1:
        carried = [("ptr", a), ("ptr", b), *((v.kind, t) for t in totals)]
        with f.carried(axis.size, carried) as loop:
            now = _nest(f, v, block, level + 1, loop.values[0], loop.values[1], loop.values[2:], sets)
            loop.next = [
                address(f, block.a_type, loop.values[0], axis.a),
                address(f, block.b_type, loop.values[1], axis.b),
                *now,
            ]
        return loop.values[2:]
    stride = sets * block.width
    rounds = axis.size // stride
    if rounds:
        with f.carried(rounds, [(v.kind, t) for t in totals]) as loop:
            at = f.mul(loop.index, stride)
            pa, pb = address(f, block.a_type, a, at), address(f, block.b_type, b, at)
            now = loop.values
            for s in range(sets):
                now = _step(v, block, pa, pb, s * block.width, block.width, now, s)
            loop.next = now
        totals = loop.values
    for at in range(rounds * stride, axis.size, block.width):
        totals = _step(v, block, a, b, at, min(block.width, axis.size - at), totals, 0)
    return totals


def _step(v: Lanes, block: RowDot, a: str, b: str, at: int, lanes: int, totals: list[str], which: int) -> list[str]:
    """Up to a vector of depth, `lanes` elements of it, for all pairs of a row and a column."""
    out = list(totals)
    left = [v.load(block.a_type, a, row + at, lanes) for row, _ in block.rows]
    right = [v.load(block.b_type, b, column + at, lanes) for column, _ in block.columns]
    n = which * block.sums
    for x in left:
        for y in right:
            out[n] = v.multiply_add(out[n], x, y)
            n += 1
    return out
