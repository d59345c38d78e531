"""AMX's micro-kernel: tiles of sums, from tiles of a panel of a and of one of b.

A tile is a register of 16 lines of 64 bytes. Those of a are rows, with 16 groups of neighbours
along depth; those of b are 16 groups along depth of each of 16 columns. A step of 16 groups takes

    sums[i, k] += a[i] * b[k]           i, k = 0, 1

Registers 0 to 3 hold sums, 4 and 5 tiles of a, 6 and 7 of b. Source: Intel's Instruction Set
Extensions Programming Reference, chapter on AMX.
"""

from __future__ import annotations

from functools import partial

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.lanes import Mask
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine
from xlanb.codegen.types import I8, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.lanes import Lanes
from xlanb.cpu.emitters.matmul.shared import types_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

SIDE = 16
"""The lines of a tile, and the sums of a line."""
ACROSS = 2
"""Tiles of a panel of b."""
SUMS = 4
"""Tiles of sums, at most."""
_LINE = 64
_BYTES = SIDE * _LINE
_REGISTERS = 8
_A, _B = 4, 6
"""The first registers of a and of b."""
_PALETTE, _WIDTHS, _HEIGHTS, _CONFIGURATION = 0, 16, 48, 64
"""Where a configuration has its palette, bytes per line (two each) and lines; its size."""

_PARAMETERS = (
    *(Parameter(PTR, name, "readonly") for name in ("a", "b")),
    *(Parameter(PTR, name) for name in ("s", "c")),
    *(Parameter(I64, name) for name in ("steps", "s_step", "c_step", "rows", "columns")),
)
"""Panels of a and b; the sums of earlier slices, and the result; the steps; bytes between rows of
the sums and of the result; rows and columns that exist.
"""


def configure(f: Function) -> None:
    """Give all tiles 16 lines of 64 bytes."""
    given = bytearray(_CONFIGURATION)
    given[_PALETTE] = 1
    for k in range(_REGISTERS):
        given[_WIDTHS + 2 * k], given[_HEIGHTS + k] = _LINE, SIDE
    place = f.alloca(I8, _CONFIGURATION)
    for k in range(0, _CONFIGURATION, I64.bytes):
        word = int.from_bytes(given[k : k + I64.bytes], "little")
        f.store(f.const(I64, word), displaced(place, k), I64.bytes)
    f.call(VOID, "llvm.x86.ldtilecfg", place)


def release(f: Function) -> None:
    """Leave the tiles unused, so that switching threads need not save them."""
    f.call(VOID, "llvm.x86.tilerelease")


def clear(f: Function, down: int = 2) -> None:
    """Set the sums of `down` tiles of rows to zero."""
    for i in range(down):
        for k in range(ACROSS):
            _call(f, "tilezero", _sum(i, k))


def multiply(f: Function, product: str) -> None:
    """Add a step's products to the sums, of whatever is in the registers of a and b."""
    for i in range(SUMS // ACROSS):
        _multiply(f, product, i)


def _multiply(f: Function, product: str, i: int) -> None:
    for k in range(ACROSS):
        f.call(VOID, product, *(f.const(I8, r) for r in (_sum(i, k), _A + i, _B + k)))


@dataclass(frozen=True)
class AmxTile:
    """The micro-kernel for panels of `rows`, 16 or 32, and of 32 columns.

    Sums are of `type` and stored as `to`; `product` is the intrinsic that multiplies two tiles. If
    it `adds`, it adds the sums of earlier slices.
    """

    rows: int
    product: str
    type: PrimitiveType
    to: PrimitiveType
    adds: bool

    @property
    def name(self) -> str:
        """The routine's name."""
        kind = self.product.rsplit(".", 1)[-1]
        return f"{kind}.{types_text(self.type, self.to)}.{self.rows}{'.adds' if self.adds else ''}"


def amx_tile_routine(module: ModuleBuilder, tile: AmxTile) -> str:
    """The name of a micro-kernel's routine; its caller has configured the tiles."""
    return routine(module, tile, tile.name, partial(_emit, tile), _PARAMETERS)


def _emit(tile: AmxTile, f: Function) -> None:
    a, b, s, c, steps, s_step, c_step, rows, columns = map(f.argument, _PARAMETERS)
    down = tile.rows // SIDE
    sums = [(i, k) for i in range(down) for k in range(ACROSS)]
    clear(f, down)

    def fetch(row: Value) -> Value:
        """Prefetch a row of the result; return the next."""
        for k in range(ACROSS):
            f.prefetch(displaced(row, k * _LINE), for_write=True)
        return displaced(row, c_step)

    with f.carried(tile.rows - steps, [c], guarded=True) as loop:
        loop.next = [fetch(loop.values[0])]
    with f.carried(steps, [a, b, loop.values[0]]) as loop:
        pa, pb, pc = loop.values
        after = fetch(pc)
        for k in range(ACROSS):
            _load(f, _B + k, displaced(pb, k * _LINE), ACROSS * _LINE)
        for i in range(down):
            _load(f, _A + i, displaced(pa, i * _BYTES), _LINE)
            _multiply(f, tile.product, i)
        loop.next = [displaced(pa, down * _BYTES), displaced(pb, ACROSS * _BYTES), after]

    def store(to: Value, step: Value) -> None:
        for i, k in sums:
            _call(f, "tilestored64", _sum(i, k), displaced(displaced(to, step * (i * SIDE)), k * _LINE), step)

    def in_place() -> list[Value]:
        store(c, c_step)
        return []

    def by_rows() -> list[Value]:
        """Store the sums on the stack; then add, convert and store the rows that exist."""
        held = f.alloca(I8, len(sums) * _BYTES)
        store(held, f.const(I64, ACROSS * _LINE))
        v = Lanes(f, tile.type, SIDE)
        masks = [Mask.first(f, SIDE, (columns - k * SIDE).smax(0)) for k in range(ACROSS)]
        with f.carried(rows.smin(tile.rows), [held, s, c]) as loop:
            total, earlier, result = loop.values
            for k, mask in enumerate(masks):
                value = v.load(tile.type, total, k * SIDE)
                if tile.adds:
                    value = value + v.load(tile.type, earlier, k * SIDE, mask)
                v.store(tile.to, result, k * SIDE, value, mask)
            loop.next = [displaced(total, ACROSS * _LINE), displaced(earlier, s_step), displaced(result, c_step)]
        return []

    if tile.adds or tile.to is not tile.type:
        by_rows()
        return
    whole = (rows >= tile.rows) & (columns >= ACROSS * SIDE)
    f.choose(whole, in_place, by_rows)


def _sum(i: int, k: int) -> int:
    """The register of the sums of a's tile i and b's tile k."""
    return i * ACROSS + k


def _load(f: Function, register: int, place: Value, step: int) -> None:
    _call(f, "tileloadd64", register, place, f.const(I64, step))


def _call(f: Function, name: str, register: int, *arguments: Value) -> None:
    f.call(VOID, f"llvm.x86.{name}", f.const(I8, register), *arguments)
