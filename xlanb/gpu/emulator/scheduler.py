"""Run blocks of threads on a CPU, each thread until it waits; wake them when they can continue.

    run(arguments, first, last, record)      runs blocks first, ..., last - 1 of a kernel in order;
                                             returns 0 or an error code

A thread that waits for its warp continues when all 32 lanes wait for it. One that waits for the
block continues when every thread of it waits or has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.target import Target
from xlanb.codegen.types import FLOAT, HALF, I1, I16, I32, I64, PTR, VOID, Type
from xlanb.codegen.values import Value
from xlanb.gpu.emulator.races import ACCESS, define_access, watched
from xlanb.gpu.emulator.rewriting import (
    EXCHANGED,
    MMA,
    WAITS_FOR_BLOCK,
    WAITS_FOR_NOTHING,
    WAITS_FOR_WARP,
    parameters_text,
    rewritten,
)
from xlanb.gpu.launches import LaunchedCode
from xlanb.lazy_dataclass import dataclass

OK, DIVERGED = 0, 1
"""What `run` gives: all threads have ended; lanes of a warp wait for others that do not come."""
_WARP = 32
_COROUTINES = (
    "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
    "declare ptr @llvm.coro.begin(token, ptr)",
    "declare i64 @llvm.coro.size.i64()",
    "declare i8 @llvm.coro.suspend(token, i1)",
    "declare void @llvm.coro.end(ptr, i1, token)",
    "declare void @llvm.coro.resume(ptr)",
    "declare ptr @malloc(i64)",
)


@dataclass(frozen=True)
class Emulated:
    """A kernel in a CPU module: the symbol of its `run`."""

    symbol: str
    arguments: int


class EmulatorModule:
    """An LLVM IR module for the CPU with kernels and the functions that run their blocks.

    With `check`, each memory access is recorded (see races.py).
    """

    def __init__(self, target: Target, *, check: bool = False) -> None:
        self._builder = ModuleBuilder("emulator", target)
        self._check = check
        if check:
            define_access(self._builder)
        self._declared: set[str] = set()
        self._multipliers: set[str] = set()
        self._count = 0

    def add(self, code: LaunchedCode, threads: int) -> Emulated:
        """Add a kernel with blocks of this many threads.

        Raises:
            CompilationError: it has an unsupported NVVM intrinsic.
        """
        prefix = f"k{self._count}."
        self._count += 1
        outside, declarations, text = rewritten(watched(code) if self._check else code, prefix)
        declarations = [d for d in declarations if f"@{ACCESS}(" not in d]
        if code.waits:
            declarations += _COROUTINES
        for line in declarations:
            self._declared.add(line)
        m = self._builder
        for kind, symbol in MMA.items():
            if f"@{symbol}(" in text and symbol not in self._multipliers:
                self._multipliers.add(symbol)
                define_multiplier(m, symbol, HALF if kind == "f32.f32" else I16)
        m.globals.update({f"{prefix}{k}": line for k, line in enumerate(outside)})
        m.declarations[f"{prefix}kernel"] = text
        names = [p.rsplit("%", 1)[1] for p in parameters_text(code).split(", ") if p]
        kernel = f"{prefix}{code.function}"
        run = self._run(prefix, kernel, len(names), threads, waits=code.waits)
        return Emulated(run, len(names))

    def text(self) -> str:
        """Return the module's text."""
        body = self._builder.text()
        known = {line.split("@", 1)[1].split("(", 1)[0] for line in body.split("\n") if line.startswith("declare ")}
        more = {line for line in self._declared if line.split("@", 1)[1].split("(", 1)[0] not in known}
        return "\n".join([body, *sorted(more), ""])

    def _run(self, prefix: str, kernel: str, arguments: int, threads: int, *, waits: bool) -> str:
        parameters = [Parameter(PTR, "args"), Parameter(I64, "first"), Parameter(I64, "last"), Parameter(PTR, "block")]
        f = Function(self._builder, f"{prefix}run", parameters, "nounwind", None, "")
        self._builder.functions.append(f)
        f.result = I64
        table, first, last, block = (f.argument(p) for p in parameters)
        given = [Pointer(table, PTR)[k] for k in range(arguments)]
        blocks = _Blocks(f, kernel, given, threads, block, check=self._check)
        if waits:
            f.give(blocks.run_waiting(first, last))
        else:
            blocks.run_plain(first, last)
            f.give(f.const(I64, OK))
        return f.name


