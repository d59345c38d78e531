"""Large products in AMX's registers: both operands are packed once per slice of depth.

    for each slice of depth:
        pack a[:, slice] and b[slice, :] into panels of tiles                   shared by threads
        for each block of rows that fits the cache, and some panels of b:       shared by threads
            for each of these panels of b, each panel of a in the block: tile

Tiles multiply so fast that packing b once for each block of rows would take as long as the
products. If there is only one block of rows, panels of b are packed on the stack of the thread that
uses them, as in `vector_blocks`. Sums over slices accumulate as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import CodegenTarget
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.types import I8, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.amx_tile import ACROSS, SIDE, AmxTile, amx_tile_routine, configure, release
from xlanb.cpu.emitters.matmul.blocks import Blocks, amx_slices, group
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis
from xlanb.cpu.emitters.matmul.grid import PART, call_part
from xlanb.cpu.emitters.matmul.packing import WORDS, Packing, packing_routine
from xlanb.cpu.emitters.matmul.slices import Slices, divided, filled, pack
from xlanb.lazy_dataclass import dataclass

_COLUMNS = ACROSS * SIDE
"""Columns of a panel of b."""
_B_ROWS = 8
"""The rows of a that could be loaded and multiplied while a step loads b's tiles."""
_STEP_CYCLES = 100
"""The cycles of a step of four products, with their loads."""
_BLOCK_BYTES = 1 << 20
"""Bytes of a's panels that several panels of b use: half the L2 cache of machines with AMX."""
_PACKED_LINE = 64
"""Bytes of b's rows that are packed at once: a cache line."""

_WALK = (
    "tile", "pack", "steps", "s_step", "c_step", "rows", "columns", "a_panel", "b_panel", "s_column", "c_column",
    "height", "tall", "across", "beside", "wide", "unit_step", "step", "depth",
)  # fmt: skip
"""The words of a loop over blocks:

the micro-kernel and b's packing routine; steps of a panel; byte strides between rows of the sums
and of the result; rows and columns of the result; bytes of a panel of a and of b; bytes between
panels of columns in sums and result; rows of a panel of a; panels of a per block, blocks side by
side, panels of b that are packed at once, how many times that per block; the words that packing b
needs (see packing.WORDS).
"""
_SYMBOLS = 2


@dataclass(frozen=True)
class _AmxProduct:
    """How a product is packed and divided into blocks."""

    a: Packing
    b: Packing
    tall: int
    wide: int
    once: bool
    """Whether each panel of b is used by one block of rows only."""


