"""How many threads a job may have, and on which processors its workers run.

The limit is the one set by Python (`LIMIT`), otherwise the CPUs that the calling thread may run on,
but no more than the quotas of control groups grant. A calling thread checks these again every tenth
of a second.

If other processes run too, the scheduler may keep a worker on the caller's processor: then two
threads do the work of one, though another processor may be free. A worker that finds itself there
reports it (`crowded`). For a quarter of a second workers are then kept off that processor, except
while the caller
sleeps: the thread it waits for may have been preempted, and continues in its place.

Invariants
- Ownership: `mask`, `looked` and `excluded` belong to whoever has set the pool's `busy`. `limit`,
  `caller` and `crowded` are read and written atomically by anybody; an old value only costs time.
- Threads: `handles` has the thread of each worker, which sets it itself and never ends.
- Nothing here touches Python. The paths of the quotas' files are set once and stay.
"""

from __future__ import annotations

import ctypes

from xlanb.codegen.cpus import MAX_THREADS, Quota
from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeFunction, NativeModule, NativeVariable, null, stack
from xlanb.codegen.places import Place, word_at
from xlanb.codegen.types import I8, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.runtime import system
from xlanb.lazy_dataclass import dataclass

LIMIT, QUOTAS, LOOK = "xlanb.pool.limit", "xlanb.pool.quotas", "xlanb.pool.look"
"""Functions for Python: set the limit (0: none); set the quotas' files (an array of `QuotaFiles`
and its length); check again and return the limit."""
_LOOKS_NS = 100_000_000
"""Nanoseconds between two checks."""
_CROWDED_NS = 250_000_000
"""Nanoseconds for which workers are kept off a processor."""
_MASK_WORDS = 128
"""Words of a mask: the most processors of a kernel (CONFIG_NR_CPUS is at most 8192)."""
_LINE_BYTES = 64
_ALL = (1 << 31) - 1


class QuotaFiles(ctypes.Structure):
    """The paths of a `Quota`; `period` is null if one file has both numbers."""

    _fields_ = (("quota", ctypes.c_char_p), ("period", ctypes.c_char_p))

    @classmethod
    def of(cls, quota: Quota) -> QuotaFiles:
        """The paths as C strings."""
        return cls(quota.quota.encode(), quota.period.encode() or None)


@dataclass(frozen=True)
class Processors:
    """The variables, and the functions for the rest of the pool."""

    asked: NativeVariable
    limit: NativeVariable
    looked: NativeVariable
    mask: NativeVariable
    handles: NativeVariable
    excluded: NativeVariable
    caller: NativeVariable
    crowded: NativeVariable
    look: NativeFunction
    keep_off: NativeFunction

    def due(self, f: Function) -> None:
        """Check again if the last check is old; called by the owner of the pool."""
        time = system.now(f, system.MONOTONIC_COARSE)
        with f.when((time - self.looked(f).load()).ugt(_LOOKS_NS)):
            self.looked(f).store(time)
            self.look(f)

    def place(self, f: Function) -> None:
        """Publish the owner's processor before a job; keep workers that were found there off."""
        cpu = system.processor(f)
        self.caller(f).store(cpu, "monotonic")
        until = self.crowded(f).load("monotonic")
        with f.when(until.differs(0)):
            over = until.ult(system.now(f, system.MONOTONIC_COARSE))
            with f.when(over):
                self.crowded(f).store(0, "monotonic")
                self.free(f)
            with f.when(~over & cpu.differs(self.excluded(f).load())):
                self.keep_off(f, cpu)

    def free(self, f: Function) -> None:
        """Let workers run on all of the owner's processors again; called by the owner."""
        with f.when(self.excluded(f).load() >= 0):
            self.keep_off(f, f.const(I32, -1))

    def meets(self, f: Function) -> None:
        """Report if a worker that starts a job runs on its caller's processor."""
        with f.when(system.processor(f).equals(self.caller(f).load("monotonic"))):
            until = system.now(f, system.MONOTONIC_COARSE) + _CROWDED_NS
            self.crowded(f).store(until, "monotonic")

    def begins(self, f: Function, slot: Value) -> None:
        """Register a new worker."""
        word_at(self.handles.address(f), slot).store(system.thread(f), "monotonic")

    def reset(self, f: Function) -> None:
        """Reset in the child of a fork, which has no workers."""
        f.fill_zero(self.handles.address(f), 8 * (MAX_THREADS + 1), align=8)
        self.excluded(f).store(-1)
        self.crowded(f).store(0, "monotonic")
        self.looked(f).store(0)


