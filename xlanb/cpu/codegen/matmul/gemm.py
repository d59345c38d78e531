"""A contraction as code: operands packed as planned, then the micro-kernel over all blocks of the result, shared by threads."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.matmul.blocking import Blocking, blocking
from xlanb.cpu.codegen.matmul.contraction import Axis, Contraction, count
from xlanb.cpu.codegen.matmul.grid import Digit, Span, grid
from xlanb.cpu.codegen.matmul.lanes import Place, lanes_of
from xlanb.cpu.codegen.matmul.packing import emit_copy
from xlanb.cpu.codegen.matmul.plan import Plan
from xlanb.cpu.codegen.matmul.rowdot import RowDot, rowdot_function
from xlanb.cpu.codegen.matmul.tile import Tile, tile_function

_CYCLE = 0.25
"""Nanoseconds of a cycle, about."""
_BLOCK_BYTES = 512 << 10
"""Of a's rows that all columns pass over before the next ones come: they stay in the second-level cache."""
_ROWDOT_COLUMNS = 4


def emit_contraction(e: Elemental, p: Plan, a: Place, b: Place, c: Place, scratch: str, first: int = 0) -> None:
    """Emit a contraction; a and b are the operands as they were before the plan exchanged them. All of them are parameters of the kernel, or constants.

    The scratch that the plan wants begins `first` bytes (a multiple of the type's) behind `scratch`.
    """
    x = p.x
    if x.is_swapped:
        a, b = b, a
    if p.a is not None:
        packed = Place(scratch, first // p.a.type.byte_size)
        emit_copy(e, p.a, a, packed)
        a = packed
    if p.b is not None:
        packed = Place(scratch, (first + p.a_bytes) // p.b.type.byte_size)
        emit_copy(e, p.b, b, packed)
        b = packed
    if p.rowdot:
        _rowdots(e, x, (a, b, c))
    else:
        _tiles(e, x, (a, b, c), whole_b=p.b is not None)


def _tiles(e: Elemental, x: Contraction, places: tuple[Place, Place, Place], *, whole_b: bool) -> None:
    made = blocking(x, e.f.target)
    column = x.columns[-1] if x.columns else Axis(1, 0, 1, 1)
    width = made.width
    vectors = min(made.vectors, -(-column.size // width))
    step = min(column.size, vectors * width)
    rows = tuple((row.a, row.c) for row in made.offsets(x.rows))
    tile = Tile(
        width,
        rows,
        vectors,
        step - (vectors - 1) * width,
        x.depth,
        x.a_type,
        x.b_type,
        x.type,
        x.c_type,
        whole_b,
        column.a != 0,
    )
    name = tile_function(e.f.module, tile)
    spans, digits = _walk(x, made, step)
    with grid(e, spans, digits, 3, nanoseconds=made.cycles / made.tiles * _CYCLE) as at:
        _call(e, name, x, places, at.offsets)


def _call(e: Elemental, name: str, x: Contraction, places: tuple[Place, Place, Place], offsets: Sequence[Ix]) -> None:
    types = (x.a_type, x.b_type, x.c_type)
    a, b, c = (place.at(e.f, t, o) for place, t, o in zip(places, types, offsets, strict=True))
    e.f.do(f"call void @{name}(ptr {a}, ptr {b}, ptr {c})")


def _walk(x: Contraction, made: Blocking, step: int) -> tuple[list[Span], list[Digit]]:
    """Blocks in order: batches, groups of rows whose part of a stays in cache, all columns, the rows of the group."""
    spans = [Span(axis.size, 1, (axis.a, axis.b, axis.c)) for axis in x.batch]
    outer = [Digit(n, s.blocks) for n, s in enumerate(spans)]
    columns: list[Digit] = []
    for n, axis in enumerate(x.columns):
        spans.append(Span(axis.size, step if n == len(x.columns) - 1 else 1, (axis.a, axis.b, axis.c)))
        columns.append(Digit(len(spans) - 1, spans[-1].blocks))
    inner: list[Digit] = []
    groups: list[Digit] = []
    room = True
    within: list[Axis] = list(x.depth)
    for n, axis in reversed(list(enumerate(x.rows))):
        by = axis.size if n == made.rows.whole else made.rows.part if n == made.rows.partial else 1
        spans.append(Span(axis.size, by, (axis.a, axis.b, axis.c)))
        blocks = spans[-1].blocks
        fit = _blocks_that_fit(within, axis, by, x.a_type.byte_size) if room else 1
        if fit >= blocks:
            inner.insert(0, Digit(len(spans) - 1, blocks))
            within.append(axis)
            continue
        parts = -(-blocks // fit)
        each = -(-blocks // parts)
        inner.insert(0, Digit(len(spans) - 1, each))
        groups.insert(0, Digit(len(spans) - 1, parts, each))
        room = False
    return spans, [*outer, *groups, *columns, *inner]


def _blocks_that_fit(within: list[Axis], axis: Axis, by: int, element: int) -> int:
    """How many blocks of `by` rows have, with all of `within`, their part of a in the cache; at least one."""
    dense = count(within)
    reach = 1 + sum((x.size - 1) * abs(x.a) for x in within)
    rows = _BLOCK_BYTES // element
    many = max(rows // dense, (rows - reach) // max(abs(axis.a), 1) + 1 if reach < rows else 0)
    return max(1, many // by)


def _rowdots(e: Elemental, x: Contraction, places: tuple[Place, Place, Place]) -> None:
    width = lanes_of(e.f.target, x.type.bits)
    while width > 4 and width // 2 >= x.depth[-1].size:
        width //= 2
    row = x.rows[-1] if x.rows else Axis(1)
    column = x.columns[-1] if x.columns else Axis(1)
    high = min(row.size, 4)
    wide = min(column.size, _ROWDOT_COLUMNS)
    block = RowDot(
        width,
        tuple((r * row.a, r * row.c) for r in range(high)),
        tuple((n * column.b, n * column.c) for n in range(wide)),
        x.depth,
        x.a_type,
        x.b_type,
        x.type,
        x.c_type,
    )
    name = rowdot_function(e.f.module, block)
    spans = [Span(axis.size, 1, (axis.a, axis.b, axis.c)) for axis in x.batch]
    spans += [Span(axis.size, wide if axis is column else 1, (axis.a, axis.b, axis.c)) for axis in x.columns]
    spans += [Span(axis.size, high if axis is row else 1, (axis.a, axis.b, axis.c)) for axis in x.rows]
    digits = [Digit(n, s.blocks) for n, s in enumerate(spans)]
    cycles = max(high * wide, high + wide) * x.depth_count / width + 8 * high * wide
    with grid(e, spans, digits, 3, nanoseconds=cycles * _CYCLE) as at:
        _call(e, name, x, places, at.offsets)
