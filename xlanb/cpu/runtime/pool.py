"""The thread pool: `xlanb.parallel(part, context, count, chunks, threads)`.

It runs part(context, low, high, slot) over 0..count in `chunks` parts. Free threads claim parts one
by one, the caller among them, so that a caller whose workers are late does all the work itself. A
worker without work spins for some microseconds and then sleeps on a futex. So does the caller if
the remaining parts are running elsewhere and take longer than its own did: their threads may be
waiting for its processor. One job runs at a time: a second thread with a job runs it alone.

processors.py decides how many threads a job may have, and where workers run. A worker beyond the
limit sleeps until the limit changes.

`ticket` holds the job's generation (upper half, which is also the futex) and how many parts are
claimed from the front (16 bits) and from the end (16 bits). The caller takes the first parts and
workers the last, so that from job to job each finds its own data in its cache. A claim is a
compare-and-exchange of the whole word, so that a late worker with an old generation or number
fails. Between jobs the lower half is closed (all ones), and only then does the job's description
change.

Invariants
- Ownership: who has set `busy` owns the job, `abandoned` and the lower half of the ticket until it
  clears `busy`; by then every claimed part has been counted in `done`.
- Threads: workers are created by the first job that may use them and live as long as the process.
  They hold no lock, never touch Python, and write only `done`, `sleepers`, what processors.py says
  and what parts write.
- Waking: a caller sets `waiting` and then reads `done`; a worker counts in `done` and then reads
  `waiting` (all of it seq_cst), so the last count wakes a sleeping caller.
- Stopping: parts poll. An owner that must stop sets `abandoned`: running parts end at their next
  poll; parts not yet begun are counted without being run.
- Signals: workers receive none. The owner may check for signals between parts and while it waits
  (in
  `xlanb.check`); a handler with a job finds `busy` set and runs it alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from functools import cache

from xlanb.codegen import jit
from xlanb.codegen.cpus import MAX_THREADS, Quota, asked_threads, quotas
from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.native import NativeFunction, NativeModule, NativeVariable, null
from xlanb.codegen.places import Fields, Place, displaced, fence
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.codegen.target import Target
from xlanb.codegen.types import I1, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import guard, processors, system
from xlanb.cpu.runtime.bridge import bridge
from xlanb.cpu.runtime.layouts import Record, TimeSpec
from xlanb.cpu.runtime.processors import Processors, QuotaFiles
from xlanb.lazy_dataclass import dataclass

_LOCK = threading.RLock()
FRONT, END = 1, 1 << 16
"""The increments of the ticket by a claim from the front and from the end."""
_CLOSED = (1 << 32) - 1
"""The lower half of the ticket between jobs."""
MOST = (1 << 16) - 1
"""The most parts of one job."""
SPIN_NS = 50_000
"""Nanoseconds that a worker waits for the next job before it sleeps."""
_CROWDED_SPIN_NS = 2_000
"""The same if workers were found on their caller's processor."""
_PATIENCE_NS = 10_000
"""The least nanoseconds that a caller waits for the last parts before it sleeps.

It waits as long as one of its own parts took, if that is longer.
"""
_DOZE_NS = 1_000_000
"""The most nanoseconds that it then sleeps before it polls."""
_PAUSES = 32
"""Checks, each with a `pause`, between two readings of the clock: less than a microsecond."""
_RESET = "xlanb.pool.reset"


