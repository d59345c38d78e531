"""Large products in AMX's registers: both operands are packed once per slice of depth.

    for each slice of depth:
        pack a[:, slice] and b[slice, :] into panels of tiles                   shared by threads
        for each block of rows that fits the cache, and some panels of b:       shared by threads
            for each of these panels of b, each panel of a in the block: tile

Tiles multiply so fast that packing b once for each block of rows would take as long as the
products. Sums over slices accumulate as in `vector_blocks`.
"""

from __future__ import annotations

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.types import I8, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.amx_tile import ACROSS, SIDE, AmxTile, amx_tile_routine, configure, release
from xlanb.cpu.emitters.matmul.blocks import Blocks, amx_slices, group
from xlanb.cpu.emitters.matmul.grid import call_part
from xlanb.cpu.emitters.matmul.packing import PART, WORDS, Packing, packing_routine
from xlanb.cpu.emitters.matmul.slices import Slices, filled, share
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
    "tile", "steps", "s_step", "c_step", "rows", "columns", "a_panel", "b_panel", "s_column", "c_column",
    "height", "tall", "across", "wide",
)  # fmt: skip
"""The words of a loop over blocks:

the micro-kernel; steps of a panel; byte strides between rows of the sums and of the result; rows
and columns of the result; bytes of a panel of a and of b; bytes between panels of columns in sums
and result; rows of a panel of a; panels of a per block, blocks side by side, panels of b per block.
"""


@dataclass(frozen=True)
class _AmxProduct:
    """How a product is packed and divided into blocks."""

    a: Packing
    b: Packing
    tall: int
    wide: int


def _made(blocks: Blocks, threads: int, f: Function) -> _AmxProduct:
    x, g = blocks.x, group(blocks.x, f.target)
    height = min(2 * SIDE, SIDE, key=lambda n: -(-x.row_count // n) * (n + _B_ROWS))
    a = Packing(height, height // SIDE, SIDE, x.a_type, x.type, x.depth[0].a == 1, g, turned=True)
    along = x.depth[0].b == 1
    beside = 1 if along else _PACKED_LINE // (_COLUMNS * x.b_type.byte_size)
    b = Packing(beside * _COLUMNS, beside * ACROSS, SIDE, x.b_type, x.type, along, g, pads=True, beside=beside)
    down, across = -(-x.row_count // height), -(-x.column_count // _COLUMNS)
    tall = min(down, max(1, _BLOCK_BYTES // a.panel_bytes(blocks.depth)))
    tall = -(-down // -(-down // tall))
    parts = threads * 16 if threads > 1 else 1
    wide = -(-across // max(1, min(across, -(-parts // -(-down // tall)))))
    return _AmxProduct(a, b, tall, wide)


def emit_amx_blocks(
    f: Function, blocks: Blocks, product: str, places: tuple[Value, Value, Value], scratch: Value
) -> None:
    """Emit a blocked product by the intrinsic `product`; a and b are in the contraction's order."""
    blocks = amx_slices(blocks)
    made = _made(blocks, f.target.threads, f)
    f.decided(
        "tile",
        f"{made.a.units} rows by {_COLUMNS} columns in AMX tiles",
        f"{blocks.count} blocks of depth {blocks.depth}, a and b packed",
    )
    _AmxEmitter(f, blocks, product, made, places, scratch).emit()


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
        self.packings = [f.alloca(I64, len(WORDS)) for _ in "ab"]

    def emit(self) -> None:
        self.slices.each(self._slice)

    def _slice(self, n: Ix, size: int) -> None:
        """Emit slice `n`, of depth `size`."""
        f, x, made, slices = self.f, self.blocks.x, self.made, self.slices
        row, column, depth = x.rows[0], x.columns[0], x.depth[0]
        a, b = slices.operands(n)
        for p, source, target, units, unit_step, step, context in (
            (made.a, a, slices.scratch, row.size, row.a, depth.a, self.packings[0]),
            (made.b, b, self.b_panels, column.size, column.b, depth.b, self.packings[1]),
        ):
            item = p.source_type.byte_size
            words: dict[str, Value | int] = {
                "source": source,
                "target": target,
                "unit_step": unit_step * item,
                "step": step * item,
                "units": units,
                "depth": size,
                "panel": p.panel_bytes(size),
            }
            nanoseconds = p.units * size * f.target.costs.moved_element_ns / p.size
            count = -(-units // p.units)
            share(f, packing_routine(f.module, p), filled(f, context, WORDS, words), count, nanoseconds)
        to, place, c_row = slices.result(n)
        s_item, c_item = slices.sum_type.byte_size, to.byte_size
        tile = AmxTile(made.a.units, self.product, x.type, to, adds=n != 0)
        steps, columns = -(-size // (made.a.size * SIDE)), -(-column.size // _COLUMNS)
        across = -(-columns // made.wide)
        described = {
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
            "wide": made.wide,
        }
        cycles = made.tall * made.wide * (steps * _STEP_CYCLES * made.a.units // _COLUMNS + f.target.costs.tile_cycles)
        call_part(
            f,
            routine(f.module, "amx blocks", "blocks.amx", _emit_walk, PART),
            [f"@{amx_tile_routine(f.module, tile)}", *(described[name] for name in _WALK[1:])],
            [slices.scratch, self.b_panels, slices.sums, place],
            -(-row.size // (made.a.units * made.tall)) * across,
            cycles * f.target.costs.cycle_ns,
        )


def _emit_walk(f: Function) -> None:
    context, low, high, _ = map(f.argument, PART)
    table, a, b, s, c = (Pointer(context, PTR)[k] for k in range(5))
    tile = Pointer(table, PTR)[0]
    w = {name: word(table, k) for k, name in enumerate(_WALK) if k}
    down = (w["rows"] + w["height"] - 1).udiv(w["height"])
    along = (w["columns"] + (_COLUMNS - 1)).udiv(_COLUMNS)
    configure(f)
    with f.loop(high, low) as part:
        block = f.value(part).udiv(w["across"])
        first, left = block * w["tall"], (f.value(part) - block * w["across"]) * w["wide"]
        with (
            f.loop((left + w["wide"]).smin(along), left, guarded=True) as j,
            f.loop((first + w["tall"]).smin(down), first, guarded=True) as i,
        ):
            top = f.value(i) * w["height"]
            f.call_pointer(
                tile,
                displaced(a, f.value(i) * w["a_panel"]),
                displaced(b, f.value(j) * w["b_panel"]),
                displaced(displaced(s, top * w["s_step"]), f.value(j) * w["s_column"]),
                displaced(displaced(c, top * w["c_step"]), f.value(j) * w["c_column"]),
                *(w[name] for name in ("steps", "s_step", "c_step")),
                w["rows"] - top,
                w["columns"] - f.value(j) * _COLUMNS,
            )
    release(f)