def _made(blocks: Blocks, target: CodegenTarget) -> _AmxProduct:
    x, g = blocks.x, group(blocks.x, target)
    height = min(2 * SIDE, SIDE, key=lambda n: -(-x.row_count // n) * (n + _B_ROWS))
    a = Packing(height, height // SIDE, SIDE, x.a_type, x.type, x.depth[0].a == 1, g, turned=True)
    along = x.depth[0].b == 1
    beside = 1 if along else _PACKED_LINE // (_COLUMNS * x.b_type.byte_size)
    b = Packing(beside * _COLUMNS, beside * ACROSS, SIDE, x.b_type, x.type, along, g, pads=True, beside=beside)
    down, across = -(-x.row_count // height), -(-x.column_count // b.units)
    most = max(1, _BLOCK_BYTES // a.panel_bytes(blocks.depth))
    tall, wide = divided(down, across, most, target.threads)
    return _AmxProduct(a, b, tall, wide, once=tall == down)


def emit_amx_blocks(
    f: Function, blocks: Blocks, product: str, places: tuple[Value, Value, Value], scratch: Value
) -> None:
    """Emit blocked products, one after another, by the intrinsic `product`.

    a and b are in the contraction's order.
    """
    blocks = amx_slices(blocks)
    made = _made(blocks, f.target)
    f.decided(
        "tile",
        f"{made.a.units} rows by {_COLUMNS} columns in AMX tiles",
        f"{blocks.count} blocks of depth {blocks.depth}, a and b packed",
    )

    def emit(axes: Sequence[ContractionAxis], places: tuple[Value, Value, Value]) -> None:
        if not axes:
            _AmxEmitter(f, blocks, product, made, places, scratch).emit()
            return
        (axis, *inner), types = axes, (blocks.x.a_type, blocks.x.b_type, blocks.x.c_type)
        with f.loop(axis.size) as n:
            steps = [f.value(n) * (s * t.byte_size) for s, t in zip((axis.a, axis.b, axis.c), types, strict=True)]
            a, b, c = map(displaced, places, steps)
            emit(inner, (a, b, c))

    emit(blocks.x.batch, places)


class _AmxEmitter:
    """Emits a blocked product into a kernel."""

    def __init__(
        self,
        f: Function,
        blocks: Blocks,
        product: str,
        made: _AmxProduct,
        places: tuple[Value, Value, Value],
        scratch: Value,
    ) -> None:
        self.f, self.blocks, self.product, self.made = f, blocks, product, made
        self.slices = Slices(f, blocks, places, scratch)
        self.b_panels = Pointer(scratch, I8).address(blocks.bytes[0])
        needed = [
            -(-count // p.units) * p.panel_bytes(blocks.depth)
            for p, count in ((made.a, blocks.x.row_count), (made.b, blocks.x.column_count))
        ]
        if any(n > most for n, most in zip(needed, blocks.bytes, strict=False)):
            raise AssertionError(f"panels of {needed} bytes exceed their scratch memory, {blocks.bytes}")

    def emit(self) -> None:
        self.slices.each(self._slice)

    def _slice(self, n: Ix, size: int) -> None:
        """Emit slice `n`, of depth `size`."""
        f, x, made, slices = self.f, self.blocks.x, self.made, self.slices
        row, column, depth = x.rows[0], x.columns[0], x.depth[0]
        a, b = slices.operands(n)
        element_ns = f.target.costs.moved_element_ns / made.a.size
        pack(f, made.a, (a, slices.scratch), (row.size, row.a, depth.a), size, element_ns)
        if not made.once:
            pack(f, made.b, (b, self.b_panels), (column.size, column.b, depth.b), size, element_ns)
        to, place, c_row = slices.result(n)
        s_item, c_item = slices.sum_type.byte_size, to.byte_size
        tile = AmxTile(made.a.units, self.product, x.type, to, adds=n != 0)
        steps = -(-size // (made.a.size * SIDE))
        stretches = -(-column.size // made.b.units)
        across = -(-stretches // made.wide)
        described: dict[str, int | str] = {
            "tile": f"@{amx_tile_routine(f.module, tile)}",
            "pack": f"@{packing_routine(f.module, made.b)}",
            "steps": steps,
            "s_step": slices.sum_row * s_item,
            "c_step": c_row * c_item,
            "rows": row.size,
            "columns": column.size,
            "a_panel": made.a.panel_bytes(size),
            "b_panel": made.b.panel_bytes(size) // made.b.beside,
            "s_column": _COLUMNS * s_item,
            "c_column": _COLUMNS * c_item,
            "height": made.a.units,
            "tall": made.tall,
            "across": across,
            "beside": made.b.beside,
            "wide": made.wide,
            "unit_step": column.b * x.b_type.byte_size,
            "step": depth.b * x.b_type.byte_size,
            "depth": size,
        }
        tiles = made.tall * made.wide * made.b.beside
        cycles = tiles * (steps * _STEP_CYCLES * made.a.units // _COLUMNS + f.target.costs.tile_cycles)
        name = "blocks.amx.packs" if made.once else "blocks.amx"
        call_part(
            f,
            routine(f.module, name, name, partial(_emit_walk, packs=made.once), PART),
            [described[word] for word in _WALK],
            [slices.scratch, b if made.once else self.b_panels, slices.sums, place],
            -(-row.size // (made.a.units * made.tall)) * across,
            cycles * f.target.costs.cycle_ns,
        )


def _emit_walk(f: Function, *, packs: bool) -> None:
    """Emit the loop over blocks; if it `packs`, b is the operand, and it packs what it uses."""
    context, low, high, slot = map(f.argument, PART)
    table, a, b, s, c = (Pointer(context, PTR)[k] for k in range(5))
    tile, pack = (Pointer(table, PTR)[k] for k in range(_SYMBOLS))
    w = {name: word(table, k) for k, name in enumerate(_WALK) if k >= _SYMBOLS}
    down = (w["rows"] + w["height"] - 1).udiv(w["height"])
    panels = (w["columns"] + (_COLUMNS - 1)).udiv(_COLUMNS)
    stretches, stretch = (panels + w["beside"] - 1).udiv(w["beside"]), w["b_panel"] * w["beside"]
    if packs:
        place, packing = f.stack_bytes(stretch), f.alloca(I64, len(WORDS))
        words = {"target": place.cast("ptrtoint", I64), "panel": stretch}
        words |= {name: w[name] for name in ("unit_step", "step", "depth")}
    configure(f)
    with f.loop(high, low) as part:
        block = f.value(part).udiv(w["across"])
        first, left = block * w["tall"], (f.value(part) - block * w["across"]) * w["wide"]
        with f.loop((left + w["wide"]).smin(stretches), left, guarded=True) as n:
            begin = f.value(n) * w["beside"]
            if packs:
                edge = begin * _COLUMNS
                source = displaced(b, edge * w["unit_step"]).cast("ptrtoint", I64)
                given = filled(f, packing, WORDS, words | {"source": source, "units": w["columns"] - edge})
                f.call_pointer(pack, given, f.zero(I64), f.const(I64, 1), slot)
            held = place if packs else displaced(b, f.value(n) * stretch)
            with (
                f.loop((begin + w["beside"]).smin(panels), begin, guarded=True) as j,
                f.loop((first + w["tall"]).smin(down), first, guarded=True) as i,
            ):
                top = f.value(i) * w["height"]
                f.call_pointer(
                    tile,
                    displaced(a, f.value(i) * w["a_panel"]),
                    displaced(held, (f.value(j) - begin) * w["b_panel"]),
                    displaced(displaced(s, top * w["s_step"]), f.value(j) * w["s_column"]),
                    displaced(displaced(c, top * w["c_step"]), f.value(j) * w["c_column"]),
                    *(w[name] for name in ("steps", "s_step", "c_step")),
                    w["rows"] - top,
                    w["columns"] - f.value(j) * _COLUMNS,
                )
    release(f)
