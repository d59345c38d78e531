"""Detect data races between a kernel's threads, which run one after the other.

Each byte of memory records its last writer, its readers, and the number of barriers since. Two
threads race for a byte if one writes it and their accesses are not ordered: within a block by a
barrier; between blocks nothing orders them. Atomic accesses race with plain ones only.

A call precedes each memory access in the kernel's IR:

    call void @xlanb.emu.access(ptr %emu.block, ptr %address, i32 %emu.tid, i32 %emu.ctaid,
                                i32 size, i32 kind, i32 line)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import I1, I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.gpu.launches import KernelLaunch, LaunchedCode
from xlanb.lazy_dataclass import dataclass

ACCESS = "xlanb.emu.access"
_READ, _WRITE, _ATOMIC = range(3)
_LOAD = re.compile(r"^  %[\w.]+ = load (atomic )?(?:volatile )?(<\d+ x \w+>|\w+), ptr (%[\w.]+)")
_STORE = re.compile(r"^  store (atomic )?(?:volatile )?(<\d+ x \w+>|\w+) .+?, ptr (%[\w.]+)(?:,| )")
_MODIFY = re.compile(r"^  %[\w.]+ = atomicrmw \w+ ptr (%[\w.]+), (\w+) ")
_SWAP = re.compile(r"^  %[\w.]+ = cmpxchg ptr (%[\w.]+), (\w+) ")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_SIZES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
_CELL = 32
"""Bytes of record per byte of memory: eight i32."""
_HEAD = 10
"""Words of a record before the ranges of memory."""
_MANY = -1


def watched(code: LaunchedCode) -> LaunchedCode:
    """Return a kernel whose memory accesses are recorded."""
    lines = list(_watched_lines(code.ir.split("\n")))
    lines.append(f"declare void @{ACCESS}(ptr, ptr, i32, i32, i32, i32, i32)")
    return replace(code, ir="\n".join(lines))


def _watched_lines(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        found = _access(line)
        if found is not None:
            address, size, kind = found
            yield (
                f"  call void @{ACCESS}(ptr %emu.block, ptr {address}, i32 %emu.tid, i32 "
                f"%emu.ctaid, i32 {size}, i32 {kind}, i32 {number})"
            )
        yield line


def _access(line: str) -> tuple[str, int, int] | None:
    """Return (address, bytes, kind) of an instruction that accesses memory."""
    plain = _LOAD.match(line) or _STORE.match(line)
    if plain is not None:
        kind = _ATOMIC if plain[1] else _READ if line.lstrip().startswith("%") else _WRITE
        return plain[3], _size(plain[2]), kind
    atomic = _MODIFY.match(line) or _SWAP.match(line)
    return None if atomic is None else (atomic[1], _size(atomic[2]), _ATOMIC)


def _size(type_: str) -> int:
    vector = _VECTOR.match(type_)
    return int(vector[1]) * _SIZES[vector[2]] if vector is not None else _SIZES[type_]


# -- in machine code -------------------------------------------------------------------------------


def define_access(module: ModuleBuilder) -> None:
    """Write the function that records accesses."""
    names = (("block", PTR), ("address", PTR), *((n, I32) for n in ("tid", "ctaid", "size", "kind", "line")))
    parameters = [Parameter(t, n) for n, t in names]
    f = Function(module, ACCESS, parameters, "nounwind", None, "internal")
    module.functions.append(f)
    block, address, tid, ctaid, size, kind, line = (f.argument(p) for p in parameters)
    record = Pointer(block, PTR)[6]
    place = f.let(I64, f"ptrtoint {address!r} to i64")
    head = Pointer(record, I64)
    with f.carried(head[_HEAD - 1], [f.const(I64, 0)] * 2, guarded=True) as loop:
        row = head.by(f.add(f.mul(loop.index, 4), _HEAD))
        offset = place - row[0]
        inside = offset.ult(row[1])
        cell, shared = loop.values
        loop.next = [inside.select(row[2] + offset * _CELL, cell), inside.select(row[3], shared)]
    cell, shared = loop.values
    threads = Pointer(block, I64)[4].trunc(I32)
    me = ctaid * threads + tid + 1
    access = _Access(f, head, me, ctaid, threads, kind, line, place, shared.differs(0))
    with f.when(cell.differs(0)), f.loop(size.zext(I64)) as n:
        at = f.let(PTR, f"inttoptr {(cell + f.value(n) * _CELL)!r} to ptr")
        access.note(Pointer(at, I32))


@dataclass(frozen=True)
class _Access:
    """One access in the function being written."""

    f: Function
    head: Pointer
    me: Value
    ctaid: Value
    threads: Value
    kind: Value
    line: Value
    place: Value
    is_shared: Value

    def note(self, cell: Pointer) -> None:
        """Compare with previous accesses, then record this one."""
        writer, write_epoch, write_atomic, write_line, reader, read_epoch, read_block, read_line = (
            cell[k] for k in range(8)
        )
        epoch = self.head[0].trunc(I32)
        writes, atomic = self.kind.differs(_READ), self.kind.equals(_ATOMIC)
        other = writer.differs(0) & writer.differs(self.me)
        far = (writer - 1).udiv(self.threads).differs(self.ctaid) & ~self.is_shared
        lost_write = other & (write_epoch.equals(epoch) | far) & ~(atomic & write_atomic.differs(0))
        near_read = read_epoch.equals(epoch) & reader.differs(self.me) & reader.differs(0)
        far_read = read_block.differs(0) & read_block.differs(self.ctaid + 1) & ~self.is_shared
        lost_read = writes & (near_read | far_read) & ~lost_write
        with self.f.when((lost_write | lost_read) & self.head[1].equals(0)):
            known: list[Value | int] = [1, self.place, self.me, self.line, self.kind, lost_write]
            known += [lost_write.select(writer, reader), lost_write.select(write_line, read_line)]
            for k, v in enumerate(known, 1):
                self.head[k] = v if isinstance(v, Value) and v.type is I64 else self._wide(v)
        self._remember(cell, epoch, writes, atomic)

    def _wide(self, v: Value | int) -> Value:
        if not isinstance(v, Value):
            return self.f.const(I64, v)
        return v.zext(I64) if v.type is I1 else v.sext(I64)

    def _remember(self, cell: Pointer, epoch: Value, writes: Value, atomic: Value) -> None:
        f = self.f
        with f.when(writes):
            for k, v in enumerate((self.me, epoch, atomic.zext(I32), self.line)):
                cell[k] = v
        with f.when(~writes):
            same = cell[5].equals(epoch) & cell[4].differs(self.me)
            cell[4] = same.select(f.const(I32, _MANY), self.me)
            cell[5] = epoch
            own, known = self.ctaid + 1, cell[6]
            cell[6] = (known.differs(0) & known.differs(own)).select(f.const(I32, _MANY), own)
            cell[7] = self.line


# -- in Python -------------------------------------------------------------------------------------


class Watch:
    """The record of memory accesses of one kernel launch."""

    def __init__(self, kernel: KernelLaunch, addresses: Sequence[int], shared: int) -> None:
        self.kernel = kernel
        self.ranges = [(a.name, start, a.place.size, 0) for a, start in zip(kernel.arguments, addresses, strict=True)]
        if kernel.shared_bytes:
            self.ranges.append(("shared memory", shared, kernel.shared_bytes, 1))
        self._shadows: list[Any] = [np.zeros(size * _CELL, np.uint8) for _, _, size, _ in self.ranges]
        words = [0] * _HEAD
        words[_HEAD - 1] = len(self.ranges)
        for (_, start, size, is_shared), shadow in zip(self.ranges, self._shadows, strict=True):
            words += [start, size, shadow.ctypes.data, is_shared]
        self._record = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self._record)

    @property
    def race(self) -> str:
        """Describe the race that was found, or return ""."""
        _, found, place, me, line, kind, by_write, other, other_line = self._record[:9]
        if not found:
            return ""
        did = ("reads", "writes", "updates atomically")[kind]
        before = "wrote" if by_write else "read"
        who = f"thread {self._thread(other)}" if other > 0 else "other threads"
        return (
            f"race in kernel {self.kernel.name}: thread {self._thread(me)} {did} {self._where(place)} "
            f"({self._line(line)}), which {who} {before} ({self._line(other_line)}) with no barrier between"
        )

    def _thread(self, number: int) -> str:
        block, thread = divmod(number - 1, self.kernel.threads)
        return f"{thread} of block {block}"

    def _where(self, place: int) -> str:
        return next((f"{name}+{place - a}" for name, a, size, _ in self.ranges if a <= place < a + size), hex(place))

    def _line(self, number: int) -> str:
        lines = self.kernel.code.ir.split("\n")
        return f"line {number}: {lines[number - 1].strip()}"