class _Job(ctypes.Structure):
    """The description of a job, read and written atomically, word by word."""

    _fields_ = (
        ("part", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


@dataclass(frozen=True)
class _PoolVariables:
    """The variables, on separate cache lines if several threads write them."""

    ticket: NativeVariable
    done: NativeVariable
    job: NativeVariable
    busy: NativeVariable
    sleepers: NativeVariable
    created: NativeVariable
    abandoned: NativeVariable
    start: NativeVariable
    waiting: NativeVariable
    processors: Processors

    @staticmethod
    def of(m: NativeModule) -> _PoolVariables:
        """The variables of a module."""
        return _PoolVariables(
            m.variable("ticket", I64, 8, first=_CLOSED),
            m.variable("done", I64, 8),
            m.variable("job", I64, 8),
            m.variable("busy", I32, 16),
            m.variable("sleepers", I32, 16),
            m.variable("created", I64),
            m.variable("abandoned", I64),
            m.variable("start", I32),
            m.variable("waiting", I32, 16),
            processors.write(m),
        )

    def described(self, f: Function) -> dict[str, Value]:
        """The job as currently described; only a claim shows whether it is still current."""
        fields = Fields(self.job.address(f), _Job)
        return {name: fields[name].load("monotonic") for name, *_ in _Job._fields_}

    def describe(self, f: Function, **words: Value) -> None:
        """Set the job."""
        fields = Fields(self.job.address(f), _Job)
        for name, value in words.items():
            fields[name].store(value, "monotonic")

    def generation(self, f: Function) -> Place:
        """The upper half of the ticket, which is also the futex."""
        return Place(displaced(self.ticket.address(f), 4), I32)


@dataclass(frozen=True)
class _SharedWork:
    """What workers and callers share.

    `claim(generation, chunks, own)` returns the number of a part, or -1; `run(job..., number,
    slot)` runs and counts it.
    """

    claim_first: NativeFunction
    claim_last: NativeFunction
    run: NativeFunction


def write(m: NativeModule) -> None:
    """Emit the pool."""
    pool = _PoolVariables.of(m)
    first, last = (_write_claim(m, pool, from_end=from_end) for from_end in (False, True))
    work = _SharedWork(first, last, _write_run(m, pool))
    make = _write_create(m, pool, _write_worker(m, pool, _write_member(m, pool, work)))
    poll = _write_poll(m)
    finish = _write_finish(m, pool, poll)
    _write_parallel(m, pool, _write_alone(m, poll), _write_own(m, pool, work, poll, make, finish))
    _write_reset(m, pool)


# -- parts -----------------------------------------------------------------------------------------


def _write_claim(m: NativeModule, pool: _PoolVariables, *, from_end: bool) -> NativeFunction:
    """Emit a claim: the caller claims from the front, workers from the end."""

    @m.define("claim.last" if from_end else "claim.first", I64, generation=I64, chunks=I64)
    def claim(f: Function, generation: Value, chunks: Value) -> Value:
        ticket = pool.ticket(f)
        with f.rounds([ticket.load("acquire")]) as loop:
            t = loop.values[0]
            front, back = t & MOST, t.lshr(16) & MOST
            with f.when(t.lshr(32).differs(generation) | (front + back).uge(chunks)):
                f.give(f.const(I64, -1))
            former, won = ticket.compare_exchange(t, t + (END if from_end else FRONT))
            with f.when(won):
                f.give(chunks - 1 - back if from_end else front)
            loop.next, loop.again = [former], system.yes(f)
        return f.const(I64, -1)

    return claim


def _write_chunk(f: Function, job: dict[str, Value], k: Value, slot: Value) -> None:
    """Run part `k` of a job."""
    low, high = ((i * job["count"]).udiv(job["chunks"]) for i in (k, k + 1))
    f.call_pointer(job["part"], job["context"], low, high, slot)


def _write_run(m: NativeModule, pool: _PoolVariables) -> NativeFunction:
    @m.define("run.part", VOID, part=PTR, context=PTR, count=I64, chunks=I64, k=I64, slot=I64)
    def run(f: Function, part: Value, context: Value, count: Value, chunks: Value, k: Value, slot: Value) -> None:
        """Run a claimed part, unless the job is abandoned, and count it."""
        with f.when(pool.abandoned(f).load("seq_cst").equals(0)):
            _write_chunk(f, {"part": part, "context": context, "count": count, "chunks": chunks}, k, slot)
        former = pool.done(f).add(1)
        with f.when((former + 1).equals(chunks) & pool.waiting(f).load("seq_cst").differs(0)):
            system.futex(f, pool.done.address(f), system.FUTEX_WAKE, f.const(I32, 1), null(f))

    return run


# -- workers ---------------------------------------------------------------------------------------


def _write_member(m: NativeModule, pool: _PoolVariables, work: _SharedWork) -> NativeFunction:
    @m.define("member", VOID, generation=I64, slot=I64)
    def member(f: Function, generation: Value, slot: Value) -> None:
        """Run a worker's share of a job."""
        job = pool.described(f)
        with f.when(slot.uge(job["threads"])):
            f.give()
        pool.processors.meets(f)
        first = work.claim_last(f, generation, job["chunks"])
        with f.rounds([first], guard=first >= 0) as loop:
            work.run(f, job["part"], job["context"], job["count"], job["chunks"], loop.values[0], slot)
            following = work.claim_last(f, generation, job["chunks"])
            loop.next, loop.again = [following], following >= 0

    return member


def _write_worker(m: NativeModule, pool: _PoolVariables, member: NativeFunction) -> NativeFunction:
    @m.define("sleep", VOID, seen=I32, slot=I32)
    def sleep(f: Function, seen: Value, slot: Value) -> None:
        """Sleep until there is a job or, beyond the limit, until the limit changes."""
        limit = pool.processors.limit
        allowed = limit(f).load("seq_cst")
        with f.when(slot.uge(allowed)):
            system.futex(f, limit.address(f), system.FUTEX_WAIT, allowed, null(f))
            f.give()
        pool.sleepers(f).add(1)
        system.futex(f, pool.generation(f).address, system.FUTEX_WAIT, seen, null(f))
        pool.sleepers(f).sub(1)

    @m.define("await.job", I64, seen=I32, slot=I64)
    def await_job(f: Function, seen: Value, slot: Value) -> Value:
        """Wait for a job of another generation than the last one; return the new generation."""
        crowded = pool.processors.crowded(f).load("monotonic").differs(0)
        until = system.now(f) + crowded.select(f.const(I64, _CROWDED_SPIN_NS), SPIN_NS)
        with f.rounds([]) as spin:
            with f.loop(f.const(I64, _PAUSES)):
                generation = pool.ticket(f).load("acquire").lshr(32)
                with f.when(generation.trunc(I32).differs(seen)):
                    f.give(generation)
                system.pause(f)
            with f.when(system.now(f).uge(until)):
                sleep(f, seen, slot.trunc(I32))
            spin.again = system.yes(f)
        return f.const(I64, 0)

    @m.define("worker", PTR, argument=PTR)
    def worker(f: Function, argument: Value) -> Value:
        slot, first = argument.cast("ptrtoint", I64), pool.start(f).load("acquire")
        pool.processors.begins(f, slot)
        record = f.call(PTR, guard.RECORD)
        with f.when(~system.is_null(record)):  # without one, parts run to completion
            Fields(record, Record)["abandoned"].store(pool.abandoned.address(f))
        with f.rounds([first]) as loop:
            generation = await_job(f, loop.values[0], slot)
            member(f, generation, slot)
            loop.next, loop.again = [generation.trunc(I32)], system.yes(f)
        return null(f)

    return worker


def _write_create(m: NativeModule, pool: _PoolVariables, worker: NativeFunction) -> NativeFunction:
    @m.define("create", VOID, threads=I64)
    def create(f: Function, threads: Value) -> None:
        """Start workers until there are this many threads, including the caller.

        There are fewer if no more can be created.
        """
        pool.start(f).store(pool.ticket(f).load("acquire").lshr(32).trunc(I32), "release")
        first = pool.created(f).load() + 1
        with system.no_signals(f), f.loop(threads, first, guarded=True) as k:
            system.start_thread(f, worker.address(f), f.value(k).cast("inttoptr", PTR))
        pool.created(f).store(threads - 1)

    return create


# -- callers ---------------------------------------------------------------------------------------


def _write_poll(m: NativeModule) -> NativeFunction:
    attention = m.variable(ATTENTION, I64, external=True)

    @m.define("poll", I1)
    def poll(f: Function) -> Value:
        """Whether this thread must stop."""
        with f.when(attention(f).load_volatile().equals(0)):
            f.give(system.no(f))
        return f.call(I1, CHECK)

    return poll


def _write_alone(m: NativeModule, poll: NativeFunction) -> NativeFunction:
    @m.define("alone", VOID, part=PTR, context=PTR, count=I64, chunks=I64)
    def alone(f: Function, part: Value, context: Value, count: Value, chunks: Value) -> None:
        """Run the whole job on its caller."""
        job = {"part": part, "context": context, "count": count, "chunks": chunks}
        with f.loop(chunks, guarded=True) as k:
            _write_chunk(f, job, f.value(k), f.const(I64, 0))
            with f.when(poll(f)):
                f.give()

    return alone


def _write_finish(m: NativeModule, pool: _PoolVariables, poll: NativeFunction) -> NativeFunction:
    @m.define("finish", VOID, chunks=I64, patience=I64)
    def finish(f: Function, chunks: Value, patience: Value) -> None:
        """Wait until all parts are counted, and release the pool."""
        time = Fields(f.alloca(I64, 2), TimeSpec)
        time["seconds"].store(0)
        time["nanoseconds"].store(_DOZE_NS)
        until = system.now(f) + patience
        with f.rounds([]) as wait:
            with f.loop(f.const(I64, _PAUSES)):
                with f.when(pool.done(f).load("acquire").uge(chunks)):
                    pool.abandoned(f).store(0, "seq_cst")
                    pool.busy(f).store(0, "release")
                    f.give()
                system.pause(f)
            with f.when(poll(f)):
                pool.abandoned(f).store(1, "seq_cst")
            with f.when(system.now(f).uge(until)):
                pool.processors.free(f)
                pool.waiting(f).store(1, "seq_cst")
                done = pool.done(f).load("seq_cst")
                with f.when(done.ult(chunks)):
                    system.futex(f, pool.done.address(f), system.FUTEX_WAIT, done.trunc(I32), time.base)
                pool.waiting(f).store(0, "seq_cst")
            wait.again = system.yes(f)

    return finish


def _write_own(
    m: NativeModule,
    pool: _PoolVariables,
    work: _SharedWork,
    poll: NativeFunction,
    create: NativeFunction,
    finish: NativeFunction,
) -> NativeFunction:
    @m.define("publish", I64, part=PTR, context=PTR, count=I64, chunks=I64, threads=I64)
    def publish(f: Function, part: Value, context: Value, count: Value, chunks: Value, threads: Value) -> Value:
        """Describe the job while the ticket is closed, open it, and wake sleeping workers.

        Returns the generation.
        """
        ticket = pool.ticket(f)
        closed = ticket.load("monotonic") | _CLOSED
        ticket.store(closed, "seq_cst")
        fence(f)
        pool.describe(f, part=part, context=context, count=count, chunks=chunks, threads=threads)
        pool.done(f).store(0, "monotonic")
        opened = closed + 1
        ticket.store(opened, "seq_cst")
        with f.when(pool.sleepers(f).load("seq_cst").differs(0)):
            workers = f.const(I32, MAX_THREADS)
            system.futex(f, pool.generation(f).address, system.FUTEX_WAKE, workers, null(f))
        return opened.lshr(32)

    @m.define("own", VOID, part=PTR, context=PTR, count=I64, chunks=I64, threads=I64)
    def own(f: Function, part: Value, context: Value, count: Value, chunks: Value, threads: Value) -> None:
        """Run the job with the workers' help; the caller has set `busy`."""
        with f.when((pool.created(f).load() + 1).ult(threads)):
            create(f, threads)
        pool.processors.place(f)
        begun = system.now(f)
        generation = publish(f, part, context, count, chunks, threads)
        first = work.claim_first(f, generation, chunks)
        with f.rounds([first, f.const(I64, 0)], guard=first >= 0) as loop:
            work.run(f, part, context, count, chunks, loop.values[0], f.const(I64, 0))
            with f.when(poll(f)):
                pool.abandoned(f).store(1, "seq_cst")
            following = work.claim_first(f, generation, chunks)
            loop.next, loop.again = [following, loop.values[1] + 1], following >= 0
        each = (system.now(f) - begun).udiv(loop.values[1].smax(1))
        finish(f, chunks, each.smax(_PATIENCE_NS))

    return own


def _write_parallel(m: NativeModule, pool: _PoolVariables, alone: NativeFunction, own: NativeFunction) -> None:
    @m.define(PARALLEL, VOID, exported=True, part=PTR, context=PTR, count=I64, wanted=I64, threads=I64)
    def parallel(f: Function, part: Value, context: Value, count: Value, wanted: Value, threads: Value) -> None:
        chunks = wanted.umin(MOST)
        _, mine = pool.busy(f).compare_exchange(0, 1)
        with f.when(mine):
            pool.processors.due(f)
            allowed = threads.smin(pool.processors.limit(f).load("seq_cst").zext(I64))
            with f.when((allowed > 1) & (chunks > 1)):
                own(f, part, context, count, chunks, allowed)
                f.give()
            pool.busy(f).store(0, "release")
        alone(f, part, context, count, chunks)


def _write_reset(m: NativeModule, pool: _PoolVariables) -> None:
    @m.define(_RESET, VOID, exported=True)
    def reset(f: Function) -> None:
        """Reset in the child of a fork: there are no workers, and no jobs of other threads."""
        pool.busy(f).store(0, "release")
        pool.created(f).store(0)
        pool.sleepers(f).store(0, "release")
        pool.abandoned(f).store(0, "release")
        pool.waiting(f).store(0, "release")
        pool.processors.reset(f)
        pool.ticket(f).store(pool.ticket(f).load("monotonic") | _CLOSED, "release")


# -- loading ---------------------------------------------------------------------------------------


def text(target: Target) -> str:
    """The LLVM IR of the pool."""
    m = NativeModule("xlanb.pool", target)
    write(m)
    return m.text()


def address() -> int:
    """The address of `xlanb.parallel` in this process.

    The pool is loaded once; its threads start with the first job.
    """
    return _pool().address(PARALLEL)


def update_limit() -> None:
    """Apply the currently requested limit, from the next job on."""
    with _LOCK:
        if _loaded.cache_info().currsize:
            _send_limit(_loaded())


def look() -> int:
    """The number of threads that this thread's next job may use."""
    code = _pool()
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(code.address(processors.LOOK))())


def read_quotas(code: jit.LoadedCode, found: Sequence[Quota]) -> None:
    """Set the quotas that the pool obeys; their file names stay in memory."""
    files = (QuotaFiles * len(found))(*map(QuotaFiles.of, found))
    _quotas.append(files)
    set_files = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address(processors.QUOTAS))
    set_files(ctypes.addressof(files), len(found))


_quotas: list[ctypes.Array[QuotaFiles]] = []


def _send_limit(code: jit.LoadedCode) -> None:
    set_limit = ctypes.CFUNCTYPE(None, ctypes.c_int64)(code.address(processors.LIMIT))
    set_limit(asked_threads())


def _pool() -> jit.LoadedCode:
    with _LOCK:
        return _loaded()


@cache
def _loaded() -> jit.LoadedCode:
    target = jit.host()
    unit = Unit(text(target), ready=False, weight=0, everywhere=True)
    symbols = bridge().symbols(guard.RECORD, CHECK, ATTENTION)
    exports = [PARALLEL, _RESET, processors.LIMIT, processors.QUOTAS, processors.LOOK]
    code = jit.LoadedCode(compile_units([unit], target), exports, symbols)
    # Sleeping workers are in this code until the process ends, so it must outlive the interpreter.
    for kept in (code, _quotas):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    os.register_at_fork(after_in_child=code.function(_RESET, 0))
    read_quotas(code, quotas())
    _send_limit(code)
    return code
