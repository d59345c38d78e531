"""The pool of threads: `xlanb.parallel(part, context, count, chunks, threads)` runs part(context,
low, high, slot) over 0..count in `chunks` parts.

The parts are claimed one by one by whoever is free, the caller among them, so that a caller whose
workers are late does all the work itself. A worker that finds nothing to do spins for some
microseconds and then sleeps on a futex. One job runs at a time: a second thread that comes with a
job meanwhile does it alone.

`ticket` holds the generation of the job (upper half, which is also the futex) and how many parts
are claimed from the front (16 bits) and from the end (16 bits). The caller takes the first ones and
workers the last ones, so that from job to job each finds in its cache what it wrote itself. A claim
is a compare-and-exchange of the whole, so a worker that comes late with an old generation or an old
number fails; between jobs the lower half is closed (all ones), and only then is the job's
description changed.

Invariants
- Owner: who has set `busy` owns the job, `abandoned` and the lower half of the ticket until it
  clears `busy`, and then every claimed part has been counted in `done`.
- Threads: workers are made by the first job and live as long as the process. They hold no lock,
  never touch Python, and write nothing but `done`, `sleepers` and what parts write.
- Stopping: parts poll. An owner that is to stop sets `abandoned`: parts that run end at their next
  poll, parts that nobody has begun are counted without being run.
- Signals: workers take none. The owner may look for signals between parts and while it waits (in
  `xlanb.check`); a handler that brings a job finds `busy` set and does it alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from functools import cache

from xlanb.codegen import jit
from xlanb.codegen.function import PARALLEL, Function
from xlanb.codegen.native import Native, NativeModule, Variable, null
from xlanb.codegen.places import Fields, Place, displaced, fence
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.codegen.target import Target
from xlanb.codegen.types import I1, I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import guard, system
from xlanb.cpu.runtime.bridge import bridge
from xlanb.cpu.runtime.layouts import Record, TimeSpec

_LOCK = threading.RLock()
FRONT, END = 1, 1 << 16
"""What the ticket grows by with a claim."""
_CLOSED = (1 << 32) - 1
"""The lower half of the ticket between jobs."""
MOST = (1 << 16) - 1
"""Parts of one job."""
SPINS = 2000
"""Rounds that a worker waits for the next job before it sleeps, each a `pause`: some tens of
microseconds."""
_PATIENCE = 4 * SPINS
"""Rounds that a caller waits for the last parts before it sleeps."""
_DOZE = 50_000
"""Nanoseconds that it then sleeps at most."""
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
class _Pool:
    """The variables, each in a cache line of its own where threads write it."""

    ticket: Variable
    done: Variable
    job: Variable
    busy: Variable
    sleepers: Variable
    created: Variable
    abandoned: Variable
    start: Variable

    @staticmethod
    def of(m: NativeModule) -> _Pool:
        """The variables of a module."""
        return _Pool(
            m.variable("ticket", I64, 8, first=_CLOSED),
            m.variable("done", I64, 8),
            m.variable("job", I64, 8),
            m.variable("busy", I32, 16),
            m.variable("sleepers", I32, 16),
            m.variable("created", I32),
            m.variable("abandoned", I64),
            m.variable("start", I32),
        )

    def described(self, f: Function) -> dict[str, Value]:
        """The job as it stands there, of which a worker knows by a claim only whether it is still
        the one.
        """
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
class _Work:
    """What workers and callers share: `claim(generation, chunks, own)` gives the number of a part,
    or -1; `run(job..., number, slot)` runs and counts it.
    """

    claim_first: Native
    claim_last: Native
    run: Native


def write(m: NativeModule) -> None:
    """Write the pool."""
    pool = _Pool.of(m)
    first, last = (_write_claim(m, pool, from_end=from_end) for from_end in (False, True))
    work = _Work(first, last, _write_run(m, pool))
    make = _write_create(m, pool, _write_worker(m, pool, _write_member(m, pool, work)))
    poll = _write_poll(m)
    finish = _write_finish(m, pool, poll)
    _write_parallel(m, pool, _write_alone(m, poll), _write_own(m, pool, work, poll, make, finish))
    _write_reset(m, pool)


# -- parts -------------------------------------------------------------------------------------------------------------


def _write_claim(m: NativeModule, pool: _Pool, *, from_end: bool) -> Native:
    """The caller claims from the front, workers from the end."""

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
    """Part `k` of a job."""
    low, high = ((i * job["count"]).udiv(job["chunks"]) for i in (k, k + 1))
    f.call_pointer(job["part"], job["context"], low, high, slot)


def _write_run(m: NativeModule, pool: _Pool) -> Native:
    @m.define("run.part", VOID, part=PTR, context=PTR, count=I64, chunks=I64, k=I64, slot=I64)
    def run(f: Function, part: Value, context: Value, count: Value, chunks: Value, k: Value, slot: Value) -> None:
        """Run a claimed part, unless the job is given up, and count it."""
        with f.when(pool.abandoned(f).load("seq_cst").equals(0)):
            _write_chunk(f, {"part": part, "context": context, "count": count, "chunks": chunks}, k, slot)
        pool.done(f).add(1, "acq_rel")

    return run


# -- workers -----------------------------------------------------------------------------------------------------------


def _write_member(m: NativeModule, pool: _Pool, work: _Work) -> Native:
    @m.define("member", VOID, generation=I64, slot=I64)
    def member(f: Function, generation: Value, slot: Value) -> None:
        """A worker's share of a job."""
        job = pool.described(f)
        with f.when(slot.uge(job["threads"])):
            f.give()
        first = work.claim_last(f, generation, job["chunks"])
        with f.rounds([first], guard=first >= 0) as loop:
            work.run(f, job["part"], job["context"], job["count"], job["chunks"], loop.values[0], slot)
            following = work.claim_last(f, generation, job["chunks"])
            loop.next, loop.again = [following], following >= 0

    return member


