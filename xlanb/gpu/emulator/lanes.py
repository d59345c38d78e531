"""Trace one warp of a kernel, instruction by instruction: what each of its 32 lanes computes.

A recording call is added after each instruction of the kernel's LLVM IR; the emulator then runs one
block of it. The values of a warp's lanes are collected by line and by how often a lane has reached
it. Lanes in another branch, or that have left a loop, have no value in a row.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from xlanb.codegen import jit, llvm
from xlanb.codegen.half import conversions
from xlanb.codegen.translation import Passes, translate
from xlanb.errors import ArgumentError, EvaluationError
from xlanb.gpu.emulator.machine import EmulatedBlock, Emulator, address_of
from xlanb.gpu.emulator.scheduler import OK, EmulatorModule
from xlanb.gpu.emulator.warp_trace import WarpStep, WarpTrace
from xlanb.gpu.launches import KernelLaunch, LaunchedCode

WARP = 32
_MOST = 2_000_000
"""The most values to record; a warp in a long loop computes more than is useful."""
_SAID = "xlanb.emu.said"
_PASSES = Passes(1, vectorize_loops=False, vectorize_slp=False, unroll=False)
_NAMED = re.compile(r"^  (%[\w.]+) = (.+?)(?:, !dbg !(\d+))?$")
_STORE = re.compile(r"^  store (?:volatile )?(\w+) ([^,]+), ptr(?: addrspace\(\d\))? ([^,]+)")
_BARRIER = re.compile(r"^  call void @llvm\.nvvm\.bar")
_ACCESS = re.compile(r"^  (?:%[\w.]+ = )?(?:load|store|atomicrmw|cmpxchg)\b")
_ADDRESS = re.compile(r"\bptr(?: addrspace\(\d\))? ([%@][\w.]+)")
_LABEL = re.compile(r"^[\w.$-]+:")
_TO = re.compile(r" to ([\w ()]+)$")
_WORDS = re.compile(r"[a-z]+")
_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64}
_FLAGS = frozenset(
    ("nuw", "nsw", "exact", "nneg", "inbounds", "fast", "reassoc", "contract", "nnan", "ninf", "nsz", "arcp", "afn",
    "disjoint",
     "tail", "samesign", "volatile", "noundef")
)  # fmt: skip
_CASTS = frozenset(
    ("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "bitcast", "ptrtoint")
)


def run_warp(emulator: Emulator, memories: Sequence[Any], name: str, block: int, warp: int) -> WarpTrace:
    """Run a program's launches up to a kernel, then one block of it, and trace a warp.

    Args:
        emulator: the program's emulator.
        memories: device memory with the arguments in it (see Emulator.memories).
        name: the kernel's name; "" if there is only one.
        block: the number of the block in the grid.
        warp: the number of the warp in the block.

    Raises:
        ArgumentError: there is no such kernel, block or warp, or no launch reaches the kernel.
        EvaluationError: lanes wait for each other forever.
    """
    kernel = _chosen(emulator.program.kernels, name)
    warps = -(-kernel.threads // WARP)
    for what, number, count in (("block", block, kernel.blocks), ("warp", warp, warps)):
        if not 0 <= number < count:
            raise ArgumentError(f"kernel {kernel.name} has {what}s 0 to {count - 1}, not {number}")
    addresses = emulator.run_until(memories, kernel)
    if addresses is None:
        raise ArgumentError(f"kernel {kernel.name} was not launched with these arguments")
    watched = _Watched(kernel, addresses, range(warp * WARP, min((warp + 1) * WARP, kernel.threads)))
    watched.run(block)
    lanes = len(watched.threads)
    steps = tuple(watched.steps())
    return WarpTrace(kernel.name, block, warp, lanes, kernel.code.ir, steps, watched.is_cut)


def _chosen(kernels: Sequence[KernelLaunch], name: str) -> KernelLaunch:
    known = {k.name: k for k in kernels} | {k.instruction.name: k for k in kernels}
    if not name and len(kernels) == 1:
        return kernels[0]
    if name not in known:
        names = ", ".join(k.name for k in kernels)
        raise ArgumentError(f"{'name a kernel' if not name else f'no kernel {name!r}'}: there are {names or 'none'}")
    return known[name]


class _Watched:
    """A kernel that records what its threads compute."""

    def __init__(self, kernel: KernelLaunch, addresses: Sequence[int], threads: range) -> None:
        self.kernel, self.addresses, self.threads = kernel, addresses, threads
        self.types: dict[int, str] = {}
        self.texts = kernel.code.ir.split("\n")
        self.said: dict[int, list[tuple[int, int]]] = {t: [] for t in threads}
        self.count = 0
        self.shared = 0

    @property
    def is_cut(self) -> bool:
        """Whether the record is truncated."""
        return self.count > _MOST

    def run(self, block: int) -> None:
        """Run one block.

        Raises:
            EvaluationError: lanes wait for each other forever.
        """
        code = self._instrumented()
        target = jit.host()
        module = EmulatorModule(target)
        made = module.add(code, self.kernel.threads)
        text = module.text()
        data = translate(text + conversions(text, target), llvm.TargetModel(target, 1), _PASSES)
        callback = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)(self._record_value)
        symbols = {"malloc": address_of("malloc"), _SAID: ctypes.cast(callback, ctypes.c_void_p).value or 0}
        loaded = jit.LoadedCode([data], [made.symbol], symbols, callback)
        signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        function = signature(loaded.address(made.symbol))
        table = (ctypes.c_uint64 * max(1, len(self.addresses)))(*self.addresses)
        state = EmulatedBlock(self.kernel)
        self.shared = state.shared
        try:
            status = function(table, block, block + 1, state.address)
        finally:
            state.free()
        if status != OK:
            raise EvaluationError(f"kernel {self.kernel.name}: some lanes of a warp wait for others that never arrive")

    def _record_value(self, thread: int, line: int, bits: int) -> None:
        found = self.said.get(thread)
        if found is not None:
            self.count += 1
            if self.count <= _MOST:
                found.append((line, bits))

    # -- the recording kernel ----------------------------------------------------------------------

    def _instrumented(self) -> LaunchedCode:
        """Return the kernel with a recording call after each recordable instruction."""
        out: list[str] = []
        inside = False
        waiting: list[str] = []  # for the end of a block's phis
        for number, line in enumerate(self.texts, 1):
            inside = inside or line.startswith("define ptx_kernel ")
            calls = list(self._calls(number, line)) if inside else []
            if " = phi " not in line and waiting and not _LABEL.match(line):
                out += waiting
                waiting = []
            if _BARRIER.match(line):
                out += [*calls, line]
                continue
            out.append(line)
            if " = phi " in line:
                waiting += calls
            else:
                out += calls
            inside = inside and line != "}"
        return replace(self.kernel.code, ir="\n".join([*out, f"declare void @{_SAID}(i32, i32, i64)"]))

    def _calls(self, number: int, line: str) -> Iterator[str]:
        """Yield the calls that record the value of a line's instruction."""
        store = _STORE.match(line)
        if store is not None:
            yield from self._call(number, store[1], store[2])
        elif _BARRIER.match(line):
            self.types[number] = "barrier"
            yield f"  call void @{_SAID}(i32 %emu.tid, i32 {number}, i64 0)"
        else:
            named = _NAMED.match(line)
            kind = result_type(named[2]) if named is not None else ""
            if named is not None and kind:
                yield from self._call(number, kind, named[1])

    def _call(self, number: int, kind: str, value: str) -> Iterator[str]:
        if kind not in _BITS and kind != "ptr":
            return
        self.types[number] = kind
        name, bits = f"%emu.said{number}", _BITS.get(kind, 64)
        if kind == "ptr":
            yield f"  {name} = ptrtoint ptr {value} to i64"
        elif kind in ("half", "bfloat", "float", "double"):
            yield f"  {name}.bits = bitcast {kind} {value} to i{bits}"
            yield from (
                [f"  {name} = zext i{bits} {name}.bits to i64"] if bits < 64 else [f"  {name} = add i64 {name}.bits, 0"]
            )
        elif bits < 64:
            yield f"  {name} = zext {kind} {value} to i64"
        else:
            yield f"  {name} = add i64 {value}, 0"
        yield f"  call void @{_SAID}(i32 %emu.tid, i32 {number}, i64 {name})"

    # -- recorded values ---------------------------------------------------------------------------

    def steps(self) -> Iterator[WarpStep]:
        """Return the rows of all lanes."""
        rows: dict[tuple[int, int], dict[int, int]] = {}
        places: dict[tuple[int, int], dict[int, str]] = {}
        before: dict[tuple[int, int], dict[tuple[int, int], None]] = {}
        for lane, thread in enumerate(self.threads):
            count: dict[int, int] = {}
            pointers = {f"%{a.name}": f"{a.name}+0" for a in self.kernel.arguments}
            last: tuple[int, int] | None = None
            for line, bits in self.said[thread]:
                count[line] = count.get(line, 0) + 1
                key = line, count[line]
                rows.setdefault(key, {})[lane] = bits
                before.setdefault(key, {})
                if operand := self._address_operand(line):
                    places.setdefault(key, {})[lane] = pointers.get(operand, "")
                if self.types[line] == "ptr":
                    pointers[self.texts[line - 1].split()[0]] = self._pointer(bits & (2**64 - 1))
                if last is not None:
                    before[key][last] = None
                last = key
        for line, number in _in_order(before):
            found = rows[line, number]
            kind = self.types[line]
            values = tuple(self._value(kind, found[lane]) if lane in found else None for lane in range(WARP))
            text = self.texts[line - 1].strip().split(", !dbg ")[0]
            at = places.get((line, number))
            addresses = tuple(at.get(lane) or None for lane in range(WARP)) if at is not None else ()
            yield WarpStep(line, text, number, values, addresses)

    def _address_operand(self, line: int) -> str:
        """Return the pointer that an access to memory reads or writes through; "" if none."""
        text = self.texts[line - 1]
        if not _ACCESS.match(text):
            return ""
        found = _ADDRESS.findall(text)
        return found[-1 if text.startswith("  store ") else 0] if found else ""

    def _value(self, kind: str, bits: int) -> int | float | str:
        if kind == "barrier":
            return "waits"
        if kind == "ptr":
            return self._pointer(bits & (2**64 - 1))
        size = _BITS[kind]
        raw = bits & ((1 << size) - 1)
        if kind in ("float", "double", "half"):
            form = {"float": "<f", "double": "<d", "half": "<e"}[kind]
            return float(struct.unpack(form, raw.to_bytes(size // 8, "little"))[0])
        if kind == "bfloat":
            return float(struct.unpack("<f", (raw << 16).to_bytes(4, "little"))[0])
        return raw - (1 << size) if size > 1 and raw >> (size - 1) else raw

    def _pointer(self, address: int) -> str:
        """Return what an address points to: an argument or shared memory, with a byte offset."""
        for argument, base in zip(self.kernel.arguments, self.addresses, strict=True):
            if base <= address <= base + argument.place.size:
                return f"{argument.name}+{address - base}"
        if self.shared <= address <= self.shared + self.kernel.shared_bytes:
            return f"shared+{address - self.shared}"
        return hex(address)


def _in_order(before: Mapping[tuple[int, int], Mapping[tuple[int, int], None]]) -> list[tuple[int, int]]:
    """Order steps so that each lane's are in its own order.

    Lanes that passed the same positions in different orders keep the order of arrival.
    """
    place = {key: n for n, key in enumerate(before)}
    sorter = TopologicalSorter({key: list(earlier) for key, earlier in before.items()})
    try:
        sorter.prepare()
    except CycleError:
        return list(before)
    order: list[tuple[int, int]] = []
    ready: list[tuple[int, int]] = list(sorter.get_ready())
    while ready:
        ready.sort(key=lambda key: (key[1], key[0], place[key]), reverse=True)
        key = ready.pop()
        order.append(key)
        sorter.done(key)
        ready += sorter.get_ready()
    return order


def result_type(instruction: str) -> str:
    """Return an instruction's result type from its text (after `%v = `): "float", "ptr", "i32".

    Returns "" if it is not recorded.
    """
    opcode, _, rest = instruction.partition(" ")
    if opcode in _CASTS or (opcode == "addrspacecast"):
        to = _TO.search(instruction)
        return to[1].strip() if to is not None else ""
    if opcode in ("icmp", "fcmp"):
        return "" if "<" in instruction.split(" ")[2] else "i1"
    if opcode in ("getelementptr", "alloca", "inttoptr"):
        return "ptr" if opcode == "getelementptr" else ""
    if opcode == "select":
        return rest.split(", ")[1].split(" ")[0] if ", " in rest else ""
    words = [w for w in rest.split(" ") if w not in _FLAGS]
    if opcode == "call":
        words = [w for w in words if w != "call"]
    first = words[0].rstrip(",") if words else ""
    return first if first in _BITS or first == "ptr" else ""