def write(m: NativeModule) -> Processors:
    """Emit the functions."""
    asked, limit = m.variable("asked", I64), m.variable("limit", I32, 16, first=1)
    mask, handles = m.variable("mask", I64, _MASK_WORDS), m.variable("handles", I64, MAX_THREADS + 1)
    excluded = m.variable("excluded", I32, first=-1)
    keep_off = _write_keep_off(m, mask, handles, excluded)
    looked = m.variable("looked", I64)
    allow = _write_allow(m, limit)
    look = _write_look(m, _Looks(asked, limit, mask, allow, keep_off, _write_granted(m)))
    _write_limit(m, asked, looked, allow)
    caller, crowded = m.variable("caller", I32, 16), m.variable("crowded", I64, 8)
    return Processors(asked, limit, looked, mask, handles, excluded, caller, crowded, look, keep_off)


def _write_keep_off(
    m: NativeModule, mask: NativeVariable, handles: NativeVariable, excluded: NativeVariable
) -> NativeFunction:
    @m.define("keep.off", VOID, cpu=I32)
    def keep_off(f: Function, cpu: Value) -> None:
        """Let workers run on the owner's processors except one (-1: on all), if others remain."""
        given, bytes_ = stack(f, 8 * _MASK_WORDS), f.const(I64, 8 * _MASK_WORDS)
        f.call(VOID, "llvm.memcpy.p0.p0.i64", given, mask.address(f), bytes_, system.no(f))
        with f.when(cpu >= 0):
            word = word_at(given, cpu.zext(I64).lshr(6))
            word.store(word.load() & ((f.const(I64, 1) << (cpu.zext(I64) & 63)) ^ -1))
        with f.carried(f.const(I64, _MASK_WORDS), [f.const(I64, 0)]) as loop:
            loop.next = [loop.values[0] | word_at(given, loop.index).load()]
        with f.when(loop.values[0].equals(0)):
            f.give()
        with f.loop(f.const(I64, MAX_THREADS + 1), 1, guarded=True) as k:
            worker = word_at(handles.address(f), k).load("monotonic")
            with f.when(worker.differs(0)):
                f.call(I32, "pthread_setaffinity_np", worker, bytes_, given)
        excluded(f).store(cpu)

    return keep_off


# -- the limit -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Looks:
    asked: NativeVariable
    limit: NativeVariable
    mask: NativeVariable
    allow: NativeFunction
    keep_off: NativeFunction
    granted: NativeFunction


def _write_allow(m: NativeModule, limit: NativeVariable) -> NativeFunction:
    @m.define("allow", VOID, count=I64)
    def allow(f: Function, count: Value) -> None:
        """Set the limit and wake the workers that were beyond it."""
        now = count.smin(MAX_THREADS).smax(1).trunc(I32)
        with f.when(limit(f).exchange(now).differs(now)):
            system.futex(f, limit.address(f), system.FUTEX_WAKE, f.const(I32, _ALL), null(f))

    return allow


def _write_limit(m: NativeModule, asked: NativeVariable, looked: NativeVariable, allow: NativeFunction) -> None:
    @m.define(LIMIT, VOID, exported=True, count=I64)
    def limit(f: Function, count: Value) -> None:
        """Set Python's limit; 0 makes the next job check again."""
        asked(f).store(count, "monotonic")
        with f.when(count.equals(0)):
            looked(f).store(0)
        with f.when(count.differs(0)):
            allow(f, count)


