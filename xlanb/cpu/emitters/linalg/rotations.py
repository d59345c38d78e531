"""Plane rotations: (c, s) that turn (f, g) into (r, 0), and many of them applied to neighbouring columns of a matrix in scratch, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.values import Value
from xlanb.cpu.emitters.linalg.columns import Columns, Numbers
from xlanb.cpu.emitters.linalg.reflections import power_scale, row_blocks

_UNROLL = 4


def rotation(c: Columns, f: Value, g: Value) -> Sequence[Value]:
    """(c, s, r) with c f + s g = r and c g - s f = 0; (1, 0, 0) where both are zero. Numbers must be far from overflow."""
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

    return c.choose(squares > (2.0**-80 if c.bytes == 4 else 2.0**-800), plain, small)


def rotate_columns(
    c: Columns, z: Numbers, stride: Value, end: Value, columns: tuple[Value, Value, Value], turns: Numbers
) -> None:
    """Rotate columns (first, first + step), (first + step, first + 2 step), ... of z: as many pairs as `turns` has (c, s): (x, y) := (c x + s y, c y - s x).

    `columns` are (first, step, pairs), `end` the padded length of columns.
    """
    first, step, count = columns
    start, jump = z.by(first * stride), step * stride
    for (low, high), at_once in zip(row_blocks(c, (c.whole(0), end)), (_UNROLL, 1), strict=True):
        with c.count(low, high, step=at_once * c.width) as block:
            column = start.by(block.index)
            kept = [column.vector(u * c.width) for u in range(at_once)]
            with c.count(0, count, [column.pointer.base, *kept]) as loop:
                here = c.at(loop.values[0])
                after = here.by(jump)
                turn = turns.by(loop.index + loop.index)
                cosine, sine = turn[0].repeated(c.width), turn[1].repeated(c.width)
                rest = []
                for u, x in enumerate(loop.values[1:]):
                    y = after.vector(u * c.width)
                    here.write(u * c.width, cosine * x + sine * y)
                    rest.append(cosine * y - sine * x)
                loop.next = [after.pointer.base, *rest]
            last = c.at(loop.values[0])
            for u, x in enumerate(loop.values[1:]):
                last.write(u * c.width, x)