def define_multiplier(module: ModuleBuilder, symbol: str, element: Type) -> None:
    """Write the function that computes a lane's results of mma.m16n8k16.

    It reads the fragments that all lanes have stored, six words of two elements each (see
    emitters/tensor_cores.py).
    """
    names = (("warp", PTR), ("lane", I32), ("out", PTR), *((f"c{n}", FLOAT) for n in range(4)))
    parameters = [Parameter(t, n) for n, t in names]
    f = Function(module, symbol, parameters, "nounwind", None, "internal")
    module.functions.append(f)
    warp, lane, out, *totals = (f.argument(p) for p in parameters)
    group, pair = f.value(lane.zext(I64).lshr(2)), f.value((lane.zext(I64) & 3) * 2)

    def element_of(owner: Value, word: Value, half: Value) -> Value:
        """Return one of the two elements of a word that a lane stored."""
        at = Pointer(warp, I64).address(owner * EXCHANGED + word)
        raw = Pointer(at, element)[half]
        if element is HALF:
            return raw.cast("fpext", FLOAT)
        return (raw.zext(I32) << 16).bits_as(FLOAT)

    for n, total in enumerate(totals):
        lower, column = n // 2, pair + n % 2
        with f.carried(16, [f.const(FLOAT, 0.0)]) as loop:
            depth = f.value(loop.index)
            owner, far, half = (depth & 7).lshr(1), depth.lshr(3), depth & 1
            a = element_of(group * 4 + owner, far * 2 + lower, half)
            b = element_of(column * 4 + owner, far + 4, half)
            loop.next = [loop.values[0] + a * b]
        Pointer(out, FLOAT)[n] = total + loop.values[0]


class _Blocks:
    """The loops over the blocks of a kernel."""

    def __init__(
        self, f: Function, kernel: str, given: Sequence[Value], threads: int, block: Value, *, check: bool
    ) -> None:
        self.f, self.kernel, self.given, self.threads, self.block = f, kernel, given, threads, block
        self.check = check

    def _begin_epoch(self) -> None:
        """Order earlier accesses of all threads before later ones."""
        if self.check:
            epoch = Pointer(Pointer(self.block, PTR)[6], I64)
            epoch[0] = epoch[0] + 1

    def _begin(self, thread: Value, number: Value, result: str) -> str:
        """Write the call that starts a thread."""
        arguments = [*self.given, thread, number, self.block]
        return f"call {result} @{self.kernel}({', '.join(map(repr, arguments))})"

    def run_plain(self, first: Value, last: Value) -> None:
        """Run threads that never wait, one after the other."""
        f = self.f
        with f.loop(last, first, guarded=True) as b:
            self._begin_epoch()
            self._each(b)

    def _each(self, b: Value | int) -> None:
        """Run all threads of a block."""
        f = self.f
        with f.loop(self.threads) as t:
            f.write(self._begin(f.value(t).trunc(I32), f.value(b).trunc(I32), "void"))

    def run_waiting(self, first: Value, last: Value) -> Value:
        """Run threads as coroutines; return an error code."""
        f = self.f
        states = Pointer(Pointer(self.block, PTR)[2], I32)
        handles = Pointer(Pointer(self.block, PTR)[5], PTR)
        with f.carried(last, [f.const(I64, OK)], first, guarded=True) as blocks:
            self._begin_epoch()
            with f.loop(self.threads) as t:
                handles[t] = f.let(PTR, self._begin(f.value(t).trunc(I32), f.value(blocks.index).trunc(I32), "ptr"))
            with f.rounds([blocks.values[0]]) as loop:  # from barrier to barrier
                failed = self._warps(states, handles, loop.values[0])
                self._begin_epoch()
                waiting = self._wake(states, handles, 0, self.threads, WAITS_FOR_BLOCK)
                loop.next, loop.again = [failed], waiting.differs(0) & failed.equals(OK)
            blocks.next = [loop.values[0]]
        return blocks.values[0]

    def _warps(self, states: Pointer, handles: Pointer, failed: Value) -> Value:
        """Run each warp until none of its lanes waits for the others; return an error code."""
        f = self.f
        with f.carried(self.threads // _WARP, [failed]) as warps:
            begin = f.mul(warps.index, _WARP)
            with f.rounds([warps.values[0]]) as loop:
                count = self._count(states, begin)
                some, all_ = count.differs(0), count.equals(_WARP)
                worse = (some & ~all_).select(f.const(I64, DIVERGED), loop.values[0])
                with f.when(all_):
                    self._wake(states, handles, begin, _WARP, WAITS_FOR_WARP)
                loop.next, loop.again = [worse], all_
            warps.next = [loop.values[0]]
        return warps.values[0]

    def _count(self, states: Pointer, begin: Value | int) -> Value:
        """Return how many lanes of a warp wait for it."""
        f = self.f
        with f.carried(_WARP, [f.const(I64, 0)]) as loop:
            waits = states[f.add(begin, loop.index)].equals(WAITS_FOR_WARP)
            loop.next = [loop.values[0] + waits.zext(I64)]
        return loop.values[0]

    def _wake(self, states: Pointer, handles: Pointer, begin: Value | int, count: int, state: int) -> Value:
        """Resume threads that wait for something; return how many."""
        f = self.f
        with f.carried(count, [f.const(I64, 0)]) as loop:
            at = f.add(begin, loop.index)
            waits = states[at].equals(state)
            with f.when(waits):
                f.write(f"call void @llvm.coro.resume({handles[at]!r})")
            loop.next = [loop.values[0] + waits.zext(I64)]
        return loop.values[0]


__all__ = ["DIVERGED", "I1", "OK", "VOID", "WAITS_FOR_NOTHING", "Emulated", "EmulatorModule"]