def _write_look(m: NativeModule, parts: _Looks) -> NativeFunction:
    @m.define("look", VOID)
    def look(f: Function) -> None:
        """Check on which processors this thread may run, and what the quotas grant."""
        seen, bytes_ = stack(f, 8 * _MASK_WORDS), f.const(I64, 8 * _MASK_WORDS)
        failed = f.call(I32, "sched_getaffinity", f.const(I32, 0), bytes_, seen).differs(0)
        with f.when(failed):
            f.give()
        zero = f.const(I64, 0)
        with f.carried(f.const(I64, _MASK_WORDS), [zero, zero]) as loop:
            word, kept = word_at(seen, loop.index).load(), word_at(parts.mask.address(f), loop.index)
            change = word ^ kept.load()
            kept.store(word)
            loop.next = [loop.values[0] + f.intrinsic("ctpop", word), loop.values[1] | change]
        count, changed = loop.values
        with f.when(changed.differs(0)):
            parts.keep_off(f, f.const(I32, -1))
        with f.when(parts.asked(f).load("monotonic").equals(0)):
            parts.allow(f, count.smin(parts.granted(f)))

    @m.define(LOOK, I64, exported=True)
    def look_now(f: Function) -> Value:
        look(f)
        return parts.limit(f).load("seq_cst").zext(I64)

    return look


def _write_granted(m: NativeModule) -> NativeFunction:
    files, count, mode = (
        m.variable("quota.files", PTR),
        m.variable("quota.count", I64),
        m.variable("read", I8, 2, first=114),
    )

    @m.define(QUOTAS, VOID, exported=True, given=PTR, number=I64)
    def quotas(f: Function, given: Value, number: Value) -> None:
        files(f).store(given)
        count(f).store(number)

    @m.define("first.line", I64, path=PTR, text=PTR)
    def first_line(f: Function, path: Value, text: Value) -> Value:
        """The number at the beginning of a file; 0 if there is none.

        Reads the first line to `text`.
        """
        f.fill_zero(text, _LINE_BYTES, align=8)
        file = f.call(PTR, "fopen", path, mode.address(f))
        with f.when(~system.is_null(file)):
            f.call(PTR, "fgets", text, f.const(I32, _LINE_BYTES), file)
            f.call(I32, "fclose", file)
        return f.call(I64, "strtoll", text, null(f), f.const(I32, 10))

    @m.define("quota.cpus", I64, files=PTR)
    def cpus(f: Function, at: Value) -> Value:
        """The processors that a quota grants, rounded up; MAX_THREADS if there is none."""
        text, end = stack(f, _LINE_BYTES), Place(f.alloca(PTR), PTR)
        paths = [system.element(at, k, PTR).load() for k in range(2)]
        quota = first_line(f, paths[0], text)
        with f.when(~(quota > 0)):
            f.give(f.const(I64, MAX_THREADS))

        def second() -> list[Value]:
            f.call(I64, "strtoll", text, end.address, f.const(I32, 10))
            return [f.call(I64, "strtoll", end.load(), null(f), f.const(I32, 10))]

        (period,) = f.choose(system.is_null(paths[1]), second, lambda: [first_line(f, paths[1], text)])
        with f.when(~(period > 0)):
            f.give(f.const(I64, MAX_THREADS))
        return (quota + (period - 1)).udiv(period)

    @m.define("granted", I64)
    def granted(f: Function) -> Value:
        """The minimum of all quotas."""
        with f.carried(count(f).load(), [f.const(I64, MAX_THREADS), files(f).load()], guarded=True) as loop:
            least, at = loop.values
            loop.next = [least.smin(cpus(f, at)), system.element(at, 2, PTR).address]
        return loop.values[0]

    return granted
