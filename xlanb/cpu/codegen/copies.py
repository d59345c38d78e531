"""Copies of whole arrays between the kernels of a program; threads share those that are large."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.parallel import is_parallel, parallel, parts
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction

_BLOCK = 4096
"""Bytes that a thread copies at the least: a page, so that no two of them write to one cache line."""
_NANOSECONDS = 200.0
"""Of a block: 90 within the third-level cache, twice and more from memory."""
_ROW_NANOSECONDS = 5.0
"""Of a row, whatever its size."""
_MEMCPY = "llvm.memcpy.p0.p0.i64"


@dataclass(frozen=True)
class Rows:
    """Rows of `size` bytes one after the other in the source, `stride` bytes apart in the target."""

    count: int
    size: int
    stride: int


class Copies:
    """Writes copies into a program's functions; those that threads share, and those of several rows, are functions with the given attributes, one for each size."""

    def __init__(self, attributes: str) -> None:
        self._attributes = attributes
        self._shared: dict[int, Function] = {}
        self._by_rows: dict[Rows, Function] = {}

    def emit(self, f: Function, target: str, source: str, size: int) -> None:
        """Copy so many bytes between arrays that do not overlap."""
        blocks = -(-size // _BLOCK)
        if not is_parallel(_loops_only(f), blocks, _NANOSECONDS):
            _memcpy(f, target, source, size)
            return
        if size not in self._shared:
            self._shared[size] = self._function(f.module.function("copy", [], "", ""), blocks, size)
        f.do(f"call void @{self._shared[size].name}(ptr {target}, ptr {source})")

    def emit_rows(self, f: Function, target: str, source: str, rows: Rows) -> None:
        """Copy rows that lie side by side in the source; source and target do not overlap."""
        if rows.count == 1 or rows.size == rows.stride:
            self.emit(f, target, source, rows.count * rows.size)
            return
        if rows not in self._by_rows:
            self._by_rows[rows] = self._function_of_rows(f.module.function("copy.rows", [], "", ""), rows)
        f.do(f"call void @{self._by_rows[rows].name}(ptr {target}, ptr {source})")

    def _function(self, f: Function, blocks: int, size: int) -> Function:
        """What copies `size` bytes from its second pointer to its first."""
        with parts(_loops_only(f), blocks, nanoseconds=_NANOSECONDS) as (low, high):
            begin = f.mul(low, _BLOCK)
            end = f.call("i64", "llvm.umin.i64", ("i64", str(f.mul(high, _BLOCK))), ("i64", str(size)))
            target, source = (f.let(f"getelementptr inbounds i8, ptr %p{k}, i64 {begin}") for k in (0, 1))
            _memcpy(f, target, source, f.sub(end, begin))
        return self._signed(f)

    def _function_of_rows(self, f: Function, rows: Rows) -> Function:
        """What copies rows from its second pointer to its first."""
        nanoseconds = _NANOSECONDS * rows.size / _BLOCK + _ROW_NANOSECONDS
        with parallel(_loops_only(f), rows.count, nanoseconds=nanoseconds) as row:
            target, source = (
                f.let(f"getelementptr inbounds i8, ptr %p{k}, i64 {f.mul(row, step)}")
                for k, step in enumerate((rows.stride, rows.size))
            )
            _memcpy(f, target, source, rows.size)
        return self._signed(f)

    def _signed(self, f: Function) -> Function:
        f.ready = f.calls_only = True
        f.sign(["ptr noalias noundef %p0", "ptr noalias readonly noundef %p1"], f"noinline {self._attributes}")
        return f


def _memcpy(f: Function, target: str, source: str, size: Ix) -> None:
    f.module.declare("void", _MEMCPY, "ptr, ptr, i64, i1")
    f.do(f"call void @{_MEMCPY}(ptr {target}, ptr {source}, i64 {size}, i1 false)")


def _loops_only(f: Function) -> Elemental:
    """What writes loops over memory and no elements."""

    def no_constant(i: HloInstruction) -> IrArray:
        raise CompilationError(f"a copy reads no constant:\n  {i}")

    return Elemental(f, {}, no_constant)