def _write_worker(m: NativeModule, pool: _Pool, member: Native) -> Native:
    @m.define("await.job", I64, seen=I32)
    def await_job(f: Function, seen: Value) -> Value:
        """Wait for a job of another generation than the one that was seen last; gives the new one."""
        with f.rounds([f.const(I32, 0)]) as spin:
            generation = pool.ticket(f).load("acquire").lshr(32)
            with f.when(generation.trunc(I32).differs(seen)):
                f.give(generation)
            system.pause(f)
            waited = spin.values[0] + 1
            sleeps = waited.equals(SPINS)
            with f.when(sleeps):
                pool.sleepers(f).add(1)
                system.futex(f, pool.generation(f).address, system.FUTEX_WAIT, seen, null(f))
                pool.sleepers(f).sub(1)
            spin.next, spin.again = [sleeps.select(0, waited)], system.yes(f)
        return f.const(I64, 0)

    @m.define("worker", PTR, argument=PTR)
    def worker(f: Function, argument: Value) -> Value:
        slot, first = argument.cast("ptrtoint", I64), pool.start(f).load("acquire")
        record = f.call(PTR, guard.RECORD)
        with f.when(~system.is_null(record)):  # without one its parts run to their ends
            Fields(record, Record)["abandoned"].store(pool.abandoned.address(f))
        with f.rounds([first]) as loop:
            generation = await_job(f, loop.values[0])
            member(f, generation, slot)
            loop.next, loop.again = [generation.trunc(I32)], system.yes(f)
        return null(f)

    return worker


def _write_create(m: NativeModule, pool: _Pool, worker: Native) -> Native:
    @m.define("create", VOID)
    def create(f: Function) -> None:
        """Make the workers; where there can be no more threads there are fewer."""
        pool.start(f).store(pool.ticket(f).load("acquire").lshr(32).trunc(I32), "release")
        with system.no_signals(f), f.loop(f.value(f.target.threads), 1, guarded=True) as k:
            system.start_thread(f, worker.address(f), f.value(k).cast("inttoptr", PTR))
        pool.created(f).store(1)

    return create


# -- callers -----------------------------------------------------------------------------------------------------------


def _write_poll(m: NativeModule) -> Native:
    attention = m.variable(ATTENTION, I64, external=True)

    @m.define("poll", I1)
    def poll(f: Function) -> Value:
        """Whether this thread is to stop."""
        with f.when(attention(f).load_volatile().equals(0)):
            f.give(system.no(f))
        return f.call(I1, CHECK)

    return poll


def _write_alone(m: NativeModule, poll: Native) -> Native:
    @m.define("alone", VOID, part=PTR, context=PTR, count=I64, chunks=I64)
    def alone(f: Function, part: Value, context: Value, count: Value, chunks: Value) -> None:
        """The whole job by its caller."""
        job = {"part": part, "context": context, "count": count, "chunks": chunks}
        with f.loop(chunks, guarded=True) as k:
            _write_chunk(f, job, f.value(k), f.const(I64, 0))
            with f.when(poll(f)):
                f.give()

    return alone


