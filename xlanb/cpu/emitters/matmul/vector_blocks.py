"""Large products: operands packed by slices of depth, each packed once and read by all threads.

    for each slice of depth:
        pack a[:, slice] into panels of the tile's rows         shared by threads
        for each block of rows that fits the cache:             shared by threads
            for each panel of the tile's columns:
                pack b[slice, panel] on the stack
                for each panel of a in the block: tile

This is the loop order of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
(2008), except that the thread that uses a panel of b packs it. If packing is a plain copy, the
first tiles of a panel copy the next panel while they multiply. Sums over slices accumulate in the
result, or in scratch memory if the result's type is narrower. Machines with AMX have other loops
(see amx_blocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

from xlanb.codegen.function import Function, Ix, Parameter
from xlanb.codegen.groups import Group
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine
from xlanb.codegen.types import I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.blocking import step_cycles
from xlanb.cpu.emitters.matmul.blocks import Blocks, group
from xlanb.cpu.emitters.matmul.contraction import Contraction
from xlanb.cpu.emitters.matmul.grid import PART, share
from xlanb.cpu.emitters.matmul.lanes import Lanes, lanes_of
from xlanb.cpu.emitters.matmul.packing import WORDS, Packing, packing_routine
from xlanb.cpu.emitters.matmul.shared import LINE, types_text
from xlanb.cpu.emitters.matmul.slices import Slices, divided, filled, pack, set_word
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

T = PrimitiveType
_VECTORS = 2
"""Vectors of a tile's columns, unless loading its rows takes long."""
_WIDER = ((8, 3), (6, 4))
"""Rows and vectors of tiles with fewer rows and more vectors, if 32 registers hold their sums."""
_UNROLL = 4
_AHEAD = 8
"""Lines that are prefetched ahead of the one being copied."""


# -- the tile --------------------------------------------------------------------------------------

_TILE = (
    *(Parameter(PTR, name, "readonly") for name in ("a", "b")),
    *(Parameter(PTR, name) for name in ("s", "c")),
    *(Parameter(I64, name) for name in ("depth", "s_step", "c_step", "rows", "lanes")),
    Parameter(PTR, "source"),
    Parameter(PTR, "target"),
    Parameter(I64, "step"),
)


@dataclass(frozen=True)
class BlockTile:
    """The micro-kernel: panels of a and b over `depth` lines, `rows` by `vectors` of sums.

    If it `copies`, each iteration also copies a line of the next panel of b, from `source` on, with
    `step` bytes between lines.
    """

    rows: int
    vectors: int
    width: int
    type: PrimitiveType
    to: PrimitiveType
    group: Group | None
    adds: bool
    """Whether the sums of earlier slices, at `s`, are added."""
    totals: bool
    """Whether b's panel ends with the excess of the sums, to be subtracted (see Packing)."""
    a_first: bool
    """Whether a's elements are the ones that groups multiply as unsigned."""
    copies: bool = False

    @property
    def name(self) -> str:
        """The routine's name."""
        kind = f"{f'.groups{self.group.size}' if self.group is not None else ''}{'.adds' if self.adds else ''}"
        kind += (
            f"{'.totals' if self.totals else ''}{'' if self.a_first else '.signed'}{'.copies' if self.copies else ''}"
        )
        return f"block.{types_text(self.type, self.to)}.{self.rows}x{self.vectors}x{self.width}{kind}"


def tile_routine(module: ModuleBuilder, tile: BlockTile) -> str:
    """The name of a tile's routine."""
    return routine(module, tile, tile.name, partial(_emit_tile, tile), _TILE)


