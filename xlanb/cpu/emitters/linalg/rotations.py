"""Plane rotations: (c, s) that rotate (f, g) to (r, 0), applied in sequence to matrix columns."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.memory import Pointer
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Matrix
from xlanb.cpu.emitters.linalg.reflections import UNROLL, power_scale, row_blocks

Block = tuple[Value, Value, Value]
"""Rows low..high of a diagonal, and the direction (1 or -1) of a sweep over them."""


def rotation(c: Columns, f: Value, g: Value) -> Sequence[Value]:
    """(c, s, r) with c f + s g = r and c g - s f = 0; (1, 0, 0) if both are zero.

    The numbers must be far from overflow.
    """
    squares = f * f + g * g

    def plain() -> Sequence[Value]:
        r = squares.sqrt()
        return f / r, g / r, r

    def small() -> Sequence[Value]:
        scale, back = power_scale(c, c.larger(abs(f), abs(g)))
        a, b = f * scale, g * scale
        r = (a * a + b * b).sqrt()
        nothing = r.equals(0.0)
        return nothing.select(1.0, a / r), nothing.select(0.0, b / r), r * back

    return c.f.choose(squares > (2.0**-80 if c.is_single else 2.0**-800), plain, small)


def rotate_columns(c: Columns, z: Matrix, columns: Block, turns: Pointer) -> None:
    """Rotate columns (first, first + step), (first + step, first + 2 step), ... of z.

    `turns` has a (c, s) for each pair: (x, y) := (c x + s y, c y - s x). `columns` are (first,
    step, pairs).
    """
    first, step, count = columns
    start, jump = z[first], step * z.stride
    for (low, high), at_once in zip(row_blocks(c, (0, c.up(z.rows))), (UNROLL, 1), strict=True):
        with c.count(low, high, step=at_once * c.width) as block:
            column = start.by(block.index)
            kept = [c.load(column, u * c.width) for u in range(at_once)]
            with c.count(0, count, [column.base, *kept]) as loop:
                here = Pointer(loop.values[0], c.kind)
                after = here.by(jump)
                turn = turns.by(loop.index + loop.index)
                cosine, sine = c.repeated(turn[0]), c.repeated(turn[1])
                rest = []
                for u, x in enumerate(loop.values[1:]):
                    y = c.load(after, u * c.width)
                    here.store(u * c.width, cosine * x + sine * y)
                    rest.append(cosine * y - sine * x)
                loop.next = [after.base, *rest]
            last = Pointer(loop.values[0], c.kind)
            for u, x in enumerate(loop.values[1:]):
                last.store(u * c.width, x)
