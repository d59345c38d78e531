"""Copies of whole arrays between the kernels of a program; threads share those that are large."""

from __future__ import annotations

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.parallel import is_parallel, parts
from xlanb.errors import CompilationError
from xlanb.hlo.instruction import HloInstruction

_BLOCK = 4096
"""Bytes that a thread copies at the least: a page, so that no two of them write to one cache line."""
_NANOSECONDS = 200.0
"""Of a block: 90 within the third-level cache, twice and more from memory."""
_MEMCPY = "llvm.memcpy.p0.p0.i64"


class Copies:
    """Writes copies into a program's functions; those that threads share are functions of their own, one for each size, with the given attributes."""

    def __init__(self, attributes: str) -> None:
        self._attributes = attributes
        self._shared: dict[int, Function] = {}

    def emit(self, f: Function, target: str, source: str, size: int) -> None:
        """Copy so many bytes between arrays that do not overlap."""
        blocks = -(-size // _BLOCK)
        if not is_parallel(_loops_only(f), blocks, _NANOSECONDS):
            _memcpy(f, target, source, size)
            return
        if size not in self._shared:
            self._shared[size] = self._function(f.module.function("copy", [], "", ""), blocks, size)
        f.do(f"call void @{self._shared[size].name}(ptr {target}, ptr {source})")

    def _function(self, f: Function, blocks: int, size: int) -> Function:
        """What copies `size` bytes from its second pointer to its first."""
        with parts(_loops_only(f), blocks, nanoseconds=_NANOSECONDS) as (low, high):
            begin = f.mul(low, _BLOCK)
            end = f.call("i64", "llvm.umin.i64", ("i64", str(f.mul(high, _BLOCK))), ("i64", str(size)))
            target, source = (f.let(f"getelementptr inbounds i8, ptr %p{k}, i64 {begin}") for k in (0, 1))
            _memcpy(f, target, source, f.sub(end, begin))
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