def _emit_tile(tile: BlockTile, f: Function) -> None:
    a, b, s, c, depth, s_step, c_step, rows, lanes, source, target, source_step = map(f.argument, _TILE)
    v, item = Lanes(f, tile.type, tile.width), tile.type.byte_size
    a_line = -(-tile.rows // tile.width) * tile.width * item
    b_line = tile.vectors * tile.width * item

    def step(pa: Value, pb: Value, sums: Sequence[Value]) -> list[Value]:
        """Add the outer product of a line of each panel."""
        columns = [f.load(v.kind, displaced(pb, k * tile.width * item), tile.width * item) for k in range(tile.vectors)]
        made: list[Value] = []
        for r in range(tile.rows):
            factor = f.splat(f.load(v.kind.scalar, displaced(pa, r * item), item), tile.width)
            made += [_multiplied(tile, factor, y, sums[r * tile.vectors + k]) for k, y in enumerate(columns)]
        return made

    # If unrolled, LLVM loads all elements of several groups first and runs out of registers.
    each = _UNROLL if tile.group is None else 1
    rounds = depth.lshr(each.bit_length() - 1)
    last = rounds.smin(rows)  # of these rounds, each of which prefetches a row of the result
    copied = [source, target] if tile.copies else []
    state = [a, b, c, *copied, *[f.zero(v.kind)] * (tile.rows * tile.vectors)]
    stretches = [(rounds - last, each, False), (last, each, True)]
    stretches += [(depth & (each - 1), 1, False)] if each > 1 else []
    for count, unroll, fetches in stretches:
        with f.carried(count, state, guarded=True) as loop:
            pa, pb, pc, *rest = loop.values
            advanced, sums = rest[: len(copied)], rest[len(copied) :]
            if copied and unroll == each:
                advanced = _copied(f, v, tile.vectors, advanced, source_step)
            if fetches:
                for at in range(0, tile.vectors * tile.width * tile.to.byte_size, LINE):
                    f.prefetch(displaced(pc, at), for_write=True)
                pc = displaced(pc, c_step)
            for u in range(unroll):
                sums = step(displaced(pa, u * a_line), displaced(pb, u * b_line), sums)
            loop.next = [displaced(pa, unroll * a_line), displaced(pb, unroll * b_line), pc, *advanced, *sums]
        state = loop.values
    sums = state[3 + len(copied) :]
    if tile.totals:
        # the last line of the panel, after whole squares of lines
        squares = (depth + (tile.width - 1)) & -tile.width
        last = displaced(b, squares * b_line)
        over = [f.load(v.kind, displaced(last, k * tile.width * item)) for k in range(tile.vectors)]
        sums = [total - over[n % tile.vectors] for n, total in enumerate(sums)]

    def finish(masks: Sequence[Mask | None]) -> Sequence[Value]:
        for r in range(tile.rows):
            with f.when(rows > r):
                for k, mask in enumerate(masks):
                    total = sums[r * tile.vectors + k]
                    if tile.adds:
                        total = total + v.load(tile.type, displaced(s, s_step * r), k * tile.width, mask)
                    v.store(tile.to, displaced(c, c_step * r), k * tile.width, total, mask)
        return ()

    whole = lanes >= tile.vectors * tile.width
    f.choose(whole, lambda: finish([None] * tile.vectors), lambda: finish(_masks(f, tile, lanes)))


def _copied(f: Function, v: Lanes, vectors: int, places: Sequence[Value], step: Value) -> list[Value]:
    """Copy a line of a panel and prefetch a later one; return the next addresses."""
    source, target = places
    size = v.width * v.t.byte_size
    for k in range(vectors):
        f.prefetch(displaced(displaced(source, step * _AHEAD), k * size))
        f.store(f.load(v.kind, displaced(source, k * size)), displaced(target, k * size), size)
    return [displaced(source, step), displaced(target, vectors * size)]


def _masks(f: Function, tile: BlockTile, lanes: Value) -> list[Mask | None]:
    return [Mask.first(f, tile.width, (lanes - k * tile.width).smax(0)) for k in range(tile.vectors)]


def _multiplied(tile: BlockTile, factor: Value, column: Value, total: Value) -> Value:
    if tile.group is None:
        return factor.times_plus(column, total)
    return tile.group.add(total, factor, column) if tile.a_first else tile.group.add(total, column, factor)


# -- blocks of tiles -------------------------------------------------------------------------------

_BLOCK = (
    "a", "b", "s", "c", "tile", "copying", "pack",
    "depth", "s_step", "c_step", "rows", "columns", "a_panel", "s_column", "c_column",
    "height", "shared", "width", "tall", "across", "wide",
    "b_unit", "b_step", "b_depth", "b_panel", "copies", "lines", "line", "item",
)  # fmt: skip
"""The context of a loop over blocks:

addresses of operands, sums, the result, the tile routines and b's packing routine; lines of a
panel; byte strides between rows of the sums and of the result; rows and columns of the result;
bytes of a panel of a; bytes between panels of columns in sums and result; rows of a tile, tiles
that share a panel of a, columns of a tile; tiles of rows per block, blocks side by side, panels of
b per block; the words that packing b needs (see packing.WORDS); tiles that copy the next panel (0:
none), lines each copies, bytes of a line; bytes of a row in a line of a.
"""
_POINTERS = 7


def _emit_blocks(f: Function) -> None:
    context, low, high, slot = map(f.argument, PART)
    a, b, s, c, tile, copying, pack = (Pointer(context, PTR)[k] for k in range(_POINTERS))
    w = {name: Pointer(context, I64)[k] for k, name in enumerate(_BLOCK) if k >= _POINTERS}
    panels, zero, one = f.stack_bytes(w["b_panel"] * 2), f.zero(I64), f.const(I64, 1)
    packing = f.alloca(I64, len(WORDS))
    for name in ("unit_step", "step", "depth", "panel"):
        set_word(f, packing, WORDS.index(name), w["b_unit" if name == "unit_step" else f"b_{name}"])
    down = (w["rows"] + w["height"] - 1).udiv(w["height"])
    along = (w["columns"] + w["width"] - 1).udiv(w["width"])
    whole = w["columns"].udiv(w["width"])
    with f.loop(high, low) as part:
        group = f.value(part).udiv(w["across"])
        first, left = group * w["tall"], (f.value(part) - group * w["across"]) * w["wide"]
        rows, columns = (first + w["tall"]).smin(down), (left + w["wide"]).smin(along)
        copies = (rows - first >= w["copies"]) & w["copies"].differs(0)
        limit = copies.select(columns.smin(whole), zero)
        with f.loop(columns, left, guarded=True) as j:
            edge, odd = f.value(j) * w["width"], f.value(j) & 1
            here = displaced(b, edge * w["b_unit"])
            panel, other = (displaced(panels, n * w["b_panel"]) for n in (odd, odd ^ 1))
            with f.when(f.value(j).equals(left) | (f.value(j) >= limit)):
                set_word(f, packing, WORDS.index("source"), here.cast("ptrtoint", I64))
                set_word(f, packing, WORDS.index("target"), panel.cast("ptrtoint", I64))
                set_word(f, packing, WORDS.index("units"), w["columns"] - edge)
                f.call_pointer(pack, packing, zero, one, slot)
            after = displaced(here, w["width"] * w["b_unit"])
            has_copy = (f.value(j) + 1 < limit).select(w["copies"], zero)
            with f.loop(rows, first, guarded=True) as i:
                top, n = f.value(i) * w["height"], f.value(i) - first
                line = (n * w["lines"]).smin(w["b_depth"] - w["lines"])
                panel_a = f.value(i).udiv(w["shared"])
                above = (f.value(i) - panel_a * w["shared"]) * w["height"] * w["item"]
                f.call_pointer(
                    (n < has_copy).select(copying, tile),
                    displaced(a, panel_a * w["a_panel"] + above),
                    panel,
                    displaced(displaced(s, top * w["s_step"]), f.value(j) * w["s_column"]),
                    displaced(displaced(c, top * w["c_step"]), f.value(j) * w["c_column"]),
                    *(w[name] for name in ("depth", "s_step", "c_step")),
                    (w["rows"] - top).smin(w["height"]),
                    w["columns"] - edge,
                    displaced(after, line * w["b_step"]),
                    displaced(other, line * w["line"]),
                    w["b_step"],
                )


# -- the product -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BlockedProduct:
    """A blocked product on a machine."""

    a: Packing
    b: Packing
    height: int
    """Rows of a tile; a panel of a has one or several of them."""
    tall: int
    wide: int

    @property
    def vectors(self) -> int:
        """Vectors of a tile's columns."""
        return self.b.vectors

    @property
    def shared(self) -> int:
        """Tiles that share a panel of a."""
        return self.a.units // self.height


def _made(blocks: Blocks, target: CodegenTarget) -> _BlockedProduct:
    x, g = blocks.x, group(blocks.x, target)
    width = lanes_of(target, x.type.bits)
    height, vectors = _tile_of(x, target, width, g)
    units = max(width // height, 1) * height
    is_signed = x.type.is_integral and x.a_type is T.S8 and x.b_type is T.S8
    a = Packing(units, -(-units // width), width, x.a_type, x.type, x.depth[0].a == 1, g, flips=is_signed)
    b = Packing(vectors * width, vectors, width, x.b_type, x.type, x.depth[0].b == 1, g, totals=is_signed)
    down, along = -(-x.row_count // height), -(-x.column_count // b.units)
    panels = -(-x.row_count // units)
    if panels * a.panel_bytes(blocks.depth) > blocks.bytes[0]:
        raise AssertionError(f"{panels} panels of {units} rows by {blocks.depth} exceed their scratch memory")
    most = units // height * max(1, target.costs.block_bytes // a.panel_bytes(blocks.depth))
    return _BlockedProduct(a, b, height, *divided(down, along, most, target.threads))


def _tile_of(x: Contraction, target: CodegenTarget, width: int, g: Group | None) -> tuple[int, int]:
    """The rows and vectors of a tile."""
    most = (target.vector_registers - _VECTORS - 2) // _VECTORS
    # Panels of 5 rows in lines of 8 lanes, for one, would not fit the scratch memory (see
    # Blocks.bytes).
    heights = [n for n in range(most, max(most - 3, 1), -1) if -(-n // width) * width * 3 <= n * 4]
    height = min(heights or [width], key=lambda n: (-(-x.row_count // n) * (n + 0.4), -n))

    def cycles(tile: tuple[int, int]) -> float:
        """The cycles of a column of vectors, those of rows in vain included."""
        rows, vectors = tile
        return step_cycles(*tile, target.costs, is_far=True) / vectors * -(-x.row_count // rows)

    wider = [tile for tile in _WIDER if g is None and target.vector_registers > prod(tile)]
    return min([(height, _VECTORS), *wider], key=cycles)


def emit_vector_blocks(f: Function, blocks: Blocks, places: tuple[Value, Value, Value], scratch: Value) -> None:
    """Emit a blocked product; a and b are in the order of the contraction."""
    made = _made(blocks, f.target)
    f.decided(
        "tile",
        f"{made.height} rows by {made.vectors} vectors of {made.a.width}",
        f"{blocks.count} blocks of depth {blocks.depth}, a and b packed",
    )
    _BlocksEmitter(f, blocks, made, places, scratch).emit()


class _BlocksEmitter:
    """Emits a blocked product into a kernel."""

    def __init__(
        self, f: Function, blocks: Blocks, made: _BlockedProduct, places: tuple[Value, Value, Value], scratch: Value
    ) -> None:
        self.f, self.x, self.made = f, blocks.x, made
        self.slices = Slices(f, blocks, places, scratch)
        self.walk = f.alloca(I64, len(_BLOCK))

    def emit(self) -> None:
        self.slices.each(self._slice)

    def _slice(self, n: Ix, size: int) -> None:
        """Emit slice `n`, of depth `size`."""
        f, x, made, slices = self.f, self.x, self.made, self.slices
        row, column, depth = x.rows[0], x.columns[0], x.depth[0]
        item_b = x.b_type.byte_size
        a, b = slices.operands(n)
        down, along = -(-row.size // made.height), -(-column.size // made.b.units)
        pack(f, made.a, (a, slices.scratch), (row.size, row.a, depth.a), size, f.target.costs.moved_element_ns)
        to, place, step = slices.result(n)
        tile = BlockTile(
            made.height,
            made.vectors,
            made.a.width,
            x.type,
            to,
            made.a.group,
            adds=n != 0,
            totals=made.b.totals,
            a_first=not x.type.is_integral or made.a.flips or x.a_type is T.U8,
        )
        across, lines = -(-along // made.wide), -(-size // made.a.size)
        copies = self._copies(size, lines)
        copying = replace(tile, copies=copies["copies"] > 0)
        context: dict[str, Value | int] = {
            "a": slices.scratch,
            "b": b,
            "s": slices.sums,
            "c": place,
            "tile": f.symbol(tile_routine(f.module, tile)),
            "copying": f.symbol(tile_routine(f.module, copying)),
            "pack": f.symbol(packing_routine(f.module, made.b)),
            "depth": lines,
            "s_step": slices.sum_row * slices.sum_type.byte_size,
            "c_step": step * to.byte_size,
            "rows": row.size,
            "columns": column.size,
            "a_panel": made.a.panel_bytes(size),
            "s_column": made.b.units * slices.sum_type.byte_size,
            "c_column": made.b.units * to.byte_size,
            "height": made.height,
            "shared": made.shared,
            "width": made.b.units,
            "tall": made.tall,
            "across": across,
            "wide": made.wide,
            "b_unit": column.b * item_b,
            "b_step": depth.b * item_b,
            "b_depth": size,
            "b_panel": made.b.panel_bytes(size),
            **copies,
            "item": x.type.byte_size,
        }
        walker = routine(f.module, "blocks", "blocks", _emit_blocks, PART)
        cycles = made.tall * made.wide * (made.height * lines * made.vectors / 2 + f.target.costs.tile_cycles)
        nanoseconds = cycles * f.target.costs.cycle_ns
        share(f, walker, filled(f, self.walk, _BLOCK, context), -(-down // made.tall) * across, nanoseconds)

    def _copies(self, size: int, lines: int) -> dict[str, int]:
        """How tiles copy the next panel of b, a line per round; none if elements are converted."""
        p, rounds = self.made.b, lines // _UNROLL
        if p.along or p.group is not None or p.source_type is not p.type or not rounds:
            return {"copies": 0, "lines": 0, "line": 0}
        return {"copies": -(-size // rounds), "lines": rounds, "line": p.line_bytes}
