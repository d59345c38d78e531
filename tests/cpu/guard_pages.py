"""Memory between guard pages, and compiled programs that run on it.

Every argument, result and constant is an array of its own, adjacent to the guard page after or
before it. So is every temporary value and every scratch memory if the arena was laid out by
`spread`. An out-of-bounds access raises SIGSEGV.
"""

from __future__ import annotations

import ctypes
import mmap
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from tests.cpu.narrowed import narrowed
from xlanb.buffers import heap_simulator
from xlanb.buffers.heap_simulator import ALIGNMENT, HeapBlock, HeapPacking
from xlanb.codegen import costs, jit
from xlanb.codegen.function import Function
from xlanb.codegen.types import PTR, Type
from xlanb.codegen.values import Value
from xlanb.cpu import CompileOptions, Executable, compile_module, compiler
from xlanb.cpu.codegen import program
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime.bridge import bridge
from xlanb.cpu.runtime.guard import OK
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
NO_ACCESS, READ_ONLY, READ_WRITE = 0, 1, 3


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise OSError(ctypes.get_errno(), "mprotect")


class Guarded:
    """`size` bytes between two pages without access; at the end of their pages or at the start."""

    def __init__(self, size: int, *, at_end: bool, access: int = NO_ACCESS) -> None:
        pages = max(-(-size // _PAGE), 1)
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for at in (base, base + (pages + 1) * _PAGE):
            _protect(at, _PAGE, access)
        self.address = base + _PAGE + (pages * _PAGE - size if at_end else 0)
        self.size = size

    def fill(self, data: bytes) -> None:
        """Write the content."""
        ctypes.memmove(self.address, data, len(data))

    def content(self) -> bytes:
        """The current content."""
        return ctypes.string_at(self.address, self.size)


# -- the arena -------------------------------------------------------------------------------------


def _place(size: int, cursor: int, *, at_end: bool) -> tuple[int, int]:
    """(block offset, first byte after its pages) of a block in pages from `cursor` on.

    `cursor` and the second value are multiples of a page; one page before the block stays free.
    """
    pages = max(-(-size // _PAGE), 1)
    return cursor + _PAGE + (pages * _PAGE - size if at_end else 0), cursor + (pages + 1) * _PAGE


def spread(*, at_end: bool) -> Callable[..., HeapPacking]:
    """A layout of the arena for `heap_simulator.pack`, with guard pages around every block."""

    def pack(blocks: Sequence[HeapBlock], bins: Sequence[HeapBlock] = ()) -> HeapPacking:
        del bins
        offsets, cursor = [], 0
        for block in blocks:
            # scratch memory is aligned to a cache line
            size = -(-block.size // ALIGNMENT) * ALIGNMENT if block.slack else block.size
            offset, cursor = _place(size, cursor, at_end=at_end)
            offsets.append(offset)
        return HeapPacking((None,) * len(blocks), tuple(offsets), cursor + _PAGE if blocks else 0)

    return pack


class Arena:
    """The memory of temporaries.

    In a spread arena only the pages of its blocks are accessible; another arena is between two
    guard pages.
    """

    def __init__(self, exe: Executable, *, at_end: bool, only: str | None = None) -> None:
        size = -(-exe.buffer_assignment.temp_size // ALIGNMENT) * ALIGNMENT
        blocks = arena_blocks(exe)
        if not _is_spread(blocks):
            self._memory = Guarded(size, at_end=at_end, access=_access("arena", only))
            self.address = self._memory.address
            self._filled = [(0, size)]
            return
        self._map = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        if only is None:
            _protect(self.address, size, NO_ACCESS)
        self._filled = [(begin, n) for begin, n, _ in blocks]
        for begin, n, name in blocks:
            first, last = begin // _PAGE * _PAGE, -(-(begin + max(n, 1)) // _PAGE) * _PAGE
            if only is None:
                _protect(self.address + first, last - first, READ_WRITE)
            elif _access(name, only) != READ_WRITE:
                _protect(self.address + first - _PAGE, _PAGE, _access(name, only))
                _protect(self.address + last, _PAGE, _access(name, only))

    def fill(self, byte: int) -> None:
        """Fill the accessible memory with a byte."""
        for begin, size in self._filled:
            ctypes.memset(self.address + begin, byte, size)


def _access(name: str, only: str | None) -> int:
    """The access rights of a guard page.

    None if all arrays are guarded or this is the only one; read-only for `NAME!`.
    """
    if only is None or only == name:
        return NO_ACCESS
    return READ_ONLY if only == f"{name}!" else READ_WRITE


def arena_blocks(exe: Executable) -> list[tuple[int, int, str]]:
    """(offset, bytes, content) of the arena's blocks, in order."""
    made = exe.buffer_assignment
    arena = [a.index for a in made.allocations if a.kind == "temp"]
    named = [(place, value.instruction.name) for value, place in made.slices.items()]
    named += [(p, f"scratch of {i.name}") for i in made.live.position if (p := made.scratch_of(i)) is not None]
    named += [(place, f"copy of {value.instruction.name}") for (_, value), place in made.staged.items()]
    found: dict[tuple[int, int], str] = {}
    for place, name in named:
        if place.allocation in arena:
            found.setdefault((place.offset, place.size), name)
    return [(offset, size, f"{name} in the arena") for (offset, size), name in sorted(found.items())]


def _is_spread(blocks: Sequence[tuple[int, int, str]]) -> bool:
    """Whether a layout is `spread`'s, which leaves the first page free."""
    return bool(blocks) and blocks[0][0] >= _PAGE


# -- programs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mode:
    """How a module is compiled and run.

    Gives the threads, the end of its pages at which each array is placed, and whether the arena is
    spread. With `constants` these are guarded too, with `stacks` the kernels' stack arrays; `bits`
    is the vector width (0: the host's); without `passes` the module is compiled as it is.
    """

    threads: int = 1
    at_end: bool = True
    spread: bool = True
    constants: bool = False
    stacks: bool = False
    bits: int = 0
    passes: bool = True

    def __str__(self) -> str:
        parts = [f"{self.threads} thread{'s' * (self.threads > 1)}", "end" if self.at_end else "start"]
        parts += ["spread"] * self.spread + ["constants"] * self.constants + ["stacks"] * self.stacks
        parts += ["no passes"] * (not self.passes)
        return ", ".join([*parts, *([f"{self.bits} bits"] if self.bits else [])])

    def compile(self, text: str) -> Executable:
        """Compile a module in this mode. With two threads every loop that can be shared is."""
        with ExitStack() as stack:
            stack.enter_context(_stack_symbols())
            if self.spread:
                stack.enter_context(mock.patch.object(heap_simulator, "pack", spread(at_end=self.at_end)))
            if self.threads > 1:
                eager = {
                    name: c.replace(wake_ns=1, repeated_wake_ns=1, part_ns=50) for name, c in costs.FAMILIES.items()
                }
                stack.enter_context(mock.patch.dict(costs.FAMILIES, eager))
                common = costs.COMMON.replace(wake_ns=1, repeated_wake_ns=1, part_ns=50)
                stack.enter_context(mock.patch.object(costs, "COMMON", common))
            if self.constants:
                stack.enter_context(_guarded_constants(at_end=self.at_end))
            if self.stacks:
                stack.enter_context(_guarded_stacks(at_end=self.at_end))
            if self.bits:
                target = narrowed(self.bits, self.threads)
                stack.enter_context(mock.patch.object(compiler, "_target", return_value=target))
            pipeline = "default" if self.passes else HloPassPipeline("none")
            module = parse(text)
            module.verify(executable=True)  # as xlanb.compile does
            return compile_module(module, CompileOptions(pipeline, multi_thread=self.threads > 1))


@contextmanager
def _guarded_constants(*, at_end: bool) -> Iterator[None]:
    """Load programs with guarded constants.

    They are aligned to cache lines, so that reads of up to 63 bytes past the end may go undetected.
    """
    plain = program.Program.symbols.fget  # type: ignore[attr-defined]

    def symbols(self: program.Program) -> dict[str, int]:
        found = dict(plain(self))
        for name, data in self.constants.items():
            memory = Guarded(-(-data.size // ALIGNMENT) * ALIGNMENT, at_end=at_end)
            memory.fill(data.tobytes())
            found[name] = memory.address
            self.__dict__.setdefault("kept", []).append(memory)
        return found

    with (
        mock.patch.object(program.Program, "symbols", property(symbols)),
        mock.patch.object(program, "EXTERNAL_BYTES", 0),
    ):
        yield


_STACKS = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare ptr @malloc(i64)

define ptr @guarded.start(i64 %size) {{
  %base = call ptr @guarded.pages(i64 %size)
  ret ptr %base
}}

define ptr @guarded.end(i64 %size) {{
  %base = call ptr @guarded.pages(i64 %size)
  %pages = call i64 @guarded.rounded(i64 %size)
  %rest = sub i64 %pages, %size
  %begin = getelementptr i8, ptr %base, i64 %rest
  ret ptr %begin
}}

define internal i64 @guarded.rounded(i64 %size) {{
  %least = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %up = add i64 %least, {last}
  %pages = and i64 %up, -{page}
  ret i64 %pages
}}
declare i64 @llvm.umax.i64(i64, i64)

; Pages between two without access; if there are too many, or the system gives none, memory from the
; heap. The table has the number of all so far, the number from which on there are too many, and a
; ring of their addresses and sizes.
define internal ptr @guarded.pages(i64 %size) {{
entry:
  %pages = call i64 @guarded.rounded(i64 %size)
  %total = add i64 %pages, {two}
  %row = atomicrmw add ptr inttoptr (i64 {table} to ptr), i64 1 seq_cst
  %most = load atomic i64, ptr inttoptr (i64 {limit} to ptr) seq_cst, align 8
  %full = icmp uge i64 %row, %most
  br i1 %full, label %plain, label %guard
guard:
  %base = call ptr @mmap(ptr null, i64 %total, i32 0, i32 34, i32 -1, i64 0)
  %number = ptrtoint ptr %base to i64
  %none = icmp eq i64 %number, -1
  br i1 %none, label %plain, label %open
plain:
  %heap = call ptr @malloc(i64 %pages)
  ret ptr %heap
open:
  %slot = and i64 %row, {last_slot}
  %place = getelementptr [2 x i64], ptr inttoptr (i64 {ring} to ptr), i64 %slot
  store i64 %number, ptr %place
  %bytes = getelementptr i64, ptr %place, i64 1
  store i64 %total, ptr %bytes
  %begin = getelementptr i8, ptr %base, i64 {page}
  %status = call i32 @mprotect(ptr %begin, i64 %pages, i32 3)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %plain, label %made
made:
  ret ptr %begin
}}
"""
_MOST_STACKS = 8192
"""Guarded stack arrays at a time: Linux allows a process 65,530 maps. A power of two."""
_LATE = 8
"""Runs after which a run's stack arrays are given back: a thread of its pool may enter it late."""


class _Stacks:
    """The guarded stack arrays of the last runs, which compiled code adds."""

    def __init__(self) -> None:
        self.table = (ctypes.c_int64 * (2 + 2 * _MOST_STACKS))(0, _MOST_STACKS)
        self.freed = 0
        self.marks: deque[int] = deque(maxlen=_LATE)

    def begin_run(self) -> None:
        """Give back the arrays of old runs."""
        if len(self.marks) == _LATE:
            for row in range(self.freed, min(self.marks[0], self.table[1])):
                at = 2 + 2 * (row % _MOST_STACKS)
                address, size = self.table[at : at + 2]
                self.table[at + 1] = 0
                if size:
                    _libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
            self.freed = self.marks[0]
            self.table[1] = self.freed + _MOST_STACKS
        self.marks.append(self.table[0])

    def places(self) -> dict[str, int]:
        """The addresses of its parts."""
        table = ctypes.addressof(self.table)
        return {"table": table, "limit": table + 8, "ring": table + 16, "last_slot": _MOST_STACKS - 1}


_stacks = _Stacks()


@cache
def _stack_memory() -> tuple[jit.LoadedCode, dict[str, int]]:
    """The functions that replace `alloca`."""
    names = ("guarded.start", "guarded.end")
    text = _STACKS.format(page=_PAGE, last=_PAGE - 1, two=2 * _PAGE, **_stacks.places())
    code = jit.LoadedCode(compile_units([Unit(text, ready=False, weight=0)], jit.host()), names)
    return code, {name: code.address(name) for name in names}


@contextmanager
def _guarded_stacks(*, at_end: bool) -> Iterator[None]:
    """Compile kernels with guarded memory in place of stack arrays."""
    symbol = "guarded.end" if at_end else "guarded.start"

    def alloca(self: Function, type_: Type, count: int = 1) -> Value:
        name = self.fresh("stack")
        size = f"ptrtoint (ptr getelementptr ([{count} x {type_.text}], ptr null, i64 1) to i64)"
        self.module.declare("ptr", symbol, "i64")
        self.symbols.add(symbol)
        self.allocas.append(f"  {name} = call ptr @{symbol}(i64 {size})")
        return Value(self, PTR, name)

    with mock.patch.object(Function, "alloca", alloca):
        yield


@contextmanager
def _stack_symbols() -> Iterator[None]:
    """Provide the functions that replace `alloca` to code that is loaded in the block.

    Shared routines may have been compiled with them.
    """
    plain, known = jit.LoadedCode, _stack_memory()[1]

    def loaded(
        files: Sequence[bytes], exports: Sequence[str], symbols: Mapping[str, int] | None = None, kept: Any = None
    ) -> jit.LoadedCode:
        return plain(files, exports, {**(symbols or {}), **known}, kept)

    with mock.patch.object(jit, "LoadedCode", loaded):
        yield


def run_guarded(
    exe: Executable, inputs: list[Any], *, at_end: bool, fill: int = 0, only: str | None = None
) -> list[bytes]:
    """Run an executable once on guarded memory that is filled with `fill`; return its results.

    With `only`, just the array of that name is guarded (see `arrays`).
    """
    kept, tables = [], []
    for kind, specs, values in (("argument", exe.calls.arguments, inputs), ("result", exe.calls.results, None)):
        table = (ctypes.c_void_p * max(len(specs), 1))()
        for k, spec in enumerate(specs):
            memory = Guarded(0 if spec is None else spec.byte_size, at_end=at_end, access=_access(f"{kind} {k}", only))
            memory.fill(bytes([fill]) * memory.size)
            if values is not None and spec is not None:
                memory.fill(spec.taken(values[k]).tobytes())
            kept.append(memory)
            table[k] = memory.address
        tables.append(table)
    temp = Arena(exe, at_end=at_end, only=only)
    temp.fill(fill)
    word = (ctypes.c_int64 * 2)()
    _stacks.begin_run()
    status = bridge().call(exe.calls.code.run, *tables, temp.address, exe.calls.code.table, word)
    assert status == OK
    return [m.content() for m in kept[len(exe.calls.arguments) :]]


def arrays(exe: Executable) -> list[str]:
    """The names of the arrays that `run_guarded` guards."""
    named = [f"argument {k}" for k in range(len(exe.calls.arguments))]
    named += [f"result {k}" for k in range(len(exe.calls.results))]
    blocks = arena_blocks(exe)
    return [*named, *([name for *_, name in blocks] if _is_spread(blocks) else ["arena"])]


def random_inputs(exe: Executable, *, wild: bool) -> list[Any]:
    """An array for each argument; integers are small and floats normal unless `wild`.

    If `wild`, they have arbitrary bits.
    """
    rng = np.random.default_rng(0)
    return [None if spec is None else _random_input(rng, spec, wild=wild) for spec in exe.calls.arguments]


def _random_input(rng: np.random.Generator, spec: Any, *, wild: bool) -> Any:
    t, count = spec.shape.element_type, spec.shape.element_count
    if (
        wild
        and t.bits >= 8
        and spec.dtype.kind != "b"
        and not (t.is_integral and spec.shape.rank == 0 and rng.random() < 0.5)
    ):
        return np.frombuffer(rng.bytes(count * spec.dtype.itemsize), spec.dtype).reshape(spec.dimensions)
    if t.is_floating or t.is_complex:
        return rng.standard_normal(spec.dimensions).astype(spec.dtype)
    return rng.integers(0, 2, spec.dimensions).astype(spec.dtype)