def _write_finish(m: NativeModule, pool: _Pool, poll: Native) -> Native:
    @m.define("finish", VOID, chunks=I64)
    def finish(f: Function, chunks: Value) -> None:
        """Wait until all parts are counted, and give the pool to others."""
        time = Fields(f.alloca(I64, 2), TimeSpec)
        time["seconds"].store(0)
        time["nanoseconds"].store(_DOZE)
        with f.rounds([f.const(I32, 0)]) as wait:
            done = pool.done(f).load("acquire")
            with f.when(done.uge(chunks)):
                pool.abandoned(f).store(0, "seq_cst")
                pool.busy(f).store(0, "release")
                f.give()
            with f.when(poll(f)):
                pool.abandoned(f).store(1, "seq_cst")
            system.pause(f)
            with f.when(wait.values[0].uge(_PATIENCE)):
                system.futex(f, pool.done.address(f), system.FUTEX_WAIT, done.trunc(I32), time.base)
            wait.next, wait.again = [wait.values[0] + 1], system.yes(f)

    return finish


def _write_own(m: NativeModule, pool: _Pool, work: _Work, poll: Native, create: Native, finish: Native) -> Native:
    @m.define("publish", I64, part=PTR, context=PTR, count=I64, chunks=I64, threads=I64)
    def publish(f: Function, part: Value, context: Value, count: Value, chunks: Value, threads: Value) -> Value:
        """Describe the job while the ticket is closed, open it, and wake who sleeps; gives the
        generation.
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
            workers = f.const(I32, f.target.threads)
            system.futex(f, pool.generation(f).address, system.FUTEX_WAKE, workers, null(f))
        return opened.lshr(32)

    @m.define("own", VOID, part=PTR, context=PTR, count=I64, chunks=I64, threads=I64)
    def own(f: Function, part: Value, context: Value, count: Value, chunks: Value, threads: Value) -> None:
        """The job with the workers' help, of a caller that has set `busy`."""
        with f.when(pool.created(f).load().equals(0)):
            create(f)
        generation = publish(f, part, context, count, chunks, threads)
        first = work.claim_first(f, generation, chunks)
        with f.rounds([first], guard=first >= 0) as loop:
            work.run(f, part, context, count, chunks, loop.values[0], f.const(I64, 0))
            with f.when(poll(f)):
                pool.abandoned(f).store(1, "seq_cst")
            following = work.claim_first(f, generation, chunks)
            loop.next, loop.again = [following], following >= 0
        finish(f, chunks)

    return own


def _write_parallel(m: NativeModule, pool: _Pool, alone: Native, own: Native) -> None:
    @m.define(PARALLEL, VOID, exported=True, part=PTR, context=PTR, count=I64, wanted=I64, threads=I64)
    def parallel(f: Function, part: Value, context: Value, count: Value, wanted: Value, threads: Value) -> None:
        chunks = wanted.umin(MOST)
        _, mine = pool.busy(f).compare_exchange(0, 1)
        with f.when(mine):
            own(f, part, context, count, chunks, threads)
            f.give()
        alone(f, part, context, count, chunks)


def _write_reset(m: NativeModule, pool: _Pool) -> None:
    @m.define(_RESET, VOID, exported=True)
    def reset(f: Function) -> None:
        """In the child of a fork there are no workers any more, and no job of another thread."""
        pool.busy(f).store(0, "release")
        pool.created(f).store(0)
        pool.sleepers(f).store(0, "release")
        pool.abandoned(f).store(0, "release")
        pool.ticket(f).store(pool.ticket(f).load("monotonic") | _CLOSED, "release")


# -- loading -----------------------------------------------------------------------------------------------------------


def text(target: Target) -> str:
    """The LLVM IR of the pool with `target.threads` threads, the caller counted."""
    m = NativeModule("xlanb.pool", target)
    write(m)
    return m.text()


@cache
def address() -> int:
    """The address of `xlanb.parallel` in this process; the pool is loaded once, its threads start
    with the first job.
    """
    with _LOCK:
        return _address()


@cache
def _address() -> int:
    target = jit.host()
    unit = Unit(text(target), ready=False, weight=0, everywhere=True)
    symbols = bridge().symbols(guard.RECORD, CHECK, ATTENTION)
    code = jit.LoadedCode(compile_units([unit], target), [PARALLEL, _RESET], symbols)
    # Sleeping workers stand in this code until the process ends, so it must outlive the interpreter's own clearing up.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    os.register_at_fork(after_in_child=code.function(_RESET, 0))
    return code.address(PARALLEL)
