"""Copies of whole arrays between the kernels of a program, and of rows into a larger array; threads share those that are large.

A copy that threads share, or of several rows, is a function of the module, one for each size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from xlanb.codegen.function import Function, Ix, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.parallel import is_shared, parallel, parts
from xlanb.codegen.routines import ATTRIBUTES
from xlanb.codegen.types import I8, PTR
from xlanb.codegen.values import Value

_BLOCK = 4096
"""Bytes that a thread copies at the least: a page, so that no two of them write to one cache line."""
_NANOSECONDS = 200.0
"""Of a block: 90 within the third-level cache, twice and more from memory."""
_ROW_NANOSECONDS = 5.0
"""Of a row, whatever its size."""
_PARAMETERS = (Parameter(PTR, "p0", "noalias noundef"), Parameter(PTR, "p1", "noalias readonly noundef"))
_MADE: WeakKeyDictionary[ModuleBuilder, dict[object, str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Rows:
    """Rows of `size` bytes one after the other in the source, `stride` bytes apart in the target."""

    count: int
    size: int
    stride: int


def copy(f: Function, target: Value, source: Value, size: int) -> str | None:
    """Copy bytes between arrays that do not overlap: the name of the function that is called, None where the copy is written in place."""
    blocks = -(-size // _BLOCK)
    if not is_shared(f, blocks, _NANOSECONDS):
        f.copy(target, source, size)
        return None
    return _call(f, "copy", size, lambda made: _write_blocks(made, blocks, size), target, source)


def copy_rows(f: Function, target: Value, source: Value, rows: Rows) -> None:
    """Copy rows that are contiguous in the source; source and target do not overlap."""
    if rows.count == 1 or rows.size == rows.stride:
        copy(f, target, source, rows.count * rows.size)
    else:
        _call(f, "copy.rows", rows, lambda made: _write_rows(made, rows), target, source)


def _call(f: Function, name: str, key: object, write: Callable[[Function], None], target: Value, source: Value) -> str:
    """Call the module's function that copies so; it is written when it is first needed."""
    made = _MADE.setdefault(f.module, {})
    if key not in made:
        own = f.module.function(name, _PARAMETERS, "", "")
        write(own)
        own.ready = own.calls_only = True
        own.sign(_PARAMETERS, ATTRIBUTES)
        made[key] = own.name
    f.call_own(made[key], target, source)
    return made[key]


def _write_blocks(f: Function, blocks: int, size: int) -> None:
    """Copy `size` bytes from the second pointer to the first, a range of blocks for each part."""
    with parts(f, blocks, nanoseconds=_NANOSECONDS) as (low, high):
        begin = f.mul(low, _BLOCK)
        end = f.value(f.mul(high, _BLOCK)).umin(size)
        target, source = (Pointer(f.argument(p), I8).address(begin) for p in _PARAMETERS)
        f.copy(target, source, f.sub(end, begin))


def _write_rows(f: Function, rows: Rows) -> None:
    """Copy rows from the second pointer to the first."""
    nanoseconds = _NANOSECONDS * rows.size / _BLOCK + _ROW_NANOSECONDS
    with parallel(f, rows.count, nanoseconds=nanoseconds) as row:
        steps: tuple[Ix, Ix] = (f.mul(row, rows.stride), f.mul(row, rows.size))
        target, source = (Pointer(f.argument(p), I8).address(at) for p, at in zip(_PARAMETERS, steps, strict=True))
        f.copy(target, source, rows.size)
