"""Columns of b as a panel: contiguous memory, filled before the first tile that reads it.

All tiles of these columns reuse it. A panel is as wide as a tile and as long as the contraction. It
is on the stack of the thread that uses it, so that it stays in the L2 cache and takes none of the
program's scratch memory. The routine's table:

    walk                    the routine that loops over blocks
    bytes, fills, blocks    bytes of the panel; blocks of the copy that fills it; blocks of rows
    lines, step             lines of the panel if columns do not fill them, else 0; bytes of a line
    copy's, rows'           word offsets of the tables of the two loops; then the tables

Tiles read whole vectors. If columns do not fill them, the last of each line is cleared first: what
the stack held there may be denormal, and takes a hundred times as long to multiply.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.types import I8, I64, PTR
from xlanb.cpu.emitters.matmul.grid import context_of, walk_routine
from xlanb.cpu.emitters.matmul.shared import ROUTINE

_HEAD = 8


def panel_routine(module: ModuleBuilder, vector: int) -> str:
    """The name of the routine (ptr a, ptr b, ptr c, ptr p) for all rows of a panel's columns.

    Its vectors have `vector` bytes.
    """
    return routine(module, ("panel", vector), f"panel.{vector}", lambda f: _emit(f, vector), ROUTINE)


def panel_table(
    module: ModuleBuilder,
    sizes: tuple[int, int, int, int, int],
    copy_table: Sequence[int | str],
    walk_table: Sequence[int | str],
) -> list[int | str]:
    """The table of a panel.

    `sizes` are its bytes, the copy's blocks, the row blocks, lines to clear, and bytes of a line.
    """
    begins = _HEAD, _HEAD + len(copy_table)
    return [f"@{walk_routine(module)}", *sizes, *begins, *copy_table, *walk_table]


def _emit(f: Function, vector: int) -> None:
    a, b, c, p = map(f.argument, ROUTINE)
    walk = Pointer(p, PTR)[0]
    size, fills, blocks, lines, step, first, second = (word(p, k) for k in range(1, _HEAD))
    panel, zero = f.stack_bytes(size), f.zero(I64)
    with f.carried(lines, [displaced(panel, step - vector)], guarded=True) as loop:
        Pointer(loop.values[0], I8).store(0, f.zero(I8.times(vector)))
        loop.next = [displaced(loop.values[0], step)]
    for at, source, target, count in ((first, b, panel, fills), (second, a, c, blocks)):
        f.call_pointer(walk, context_of(displaced(p, at << 3), source, panel, target), zero, count, zero)
