"""Columns of b as a panel: what a tile reads of b is written, as it is read, to a run of memory that the tiles of the rows below read.

A panel is as wide as a tile and as long as the contraction. It lies on the stack of the thread that works on it, so that it stays in the second-level cache, and no scratch of
the program is taken. The routine's table:

    walk, keeper      the routine that walks over the blocks of rows; the tile that writes the panel
    bytes, blocks     of the panel; how many blocks of rows there are, the keeper's the first
    keeper's, walk's  how many words further each table begins; the tables

Where b has to be turned, so that no tile can read it, the panel is filled before the first tile. That routine's table:

    walk              as above
    bytes, fills, blocks    of the panel; blocks of the copy; blocks of rows
    copy's, rows'     how many words further the tables of the two walks begin; the tables
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.routines import moved, routine, word
from xlanb.codegen.types import I64, PTR
from xlanb.cpu.emitters.matmul.grid import context_of
from xlanb.cpu.emitters.matmul.shared import ROUTINE


def panel_routine(module: ModuleBuilder) -> str:
    """The name of the routine (ptr a, ptr b, ptr c, ptr p) that computes all blocks of rows of the columns that a tile takes."""
    return routine(module, "panel", "panel", _emit_panel, ROUTINE)


def panel_table(
    walk: str, keeper: str, sizes: tuple[int, int], keeper_table: Sequence[int], walk_table: Sequence[int | str]
) -> list[int | str]:
    """The table of a panel; `sizes` are its bytes and the blocks of rows."""
    head = 6
    words: list[int | str] = [f"@{walk}", f"@{keeper}", *sizes, head, head + len(keeper_table)]
    return [*words, *keeper_table, *walk_table]


def filled_routine(module: ModuleBuilder) -> str:
    """The name of the routine as `panel_routine`, that fills the panel by a walk of its own."""
    return routine(module, "panel.filled", "panel.filled", _emit_filled, ROUTINE)


def filled_table(
    walk: str, sizes: tuple[int, int, int], copy_table: Sequence[int | str], walk_table: Sequence[int | str]
) -> list[int | str]:
    """The table of a panel that is filled; `sizes` are its bytes, the blocks of the copy, and those of rows."""
    head = 6
    return [f"@{walk}", *sizes, head, head + len(copy_table), *copy_table, *walk_table]


def _emit_filled(f: Function) -> None:
    a, b, c, p = map(f.argument, ROUTINE)
    walk = Pointer(p, PTR)[0]
    size, fills, blocks, first, second = (word(p, k) for k in range(1, 6))
    panel = f.stack_bytes(size)
    zero = f.zero(I64)
    for at, source, target, count in ((first, b, panel, fills), (second, a, c, blocks)):
        f.call_pointer(walk, context_of(moved(p, at << 3), source, panel, target), zero, count, zero)


def _emit_panel(f: Function) -> None:
    a, b, c, p = map(f.argument, ROUTINE)
    walk, keeper = (Pointer(p, PTR)[k] for k in range(2))
    size, blocks, first, second = (word(p, k) for k in range(2, 6))
    tables = [moved(p, at << 3) for at in (first, second)]
    panel = f.stack_bytes(size)
    f.call_pointer(keeper, a, b, c, tables[0], panel)
    f.call_pointer(walk, context_of(tables[1], a, panel, c), f.const(I64, 1), blocks, f.zero(I64))
